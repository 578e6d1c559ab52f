"""The cell of one device that a cell of several is explained by: of its own experiment, else of the newest that has it.

It has the same batch on its device, so that it does the work that each device of the other does.
"""

from collections.abc import Sequence

from orchestrator.domain.asked.fingerprint import WORKLOAD_FIELDS, workload_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.filters import CellFilter
from orchestrator.domain.runs.row import Row
from orchestrator.services.context import Context
from orchestrator.services.result import results
from orchestrator.services.result.rated import RatedCell, hardware_of, rated

# What one device has in another way, or has not: how gradients are exchanged.
_OF_SEVERAL = {"topology", "global_batch_size", "fabric", "strategy", "options"}
# Judgement: so many of the newest cells of a model and framework are looked through.
MOST_SEARCHED = 500


def counterpart(context: Context, row: Row, own: Sequence[Row]) -> RatedCell | None:
    """The cell of one device with rates that ``row`` is compared with; None where there is none.

    ``own``: the rows of its experiment. One that was profiled as ``row`` was comes before one that was not, and the
    same strategy before another.
    """
    if found := _best(context, row, own):
        return found
    others = []
    wanted = CellFilter(model=row.plan.model, framework=row.plan.framework)
    for number, other in enumerate(results.all_rows(context, wanted)):
        if number == MOST_SEARCHED:
            break
        others.append(other)
    return _best(context, row, others)


def _best(context: Context, row: Row, rows: Sequence[Row]) -> RatedCell | None:
    found = [cell for other in rows if _is_counterpart(context, row, other) for cell in rated([other]) if cell.rates]
    profiled = "layers" in row.plan.profile

    def rank(cell: RatedCell) -> tuple[bool, bool]:
        plan = cell.row.plan
        return profiled and "layers" not in plan.profile, plan.strategy != row.plan.strategy

    return min(found, key=rank, default=None)  # the first of those that are alike: the newest


def _is_counterpart(context: Context, row: Row, other: Row) -> bool:
    mine, theirs = row.plan, other.plan
    if theirs.world_size != 1 or theirs.search or theirs.interpreter != mine.interpreter:
        return False
    fields = [field for field in WORKLOAD_FIELDS if field not in _OF_SEVERAL]
    workloads = workload_of(mine), workload_of(theirs)
    if any(workloads[0].get(field) != workloads[1].get(field) for field in fields):
        return False
    devices = hardware_of(row), hardware_of(other)
    alike = None in devices or devices[0] == devices[1]
    return alike and _options(context, mine) == _options(context, theirs)


def _options(context: Context, plan: Plan) -> dict[str, object]:
    """Those of the plan without those of its strategy."""
    framework = context.catalog.frameworks.get(plan.framework)
    strategy = framework.strategies.get(plan.strategy) if framework else None
    return {name: value for name, value in plan.options if not strategy or name not in strategy.options}
