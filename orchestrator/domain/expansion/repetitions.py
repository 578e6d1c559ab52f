"""How often each cell of a sweep is repeated, and in which order.

Repetitions come in *blocks*: one of every cell, in an order drawn from the seed, so that a slow hour meets all cells
alike and a comparison can be made within blocks. The count is fixed (``repeats``), or variance chooses it: for a wanted
precision by Stein's rule, within a budget of device time where the intervals are widest. A disturbed run is replaced
by a further repetition while ``max_repeats`` allows and the cell can still come to enough sound runs.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.runs.basis import LEAST_SOUND, basis_of
from orchestrator.domain.runs.run import TERMINAL, Run
from orchestrator.domain.runs.wanted_precision import first_stage, scale_of, stein
from orchestrator.domain.value.measurement import Grade


@dataclass(frozen=True)
class Cell:
    """``plan`` is its first repetition, ``runs`` what has become of all so far."""

    plan: Plan
    runs: Sequence[Run]

    def further(self, count: int) -> Iterator[Plan]:
        """The next ``count`` repetitions."""
        last = max((run.plan.repetition for run in self.runs), default=0)
        return (self.plan.repeated(last + offset) for offset in range(1, count + 1))


def missing(cells: Sequence[Cell], spec: ExperimentSpec) -> list[Plan]:
    """The plans that are still missing, in the order in which they should run."""
    if spec.device_time_budget_s is not None:
        return in_blocks(_within_budget(cells, spec, spec.device_time_budget_s), spec.seed[0])
    found = [plan for cell in cells for plan in cell.further(_count(cell.runs, spec))]
    return in_blocks(found, spec.seed[0])


def in_blocks(plans: Iterable[Plan], seed: int) -> list[Plan]:
    """Block by block, each in an order of its own. Drawn by a hash: it is the same wherever it is asked for."""

    def turn(plan: Plan) -> tuple[int, bytes]:
        text = f"{seed} {plan.repetition} {plan.cell_key}"
        return plan.repetition, hashlib.sha256(text.encode()).digest()

    return sorted(plans, key=turn)


def repeats_of(spec: ExperimentSpec) -> int:
    """The runs of a cell that are carried out in any case."""
    return first_stage(spec.repeats) if variance_chooses(spec) else spec.repeats


def variance_chooses(spec: ExperimentSpec) -> bool:
    """Whether the runs themselves say how many there must be: then the interval has to be Stein's."""
    return spec.precision_target is not None or spec.device_time_budget_s is not None


def planned_of(spec: ExperimentSpec) -> int | None:
    """The repetitions of a cell that were planned before any was run; None where variance chooses their count."""
    return None if variance_chooses(spec) else spec.repeats


def first_stage_rates(spec: ExperimentSpec, runs: Sequence[Run]) -> tuple[list[float], int]:
    """(rates of the runs that count, in the order of their repetitions; how many of them are the first stage)."""
    rates = [rate for run in basis_of(runs, planned_of(spec)).runs if (rate := rate_of(run)) is not None]
    return rates, min(len(rates), repeats_of(spec))


def rate_of(run: Run) -> float | None:
    """Its throughput as its own analysis has it; None for a run that has none."""
    found = run.analysis.measurement("throughput") if run.usable and run.analysis else None
    return found.value or None if found is not None else None


def _count(runs: Sequence[Run], spec: ExperimentSpec) -> int:
    lasting = sum(1 for run in runs if not _is_replaced(run, runs, spec))
    return min(max(0, _wanted(runs, lasting, spec) - lasting), max(0, spec.max_repeats - len(runs)))


def _wanted(runs: Sequence[Run], lasting: int, spec: ExperimentSpec) -> int:
    """How many runs of a cell there must be that nothing replaces.

    With a precision target: those of the first stage, and once all runs have ended as many as Stein's rule wants. A
    first stage with fewer than two rates tells nothing: then that is all.
    """
    repeats = repeats_of(spec)
    if spec.precision_target is None or lasting < repeats or any(run.state not in TERMINAL for run in runs):
        return repeats
    rates, first = first_stage_rates(spec, runs)
    if first < 2:
        return repeats
    return lasting + max(0, stein(rates, first, spec.precision_target).wanted - len(rates))


def _is_replaced(run: Run, runs: Sequence[Run], spec: ExperimentSpec) -> bool:
    return run.grade is Grade.DISTURBED and _can_be_sound(runs, spec)


def _can_be_sound(runs: Sequence[Run], spec: ExperimentSpec) -> bool:
    """Whether the cell can still come to enough sound runs. Else it rests on its planned repetitions, which no
    replacement changes."""
    if repeats_of(spec) < LEAST_SOUND:
        return False
    hoped = sum(1 for run in runs if run.sound or run.state not in TERMINAL)
    return hoped + max(0, spec.max_repeats - len(runs)) >= LEAST_SOUND


def _within_budget(cells: Sequence[Cell], spec: ExperimentSpec, budget_s: float) -> list[Plan]:
    """The next block: the first stage of every cell, then runs where the interval is widest, as long as time is left.

    It waits for the block before: what that cost and how it varied is what decides.
    """
    if any(run.state not in TERMINAL for cell in cells for run in cell.runs):
        return []
    left_s = budget_s - math.fsum(device_time_s(run) for cell in cells for run in cell.runs)
    first = [cell for cell in cells if _count(cell.runs, spec) > 0]
    return list(_affordable(first, left_s)) if first else _widest(cells, spec, left_s)


def device_time_s(run: Run) -> float:
    """Device-seconds that a run held, its attempts one after another; 0 where none was begun."""
    ended = [attempt for attempt in run.attempts if attempt.ended_at is not None]
    return math.fsum((one.ended_at or 0.0) - one.created_at for one in ended) * run.plan.world_size


def _cost_s(cell: Cell) -> float:
    """What a run of the cell will cost, by those that there are; 0 where there is none: a first one is always made."""
    known = [device_time_s(run) for run in cell.runs if run.attempts]
    return fmean(known) if known else 0.0


def _affordable(cells: Sequence[Cell], left_s: float) -> Iterator[Plan]:
    for cell in cells:
        cost_s = _cost_s(cell)
        if cost_s <= left_s:
            left_s -= cost_s
            yield from cell.further(1)


def _widest(cells: Sequence[Cell], spec: ExperimentSpec, left_s: float) -> list[Plan]:
    """A block of as many runs as there are cells, each to the cell whose interval is then the widest."""
    given = dict.fromkeys(range(len(cells)), 0)
    for _ in cells:
        affordable = [
            index
            for index, cell in enumerate(cells)
            if 0.0 < _cost_s(cell) <= left_s and len(cell.runs) + given[index] < spec.max_repeats
        ]
        widths = {index: _half_width_ratio(cells[index], spec, given[index]) for index in affordable}
        chosen = max((index for index in widths if widths[index] > 0), key=lambda index: widths[index], default=None)
        if chosen is None:
            break
        given[chosen] += 1
        left_s -= _cost_s(cells[chosen])
    return [plan for index, count in given.items() for plan in cells[index].further(count)]


def _half_width_ratio(cell: Cell, spec: ExperimentSpec, more: int) -> float:
    """Half of Stein's interval, on logarithms, with ``more`` runs; 0 where nothing is known of the noise."""
    rates, first = first_stage_rates(spec, cell.runs)
    if first < 2:
        return 0.0
    return scale_of([math.log(rate) for rate in rates], first) / math.sqrt(len(rates) + more)
