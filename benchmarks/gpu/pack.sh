#!/usr/bin/env bash
# Gather in .gpu/ (which git ignores) what a GPU machine without network, RDKit or raw files lacks:
# wheels of pydantic, and data sets as packed molecules.
#
#     MOLSEPNORM_DATA=... bash benchmarks/gpu/pack.sh                     zinc and zinc-full
#     MOLSEPNORM_DATA=... bash benchmarks/gpu/pack.sh zinc                some of them
#     FOR=3.11 bash benchmarks/gpu/pack.sh ...                            for another Python than 3.12
#     WHEELS=0 bash benchmarks/gpu/pack.sh ...                            fetch no wheels
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-.venv/bin/python}

if [ "${WHEELS:-1}" != 0 ]; then
  pinned=()
  for name in pydantic pydantic-core annotated-types typing-inspection typing-extensions; do
    pinned+=("$name==$("$python" -c "from importlib.metadata import version; print(version('$name'))")")
  done
  rm -rf .gpu/wheels
  "$python" -m pip download --quiet --no-deps --only-binary=:all: --dest .gpu/wheels \
    --python-version "${FOR:-3.12}" --implementation cp --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 "${pinned[@]}"
fi
if [ $# = 0 ]; then set -- zinc zinc-full; fi
"$python" benchmarks/gpu/packed.py "$@"
du -sh .gpu/* .gpu
