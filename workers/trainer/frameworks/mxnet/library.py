"""Importing MXNet, with what it needs beforehand: ``mx``, for the modules of its adapter.

The CUDA build looks for CUDA's libraries only beside itself and where the system's loader does. Where they are packages
of their own (``nvidia-*-cu11``) they are loaded before it, and so they are found.
"""

import ctypes
import glob
import importlib
import os
import sysconfig
from types import ModuleType


def load() -> ModuleType:
    """Return the module ``mxnet``."""
    # TensorFloat-32 is a matter of CUDA's libraries, which read this when they are loaded (NVIDIA, cuBLAS and cuDNN
    # documentation, "NVIDIA_TF32_OVERRIDE"). The adapter does fp32 only.
    os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    pattern = os.path.join(sysconfig.get_path("purelib"), "nvidia", "*", "lib", "*.so.*")
    waiting = sorted(glob.glob(pattern))
    # They need each other: as many rounds as there are libraries are enough, whatever the order. What cannot be loaded
    # is left for MXNet to miss.
    for _ in range(len(waiting)):
        waiting = [path for path in waiting if not _loaded(path)]
    return importlib.import_module("mxnet")


def _loaded(path):
    try:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


mx = load()
