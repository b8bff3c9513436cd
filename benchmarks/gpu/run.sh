#!/usr/bin/env bash
# On the GPU machine, with .gpu/ carried along: whatever benchmarks/gpu/run.py can do, such as
#
#     bash benchmarks/gpu/run.sh check time
#     bash benchmarks/gpu/run.sh train "$OUT/zinc" --dataset zinc --epochs 100
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ -d .gpu/wheels ]; then
  python3 -m pip install --quiet --no-index --no-deps --no-compile --upgrade \
    --target /tmp/molsepnorm-site .gpu/wheels/*.whl
fi
export PYTHONPATH=/tmp/molsepnorm-site:$PWD MOLSEPNORM_CACHE=$PWD/.gpu/cache PYTHONUNBUFFERED=1
unset MOLSEPNORM_DATA
exec python3 benchmarks/gpu/run.py "$@"
