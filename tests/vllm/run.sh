#!/usr/bin/env bash
# The tests against a real vLLM: makes its environment where it is missing (3.5 GB, some minutes),
# then runs them. More words go to pytest.
set -euo pipefail
cd "$(dirname "$0")/../.."

export MUSAAGENT_VLLM=${MUSAAGENT_VLLM:-${MUSAAGENT_CACHE:-$HOME/.cache/musaagent}/vllm}
bash tests/vllm/install.sh "$MUSAAGENT_VLLM"
uv run pytest -m vllm -n 0 tests/vllm --durations=0 "$@"
