"""What the processor of this host can do, where a library leaves it to a training to find out."""

from typing import Optional

# oneDNN computes in bfloat16 with either (oneDNN, Developer Guide, "Data Types"); TensorFlow asks for the same two
# before it rewrites a graph.
_BFLOAT16 = ("avx512f", "avx_ne_convert")


def lacks_bfloat16(cpuinfo: str = "/proc/cpuinfo") -> Optional[str]:
    """Return why oneDNN does not compute in bfloat16 on this host, or None: it does, or the host does not tell."""
    try:
        with open(cpuinfo, encoding="utf-8", errors="replace") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), None)
    except OSError:
        return None
    if flags is None or any(flag in flags for flag in _BFLOAT16):
        return None
    return "oneDNN computes in bfloat16 on processors with AVX-512 or AVX-NE-CONVERT, and this one has neither"
