"""Which runs of a cell its numbers rest on, by one rule for tables, comparisons and repetitions alike.

Where there are enough sound runs these count, and the replacements of disturbed ones are among them. Else all *planned*
repetitions count, without the replacements. A replacement is made because a run was disturbed: where the disturbed one
counts as well, counting both would weigh the calm hours twice. The cells of a comparison share one rule: mixed grades
find differences that are not there (up to 37 % of experiments, docs/read_results/statistics.md).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.domain.runs.run import Run
from orchestrator.domain.value.measurement import Grade

LEAST_SOUND = 4  # fewer sound runs than these speak for a cell only where they are all that was planned
SCOPES = {
    Grade.SOUND: "at a foreign load of 10 % or less",
    Grade.DISTURBED: "with what else ran",
}


@dataclass(frozen=True)
class Basis:
    """``runs`` in the order of their repetitions; ``grade`` is what they may be believed to be, BROKEN without any."""

    runs: tuple[Run, ...]
    grade: Grade

    @property
    def scope(self) -> str:
        return SCOPES.get(self.grade, "")


def basis_of(runs: Sequence[Run], planned: int | None) -> Basis:
    """The basis of one cell by itself. ``planned``: repetitions that were planned; None where variance chose them, so
    that all were."""
    return shared([runs], planned)[0]


def shared(cells: Iterable[Sequence[Run]], planned: int | None) -> list[Basis]:
    """The bases of cells of one experiment that are compared: the sound runs of each where every cell has enough of
    them, else the planned repetitions of all."""
    return alike([(runs, planned) for runs in cells])


def alike(cells: Iterable[tuple[Sequence[Run], int | None]]) -> list[Basis]:
    """The same of cells of several experiments: (runs, planned repetitions) of each."""
    usable = [(_in_order(run for run in runs if run.usable), planned) for runs, planned in cells]
    if all(_enough(runs, planned) for runs, planned in usable):
        return [_graded([run for run in runs if run.sound], Grade.SOUND) for runs, _ in usable]
    return [_graded(_of_plan(runs, planned), Grade.DISTURBED) for runs, planned in usable]


def of_plan(runs: Iterable[Run], planned: int | None) -> Basis:
    """The planned repetitions of a cell, whatever its sound runs are: what it is compared by where another one has too
    few sound runs."""
    return _graded(_of_plan(_in_order(run for run in runs if run.usable), planned), Grade.DISTURBED)


def _in_order(runs: Iterable[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: run.plan.repetition)


def _of_plan(usable: Sequence[Run], planned: int | None) -> list[Run]:
    return [run for run in usable if planned is None or run.plan.repetition <= planned]


def _enough(usable: Sequence[Run], planned: int | None) -> bool:
    """A cell whose planned repetitions are all sound has enough, however few they are; so has one without any run."""
    sound = sum(1 for run in usable if run.sound)
    return sound >= LEAST_SOUND or all(run.sound for run in _of_plan(usable, planned))


def _graded(runs: Sequence[Run], grade: Grade) -> Basis:
    return Basis(tuple(runs), grade if runs else Grade.BROKEN)
