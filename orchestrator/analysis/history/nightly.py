"""Is tonight's number of a cell slower than those of its last nights? One pure function answers.

Each night is one session of the series: what its runs have in common is drawn anew every night. So the comparison is
that of two sessions (``between_runs.compare``), with how far the last nights moved (``lending.movement_of``) in its
interval. Fewer than ``lending.LEAST_SESSIONS`` nights cannot tell that, and without it a difference between nights is
no slowdown: it is judged from the fourth night on.

A night is compared with nights on the same machine and devices only (``Night.setting``): another machine begins a new
baseline. Nights that were told slower are no baseline, else the second slow night would look usual. They are forgotten
with the others, after ``LOOK_BACK`` nights: a slowdown that stays is the usual speed by then.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.analysis.cell import between_runs
from orchestrator.analysis.cell.between_runs import Comparison
from orchestrator.analysis.cell.lending import LEAST_SESSIONS, Session, movement_of

LOOK_BACK = 14  # nights that a night is compared with, whatever became of them: a judgement

Outcome = Literal["slower", "not_slower", "no_baseline", "too_few_runs"]


@dataclass(frozen=True)
class Rates:
    """The rates of the runs that count, and the nodes of each, in the order of their repetitions."""

    values: tuple[float, ...]
    places: tuple[str, ...]


@dataclass(frozen=True)
class Night:
    """What a cell has in a night in which it has a number.

    Attributes:
        sound: of its sound runs; None where too few are (``domain.basis``).
        planned: of all planned repetitions. Grades are never mixed: these are compared where a night lacks the others.
        setting: what a baseline needs to share: the machine and its devices.
        first_stage: of a night that was repeated for a wanted precision, the runs that told how many there must be.
    """

    sound: Rates | None
    planned: Rates
    setting: Hashable
    first_stage: int | None = None


@dataclass(frozen=True)
class Verdict:
    """``text`` says it in words. ``compared_with``: places in ``before`` of the nights that were the baseline."""

    outcome: Outcome
    text: str
    found: Comparison | None = None
    compared_with: tuple[int, ...] = ()


def judge(tonight: Night, before: Sequence[Night | None]) -> Verdict:
    """Compare a night with those before it.

    Args:
        tonight: its number.
        before: the nights before, oldest first; None for one that has no number or was told slower.
    """
    start = max(0, len(before) - LOOK_BACK)
    known = [(place, night) for place, night in enumerate(before) if night is not None and place >= start]
    alike = [(place, night) for place, night in known if night.setting == tonight.setting]
    if not known:
        return Verdict("no_baseline", "nothing to compare with yet: the first night")
    if not alike:
        return Verdict("no_baseline", "nothing to compare with yet: the first night on this machine")
    nights = [night for _, night in alike]
    sides = _of_one_grade([tonight, *nights])
    mine, others = sides[0], [side for side in sides[1:] if len(side.values) > 1]
    if len(mine.values) < 2:
        return Verdict("too_few_runs", "a night of one run cannot be told slower: that takes repeats: 2 or more")
    if len(others) < LEAST_SESSIONS:
        told = f"{len(others)} earlier night{'' if len(others) == 1 else 's'} of two runs or more"
        return Verdict("no_baseline", f"{told} cannot tell how far this series moves: that takes {LEAST_SESSIONS}")
    found = between_runs.compare(
        [rate for side in others for rate in side.values],
        mine.values,
        ([place for side in others for place in side.places], mine.places),
        (None, tonight.first_stage),
        apart=True,
        movement=movement_of([Session(side.values, 0.0, 0.0) for side in others]),
    )
    text = f"{found.text}, against {len(others)} earlier nights"
    outcome: Outcome = "slower" if found.verdict == "slower" else "not_slower"
    return Verdict(outcome, text, found, tuple(place for place, _ in alike))


def _of_one_grade(nights: Sequence[Night]) -> list[Rates]:
    """The rates of each, by the rule that all of them keep (``domain.basis.alike``)."""
    sound = [night.sound for night in nights if night.sound is not None]
    return sound if len(sound) == len(nights) else [night.planned for night in nights]
