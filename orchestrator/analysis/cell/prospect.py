"""What the next run of a cell takes from those that are over: how long it lasts, and what history lends it.

A pure function of those runs. Its answer goes into the job, and so into the log. No later history changes it there:
every number stays a function of its runs' logs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from orchestrator.analysis.cell import cells, length
from orchestrator.analysis.cell.lending import Session
from orchestrator.analysis.cell.length import Length, Noise
from orchestrator.analysis.statistics import settling
from orchestrator.domain.value.measurement import Analysis
from orchestrator.domain.value.variation import Cut

MOST_SESSIONS = 12  # of history that a job carries: the newest; more say little more, and jobs stay small
MOST_RUNS = 30  # of a session


@dataclass(frozen=True)
class Prospect:
    """``length`` of the next run, the workload's ``remembered_cut`` on its node (intervals; None where nothing is
    known) and the ``sessions`` of history, newest first."""

    length: Length
    remembered_cut: int | None
    sessions: tuple[Session, ...]

    def to_job(self) -> dict[str, Any]:
        """The job's ``stopping``, but for limits, and its ``history``."""
        stopping = {
            "intervals": self.length.intervals,
            "seconds": self.length.seconds,
            "remembered_cut": self.remembered_cut,
            "why": self.length.reason,
        }
        return {"stopping": stopping, "history": [asdict(session) for session in self.sessions]}


def prospect(
    own: Sequence[Analysis], earlier: Sequence[Sequence[Analysis]], max_measure_s: float | None = None
) -> Prospect:
    """Say how long the next run of a cell is to be.

    Args:
        own: runs of the cell in this experiment that are over, in the order of their repetitions.
        earlier: the same of earlier experiments on the same node, newest first.
        max_measure_s: timed seconds of a run at most.
    """
    known = [runs for runs in ([one for one in runs if one.series] for runs in earlier) if runs][:MOST_SESSIONS]
    cuts = [_cut(runs) for runs in known]
    remembered = settling.to_remember(cuts)
    sessions = tuple(_session(runs[:MOST_RUNS], cut.first) for runs, cut in zip(known, cuts, strict=True))
    kept = [one for one in own if one.series]
    return Prospect(_length(kept, known, remembered, max_measure_s), remembered, sessions)


def sessions_of(job_history: Sequence[Mapping[str, Any]]) -> list[Session]:
    """The sessions that a job's ``history`` holds."""
    return [
        Session(tuple(map(float, item["rates"])), float(item["within"]), float(item["intervals"]))
        for item in job_history
    ]


def _length(
    own: Sequence[Analysis],
    earlier: Sequence[Sequence[Analysis]],
    remembered: int | None,
    max_measure_s: float | None,
) -> Length:
    pilot = own[:2] if len(own) >= 2 else earlier[0][:2] if earlier else ()
    if len(pilot) >= 2:
        # What the pilots' own length was is no measure of what is needed: an unknown workload's were long by rule.
        return length.planned_length(replace(_noise(pilot, remembered), intervals=0), _start_up_s(pilot), max_measure_s)
    if own:
        cut = max(_cut(own).own, remembered or 0)
        return length.first_length(cut, _interval_s(own, cut), max_measure_s)
    return length.first_length(remembered, None, max_measure_s)


def _cut(runs: Sequence[Analysis]) -> Cut:
    found, _ = cells.cut_and_rates(runs)
    assert found is not None, "runs that keep their series have a cut"
    return found


def _noise(pilot: Sequence[Analysis], remembered: int | None) -> Noise:
    cut = max(_cut(pilot).own, remembered or 0)
    series = [cells.per_work(one.series) for one in pilot if one.series]
    cut = min(cut, min(len(run) for run in series) // 2)
    return length.noise_of(series, cut, _interval_s(pilot, cut))


def _interval_s(runs: Sequence[Analysis], cut: int) -> float:
    """Mean duration of one interval of the run after the cut."""
    rests = [np.array(one.series.durations_s[cut:]) / one.series.width for one in runs if one.series]
    return float(np.concatenate(rests).mean())


def _start_up_s(runs: Sequence[Analysis]) -> float:
    """Mean time from the start of a run to its first step; 0 where no log tells."""
    found = [one.measurement("start_up_s") for one in runs]
    known = [float(one.value) for one in found if one is not None and one.value is not None]
    return sum(known) / len(known) if known else 0.0


def _session(runs: Sequence[Analysis], first: int) -> Session:
    """What is kept of an earlier experiment's runs: all that trained rightly, never those selected for being calm."""
    _, rates = cells.cut_and_rates(runs)
    rests = [cells.per_work(one.series)[min(first, len(one.series) // 2) :] for one in runs if one.series]
    return Session(
        tuple(rates),
        float(np.mean([length.within_variance(rest) for rest in rests])),
        float(np.mean([len(rest) for rest in rests])),
    )
