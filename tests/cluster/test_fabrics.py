"""What a job says of its fabric is where the bytes go: gradients travel over the interface that was asked for."""

import pytest

from orchestrator.services.facts.catalog import load_catalog
from tests.cluster.bench import Bench
from tests.cluster.matrix import GRADIENTS, Cell, carry_out, cells

pytestmark = pytest.mark.after_change

CELLS = cells(load_catalog(), ("2x1",))
STEPS = 12


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
    run, exchanges = outcome.run["id"], STEPS / cell.strategy.step_multiple
    assert bench.sent_bytes(run, used) > exchanges * GRADIENTS
    assert bench.sent_bytes(run, idle) < 0.2 * exchanges * GRADIENTS
    joined = [entry["data"] for log in bench.logs(run).values() for entry in log if entry["kind"] == "joined"]
    assert {(data["fabric"], data["interface"]) for data in joined} == {(fabric, used)}
