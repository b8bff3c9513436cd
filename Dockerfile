# docker build -t molsepnorm . && docker run -v "$PWD:/data" molsepnorm train --data my.csv --targets logS
FROM python:3.11-slim

COPY . /src
RUN pip install --no-cache-dir $(grep '^torch==' /src/constraints.txt) \
    && pip install --no-cache-dir "/src[excel,onnx,parquet,plot,serve,tune]" \
    && rm -r /src

USER 1000
WORKDIR /data
ENTRYPOINT ["molsepnorm"]
CMD ["--help"]
