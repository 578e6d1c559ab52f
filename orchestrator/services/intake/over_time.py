"""What is drawn of a run over its time, any stretch of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.domain.runs.run import TERMINAL, Run
from orchestrator.domain.value.time_series import TimeSeries
from orchestrator.services.context import Context


@dataclass(frozen=True)
class OverTime:
    """Times in seconds since the first step began.

    Attributes:
        end_s: when the last point is; None where there is none.
        reason: why that is so for good.
        phases: phase -> when it ended, where it is known: ``warm-up``, ``timed``.
    """

    series: Sequence[TimeSeries] = ()
    end_s: float | None = None
    reason: str | None = None
    phases: Mapping[str, float] = field(default_factory=dict)


def over_time(context: Context, run: Run, from_s: float, to_s: float, most: int) -> OverTime:
    """The series of a run that has ended, from ``from_s`` to ``to_s``, thinned to ``most`` points each; nothing yet of
    one that goes on. Of a run that ended before they were kept they are made at the first look, and kept."""
    if run.state not in TERMINAL or run.attempt is None:
        return OverTime()
    series, end_s = context.store.time_series(run.id, from_s, to_s, most)
    reason = run.attempt.why_thinned if end_s is None else None
    if end_s is None and reason is None:
        # Once: of a run that took no step there is nothing to keep, and its log may be long.
        context.kept.of(("time series", run.id), run.attempt.id, lambda: _make(context, run))
        series, end_s = context.store.time_series(run.id, from_s, to_s, most)
    return OverTime(series, end_s, reason, (run.analysis.summary.get("phase_ends") if run.analysis else None) or {})


def _make(context: Context, run: Run) -> None:
    from orchestrator.services.reconcile.conclude import analyse_attempt  # numpy, which a list does not wait for

    assert run.attempt is not None
    context.store.add_time_series(run.id, analyse_attempt(context, run.attempt.id).time_series)
