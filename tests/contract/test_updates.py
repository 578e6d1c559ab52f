"""Several updates in a step, each of its own weights, by its own loss, optimiser and batch: in every framework.

Held against ``tests.support.two_networks``, which computes in double precision: a critic that is updated twice, with a
gradient penalty, and then a generator once.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support import two_networks
from tests.support.strategy_jobs import strategy_job
from tests.trainer_process import ROOT, environment_for, make_job, run
from workers.trainer.protocol import EXIT_STATUS

SCRIPT = Path(__file__).parent / "scripts" / "updates.py"
STEPS = 3
FRAMEWORKS = [
    pytest.param(name, marks=pytest.mark.framework(name)) for name in ("pytorch", "tensorflow", "mxnet", "cntk")
]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_losses_gradients_and_weights_are_those_of_the_equations(python_of, tmp_path, framework):
    job = make_job("resnet_50", framework, max_steps=STEPS)
    job["model"].update(two_networks.facts())
    (tmp_path / "job.json").write_text(json.dumps({**job, "process": "worker-0"}))
    python = python_of(framework)
    done = subprocess.run(
        [python, str(SCRIPT), framework, str(tmp_path / "job.json")],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment_for(python)},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    losses, weights = two_networks.trained(STEPS)
    loss, slopes = two_networks.slopes()
    assert told["losses"] == pytest.approx(losses, rel=1e-4)
    assert told["slopes"][0] == pytest.approx(loss, rel=1e-5)
    assert told["work"] == {"images": (two_networks.CRITIC_TIMES + 1) * two_networks.SAMPLES}
    for name in ("g", "c"):
        assert told["weights"][name] == pytest.approx(weights[name], rel=1e-4, abs=1e-6)
        assert told["slopes"][1][name] == pytest.approx(slopes[name], rel=1e-4, abs=1e-6)


def strategies(*names):
    return [pytest.param(name, marks=marks(*name), id="-".join(name)) for name in names]


def marks(framework, strategy):
    # What the others share with these is tested with these, and what they exchange by in tests of one update.
    is_quick = strategy in ("ddp", "mirrored", "kvstore-device")
    return [pytest.mark.framework(framework), *([] if is_quick else [pytest.mark.after_change])]


TWO_RANKS = strategies(
    ("pytorch", "ddp"),
    ("pytorch", "horovod"),
    ("tensorflow", "mirrored"),
    ("tensorflow", "multi-worker-mirrored"),
    ("tensorflow", "horovod"),
    ("mxnet", "kvstore-device"),
    ("mxnet", "kvstore-dist-sync"),
    ("mxnet", "horovod"),
)
PROFILES = {"pytorch": ["kernels", "layers"], "tensorflow": ["kernels", "layers"], "mxnet": ["kernels"]}


@pytest.mark.parametrize("strategy", TWO_RANKS)
@pytest.mark.after_change
def test_two_ranks_train_as_one_with_the_double_batch_does_and_their_profiles_are_told(python_of, tmp_path, strategy):
    job = strategy_job(*strategy, devices=2, max_steps=STEPS, profile=PROFILES[strategy[0]])
    job["model"].update(two_networks.facts())
    trainers = run(job, tmp_path, python_of(job["interpreter"]["name"]))
    for trainer in trainers:
        assert trainer.popen.returncode == 0, trainer.output
    workers = [trainer for trainer, process in zip(trainers, job["processes"], strict=True) if process["ranks"]]
    losses = [[loss["value"] for loss in trainer.data("loss")] for trainer in workers]
    mean = [sum(step) / len(step) for step in zip(*losses, strict=True)]
    assert mean == pytest.approx(two_networks.trained(STEPS)[0], rel=1e-4)
    images = [interval["work"]["images"] for trainer in workers for interval in trainer.data("interval")]
    assert sum(images) == STEPS * (two_networks.CRITIC_TIMES + 1) * two_networks.SAMPLES
    replicas = [replica for trainer in workers for replica in trainer.data("replica")]
    assert len(replicas) == 2
    assert len({replica["sha256"] for replica in replicas}) == 1
    for trainer in workers:
        assert [found["profile"] for found in trainer.data("profiled")] == PROFILES[strategy[0]]
        assert all(found["rows"] for found in trainer.data("kernels"))


REFUSING = [
    pytest.param(
        ("mxnet", "kvstore-dist-async"), "one optimiser for all weights", marks=pytest.mark.framework("mxnet")
    ),
    pytest.param(("cntk", "mpi-block-momentum"), "the samples of one trainer", marks=pytest.mark.framework("cntk")),
]


@pytest.mark.parametrize(("strategy", "told"), REFUSING)
def test_a_strategy_that_would_train_wrongly_refuses(python_of, tmp_path, strategy, told):
    job = strategy_job(*strategy, devices=1, max_steps=STEPS)
    job["model"].update(two_networks.facts())
    # Each process sees it by itself, before it meets others.
    job["processes"] = [process for process in job["processes"] if process["ranks"]]
    (trainer,) = run(job, tmp_path, python_of(job["interpreter"]["name"]))
    assert trainer.popen.returncode == EXIT_STATUS["unsupported"], trainer.output
    (error,) = trainer.data("error")
    assert "the updates critic, generator" in error["message"]
    assert told in error["message"]


@pytest.mark.after_change
@pytest.mark.framework("pytorch")
def test_memory_of_several_updates_is_followed_to_the_last_weight(python_of, tmp_path):
    job = make_job("resnet_50", "pytorch", profile=["memory"])
    job["model"].update(two_networks.facts())
    (trainer,) = run(job, tmp_path, python_of("pytorch"), phase="memory")
    assert trainer.popen.returncode == 0, trainer.output
    held = {}
    for event in trainer.data("allocations"):
        for index, size, _ in event["items"]:
            held[event["classes"][index]] = held.get(event["classes"][index], 0) + size
    g, c = (4 * array.size for array in two_networks.weights())
    assert held["weights"] == g + c
    assert held["weight_gradients"] == g + c
    # Both moments of Adam, a momentum; Adam's count of steps is a number beside.
    assert held["optimizer_state"] == pytest.approx(2 * c + g, abs=8)
