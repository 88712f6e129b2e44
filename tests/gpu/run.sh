#!/usr/bin/env bash
# Everything that needs a real GPU, in one call of under ten minutes; results as JSON under $OUT.
#
# For a machine that has torch for CUDA, nvcc and g++, but no network and no pydantic: fetch the
# wheels elsewhere first (Python 3.12, x86-64), and let the folder .whl travel with the repo:
#
#   python3 -m pip download --no-deps --only-binary=:all: --python-version 3.12 \
#     --implementation cp --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 \
#     -d .whl pydantic==2.14.4 pydantic-core==2.50.5 annotated-types==0.8.0 typing-inspection==0.4.5 \
#     typing-extensions==4.16.0
#
# Usage: OUT=DIR tests/gpu/run.sh [STAGE ...]   (no stage: all of them)
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${PYTHON:-python3}
out=${OUT:-gpu-results}
# A folder that is readable by others: jailed processes run as another user.
site=${GPU_SITE:-/opt/musaagent/site-packages}
export MUSAAGENT_CACHE=${MUSAAGENT_CACHE:-/var/lib/musaagent/cache}
mkdir -p "$out" "$site" "$MUSAAGENT_CACHE"

if ls .whl/*.whl >/dev/null 2>&1 && ! "$python" -c 'import pydantic' 2>/dev/null; then
  "$python" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \
    --target "$site" .whl/*.whl
fi
# The package as setuptools would lay it out.
rm -rf "$site/musaagent"
mkdir -p "$site/musaagent"
cp -r agent/. "$site/musaagent"
cp -r tools policies traces "$site/musaagent"
chmod -R a+rX "$site"
export PYTHONPATH="$site" PYTHONUNBUFFERED=1
"$python" tests/gpu/run.py --out "$out" "$@"
