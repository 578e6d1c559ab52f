"""A run to convergence is cancelled while it is evaluated: it ends at once, and what was measured before is kept."""

import time

import pytest

from orchestrator.analysis.analyse import analyse
from tests.contract.test_checkpoints import job_of
from tests.integration.node_attempts import failure_of, log_of, of_kind, until
from tests.support.strategy_jobs import strategy_job
from workers.node import processes
from workers.node.agent import Agent

# An evaluation of so many photographs takes seconds, a step of four of them does not.
MANY = 600

pytestmark = [pytest.mark.framework("pytorch"), pytest.mark.after_change]


@pytest.fixture(scope="module")
def long(photographs, tmp_path_factory):
    """Four photographs to train on, and very many to evaluate on."""
    root = tmp_path_factory.mktemp("long")
    for kind in sorted((photographs / "train").iterdir())[:4]:
        (image, *_) = sorted(kind.iterdir())
        for split, count in (("train", 1), ("val", MANY // 4)):
            (root / split / kind.name).mkdir(parents=True)
            for number in range(count):
                (root / split / kind.name / f"{number}{image.suffix}").symlink_to(image)
    return root


@pytest.mark.parametrize(("strategy", "devices"), [("single", 1), ("ddp", 2)])
def test_a_run_that_is_cancelled_while_it_is_evaluated_ends_at_once_and_keeps_its_curve(
    long, tmp_path, strategy, devices
):
    told = {"mode": "convergence", "evaluate_every": 1, "max_steps": 50, "per_device_batch_size": 2}
    job = strategy_job("pytorch", strategy, devices=devices, data="photographs", **told)
    job |= {name: job_of(long)[name] for name in ("dataset", "model")}
    job["stopping"] = dict.fromkeys(job["stopping"])
    agent = Agent(tmp_path / "agent", "node-0", fence_s=120)
    try:
        assert agent.start(job)["state"] == "running"
        until(lambda: evaluating(agent, job, step=2))
        assert list((tmp_path / "agent" / "checkpoints").glob("*/*.npz"))
        begun = time.monotonic()
        agent.stop(job["attempt_id"], "cancelled")
        entries = log_of(agent, job)
        took_s = time.monotonic() - begun
        assert took_s < 5.0
        assert failure_of(entries)["kind"] == "cancelled"
        assert [one["step"] for one in of_kind(entries, "evaluation")] == [1]
        assert {one["first_step"] for one in of_kind(entries, "interval")} == {1, 2}
        assert took_s < of_kind(entries, "evaluation")[0]["cost_s"]
        assert not processes.with_token(job["token"])
        found = analyse({"node-0": entries})
        assert [point["step"] for point in found.summary["convergence"]["curve"]] == [1]
        assert found.summary["steps"] == 2
        agent.acknowledge(job["attempt_id"], entries[-1]["seq"])
        assert not list((tmp_path / "agent" / "checkpoints").glob("*/*"))
    finally:
        agent.close()


def evaluating(agent, job, step):
    entries = agent.fetch(job["attempt_id"], limit=10000)["entries"]
    return any(one["first_step"] == step for one in of_kind(entries, "interval"))
