"""Executed operations, from hardware counters, as TBD's eq. 2 needs them.

The counters come from one replayed step (``workers.node.telemetry.ncu``). The time comes from the profiled phase,
because a kernel takes longer when it is replayed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.trainer import protocol

DURATION = "gpu__time_duration.sum"
FP32 = {
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 1.0,
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": 1.0,
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 2.0,
}
TENSOR = "sm__ops_path_tensor_"


@dataclass(frozen=True)
class Counted:
    """Operations of one step: in the FP32 pipes, and in the tensor pipes (None: no such counter). ``kernels``: how
    many launches, of which ``unread`` could not be counted."""

    fp32: float
    tensor: float | None
    kernels: int
    unread: int

    @property
    def operations(self) -> float:
        return self.fp32 + (self.tensor or 0.0)


def counted(events: Sequence[Mapping[str, Any]]) -> Counted | None:
    """What the ``counters`` events of a process say together; None where there are none."""
    rows = [row for event in events for row in event["kernels"]]
    if not rows:
        return None
    fp32, tensor, unread = 0.0, None, 0
    for _, metrics in rows:
        own = [metrics.get(name) for name in FP32]
        if any(value is None for value in own):
            unread += 1
        else:
            fp32 += sum(protocol.number(value) * weight for value, weight in zip(own, FP32.values(), strict=True))
        pipes = [
            protocol.number(value) for name, value in metrics.items() if name.startswith(TENSOR) and value is not None
        ]
        if pipes:
            tensor = (tensor or 0.0) + sum(pipes)
    return Counted(fp32, tensor, len(rows), unread)


def by_kernel(events: Iterable[Mapping[str, Any]], names: Iterable[str], peak: float) -> dict[str, float | None]:
    """FP32 utilisation of each of the kernels ``names``: operations of all launches / (peak x their duration).

    None where a launch could not be counted, or no kernel of that name was. Both times and operations are those of the
    counted step; kernels are told by ``plain`` names, for every tool writes the same one in its own way.
    """
    operations: dict[str, float | None] = {}
    seconds: dict[str, float] = {}
    for event in events:
        for written, metrics in event["kernels"]:
            name = plain(written)
            own = [metrics.get(metric) for metric in FP32]
            duration = metrics.get(DURATION)
            so_far = operations.get(name, 0.0)
            if so_far is None or duration is None or any(value is None for value in own):
                operations[name] = None
                continue
            done = sum(protocol.number(value) * weight for value, weight in zip(own, FP32.values(), strict=True))
            operations[name] = so_far + done
            seconds[name] = seconds.get(name, 0.0) + protocol.number(duration)
    found: dict[str, float | None] = {}
    for written in names:
        done_or_none, spent = operations.get(plain(written)), seconds.get(plain(written))
        found[written] = None if done_or_none is None or not spent else done_or_none / (peak * spent)
    return found


def plain(name: str) -> str:
    """A kernel's name without what NVIDIA's demangler (ncu) and the C++ run-time's (profilers) write differently.

    The one writes ``f<(int)4, (bool)1, g::[lambda(float) (instance 1)]>(T2, T3)`` and ``<unnamed>`` where the other has
    ``void f<4, true, g::{lambda(float)#1}>(float*, char const*)`` and ``(anonymous namespace)``. Parameters are left
    out: they follow from the rest.
    """
    name = name.replace("<unnamed>", "(anonymous namespace)").replace("operator ()", "operator()")
    name = re.sub(r"\[lambda(\([^\[\]]*?\)) \(instance (\d+)\)\]", r"{lambda\1#\2}", name)
    name = re.sub(r"\((?:[A-Za-z_]\w*(?:::|\b ?))+\)(?=-?\d)", "", name)
    name = re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", name))
    name = re.sub(r"\b(\d+)[ul]{1,3}\b", r"\1", name)
    name = re.sub(r"^void |\bconst\b", "", name)
    return re.sub(r"\s+", "", _without_parameters(name.strip()))


def _without_parameters(name: str) -> str:
    """``name`` without the last pair of brackets, if it ends with one."""
    if not name.endswith(")"):
        return name
    depth = 0
    for place in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[place], 0)
        if depth == 0:
            return name[:place] or name
    return name
