"""One fp32 product of two random square matrices between the driver's profiler marks, for ncu to count.

``python3 -m tests.gpu.one_product SIDE``
"""

import sys

import torch

from workers.trainer.loops.counters import profiler_marks


def main(side: int) -> None:
    torch.set_float32_matmul_precision("highest")
    left, right = (torch.rand(side, side, device="cuda") for _ in range(2))
    torch.mm(left, right)
    torch.cuda.synchronize()
    start, stop = profiler_marks()
    start()
    torch.mm(left, right)
    torch.cuda.synchronize()
    stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
