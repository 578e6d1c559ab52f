"""What every synchronous strategy of several ranks must do, by real processes that really exchange gradients."""

import math
import signal
import time

import pytest

from tests.support import linear_model
from tests.support.strategy_jobs import strategy_job
from tests.trainer_process import Trainer, run
from workers.trainer.protocol import EXIT_STATUS

QUICK = [("pytorch", "ddp"), ("tensorflow", "mirrored"), ("mxnet", "kvstore-dist-sync")]


def strategies(*names):
    return [pytest.param(name, marks=marks(*name), id="-".join(name)) for name in names]


def marks(framework, strategy):
    # In every test run is one of each framework, that of PyTorch across nodes and of MXNet with servers.
    is_slow = (framework, strategy) not in QUICK
    return [pytest.mark.framework(framework), *([pytest.mark.after_change] if is_slow else [])]


ACROSS_NODES = strategies(
    ("pytorch", "ddp"),
    ("pytorch", "fsdp"),
    ("pytorch", "horovod"),
    ("tensorflow", "multi-worker-mirrored"),
    ("tensorflow", "horovod"),
    ("mxnet", "horovod"),
)
# Their ranks wait inside the library for one that is gone: see tests/integration/test_mxnet_strategies.py.
WITH_SERVERS = strategies(("mxnet", "kvstore-dist-sync"), ("mxnet", "kvstore-dist-device-sync"))
STRATEGIES = [*ACROSS_NODES, *WITH_SERVERS, *strategies(("tensorflow", "mirrored"), ("mxnet", "kvstore-device"))]
TWO_NODES = [
    ("tensorflow", "multi-worker-mirrored"),
    ("mxnet", "kvstore-dist-sync"),
    ("mxnet", "kvstore-dist-device-sync"),
]
# Far above what is measured, far below the time-outs of the collectives: a rank that is gone is noticed at once.
NOTICED_S = 60.0
# The mean over two ranks of the loss after steps 1 to 4, as PyTorch's ``ddp`` printed them: the same model, batches and
# optimiser in every framework and strategy. Few steps: rounding makes any two trajectories part sooner or later.
LOSSES = [2.6361, 2.7650, 2.2819, 2.4775]
# At the first steps of the linear fit the norm of the averaged gradient is more, then it is less.
RULE = {**linear_model.OPTIMIZER, "gradient_norm_limit": 4.0}


@pytest.fixture(scope="module", params=STRATEGIES)
def strategy(request):
    """(framework, strategy)."""
    return request.param


@pytest.fixture
def python(strategy, python_of):
    """The interpreter that the strategy's facts name."""
    return python_of(strategy_job(*strategy)["interpreter"]["name"])


@pytest.fixture(scope="module")
def finished(strategy, python_of, tmp_path_factory):
    """The workers of one finished run of two ranks, of a model without batch normalisation."""
    job = strategy_job(*strategy, devices=2)
    job["model"].update(module="tests.support.linear_model", input=None, rule=RULE)
    return trained(job, tmp_path_factory.mktemp("gang"), python_of(job["interpreter"]["name"]))


def trained(job, folder, python):
    trainers = run(job, folder, python)
    for trainer in trainers:
        assert trainer.popen.returncode == 0, trainer.output
    return workers(job, trainers)


def workers(job, trainers):
    """Return those of ``trainers``, one for each process of ``job``, that train: the others only help them meet."""
    return [trainer for trainer, process in zip(trainers, job["processes"], strict=True) if process["ranks"]]


def all_of(trainers, kind):
    return [data for trainer in trainers for data in trainer.data(kind)]


def test_all_ranks_meet_and_their_losses_are_finite(finished):
    assert {joined["world_size"] for joined in all_of(finished, "joined")} == {2}
    assert all(math.isfinite(loss["value"]) for loss in all_of(finished, "loss"))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_losses_of_a_network_are_those_of_every_other_framework_and_strategy(strategy, python, tmp_path):
    """ResNet-50 on two devices, of two nodes where the strategy is made for that."""
    nodes = 2 if strategy in TWO_NODES else 1
    trainers = trained(strategy_job(*strategy, nodes=nodes, devices=2 // nodes), tmp_path, python)
    steps = zip(*[[loss["value"] for loss in trainer.data("loss")[:4]] for trainer in trainers], strict=True)
    assert [sum(step) / len(step) for step in steps] == pytest.approx(LOSSES, rel=5e-3)
    assert len({replica["sha256"] for replica in all_of(trainers, "replica")}) == 1


def test_the_work_of_all_ranks_is_counted(finished):
    for step in range(6):
        assert sum(trainer.data("interval")[step]["work"]["images"] for trainer in finished) == 8


def test_the_replicas_of_all_ranks_are_bitwise_equal_after_training(finished):
    replicas = [event for trainer in finished for event in trainer.events() if event["kind"] == "replica"]
    assert sorted(event["rank"] for event in replicas) == [0, 1]
    assert len({event["data"]["sha256"] for event in replicas}) == 1


def test_how_gradients_were_exchanged_is_recorded(finished):
    for built in all_of(finished, "built"):
        assert {"library", "backend"} <= set(built["exchange"])


def test_two_ranks_train_as_one_with_the_double_batch_does(finished):
    """Without batch normalisation this holds exactly, up to the order of sums: gradients are averaged, not added, and
    the norm that is limited is that of their average."""
    losses = [[loss["value"] for loss in trainer.data("loss")] for trainer in finished]
    assert all(len(found) == 6 for found in losses), [trainer.output for trainer in finished]
    mean = [sum(step) / len(step) for step in zip(*losses, strict=True)]
    assert mean == pytest.approx(linear_model.losses(6, RULE), rel=1e-5)


@pytest.mark.parametrize("strategy", ACROSS_NODES)
def test_a_first_rank_that_is_killed_ends_the_other_at_once_and_is_the_one_named(strategy, python, tmp_path):
    """Also where the other one leads: tests/integration/test_node_gangs.py and trainer/test_control_channel.py."""
    job = strategy_job(*strategy, nodes=2, devices=1, max_steps=10**9, timeout_s=250.0)
    started = [Trainer(job, tmp_path, python, process["name"]) for process in job["processes"]]
    victim, other = trainers = workers(job, started)
    try:
        while not all(trainer.data("interval")[1:] for trainer in trainers):
            assert all(trainer.popen.poll() is None for trainer in trainers), [one.output for one in started]
            time.sleep(0.05)
        victim.popen.kill()
        begun = time.monotonic()
        ended = other.finish()
        assert time.monotonic() - begun < NOTICED_S
        # Seldom Horovod's own thread is quicker: it ends the process with a signal when its connection ends.
        if strategy[1] != "horovod" or ended not in (-signal.SIGABRT, -signal.SIGSEGV):
            assert ended == EXIT_STATUS["crashed"], other.output
            assert other.data("error")[0]["ranks"] == [0]
    finally:
        for trainer in started:
            trainer.popen.kill()
            trainer.popen.wait()


THREADS = ("import atexit, os", "atexit.register(lambda: print('threads', len(os.listdir('/proc/self/task'))))")


@pytest.mark.after_change
@pytest.mark.framework("tensorflow")
def test_threads_of_tensorflows_exchange_do_not_grow_with_the_steps(tmp_path, python_of):
    """A host has some thirty thousand of them. With a limit of time each exchange began one that slept for so long."""
    threads = []
    for steps in (4, 60):
        job = strategy_job("tensorflow", "multi-worker-mirrored", 1, 2, max_steps=steps)
        (folder := tmp_path / str(steps)).mkdir()
        (trainer,) = run(job, folder, python_of("tensorflow"), planted=THREADS)
        assert trainer.popen.returncode == 0, trainer.output
        threads += [int(line.split()[1]) for line in trainer.output.splitlines() if line.startswith("threads ")]
    few, many = threads
    assert many < few + 56
