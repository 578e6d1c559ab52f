"""Extending an experiment: which spec has everything that another one has, and more. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.fields import AXES
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.expansion.sweep import cell_keys
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.words.errors import Problem

_COUNTS = ("repeats", "max_repeats")
# Whether these take cells away shows in the cells.
_JUDGED_BY_CELLS = ("exclude",)


def taken_away(old: ExperimentSpec, new: ExperimentSpec) -> list[Problem]:
    """What ``new`` does not have any more of ``old``, or has in another way, field by field."""
    return [problem for field in type(old).model_fields for problem in _of_field(field, old, new)]


def _of_field(field: str, old: ExperimentSpec, new: ExperimentSpec) -> Iterator[Problem]:
    before, after = getattr(old, field), getattr(new, field)
    if before == after or field in _JUDGED_BY_CELLS:
        return
    if field in AXES:
        yield from _of_axis(f"/{field}", before, after)
    elif field == "nodes":
        yield from _of_axis("/nodes/gpu_model", before.gpu_model, after.gpu_model)
        for part in ("names", "devices"):
            if getattr(before, part) != getattr(after, part):
                yield Problem(f"/nodes/{part}", "an extension keeps them: submit another experiment for others")
    elif field == "options":
        for name, values in before.items():
            yield from _of_axis(f"/options/{name}", values, after.get(name))
    elif field in _COUNTS:
        if after < before:
            yield Problem(f"/{field}", f"{after} is fewer than the {before} that the experiment has")
    elif field == "precision_target":
        if before is not None and (after is None or after > before):
            yield Problem(f"/{field}", f"the experiment is after {before:g}: an extension may only ask for less")
    elif field == "device_time_budget_s":
        if before is None or after is None or after < before:
            given = "no budget" if before is None else f"a budget of {before:g}"
            yield Problem(f"/{field}", f"the experiment has {given}: an extension keeps it, or makes one larger")
    else:
        yield Problem(f"/{field}", f"an extension keeps {field} as it is: submit another experiment for that")


def _of_axis(pointer: str, before: Sequence[Any] | None, after: Sequence[Any] | None) -> Iterator[Problem]:
    """``before`` is None for the batch size that is not the one given: the other one tells."""
    lost = [value for value in before or () if value not in (after or ())]
    if lost:
        values = ", ".join(map(str, lost))
        yield Problem(pointer, f"{values} is taken away: an extension keeps every value that the experiment has")


def grown(facts: Facts, now: Facts, old: ExperimentSpec, new: ExperimentSpec) -> Facts | None:
    """The facts by which ``new`` is expanded: those of ``now`` if they leave every cell of ``old`` where it is, as more
    nodes do; else those that there were. None where ``new`` loses cells by either."""
    had = cell_keys(old, facts)
    return next((one for one in (now, facts) if had <= cell_keys(new, one)), None)


def lost_cells(old: ExperimentSpec, new: ExperimentSpec) -> list[Problem]:
    """Why ``new`` loses cells although no field of it takes a value away."""
    added = sorted(set(new.options) - set(old.options))
    if added:
        message = "the cells that the experiment has are not among those of the extension: list the default value too"
        return [Problem(f"/options/{name}", message) for name in added]
    return [Problem("/exclude", "it leaves out cells that the experiment has")]


def never_begun(run: Run) -> bool:
    """Whether it was cancelled before it began: no observation, and nothing hangs on it."""
    return run.state is RunState.CANCELLED and not run.attempts
