"""What a run's profiles say, and its timeline: for whoever asks."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.analysis.log.plausible import is_plausible
from orchestrator.analysis.profile import trace
from orchestrator.domain.runs.log import Entry
from orchestrator.domain.runs.run import Attempt, Run
from orchestrator.domain.value.profile import Profiles
from orchestrator.services.context import Context


def profiles(context: Context, run: Run) -> Profiles:
    """What the profiling phases of the run have found."""
    return context.store.profiles(run.id)


def why_none(run: Run, found: Profiles, profile: str) -> str:
    """Why there is no ``profile`` (memory, kernels, layers) of the run."""
    if profile in found.reasons:
        return found.reasons[profile]
    if profile not in run.plan.profile:
        return f"the run was not asked to profile: its spec has no profile: [{profile}]"
    if run.analysis is None:
        return f"the run is {run.state.value}: its logs were not judged yet"
    if run.failure is not None or run.analysis.failure is not None:
        return "the run failed"
    return "its logs were judged by a version of tbd that made nothing of profiles: see tbd analyse"


def run_trace(context: Context, attempt: Attempt | None) -> dict[str, Any]:
    """The timeline of an attempt, also while it runs; one without events, and a reason, where there is no log."""
    logs = _logs(context, attempt, trace.KINDS)
    try:
        found = trace.trace_of(logs, context.catalog.kernel_kinds)
        found["otherData"] |= {"thinned": attempt.why_thinned} if attempt and attempt.why_thinned else {}
        return found
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        return {"traceEvents": [], "displayTimeUnit": "ms", "otherData": {"reason": str(error) or type(error).__name__}}


def _logs(context: Context, attempt: Attempt | None, kinds: Sequence[str]) -> Mapping[str, list[Entry]]:
    logs: dict[str, list[Entry]] = {}
    if attempt is not None:
        for entry in context.store.entries(attempt.id, kinds=kinds):
            if is_plausible(entry):
                logs.setdefault(entry["node"], []).append(entry)
    return logs
