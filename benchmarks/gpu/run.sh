#!/usr/bin/env bash
# Run benchmarks/gpu/run.py, or benchmarks/runs.py, with what pack.sh has put into .gpu/:
#
#     bash benchmarks/gpu/run.sh check
#     bash benchmarks/gpu/run.sh check time
#     bash benchmarks/gpu/run.sh runs benchmarks/gpu/lists/norms.yaml --minutes 9
#
# Results go into $OUT, by default .gpu/out. PYTHON=... chooses another interpreter; SMALL=1 tries
# everything out on a CPU. `runs` continues from the archives .gpu/runs/*.tar, and writes $OUT/log.jsonl
# and an archive $OUT/NAME.tar of each run that is not finished.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
scratch=${MOLSEPNORM_SCRATCH:-${TMPDIR:-/tmp}/molsepnorm-gpu}
out=${OUT:-.gpu/out}
mkdir -p "$scratch/runs" "$out"

if compgen -G ".gpu/wheels/*.whl" > /dev/null && [ ! -e "$scratch/site" ]; then
  if ! "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir \
    --disable-pip-version-check --target "$scratch/site" .gpu/wheels/*.whl; then
    echo "the wheels are for another Python (see FOR in pack.sh): continuing without them" >&2
    rm -rf "$scratch/site"
  fi
fi

export PYTHONPATH=$scratch/site:$PWD PYTHONUNBUFFERED=1 OUT=$out
export MOLSEPNORM_SCRATCH=$scratch
export MOLSEPNORM_CACHE=${MOLSEPNORM_CACHE:-$scratch/cache}
if [ "${1:-}" != runs ]; then exec "$python" benchmarks/gpu/run.py "$@"; fi

shift
runs=$scratch/runs
for archive in .gpu/runs/*.tar; do
  name=$(basename "$archive" .tar)
  if [ -e "$archive" ] && [ ! -e "$runs/$name" ]; then tar xf "$archive" -C "$runs"; fi
done
cp -n .gpu/runs/log.jsonl "$runs/" 2> /dev/null || true
status=0
"$python" benchmarks/runs.py "$@" --runs "$runs" --log "$runs/log.jsonl" || status=$?
for folder in "$runs"/*/; do
  name=$(basename "$folder")
  if [ -e "$folder/checkpoints/last.safetensors" ] && [ ! -e "$folder/metrics.json" ]; then
    tar cf "$out/$name.tar" -C "$runs" "$name"
  fi
done
cp "$runs/log.jsonl" "$out/" 2> /dev/null || true
exit $status
