"""Products by torch.mm: cuBLAS on GPUs, the build's BLAS on CPU devices."""

from typing import List

import torch

from workers.trainer.base import job as jobs
from workers.trainer.base.job import Job, Process

TYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Compute capability from which on tensor cores do an arithmetic (CUDA C++ Programming Guide, "Compute Capabilities").
SINCE = {"fp32": (0, 0), "tf32": (8, 0), "bf16": (8, 0), "fp16": (7, 0)}
CHECKED = 4  # rows and columns whose products are computed again, in fp64


def open_products(job: Job, process: Process) -> "Products":
    """Return the products of this process, which has joined."""
    torch.set_num_threads(jobs.threads())
    rank = process.rank
    return Products(torch.device("cuda", 0) if process.device_kind == "cuda" else torch.device("cpu"), rank)


class Products(object):
    """See ``workers.trainer.loops.calibration``."""

    def __init__(self, device: torch.device, rank: int) -> None:
        self.library = "cublas %s" % torch.version.cuda if device.type == "cuda" else "torch %s" % torch.__version__
        self.device = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        self._device = device
        self._random = torch.Generator(device=device)
        self._random.manual_seed(1 + rank)
        self._left_MK = self._right_KN = self._product_MN = None

    def arithmetics(self) -> List[str]:
        if self._device.type == "cpu":
            return ["fp32"]
        capability = torch.cuda.get_device_capability(self._device)
        return [name for name in ("fp32", "tf32", "bf16", "fp16") if capability >= SINCE[name]]

    def prepare(self, arithmetic: str, m: int, n: int, k: int) -> None:
        self.close()
        torch.set_float32_matmul_precision("high" if arithmetic == "tf32" else "highest")
        self._left_MK = self._matrix(m, k, TYPES[arithmetic])
        self._right_KN = self._matrix(k, n, TYPES[arithmetic])
        self._product_MN = torch.empty(m, n, dtype=TYPES[arithmetic], device=self._device)
        self.synchronize()

    def _matrix(self, rows, columns, kind):
        """Random numbers between 0 and 1: their products are far from 0, and relative errors mean something."""
        return torch.rand(rows, columns, generator=self._random, device=self._device).to(kind)

    def multiply(self) -> None:
        torch.mm(self._left_MK, self._right_KN, out=self._product_MN)

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def error(self) -> float:
        wanted = self._left_MK[-CHECKED:].double().cpu() @ self._right_KN[:, -CHECKED:].double().cpu()
        found = self._product_MN[-CHECKED:, -CHECKED:].double().cpu()
        return ((found - wanted).abs() / wanted).max().item()

    def close(self) -> None:
        self._left_MK = self._right_KN = self._product_MN = None
