"""What a job says of its fabric is where the bytes go: gradients travel over the interface that was asked for."""

from collections.abc import Mapping
from typing import Any

import pytest

from orchestrator.services.catalog import load_catalog
from tests.cluster.bench import Bench
from tests.cluster.matrix import Cell, carry_out, cells

CELLS = cells(load_catalog(), ("2x1",))
STEPS = 12
# Bytes of the gradients of a step; each of two ranks sends them once at least, whatever the algorithm.
GRADIENTS = 511514 * 4


def _sent_bytes(logs: Mapping[str, Any], interface: str) -> float:
    """What all nodes sent over an interface while the attempt ran."""
    values = [
        value
        for log in logs.values()
        for entry in log
        if entry["kind"] == "reading"
        for value in entry["data"]["values"]
    ]
    return sum(
        amount or 0
        for metric, subject, amount in values
        if (metric, subject) == ("sent_bytes", f"interface:{interface}")
    )


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cell", [pytest.param(cell, id=str(cell)) for cell in CELLS])
@pytest.mark.parametrize(("fabric", "used", "idle"), [("infiniband", "ib0", "eth0"), ("ethernet", "eth0", "ib0")])
def test_gradients_travel_over_the_fabric_that_was_asked_for(
    bench: Bench, cell: Cell, fabric: str, used: str, idle: str
) -> None:
    if cell.missing:
        pytest.skip(cell.missing)
    outcome = carry_out(bench, cell, cell.spec(STEPS, fabric))
    assert outcome.completed, outcome.run["failure"]
    logs = bench.logs(outcome.run["id"])
    exchanges = STEPS / cell.strategy.step_multiple
    assert _sent_bytes(logs, used) > exchanges * GRADIENTS
    assert _sent_bytes(logs, idle) < 0.2 * exchanges * GRADIENTS
    joined = [entry["data"] for log in logs.values() for entry in log if entry["kind"] == "joined"]
    assert {(data["fabric"], data["interface"]) for data in joined} == {(fabric, used)}
