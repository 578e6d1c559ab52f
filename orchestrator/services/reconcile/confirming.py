"""What a confirmation of the gate still needs: blocks of one run of the old and one of the new subject, one block after
the other, until they tell. Pure: of what was fixed before the first run, and the runs so far."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.analysis.cell.row import RATE
from orchestrator.analysis.gate.confirmation import LEAST_BLOCKS, LEVEL, Decision, Design, judge
from orchestrator.domain.around.alerts import GATE, Confirmation
from orchestrator.domain.asked.plan import SIDE, Plan
from orchestrator.domain.runs.row import why_not_sound
from orchestrator.domain.runs.run import TERMINAL, Experiment, Run
from orchestrator.domain.words.errors import Damaged, DamagedRow
from orchestrator.domain.words.untrusted import visible

OLD, NEW = "old", "new"
KERNELS = ("kernels",)
MOST_LOST = 2  # blocks of which a run gives no number: then it is given up. A judgement


@dataclass(frozen=True)
class Blocks:
    """The blocks so far.

    Attributes:
        old, new: the rates of those that are whole, in their order.
        n_begun: blocks that have a run. ``n_lost`` gave no number, and ``why`` the last of these.
    """

    old: tuple[float, ...]
    new: tuple[float, ...]
    n_begun: int
    n_lost: int
    why: str | None


def wanted_of(experiment: Experiment) -> Confirmation:
    """What an experiment of the gate carries out, as was fixed before its first run.

    Raises:
        DamagedRow: that cannot be read (any more).
    """
    try:
        wanted = Confirmation.from_json(experiment.facts[GATE])
        for side in (wanted.old, wanted.new):
            Plan.from_json(side)
        if not (0.0 < wanted.size < math.inf and wanted.most_blocks >= LEAST_BLOCKS):
            raise ValueError(f"a loss of {wanted.size:g} in {wanted.most_blocks} blocks at most is none to ask for")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = visible(f"its confirmation cannot be read: {type(error).__name__} {error}"[:300])
        raise DamagedRow(Damaged("experiment", experiment.id, experiment.id, why)) from None
    return wanted


def blocks_of(runs: Sequence[Run]) -> Blocks:
    """The blocks that these runs of a confirmation, in any order, have made."""
    by_block: dict[int, dict[str, Run]] = {}
    for run in runs:
        if run.plan.profile:  # it tells which operators, and no rate that counts
            continue
        by_block.setdefault(run.plan.repetition, {})[str(dict(run.plan.pins).get(SIDE))] = run
    whole, lost = [], []
    for _, sides in sorted(by_block.items()):
        rates = [rate_of(sides[side]) for side in (OLD, NEW) if side in sides]
        if len(rates) == 2 and all(rates):
            whole.append(rates)
        elif all(run.state in TERMINAL for run in sides.values()):
            lost.append(next(run for run in sides.values() if not rate_of(run)))
    reasons = [reason.text for run in lost[-1:] for reason in why_not_sound(run)]
    why = f"{lost[-1].id}: {'; '.join(reasons) or 'it gave no number'}" if lost else None
    old, new = (tuple(float(pair[side] or 0.0) for pair in whole) for side in (0, 1))
    return Blocks(old, new, len(by_block), len(lost), why)


def rate_of(run: Run) -> float | None:
    """Return the work per second of a run that may be believed; None for others, and below what ``judge`` takes."""
    found = run.analysis.measurement(RATE) if run.analysis and run.usable else None
    return found.value if found is not None and found.value is not None and found.value > 0.0 else None


def decision(wanted: Confirmation, blocks: Blocks) -> Decision:
    """What the blocks so far tell."""
    return judge(Design(wanted.size, wanted.most_blocks, wanted.level or LEVEL), blocks.old, blocks.new)


def missing(wanted: Confirmation, runs: Sequence[Run]) -> list[Plan]:
    """The plans of the next blocks, in the order in which they run; none where it is over, or runs are left."""
    if any(run.state not in TERMINAL for run in runs):
        return []
    blocks = blocks_of(runs)
    answer = decision(wanted, blocks).answer
    if answer == "slower":
        return _profiles(wanted, blocks, runs)
    if blocks.n_lost >= MOST_LOST or answer != "go_on":
        return []
    more = min(max(LEAST_BLOCKS - len(blocks.old), 1), wanted.most_blocks - len(blocks.old))
    return _in_blocks([Plan.from_json(wanted.old), Plan.from_json(wanted.new)], blocks.n_begun, more)


def _profiles(wanted: Confirmation, blocks: Blocks, runs: Sequence[Run]) -> list[Plan]:
    """Of both sides the processes that are profiled, once."""
    if any(run.plan.profile for run in runs):
        return []
    sides = [replace(Plan.from_json(side), profile=KERNELS) for side in (wanted.old, wanted.new)]
    return _in_blocks(sides, blocks.n_begun, wanted.profiled)


def _in_blocks(sides: Sequence[Plan], begun: int, more: int) -> list[Plan]:
    found = []
    for number in range(begun + 1, begun + more + 1):
        in_turn = sides if number % 2 else sides[::-1]  # what grows from run to run is in no side's favour
        found += [side.repeated(number) for side in in_turn]
    return found


def profiled(runs: Sequence[Run], side: str) -> list[str]:
    """The ids of the runs of a side whose kernels were profiled."""
    return [run.id for run in runs if run.plan.profile and run.usable and str(dict(run.plan.pins).get(SIDE)) == side]
