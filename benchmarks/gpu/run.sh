#!/usr/bin/env bash
# On the GPU machine, with .gpu/ carried along: whatever benchmarks/gpu/run.py can do, such as
#
#     bash benchmarks/gpu/run.sh all
#     bash benchmarks/gpu/run.sh check time
#     bash benchmarks/gpu/run.sh train zinc-sep --config configs/zinc-slim-paper.yaml
#     bash benchmarks/gpu/run.sh many benchmarks/gpu/lists/candidates.txt --at-once 4
#
# Results go into $OUT, else .gpu/out. PYTHON=... another interpreter; SMALL=1 tries everything out.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
scratch=${MOLSEPNORM_SCRATCH:-${TMPDIR:-/tmp}/molsepnorm-gpu}
mkdir -p "$scratch"

install() { # wheels of a folder into a folder, once
  if ! compgen -G "$1/*.whl" > /dev/null; then return 0; fi
  local stamp
  stamp=$(cat "$1"/*.whl | sha256sum)
  if [ "$(cat "$2.stamp" 2> /dev/null)" = "$stamp" ]; then return 0; fi
  rm -rf "$2"
  if ! "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir \
    --disable-pip-version-check --target "$2" "$1"/*.whl; then
    echo "$1 is for another Python (see FOR in pack.sh): this one goes on with what it has" >&2
    rm -rf "$2"
    return 0
  fi
  echo "$stamp" > "$2.stamp"
}
install .gpu/wheels "$scratch/site"
install .gpu/peer "$scratch/peer" # an older transformers, which the peer's process alone imports

export PYTHONPATH=$scratch/site:$PWD PYTHONUNBUFFERED=1
export MOLSEPNORM_SCRATCH=$scratch MOLSEPNORM_PEER=$scratch/peer
export MOLSEPNORM_CACHE=${MOLSEPNORM_CACHE:-$scratch/cache}
unset MOLSEPNORM_DATA
exec "$python" benchmarks/gpu/run.py "$@"
