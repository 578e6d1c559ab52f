"""Whole runs in TensorFlow that ask for all profiles, by the node agent and real processes, read by the analysis."""

import pytest

from orchestrator.analysis.log.events import read_log
from orchestrator.analysis.profile.profiles import profiles_of
from orchestrator.services.facts.catalog import load_catalog
from tests.support.strategy_jobs import carried_out, strategy_job
from tests.trainer_process import model_facts

STEPS = 3
pytestmark = pytest.mark.framework("tensorflow")


STRATEGIES = [
    pytest.param(("mirrored", 1, 2), id="mirrored"),
    pytest.param(("multi-worker-mirrored", 2, 1), id="multi-worker-mirrored", marks=pytest.mark.after_change),
]


@pytest.fixture(scope="module", params=STRATEGIES)
def attempt(request, python_of, tmp_path_factory):
    """A run of two ranks that asks for what its strategy can profile; its strategy and profiles."""
    strategy, nodes, devices = request.param
    facts = load_catalog().frameworks["tensorflow"]
    profile = [one for one in ("kernels", "layers", "memory") if one not in facts.strategies[strategy].lacks]
    job = strategy_job("tensorflow", strategy, nodes, devices, max_steps=STEPS, profile=profile)
    job["model"] = model_facts("lstm_classifier")
    python_of(job["interpreter"]["name"])
    attempt = carried_out(job, tmp_path_factory.mktemp("profiled"))
    assert attempt.failure() is None, attempt.said
    attempt.strategy, attempt.profile = strategy, profile
    return attempt


@pytest.mark.after_change
def test_a_run_of_two_ranks_has_its_profiles_and_ends_with_equal_weights(attempt) -> None:
    found = profiles_of([read_log("node-0", attempt.entries())])
    assert not found.reasons
    processes = 1 if attempt.strategy == "mirrored" else 2
    assert len(found.kernels) == len(found.layers) == processes
    assert len(found.memory) == ("memory" in attempt.profile)
    parameters = attempt.data("built")[0]["parameters"]
    for memory in found.memory:
        sizes = {name: share.max_bytes for name, share in {**memory.classes, **memory.parts}.items()}
        # The process of `mirrored` holds both ranks.
        assert sizes["weights"] == sizes["optimizer_state"] == 2 * 4 * parameters
        assert abs(memory.residual_ratio) <= 0.05
    for layers in found.layers:
        assert sum(row.parameters_bytes for row in layers.rows) == 4 * parameters
        assert layers.breakdown["exchange_s"] > 0
        assert layers.exchanges
    replicas = attempt.data("replica")
    assert len(replicas) == 2
    assert len({replica["sha256"] for replica in replicas}) == 1
