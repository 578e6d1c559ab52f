"""Every framework and strategy really trains over two devices of a host and over two hosts, and its replicas agree."""

import pytest

from orchestrator.services.facts.catalog import load_catalog
from tests.cluster.bench import Bench
from tests.cluster.matrix import GRADIENTS, Cell, Outcome, carry_out, cells

pytestmark = pytest.mark.after_change

STEPS = 12
# Findings that do not depend on how busy the machine is: none of them may be.
BROKEN = {
    "replicas_differ",
    "replicas_missing",
    "ranks_missing",
    "ranks_disagree",
    "world_size",
    "devices_missing",
    "steps_missing",
    "no_intervals",
    "no_work",
    "loss_not_finite",
}

CELLS = cells(load_catalog(), ("1x2", "2x1"))


def _quick(cell: Cell) -> bool:
    """Of each framework the first strategy that reaches two hosts is tried after a change; all by `make cluster`."""
    reach = (other for other in CELLS if other.framework == cell.framework and other.topology == "2x1")
    return cell == next(reach, None)


def _parameters(found: list[Cell]) -> list[object]:
    return [pytest.param(cell, id=str(cell), marks=[] if _quick(cell) else pytest.mark.thorough) for cell in found]


@pytest.mark.parametrize("cell", _parameters(CELLS))
@pytest.mark.timeout(900)
def test_it_trains_to_the_end_and_its_replicas_agree(bench: Bench, cell: Cell) -> None:
    if cell.missing:
        pytest.skip(cell.missing)
    outcome = carry_out(bench, cell, cell.spec(STEPS))
    assert outcome.completed, outcome.run["failure"]
    assert not BROKEN & set(outcome.reasons), outcome.run["validity"]
    assert outcome.rate
    distance = outcome.replica_distance_ratio
    assert distance is not None
    if cell.strategy.synchronous:
        assert distance <= cell.strategy.replica_tolerance


def _cell(strategy: str, topology: str) -> Cell:
    for cell in CELLS:
        if (cell.strategy.name, cell.topology) == (strategy, topology):
            return cell
    raise AssertionError(f"the matrix has no {strategy} at {topology}")


def test_a_job_bound_by_communication_is_slower_over_a_slower_link(bench: Bench) -> None:
    cell = _cell("ddp", "2x1")
    if cell.missing:
        pytest.skip(cell.missing)
    steps = 6
    free = carry_out(bench, cell, cell.spec(steps))
    bits_per_s = 10e6
    with bench.network.shaped(bits_per_s):
        shaped = carry_out(bench, cell, cell.spec(steps))
        beside = carry_out(bench, cell, cell.spec(steps, fabric="infiniband"))
    assert free.completed
    assert shaped.completed
    assert beside.completed
    exchange_s = GRADIENTS * 8 / bits_per_s
    assert _step_s(shaped) >= 0.8 * exchange_s
    # On hosts that are busy with much else a step has taken half of that with either link.
    assert _step_s(free) < _step_s(shaped)
    # Whatever a step takes there: nothing of what it exchanges has gone over the slow link.
    assert bench.sent_bytes(beside.run["id"], "ib0") > steps * GRADIENTS
    assert bench.sent_bytes(beside.run["id"], "eth0") < 0.2 * steps * GRADIENTS


def _step_s(outcome: Outcome) -> float:
    assert outcome.rate
    return 2 * 4 / outcome.rate
