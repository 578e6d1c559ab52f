"""From a spec to plans: the grid, what ``auto`` stands for, what is refused, and which plans are still missing.

``expand`` is called at submission, and again when all runs of the experiment have ended: it is over when ``expand``
returns none. In between, the end of a run asks ``repetitions.missing`` about its own cell only
(``orchestrator.services.reconcile.review``).
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.asked.catalog import Catalog
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.fields import AXES, REPEATED
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import LARGEST_THAT_FITS, POWERS_OF_TWO, ExperimentSpec, parse_spec
from orchestrator.domain.asked.topology import Topology
from orchestrator.domain.expansion.bisection import Search, step
from orchestrator.domain.expansion.convergence import evaluate_every, why_not_converging
from orchestrator.domain.expansion.data_places import resolved, why_elsewhere
from orchestrator.domain.expansion.refusals import (
    device_of,
    in_spec,
    strategy_of,
    why_impossible,
    why_indivisible,
    why_unprofiled,
    why_unwarmed,
    wrong_limit,
)
from orchestrator.domain.expansion.repetitions import Cell, missing, repeats_of
from orchestrator.domain.expansion.search import answer_of, at_batch, measured_down, searched, try_of
from orchestrator.domain.expansion.switches import OPTIONS, at_default, chosen, why_unswitched
from orchestrator.domain.runs.run import TERMINAL, Run
from orchestrator.domain.words.errors import InvalidRequest, Problem

MAX_RUNS = 20_000  # a judgement: a larger grid is a typing mistake more often than a wish


@dataclass(frozen=True)
class LeftOut:
    """A cell of the grid that is not carried out, by what the spec says of it, and why."""

    cell: Mapping[str, Any]
    reason: str


def check(spec: ExperimentSpec, facts: Facts) -> None:
    """Refuse what cannot be carried out, before anything is stored.

    Raises:
        InvalidRequest: with a pointer to each field, and for cells that no framework can do the ``exclude`` lines.
    """
    if problems := in_spec(spec, facts.catalog):
        raise InvalidRequest(problems)
    cells = list(_cells(spec, facts)) or [cell for cell, _ in _indivisible(spec, facts)]
    if not cells:
        raise InvalidRequest([Problem("/exclude", "leaves no cell of the grid")])
    if problems := wrong_limit(spec, cells, facts):
        raise InvalidRequest(problems)
    if len(cells) * repeats_of(spec) > MAX_RUNS:
        count = f"{len(cells)} cells x {repeats_of(spec)} repeats"
        raise InvalidRequest([Problem("", f"{count} are more than {MAX_RUNS} runs: split the experiment")])
    refused = [(cell, why) for cell in cells if (why := _why_refused(cell, facts, spec))]
    if refused:
        are_all = len(refused) == len(cells)
        refusals = [_refusal(cell, why, are_all) for cell, why in refused]
        raise InvalidRequest(list(dict.fromkeys(refusals))[:20])  # cells that differ otherwise are refused in one line


def _why_refused(cell: Mapping[str, Any], facts: Facts, spec: ExperimentSpec) -> tuple[str, ...] | None:
    """(axis, reason, further axes that it is about), or None."""
    impossible = why_impossible(cell, facts) or why_unprofiled(cell, facts, spec.profile)
    impossible = impossible or why_not_converging(cell, facts, spec) or why_unwarmed(cell, facts, spec)
    return impossible or why_elsewhere(cell, facts) or why_unswitched(cell, facts, spec.profile)


def check_for_any_machine(spec: ExperimentSpec, catalog: Catalog) -> None:
    """Refuse what no machine could carry out, whatever devices it has: for those who do not know the cluster yet.

    Raises:
        InvalidRequest: as ``check``.
    """
    problems: list[Problem] = []
    for device in ("cpu", "cuda"):
        try:
            return check(spec, Facts(catalog, device, (1, 1)))
        except InvalidRequest as error:
            problems = problems or error.problems
    raise InvalidRequest(problems)


def expand(spec: ExperimentSpec, facts: Facts, runs: Sequence[Run]) -> list[Plan]:
    """Return the plans that are still missing, in the order in which they should run.

    ``orchestrator.domain.expansion.repetitions`` says how often each cell is repeated, and in which order. Of a batch
    that a search has found the first repetition runs alone: it may not fit after all.
    """
    by_cell = _by_cell(runs)
    cells: dict[str, Cell] = {}
    tries: dict[str, Plan] = {}
    listed: set[str] = set()
    for choice in _cells(spec, facts):
        plan = _plan(choice, facts, spec)
        if choice["per_device_batch_size"] == LARGEST_THAT_FITS:
            stand = _stand_of(plan, by_cell)
            if stand.next is not None:
                tries[searched(plan)] = try_of(plan, stand.next)
            if stand.found is None:
                continue
            plan = at_batch(plan, stand.found)
        else:
            listed.add(plan.cell_key)
        cells.setdefault(plan.cell_key, Cell(plan, by_cell.get(plan.cell_key, [])))  # two may resolve to one
    unproven = {key for key, cell in cells.items() if key not in listed and not _has_ended(cell.runs)}
    plans = missing(list(cells.values()), spec)
    return [*tries.values(), *(one for one in plans if one.repetition == 1 or one.cell_key not in unproven)]


def _has_ended(runs: Sequence[Run]) -> bool:
    return any(run.state in TERMINAL for run in runs)


def _by_cell(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs by the cell that they repeat, tries by the search that they are of."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(searched(run.plan) if run.plan.search else run.plan.cell_key, []).append(run)
    return found


def _stand_of(plan: Plan, by_cell: Mapping[str, Sequence[Run]]) -> Search:
    """Where the search stands whose cell is ``plan``, but for the batch."""
    tries = by_cell.get(searched(plan), ())
    stand = step({run.plan.per_device_batch_size: answer_of(run) for run in tries})
    return measured_down(stand, lambda batch: by_cell.get(at_batch(plan, batch).cell_key, ()))


def fruitless(spec: ExperimentSpec, facts: Facts, runs: Sequence[Run]) -> list[LeftOut]:
    """The cells whose search for the largest batch has come to nothing, and why."""
    if LARGEST_THAT_FITS not in (spec.per_device_batch_size or ()):
        return []
    by_cell = _by_cell(runs)
    found = []
    for choice in _cells(spec, facts):
        if choice["per_device_batch_size"] == LARGEST_THAT_FITS:
            reason = _stand_of(_plan(choice, facts, spec), by_cell).reason
            found += [LeftOut(_as_written(choice), reason)] if reason else []
    return found


def cell_keys(spec: ExperimentSpec, facts: Facts) -> set[str]:
    """The identities of all cells of the grid."""
    return {_plan(choice, facts, spec).cell_key for choice in _cells(spec, facts)}


def place_in_sweep(spec: ExperimentSpec, plan: Plan) -> tuple[Any, ...]:
    """Where the cell of ``plan`` stands in the grid: sorts as the sweep nests its axes. What ``auto`` and the like
    stood for comes by size."""
    sizes = {"topology": plan.topology}
    axes = [_place_of(getattr(spec, axis) or [], plan.told(axis), sizes.get(axis)) for axis in AXES]
    return (*axes, *(_place_of(spec.options[name], plan.option(name)) for name in sorted(spec.options)))


def _place_of(values: Sequence[Any], value: Any, size: Any = None) -> tuple[int, Any]:
    return (values.index(value), 0) if value in values else (len(values), size or 0)


def spec_of(plan: Plan, name: str) -> ExperimentSpec:
    """The spec whose only cell is that of ``plan``, once: what a repetition by hand submits."""
    named = {"names": list(plan.node_names) or None, "devices": list(plan.device_ids) or None}
    nodes = {"gpu_model": plan.gpu_model, **named}
    beside = {"name": name, "fabric": plan.fabric or "ethernet", "nodes": nodes, "repeats": 1}
    return parse_spec({field: plan.told(field) for field in REPEATED} | beside)


def spec_over(plans: Sequence[Plan], name: str) -> ExperimentSpec:
    """The spec whose cells are those of ``plans``, one or more: what they differ in is an axis.

    Raises:
        InvalidRequest: they differ in what is no axis; the pointer names it. Or one of them has no spec.
    """
    told = [spec_of(plan, name).to_json() for plan in plans]
    found = dict(told[0])
    for field in found:
        values = _different([one[field] for one in told])
        if len(values) > 1 and field in AXES:
            found[field] = values
        elif len(values) > 1 and field != "options":
            raise InvalidRequest([Problem(f"/{field}", f"{field} is no axis, and has the values {values}")])
    named = _different([sorted(one["options"]) for one in told])
    if len(named) > 1:
        raise InvalidRequest([Problem("/options", f"not all of them have the same options: {named}")])
    options = {option: _different([one["options"][option] for one in told]) for option in named[0]}
    del found["max_repeats"]  # it follows
    repeats = max(Counter(plan.cell_key for plan in plans).values())
    return parse_spec(found | {"options": options, "repeats": repeats})


def _different(values: Iterable[Any]) -> list[Any]:
    """Each of ``values`` once, in their order; lists among them are compared as such."""
    return list({repr(value): value for value in values}.values())


def left_out(spec: ExperimentSpec, facts: Facts) -> list[LeftOut]:
    """The cells whose global batch cannot be divided over their devices: the others of the sweep run."""
    return [LeftOut(_as_written(cell), why) for cell, why in _indivisible(spec, facts)]


def _indivisible(spec: ExperimentSpec, facts: Facts) -> list[tuple[dict[str, Any], str]]:
    if spec.global_batch_size is None:
        return []
    return [(cell, why[1]) for cell in _grid(spec, facts) if (why := why_indivisible(cell))]


def _cells(spec: ExperimentSpec, facts: Facts) -> Iterator[dict[str, Any]]:
    """The cells that are to be carried out, as ``_grid`` has them."""
    return (cell for cell in _grid(spec, facts) if not why_indivisible(cell))


def _grid(spec: ExperimentSpec, facts: Facts) -> Iterator[dict[str, Any]]:
    """The cells of the grid: axis -> value, ``options`` as a dict, ``topology`` parsed, exclusions left out."""
    option_names = sorted(spec.options)
    axes = [_axis_values(spec, axis, facts) for axis in AXES]
    grids = itertools.product(*axes, *(spec.options[name] for name in option_names))
    for values in grids:
        cell = dict(zip(AXES, values, strict=False))
        cell["options"] = dict(zip(option_names, values[len(AXES) :], strict=True))
        if not any(_matches(cell, partial) for partial in spec.exclude) and not _is_beyond(cell, spec, facts):
            yield cell | {"topology": Topology.parse(cell["topology"])}


def _as_written(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell as a spec would have it."""
    return {**cell, "topology": str(cell["topology"])}


def _is_beyond(cell: Mapping[str, Any], spec: ExperimentSpec, facts: Facts) -> bool:
    """Whether its topology is a power of two of another model of GPU than its own: no node might ever take it."""
    if POWERS_OF_TWO not in spec.topology or cell["topology"] in spec.topology:
        return False
    return cell["topology"] not in _powers_of_two(facts.pool_of(cell["gpu_model"]))


def _axis_values(spec: ExperimentSpec, axis: str, facts: Facts) -> Sequence[Any]:
    values = getattr(spec, axis)
    if values is None:
        return [None]
    if axis == "topology" and POWERS_OF_TWO in values:
        rest = [value for value in values if value != POWERS_OF_TWO]
        powers = [size for model in spec.gpu_model for size in _powers_of_two(facts.pool_of(model))]
        return list(dict.fromkeys([*rest, *powers]))
    return list(values)


def _powers_of_two(pool: tuple[int, int]) -> list[str]:
    """1x1, 1x2, 1x4 … up to one whole node, then 2xD, 4xD … up to the whole pool."""
    nodes, devices = pool
    within = [f"1x{2**k}" for k in range(max(devices, 1).bit_length())]
    across = [f"{2**k}x{devices}" for k in range(1, max(nodes, 1).bit_length())]
    return within + across


def _matches(cell: Mapping[str, Any], partial: Mapping[str, Any]) -> bool:
    options = cell["options"]
    return all((cell[key] if key in cell else options.get(key)) == value for key, value in partial.items())


def _refusal(cell: Mapping[str, Any], why: tuple[str, ...], are_all: bool) -> Problem:
    """``are_all``: every cell is refused, so that to leave them out would leave nothing."""
    axis, reason, *further = why
    if are_all:
        return Problem(f"/{axis}", reason)
    named = {"model": cell["model"], "framework": cell["framework"]}
    if axis in ("profile", "warm_up_s"):  # no axis: what differs between its cells is what they run in
        named["strategy"] = cell["strategy"]
    else:
        named |= dict(_value(cell, one) for one in (*further, axis))
    line = ", ".join(f"{key}: {value}" for key, value in named.items())
    return Problem(f"/{axis}", f"{reason}. To leave this cell out: exclude: [{{{line}}}]")


def _value(cell: Mapping[str, Any], axis: str) -> tuple[str, Any]:
    """(what an exclusion calls the axis, its value as YAML has it)."""
    name = axis.removeprefix(OPTIONS)
    value = cell["options"][name] if axis.startswith(OPTIONS) else cell[axis]
    return name, str(value).lower() if isinstance(value, bool) else value


def _plan(cell: Mapping[str, Any], facts: Facts, spec: ExperimentSpec) -> Plan:
    framework, model = facts.catalog.frameworks[cell["framework"]], facts.catalog.models[cell["model"]]
    topology, strategy = cell["topology"], strategy_of(cell, framework)
    per_device = cell["per_device_batch_size"] or cell["global_batch_size"] // topology.world_size
    if per_device == LARGEST_THAT_FITS:
        per_device = 1  # what its search begins with
    options, device = chosen(cell, model), device_of(cell, facts)
    asked = {name: cell[name] if name in cell else getattr(spec, name) for name in REPEATED}
    later = [name for name, one in model.options.items() if one.later and options[name] == one.default]
    settled = {
        "options": tuple(sorted(options.items())),
        "implied": tuple(sorted([*later, *at_default(cell, strategy)])),
        "strategy": strategy.name,
        "interpreter": strategy.interpreter if cell["interpreter"] == "auto" else cell["interpreter"],
        "fabric": cell["fabric"] if topology.nodes > 1 else None,
        "device": device,
        "per_device_batch_size": per_device,
        "global_batch_size": per_device * topology.world_size,
        "data_sha256": facts.digest_of(cell["data"]),
        "data_on": resolved(cell["data_on"], device),
        "warm_up_s": None if spec.warm_up_s == "auto" else spec.warm_up_s,
        "evaluate_every": evaluate_every(spec),
        "gpu_model": cell["gpu_model"],
        "node_names": tuple(sorted(spec.nodes.names or ())),
        "device_ids": tuple(sorted(spec.nodes.devices or ())),
        "profile": tuple(sorted(spec.profile)),
    }
    return Plan(**(asked | settled))
