#!/usr/bin/env bash
# PyTorch's environment for Python 3.12 and for 3.13, one after the other: built, proved, and a tiny experiment in it.
# Where the build for CPUs cannot be had for them, that with CUDA is taken. Nothing of it is kept.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
echo "For each Python PyTorch is 0.2 GB to download and 1 GB on disk, or 2.8 and 4.8 GB where only the build with CUDA can be had."
for version in 3.12 3.13; do
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  export TBD_INTERPRETER_PYTHON=$version TBD_INTERPRETERS_DIR=$folder/interpreters TBD_DATA_DIR=$folder/data
  TBD_ALLOW_CUDA_BUILD=1 "$here/.venv/bin/python" -m workers.node.interpreters install pytorch
  du -sh "$TBD_INTERPRETERS_DIR"
  TBD_CLUSTER=local "$here/.venv/bin/tbd" run resnet-50 -f pytorch --size tiny --batch 2 --repeats 2 --max-repeats 2
  rm -rf "$folder"
done
