"""Analyse the stored logs of a run with today's code, and compare that with the stored result. Nothing is changed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.analysis.profile import kernels
from orchestrator.domain.runs.run import Run
from orchestrator.domain.value.measurement import Analysis, Measurement
from orchestrator.domain.value.profile import Profiles
from orchestrator.services.context import Context
from orchestrator.services.reconcile.conclude import analyse_attempt

# Two numbers that differ by less are the same, computed in another order.
RELATIVE_TOLERANCE = 1e-9
_OF_A_TRANSFER = (
    "duration_min_s",
    "duration_p50_s",
    "duration_mean_s",
    "duration_p90_s",
    "duration_max_s",
    "algorithm_bytes_per_s",
    "bus_bytes_per_s",
)


@dataclass(frozen=True)
class Difference:
    """What today's analysis says otherwise. Either is None where the one, or the other, says nothing."""

    what: str
    stored: Any
    now: Any


@dataclass(frozen=True)
class Reanalysis:
    """``reason`` says why a run could not be analysed anew."""

    run: Run
    stored_version: str | None
    version: str | None
    differences: tuple[Difference, ...] = ()
    reason: str | None = None


def reanalyse(context: Context, run: Run) -> Reanalysis:
    """Compare what is stored of ``run`` with what its logs say today."""
    if run.analysis is None or run.attempt is None:
        return Reanalysis(run, None, None, reason=f"nothing is stored: the run is {run.state.value}")
    stored, version = run.analysis, run.analysis.code_version
    if not context.store.last_seqs(run.attempt.id):
        return Reanalysis(run, version, None, reason="its log was never stored")
    if why := run.attempt.why_thinned:
        return Reanalysis(run, version, None, reason=why)
    now = analyse_attempt(context, run.attempt.id)
    found = [*_verdicts(stored, now), *_numbers(_by_name(stored), _by_name(now))]
    found += _numbers(_of_devices(stored), _of_devices(now))
    found += _profiles(context.store.profiles(run.id), now.profiles)
    return Reanalysis(run, version, now.code_version, tuple(found))


def _verdicts(stored: Analysis, now: Analysis) -> list[Difference]:
    pairs = (
        ("failure", _failure(stored), _failure(now)),
        ("grade", stored.validity.grade.value, now.validity.grade.value),
        ("reasons", _codes(stored), _codes(now)),
        ("notes", sorted(stored.validity.notes), sorted(now.validity.notes)),
        ("steady state", _steady(stored), _steady(now)),
    )
    return [Difference(what, before, after) for what, before, after in pairs if before != after]


def _failure(analysis: Analysis) -> str | None:
    return analysis.failure.kind.value if analysis.failure else None


def _codes(analysis: Analysis) -> list[str]:
    return sorted(reason.code for reason in analysis.validity.reasons)


def _steady(analysis: Analysis) -> Any:
    return (analysis.summary.get("steady") or {}).get("state")


def _numbers(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    names = [*before, *(name for name in after if name not in before)]
    return [
        Difference(name, before.get(name), after.get(name))
        for name in names
        if not _same(before.get(name), after.get(name))
    ]


def _by_name(analysis: Analysis) -> dict[str, float | None]:
    """Values and the ends of their intervals, by metric and subject."""
    found: dict[str, float | None] = {}
    for one in analysis.measurements:
        name = _name(one)
        found[name] = one.value
        if one.ci_low is not None:
            found[f"{name} ci_low"], found[f"{name} ci_high"] = one.ci_low, one.ci_high
    return found


def _of_devices(analysis: Analysis) -> dict[str, float]:
    """What a calibration found by device and arithmetic, and a netbench by message: numbers of their own tables."""
    found: dict[str, float] = {}
    for peak in analysis.calibrations:
        of = f"{peak.arithmetic} of {peak.device_id} on {peak.node}"
        found |= {f"{of}, operations per s": peak.flops_per_s, f"{of}, spread": peak.spread_ratio}
        found |= {f"{of}, operations per s at {shape}": rate for shape, rate in peak.rates.items()}
    for sent in analysis.transfers:
        busy = ", cores busy" if sent.busy_cores else ""
        of = f"{sent.operation} of {sent.bytes} B by {sent.library} over ranks {list(sent.ranks)}{busy}"
        found |= {f"{of}, {name}": getattr(sent, name) for name in _OF_A_TRANSFER}
    return found


def _name(one: Measurement) -> str:
    return one.metric + (f" [{one.subject}]" if one.subject else "")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other or math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE)
    return bool(one == other)


def _profiles(stored: Profiles, now: Profiles) -> list[Difference]:
    """What profiles come to; where that is the same and a row is not, that it is so."""
    found = _numbers(_told(stored), _told(now))
    if not found and stored != now:
        names = [name for name in ("memory", "kernels", "layers") if getattr(stored, name) != getattr(now, name)]
        found = [Difference(f"rows of the profile of {name}", "as stored", "otherwise") for name in names]
    return found


def _told(found: Profiles) -> dict[str, Any]:
    """What the profiles come to, by rank: bytes by class, shares by kind, parts of a step; and why there is none."""
    told: dict[str, Any] = {f"no profile of {name}": reason for name, reason in found.reasons.items()}
    for memory in found.memory:
        of = f"memory of rank {memory.rank}"
        told[f"{of}, peak"] = memory.peak_bytes
        for name, share in {**memory.classes, **memory.parts}.items():
            told[f"{of}, {name} at the peak"], told[f"{of}, {name} at most"] = share.at_peak_bytes, share.max_bytes
    for table in found.kernels:
        of = f"kernels of rank {table.rank}"
        told[f"{of}, number"] = len(table.rows)
        told |= {f"{of}, share of kind {kind}": share for kind, share in kernels.by_kind(table.rows).items()}
    for times in found.layers:
        of = f"layers of rank {times.rank}"
        told[f"{of}, number"] = len(times.rows)
        told |= {f"{of}, {part}": seconds for part, seconds in times.breakdown.items()}
    return told
