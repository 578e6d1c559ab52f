"""Several ranks go on from the checkpoint of the first one, by TensorFlow's strategies: each holds what it would have
held, weights, optimiser's state and step, whether a process of its own has it or one that drives several."""

import pytest

from tests.contract.test_checkpoints import ADAM, job_of
from tests.contract.test_convergence import apart
from tests.support.strategy_jobs import carried_out, strategy_job
from workers.node import interpreters

EVERY, MOST = 4, 8

__all__ = ["apart"]  # a fixture


def case(framework, strategy, nodes=1, devices=2):
    marks = [pytest.mark.framework(framework), pytest.mark.after_change]
    return pytest.param(
        framework, strategy, nodes, devices, id=f"{framework}-{strategy}-{nodes}x{devices}", marks=marks
    )


CASES = [
    case("tensorflow", "mirrored"),
    case("tensorflow", "multi-worker-mirrored", nodes=2, devices=1),
    case("tensorflow", "multi-worker-mirrored", nodes=2),
    case("tensorflow", "horovod"),
]


@pytest.mark.parametrize(("framework", "strategy", "nodes", "devices"), CASES)
def test_all_ranks_go_on_from_the_checkpoint_of_the_first(apart, tmp_path, framework, strategy, nodes, devices):
    """One that has trained for all of its steps leaves a checkpoint of half of them: another attempt begins there, and
    ends as the first one did."""
    told = {"max_steps": MOST, "evaluate_every": EVERY, "mode": "convergence", "per_device_batch_size": 2}
    job = strategy_job(framework, strategy, nodes, devices, data="photographs", **told)
    resolved = interpreters.resolve(job["interpreter"]["name"])
    if not resolved.ready:
        pytest.skip(resolved.reason)
    found = []
    for attempt in ("first", "second"):
        # Ports of its own: those of the first may not be free yet.
        job = strategy_job(framework, strategy, nodes, devices, data="photographs", **told)
        one = job_of(apart, tmp_path / "kept", attempt, framework=framework)
        given = {name: one[name] for name in ("dataset", "attempt_id")}
        job = {**job, **given, "checkpoints": {**one["checkpoints"], "shared": True}}
        job["model"] = one["model"] | {"optimizer": ADAM}
        job["stopping"] = dict.fromkeys(job["stopping"])
        found.append(carried_out(job, tmp_path / attempt))
        assert found[-1].failure() is None, found[-1].said
    first, second = found
    assert [one["step"] for one in first.data("checkpoint")] == [EVERY]
    assert second.data("resumed")[0] | {"lost_s": 0, "cost_s": 0} == {
        "step": EVERY,
        "attempt_id": "first",
        "reason": None,
        "damaged": [],
        "lost_s": 0,
        "cost_s": 0,
    }
    assert {one["first_step"] for one in second.data("interval")} == set(range(EVERY + 1, MOST + 1))
    replicas = [one["sha256"] for done in found for one in done.data("replica")]
    assert len(replicas) == 2 * nodes * devices
    assert len(set(replicas)) == 1
    curves = [[(one["step"], one["sums"], one["loss"]) for one in done.data("evaluation")] for done in found]
    assert curves[0] == curves[1]
    assert [step for step, _, _ in curves[1]] == [EVERY, MOST]
