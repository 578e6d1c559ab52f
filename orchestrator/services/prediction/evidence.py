"""What each device does in a predicted cell, by the profiled steps of one that was alone (``links``: the exchange)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

from orchestrator.analysis.s_sgd.inputs import Inputs, NotAnInput, inputs_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.row import Row
from orchestrator.domain.runs.run import Run
from orchestrator.services.context import Context
from orchestrator.services.result.one_device import newest, profiled
from orchestrator.services.result.rank_steps import step_s_of
from orchestrator.services.result.rated import RatedCell

# Judgements: so many cells are looked through, the nearest and the newest.
MOST_CELLS = 5
MOST_STEPS = 50  # cells that may tell how a step grows with its batch
# Judgements: batches by less than this factor apart tell noise, and no step grows faster than so many times its batch.
LEAST_APART, MOST_GROWTH = 1.5, 1.2


class Lacking(Exception):  # noqa: N818 - reads as what happened
    """What a prediction cannot do without is not stored; ``what`` says it, ``command`` would supply it."""

    def __init__(self, what: str, command: str | None = None) -> None:
        super().__init__(what)
        self.what, self.command = what, command


@dataclass(frozen=True)
class Step:
    """What a run of one device did in a timed step, of ``step_s``. ``work``: units of it, of the profiled batch."""

    run: Run
    inputs: Inputs
    step_s: float
    work: float


@dataclass(frozen=True)
class OneDevice:
    """``steps``, one a run, of the cell ``row``. Their inputs are for the batch that was asked for, which is ``ratio``
    times the cell's. ``step_batches``: those of other cells whose steps tell how a step grows with its batch; none
    where it is taken to be in proportion."""

    row: Row
    steps: tuple[Step, ...]
    ratio: float
    step_batches: tuple[int, ...]


class Evidence:
    """What is stored, for the cells of one spec: what several of them rest on is read once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rows: dict[tuple[str, str], list[Row]] = {}
        self._steps: dict[tuple[str, str], list[Step]] = {}

    def one_device(self, plan: Plan) -> OneDevice:
        """What each device does under ``plan``.

        Raises:
            Lacking: no run of one device tells it.
        """
        kind = (plan.model, plan.framework)
        if kind not in self._rows:
            self._rows[kind] = list(newest(self._context, plan))
        why = "there is no cell of one device with its workload and interpreter that was profiled by layers"
        cells = list(islice(profiled(self._context, plan, self._rows[kind]), MOST_STEPS))
        for cell in cells[:MOST_CELLS]:
            try:
                return _at_batch(plan, cell, self._steps_of(cell), cells)
            except NotAnInput as error:
                why = f"the profile of layers of its cell of one device cannot be used: {error}"
        raise Lacking(why)

    def _steps_of(self, cell: RatedCell) -> list[Step]:
        """Raises NotAnInput."""
        key = (cell.row.experiment_id, cell.row.plan.cell_key)
        if key not in self._steps:
            self._steps[key] = _steps(self._context, cell)
        return self._steps[key]


def _at_batch(plan: Plan, cell: RatedCell, steps: Sequence[Step], cells: Sequence[RatedCell]) -> OneDevice:
    """The steps of ``cell`` for the batch of ``plan``. How a step grows with its batch is told by those of ``cells``,
    of just that batch or by the line through another one."""
    asked, own = plan.per_device_batch_size, cell.row.plan.per_device_batch_size
    ratio = asked / own
    known: dict[int, float] = {own: _step_s(cell)}
    for other in cells:
        if other.row.plan.cell_key != plan.cell_key:  # how it grows is not told by what will judge it
            known.setdefault(other.row.plan.per_device_batch_size, _step_s(other))
    apart = [batch for batch in known if max(batch, own) >= LEAST_APART * min(batch, own)]
    told = [asked] if asked in known else apart[:1]
    in_proportion = OneDevice(cell.row, tuple(_grown(one, ratio) for one in steps), ratio, ())
    if ratio == 1 or not told:
        return in_proportion
    grows = (known[told[0]] / known[own] - 1) / (told[0] / own - 1)  # of the step, as a share of one in proportion
    ratios = [one.inputs.ratio_at((1 + grows * (ratio - 1)) * one.step_s) for one in steps]
    if not 0 <= grows <= MOST_GROWTH or min(ratios) <= 0:  # what noise makes of it, or a batch that is far away
        return in_proportion
    return OneDevice(cell.row, tuple(map(_grown, steps, ratios)), ratio, tuple(told))


def _grown(step: Step, ratio: float) -> Step:
    return replace(step, inputs=step.inputs.at_batch(ratio))


def _step_s(cell: RatedCell) -> float:
    return fmean(step_s_of(run, rate) for run, rate in cell.row.rates_of(cell.basis) if rate > 0)


def _steps(context: Context, cell: RatedCell) -> list[Step]:
    """Raises NotAnInput."""
    found = []
    for run, rate in cell.row.rates_of(cell.basis):
        profiles = context.store.profiles(run.id)
        if rate > 0 and not profiles.layers:
            raise NotAnInput(profiles.reasons.get("layers") or f"{run.id} has none")
        if rate > 0:
            step_s = step_s_of(run, rate)
            found.append(Step(run, inputs_of(profiles.layers[0], step_s), step_s, rate * step_s))
    if not found:
        raise NotAnInput("its runs have no rate")
    return found
