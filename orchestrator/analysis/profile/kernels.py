"""The kernel table: one shape for all frameworks, and what kind of work each kernel does.

TBD's Tables V and VI (Zhu et al., IISWC 2018) are a query over it: ``longest_below_average``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.analysis.run import utilization
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.value.profile import Kernel, KernelKinds, KernelTable
from workers.trainer import protocol

NO_COUNTERS_ON_CPU = "a CPU device has no counter of operations per operator"
NO_COUNTERS = "no hardware counters were read"
NOT_COUNTED = "the hardware counters tell nothing of this kernel"


def kind_of(kinds: KernelKinds, framework: str, name: str, gpu: bool = False) -> str:
    """Return the kind of work that a kernel or operator of that name does; ``other`` where ``kinds`` do not know it."""
    own = kinds.frameworks.get(framework, ())
    for table in (kinds.gpu, own) if gpu else (own,):
        for kind, pattern in table:
            if re.search(pattern, name, re.IGNORECASE):
                return kind
    return "other"


def table_of(
    rank: int,
    data: Mapping[str, Any],
    kinds: KernelKinds,
    framework: str,
    gpu: bool,
    counted: Mapping[str, float | None] | None = None,
    uncounted: str | None = None,
) -> KernelTable:
    """Return the kernel table of ``rank`` from the data of its ``kernels`` event, the longest kernel first.

    Args:
        counted: kernel's name -> FP32 utilisation, or None, where hardware counters were read.
        uncounted: why none were, where that is known.

    Raises:
        ValueError: a number in it cannot be, or it has no row.
    """
    if not data["rows"]:
        raise ValueError(utilization.NOTHING_RECORDED)
    found = [(str(name), int(calls), protocol.number(total_s)) for name, calls, total_s in data["rows"]]
    wrong = [name for name, calls, total_s in found if calls < 1 or not 0 <= total_s < float("inf")]
    if wrong:
        raise ValueError(f"kernels with numbers that cannot be: {', '.join(wrong[:3])}")
    whole_s = sum(total_s for _, _, total_s in found)
    reason = NOT_COUNTED if counted else uncounted or (NO_COUNTERS if gpu else NO_COUNTERS_ON_CPU)
    rows = []
    for name, calls, total_s in found:
        ratio, kind = (counted or {}).get(name), kind_of(kinds, framework, name, gpu)
        share = total_s / whole_s if whole_s else 0.0
        rows.append(Kernel(name, kind, calls, total_s, share, ratio, reason if ratio is None else None))
    return KernelTable(
        rank=rank,
        method=str(data["method"]),
        steps=int(data["steps"]),
        elapsed_s=protocol.number(data["elapsed_s"]),
        active_s=protocol.number(data["active_s"]),
        rows=tuple(sorted(rows, key=lambda row: (-row.total_s, row.name))),
    )


def by_kind(rows: Iterable[Kernel]) -> dict[str, float]:
    """Return kind -> share of the time, the largest first."""
    shares: dict[str, float] = {}
    for row in rows:
        shares[row.kind] = shares.get(row.kind, 0.0) + row.share_ratio
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def longest_below_average(rows: Sequence[Kernel], count: int = 5) -> tuple[float | None, list[Kernel]]:
    """Return (the average utilisation, the longest kernels below it): TBD's Tables V and VI.

    The average is over time, of the kernels whose utilisation is known; None, and no kernels, where none is.
    """
    known = [(row, row.fp32_utilization_ratio) for row in rows if row.fp32_utilization_ratio is not None]
    seconds = sum(row.total_s for row, _ in known)
    if seconds <= 0:
        return None, []
    average = sum(ratio * row.total_s for row, ratio in known) / seconds
    below = sorted((row for row, ratio in known if ratio < average), key=lambda row: -row.total_s)
    return average, below[:count]


@dataclass(frozen=True)
class KernelChange:
    """One kernel of two runs: seconds per step and rank before and after; None where it does not occur."""

    name: str
    kind: str
    baseline_s: float | None
    candidate_s: float | None

    @property
    def difference_s(self) -> float:
        return (self.candidate_s or 0.0) - (self.baseline_s or 0.0)

    @property
    def change(self) -> str:
        """``appeared``, ``vanished``, ``slower``, ``faster`` or ``equal``."""
        if self.baseline_s is None:
            return "appeared"
        if self.candidate_s is None:
            return "vanished"
        return "slower" if self.difference_s > 0 else "faster" if self.difference_s < 0 else "equal"


def difference(before: Sequence[KernelTable], after: Sequence[KernelTable]) -> list[KernelChange]:
    """Return what has changed from one run's kernel tables (of its ranks) to another's, the largest change first."""
    old, new = per_step(before), per_step(after)
    kinds = {row.name: row.kind for table in (*before, *after) for row in table.rows}
    found = [KernelChange(name, kinds[name], old.get(name), new.get(name)) for name in sorted({*old, *new})]
    return sorted(found, key=lambda one: -abs(one.difference_s))


def per_step(tables: Sequence[KernelTable]) -> dict[str, float]:
    """Return kernel -> seconds per step, mean over the ranks that ``tables`` are of."""
    steps = sum(table.steps for table in tables)
    totals: dict[str, float] = {}
    for table in tables:
        for row in table.rows:
            totals[row.name] = totals.get(row.name, 0.0) + row.total_s
    return {name: total_s / steps for name, total_s in totals.items()} if steps else {}


def other_share(tables: Sequence[KernelTable]) -> Measurement | None:
    """Return how much of the kernels' time no table of kinds knows: what a share by kind leaves open."""
    rows = [row for table in tables for row in table.rows]
    whole_s = sum(row.total_s for row in rows)
    if whole_s <= 0:
        return None
    return Measurement(
        metric="kernels_other_ratio",
        value=sum(row.total_s for row in rows if row.kind == "other") / whole_s,
        unit="1",
        method="share of the kernels' time whose kind is `other`",
        scope=f"{tables[0].steps} profiled steps after the timed phase",
    )
