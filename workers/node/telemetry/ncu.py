"""NVIDIA Nsight Compute (``ncu``): how it is called, and what it prints.

Owns the choice of counters and the reading of ``ncu --csv``, in both of its shapes: a row per kernel and metric (the
``details`` page), and a row per kernel with a row of units first (``--page raw``). No kernel may be lost on the way: a
row that does not fit, a gap in the numbers, or fewer kernels than ``ncu`` says it has profiled is an error. Numbers may
have thousands separators; metrics that a device lacks (``n/a``) are null.
"""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

DURATION = "gpu__time_duration.sum"
# Instructions of single threads that were not predicated off (Nsight Compute documentation, "Metrics Decoder"); a
# multiply-add is two operations.
FP32_OPERATIONS = {
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 1,
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": 1,
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 2,
}
# Operations of the tensor pipes, dense, by what they multiply; a multiply-add counts as two.
TENSOR_OPERATIONS = (
    "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
    "sm__ops_path_tensor_src_fp16_dst_fp16.sum",
    "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
    "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
)
METRICS = (DURATION, *FP32_OPERATIONS, *TENSOR_OPERATIONS)
# Judgement: asking what there is takes some seconds.
_QUERY_LIMIT_S = 60.0

_SCALES = {
    "nsecond": 1e-9,
    "usecond": 1e-6,
    "msecond": 1e-3,
    "second": 1.0,
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "byte": 1.0,
    "Kbyte": 1e3,
    "Mbyte": 1e6,
    "Gbyte": 1e9,
    "hz": 1.0,
    "Khz": 1e3,
    "Mhz": 1e6,
    "Ghz": 1e9,
}
_PROFILED = re.compile(r'^==PROF== Profiling "')
_NUMBER = re.compile(r"^-?(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$")
_NOT_AVAILABLE = ("", "n/a", "nan", "(!) nan", "no data")


class NcuError(ValueError):
    """What ``ncu`` printed cannot be read, or not all of it; the message says where."""


class Kernel(NamedTuple):
    """One launch of a kernel. ``metrics``: by ``ncu``'s name, seconds, bytes, hertz and plain numbers; None: n/a."""

    id: int
    name: str
    metrics: dict[str, float | None]


def path() -> str | None:
    """Return where ``ncu`` is, None where it is not on the PATH."""
    return shutil.which("ncu")


def available(ncu: str) -> list[str]:
    """Return those of ``METRICS`` that the devices here have: one that is unknown would cost all others.

    Devices before the tensor pipes, or before one of their types, lack counters of these; the rest is always asked for.
    """
    try:
        done = subprocess.run(
            [ncu, "--query-metrics"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_QUERY_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return list(METRICS)
    listed = set(re.findall(r"\b[a-z]+__\w+", done.stdout.decode("utf-8", "replace")))
    return [name for name in METRICS if name not in TENSOR_OPERATIONS or name.partition(".")[0] in listed]


def command(ncu: str, log: str, metrics: Sequence[str] = METRICS) -> list[str]:
    """Return what a command is preceded by, to have the kernels between cuProfilerStart and -Stop counted into ``log``.

    Kernels are replayed, so that all counters can be had; clocks are left as they are, and children are followed.
    """
    options = ["--csv", "--page", "raw", "--print-units", "base", "--target-processes", "all"]
    options += ["--profile-from-start", "off", "--replay-mode", "kernel", "--clock-control", "none"]
    return [ncu, *options, "--metrics", ",".join(metrics), "--log-file", log]


def parse(text: str) -> list[Kernel]:
    """Return the kernels that ``ncu --csv`` printed, in the order in which they were launched.

    Raises:
        NcuError: there is no table, a row does not fit, or kernels are missing.
    """
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID",')), None)
    profiled = sum(bool(_PROFILED.match(line)) for line in lines)
    if start is None:
        if profiled or not any(line.startswith("==PROF==") for line in lines):
            raise NcuError("ncu printed no table: " + (trouble(text) or "it is empty"))
        return []
    rows = csv.reader(line for line in lines[start:] if line.startswith('"'))
    header = next(rows)
    numbered = list(_fitting(rows, header))
    kernels = _long(header, numbered) if "Metric Name" in header else _wide(header, numbered)
    _check_whole(kernels, profiled)
    return kernels


def trouble(text: str) -> str:
    """Return what ``ncu`` complained about, empty where it did not."""
    return " ".join(line for line in text.splitlines() if line.startswith(("==ERROR==", "==WARNING==")))


def _fitting(rows: Iterable[list[str]], header: Sequence[str]) -> Iterator[dict[str, str]]:
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise NcuError(f"row {number} of ncu's table has {len(row)} columns, its head {len(header)}: {row[:5]}")
        yield dict(zip(header, row))


def _long(header: Sequence[str], rows: Sequence[dict[str, str]]) -> list[Kernel]:
    """A row per kernel and metric; rows of rules (advice) have no metric."""
    found: dict[int, Kernel] = {}
    for row in rows:
        number = _id(row)
        kernel = found.setdefault(number, Kernel(number, row["Kernel Name"], {}))
        if kernel.name != row["Kernel Name"]:
            raise NcuError(f"kernel {number} has two names: {kernel.name} and {row['Kernel Name']}")
        if row["Metric Name"]:
            kernel.metrics[row["Metric Name"]] = _value(row["Metric Value"], row["Metric Unit"])
    return [found[number] for number in sorted(found)]


def _wide(header: Sequence[str], rows: Sequence[dict[str, str]]) -> list[Kernel]:
    """A row per kernel; the first one has the units. Beside what was asked for stand attributes of the device and of
    the launch, words among them."""
    if not rows or rows[0]["ID"]:
        raise NcuError("ncu's table has no row of units")
    units, found = rows[0], {}
    metrics = [column for column in header if column in METRICS]
    for row in rows[1:]:
        number = _id(row)
        if number in found:
            raise NcuError(f"two rows of kernel {number}")
        found[number] = Kernel(
            number, row["Kernel Name"], {metric: _value(row[metric], units[metric]) for metric in metrics}
        )
    return [found[number] for number in sorted(found)]


def _id(row: dict[str, str]) -> int:
    text = row["ID"].replace(",", "")
    if not text.isdigit():
        raise NcuError(f"a row of ncu's table without a number: {list(row.values())[:5]}")
    return int(text)


def _value(text: str, unit: str) -> float | None:
    text = text.strip()
    if text.lower() in _NOT_AVAILABLE:
        return None
    if not _NUMBER.match(text):
        raise NcuError(f"{text!r} is no number")
    return float(text.replace(",", "")) * _SCALES.get(unit, 1.0)


def _check_whole(kernels: Sequence[Kernel], profiled: int) -> None:
    missing = sorted(set(range(len(kernels))) - {kernel.id for kernel in kernels})
    if missing:
        raise NcuError(f"ncu's table has a gap at kernel {missing[0]}")
    if profiled and profiled != len(kernels):
        raise NcuError(f"ncu profiled {profiled} kernels, its table has {len(kernels)}")


def operations(metrics: dict[str, float | None]) -> dict[str, float | None]:
    """Return {fp32, tensor}: operations by pipe; None where a counter of that pipe is missing (tensor: all of them)."""
    fp32 = [(metrics.get(name), weight) for name, weight in FP32_OPERATIONS.items()]
    tensor = [value for name in TENSOR_OPERATIONS for value in [metrics.get(name)] if value is not None]
    counted: dict[str, float | None] = {"fp32": None, "tensor": sum(tensor) if tensor else None}
    if all(value is not None for value, _ in fp32):
        counted["fp32"] = sum((value or 0.0) * weight for value, weight in fp32)
    return counted


def rows(kernels: Sequence[Kernel]) -> list[list[Any]]:
    """Return [name, {metric: value}] of each kernel: what a ``counters`` event has."""
    return [[kernel.name, kernel.metrics] for kernel in kernels]
