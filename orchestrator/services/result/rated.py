"""Cells by the runs that a comparison rests on: one rule for all that are compared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.analysis.cell.row import RATE, scope_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.expansion.groups import Group
from orchestrator.domain.runs.basis import Basis, alike
from orchestrator.domain.runs.row import Row, place_of
from orchestrator.services.context import Context

STAGED = "noise of the first stage (Stein), as variance chose how many runs followed"


@dataclass(frozen=True)
class RatedCell:
    """A cell, and its runs by the basis that all that are compared share.

    ``rates`` by repetition are positive, ``places`` the nodes of each; ``has_rates``: there are some, positive or not.
    """

    row: Row
    basis: Basis
    has_rates: bool
    rates: Mapping[int, float]
    places: Sequence[str]


def rated(rows: Sequence[Row]) -> list[RatedCell]:
    """Cells that are compared. Grades are never mixed, so all of them have one rule."""
    bases = alike([(row.runs, row.planned) for row in rows])
    return [_rated(row, basis) for row, basis in zip(rows, bases, strict=True)]


def _rated(row: Row, basis: Basis) -> RatedCell:
    known = row.rates_of(basis)
    positive = [(run, value) for run, value in known if value > 0]
    rates = {run.plan.repetition: value for run, value in positive}
    return RatedCell(row, basis, bool(known), rates, [place_of(run) for run, _ in positive])


def cells_of(family: Iterable[Group], rows: Mapping[str, Row]) -> dict[str, RatedCell]:
    """cell -> its runs, for all cells of the groups."""
    keys = list(dict.fromkeys(plan.cell_key for group in family for plan in group.plans))
    return dict(zip(keys, rated([rows[key] for key in keys]), strict=True))


def scope_over(cells: Iterable[RatedCell]) -> str | None:
    """What the runs of cells speak of, all of one rule."""
    known = [cell.basis for cell in cells if cell.basis.runs]
    return scope_of(Basis(tuple(run for basis in known for run in basis.runs), known[0].grade)) if known else None


def unit_of(context: Context, plan: Plan) -> str | None:
    """The unit of work of the plan's model; None where the catalogue has no such model any more."""
    model = context.catalog.models.get(plan.model)
    return model.work_unit if model else None


def why_no_rate(cell: RatedCell) -> str:
    """Why a cell takes part in no comparison."""
    if RATE in cell.row.reasons:
        return cell.row.reasons[RATE]
    return "its rate is not positive" if cell.has_rates else "none of the runs that are compared here has a rate"


def hardware_of(row: Row) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """(device models, cores per device), which belong to the workload; None where no log tells."""
    workload = (row.fingerprint or {}).get("workload") or {}
    if not workload.get("device_models"):
        return None
    return tuple(workload["device_models"]), tuple(workload.get("cores_per_device") or ())
