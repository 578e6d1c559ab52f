"""Look up the stored runs of a cell, and ask them about its next one: how long it lasts, what history lends it."""

from collections.abc import Mapping, Sequence

from orchestrator.analysis.analyse import SAME_RATES
from orchestrator.analysis.cell.prospect import Prospect, prospect
from orchestrator.domain.runs.run import HOLDS_DEVICES, Attempt, Run
from orchestrator.domain.value.measurement import Analysis
from orchestrator.services.context import Context

# Judgements that bound the work: completed runs of the same cell, newest first, for its rates and for its durations;
# and cells that one look looks up, those that are left over having their turn in the next one.
LOOK_BACK, LOOK_BACK_DURATIONS, MOST_CELLS = 240, 50, 50


class Durations:
    """How long the earlier runs of cells took, kept between looks: a cell is looked up when it is first seen, and anew
    when a run of it has let go of its devices."""

    def __init__(self) -> None:
        self.known: dict[str, Sequence[float]] = {}  # cell -> seconds that completed runs of it took
        self._holding: Mapping[str, str] = {}  # run -> cell

    def unknown(self, runs: Sequence[Run]) -> Sequence[str]:
        """The cells of ``runs`` to be looked up now; none while nobody waits. Forgets others that are known."""
        holding = {run.id: run.plan.cell_key for run in runs if run.state in HOLDS_DEVICES}
        over = {cell for run_id, cell in self._holding.items() if run_id not in holding}
        self._holding = holding
        cells = dict.fromkeys(run.plan.cell_key for run in runs) if len(holding) < len(runs) else {}
        self.known = {cell: self.known[cell] for cell in cells if cell in self.known and cell not in over}
        return [cell for cell in cells if cell not in self.known][:MOST_CELLS]


def durations_of(context: Context, cell_key: str) -> Sequence[float]:
    """Seconds that the newest completed runs of the cell took, of whichever experiment."""
    earlier = context.store.earlier_runs([cell_key], LOOK_BACK_DURATIONS)[cell_key]
    return [one.duration_s for one in earlier if one.duration_s is not None]


def expected_of(context: Context, run: Run, attempt: Attempt) -> Prospect:
    """Look back on the runs of the same cell that ended on the nodes of ``attempt``."""
    found = context.store.completed_of_cell(run.plan.cell_key, LOOK_BACK)
    nodes = attempt.placement.nodes
    known = [one for one in found if one.usable and one.attempt and one.attempt.placement.nodes == nodes]
    own = [one for one in known if one.experiment_id == run.experiment_id]
    own.sort(key=lambda one: one.plan.repetition)
    earlier: dict[str, list[Run]] = {}
    for one in known:
        if one.experiment_id != run.experiment_id:
            earlier.setdefault(one.experiment_id, []).append(one)
    sessions = [_analyses(runs[::-1]) for runs in earlier.values()]
    return prospect(_analyses(own), sessions, run.plan.max_measure_s)


def _analyses(runs: Sequence[Run]) -> list[Analysis]:
    """Those whose rates are this version's: numbers of other methods are not to be mixed with its own."""
    return [run.analysis for run in runs if run.analysis and run.analysis.code_version in SAME_RATES]
