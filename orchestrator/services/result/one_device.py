"""The cell of one device that a cell of several is explained, or predicted, by.

It has the same batch on its device, so that it does the work that each device of the other does; only a prediction may
begin with another batch.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from orchestrator.domain.asked.fingerprint import WORKLOAD_FIELDS, workload_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.filters import CellFilter
from orchestrator.domain.runs.row import Row
from orchestrator.services.context import Context
from orchestrator.services.result import results
from orchestrator.services.result.rated import RatedCell, hardware_of, rated

# What one device has in another way, or has not: how gradients are exchanged.
_OF_SEVERAL = {"topology", "global_batch_size", "fabric", "strategy", "options"}
# What a prediction may take from another cell: it scales the batch, and which numbers are drawn costs nothing.
_PREDICTED = _OF_SEVERAL | {"per_device_batch_size", "seed"}
LAYERS = "layers"
# Judgement: so many of the newest cells of a model and framework are looked through.
MOST_SEARCHED = 500


def counterpart(context: Context, row: Row, own: Sequence[Row]) -> RatedCell | None:
    """The cell of one device with rates that ``row`` is compared with; None where there is none.

    It is of the experiment whose rows are ``own``, else of the newest that has it. One that was profiled as ``row`` was
    comes before one that was not, and the same strategy before another.
    """
    for rows in (own, newest(context, row.plan)):
        alike = (one for one in rows if is_counterpart(context, row.plan, hardware_of(row), one))
        found = [cell for other in alike for cell in rated([other]) if cell.rates]
        if found:
            return min(found, key=lambda cell: _distance(row.plan, cell.row.plan))
    return None


def profiled(context: Context, plan: Plan, rows: Iterable[Row]) -> Iterator[RatedCell]:
    """Of ``rows`` (``newest``) the cells of one device that do what each device does under ``plan``: first those that
    were to tell it layer by layer, of these those of the nearest batch, of these the newest."""
    found = [one for one in rows if is_counterpart(context, plan, None, one, _PREDICTED)]
    asked = math.log(plan.per_device_batch_size)

    def distance(row: Row) -> tuple[bool, float]:
        return LAYERS not in row.plan.profile, abs(math.log(row.plan.per_device_batch_size) - asked)

    found.sort(key=distance)
    return (cell for row in found for cell in rated([row]) if cell.rates)


def newest(context: Context, plan: Plan) -> Iterator[Row]:
    """The newest cells of the model and framework of ``plan``, as many as are looked through."""
    wanted = CellFilter(model=plan.model, framework=plan.framework)
    return islice(results.all_rows(context, wanted), MOST_SEARCHED)


def _distance(mine: Plan, theirs: Plan) -> tuple[bool, bool]:
    """The first of those that are alike is the newest."""
    return LAYERS in mine.profile and LAYERS not in theirs.profile, theirs.strategy != mine.strategy


def is_counterpart(
    context: Context, mine: Plan, hardware: tuple[Any, ...] | None, other: Row, free: set[str] = _OF_SEVERAL
) -> bool:
    """Whether ``other`` does on one device what ``mine`` does on each, but for the fields that are ``free`` and for the
    options of strategies. ``hardware``: of ``mine`` (``hardware_of``), None where that is not known."""
    theirs = other.plan
    if theirs.world_size != 1 or theirs.search or theirs.interpreter != mine.interpreter:
        return False
    workloads = workload_of(mine), workload_of(theirs)
    if any(workloads[0].get(field) != workloads[1].get(field) for field in WORKLOAD_FIELDS if field not in free):
        return False
    devices = hardware, hardware_of(other)
    alike = None in devices or devices[0] == devices[1]
    return alike and _options(context, mine) == _options(context, theirs)


def _options(context: Context, plan: Plan) -> dict[str, object]:
    """Those of the plan without those of its strategy."""
    framework = context.catalog.frameworks.get(plan.framework)
    strategy = framework.strategies.get(plan.strategy) if framework else None
    return {name: value for name, value in plan.options if not strategy or name not in strategy.options}
