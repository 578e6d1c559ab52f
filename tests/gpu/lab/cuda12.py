"""``make pytorch-cuda12``: the variant cuda12 of PyTorch's environment imported where there is no GPU, and each of the
names that tbd uses tried, as ``make cuda-names`` does with the other one."""

import sys

from tests.gpu import wheels
from workers.node.interpreters import cuda_needs

REQUIREMENTS = wheels.REQUIREMENTS.with_name("requirements-cuda12.txt")


def main() -> int:
    """Run it; return its exit status: see ``tests.gpu.wheels``."""
    said = cuda_needs.facts_of("pytorch", "cuda12")
    wheels.REQUIREMENTS = REQUIREMENTS
    wheels.DOWNLOAD_BYTES, wheels.INSTALLED_BYTES = said["download_bytes"], said["installed_bytes"]
    return wheels.main(["3.11", "3.12", "3.13"])


if __name__ == "__main__":
    sys.exit(main())
