#!/usr/bin/env bash
# Gathers in .gpu/ (which git ignores) what a GPU machine without network or RDKit lacks:
# pydantic as wheels for its Python 3.12, and ZINC as prepared stores.
#
#     MOLSEPNORM_DATA=... bash benchmarks/gpu/pack.sh [zinc] [zinc-full]
set -euo pipefail
cd "$(dirname "$0")/../.."
python=.venv/bin/python
mkdir -p .gpu/wheels .gpu/cache
version() { "$python" -c "from importlib.metadata import version; print(version('$1'))"; }
"$python" -m pip download --quiet --no-deps --only-binary=:all: --dest .gpu/wheels \
  --python-version 3.12 --implementation cp \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
  "pydantic==$(version pydantic)" "pydantic-core==$(version pydantic-core)" \
  "annotated-types==$(version annotated-types)" "typing-inspection==$(version typing-inspection)"
for name in "${@:-zinc}"; do
  "$python" benchmarks/gpu/run.py store "$name" .gpu/cache
done
du -sh .gpu
