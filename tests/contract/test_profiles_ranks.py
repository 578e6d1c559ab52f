"""The profiles of several ranks, and their exchange, of every framework and strategy, by real processes."""

import math
import shutil

import pytest

from orchestrator.analysis.s_sgd.buckets import MIB, ddp_buckets
from orchestrator.services.facts.catalog import load_catalog
from tests.support.allocation_lists import memory_by_batch, played
from tests.support.profiled import COVERED, LSTM, RESNET, SHAPES, SHARED, WHOLE, only, phase, spans_of
from tests.support.strategy_jobs import carried_out, strategy_job
from tests.trainer_process import model_facts, run

# Two ranks, but one where a server exchanges; TensorFlow's with the smaller graph of the two.
MPIRUN = pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun: apt-get install openmpi-bin")
pytestmark = pytest.mark.after_change
GANGS = [
    ("pytorch", "ddp", 1, 2, []),
    ("tensorflow", "mirrored", 1, 2, []),
    ("tensorflow", "multi-worker-mirrored", 2, 1, []),
    ("tensorflow", "horovod", 1, 2, []),
    ("mxnet", "kvstore-device", 1, 2, []),
    ("mxnet", "kvstore-dist-async", 1, 1, []),
    ("mxnet", "horovod", 2, 1, []),
    ("cntk", "mpi", 1, 2, [MPIRUN]),
    ("cntk", "mpi-block-momentum", 1, 2, [MPIRUN]),
]
GANGS = [
    pytest.param(one[:4], marks=[pytest.mark.framework(one[0]), *one[4]], id=f"{one[0]}-{one[1]}") for one in GANGS
]
# Strategies that exchange all gradients at once.
TOGETHER = ("multi-worker-mirrored", "mpi", "mpi-block-momentum")
# With blocks, the weights at the beginning of one and its momentum besides; the servers of a store have all momenta.
STATES = {"mpi-block-momentum": 3, "kvstore-dist-async": 0}
SMALL_BUCKETS = ("from workers.trainer.frameworks.pytorch import ddp", "ddp.BUCKET_MIB = 0.5")


class Gang:
    """Ranks that exchange, with the data of each of their processes and of each one's profile of memory."""

    def __init__(self, framework, strategy, nodes, devices):
        self.framework, self.strategy = framework, strategy
        self.model = LSTM if framework == "tensorflow" else RESNET
        lacks = load_catalog().frameworks[framework].strategies[strategy].lacks
        profile = [one for one in ("kernels", "layers", "memory") if one not in lacks]
        job = strategy_job(framework, strategy, nodes, devices, max_steps=4, profile=profile)
        self.job = {**job, "model": model_facts(self.model)}
        workers = [process for process in job["processes"] if process["ranks"]]
        self.sources = [process["name"] for process in workers]
        self.ranks_of_a_process = len(workers[0]["ranks"])
        self.processes, self.memories, self.alone = [], [], None

    def train(self, folder, python):
        if self.strategy == "ddp":
            trainers = run(self.job, folder, python, planted=SMALL_BUCKETS)
            assert [one.popen.returncode for one in trainers] == [0, 0], [one.output for one in trainers]
            self.processes = trainers
            self.alone = played(memory_by_batch("pytorch", python, folder, [4])[4].data("allocations"))
            self.memories = [played(one.data("allocations")) for one in run(self.job, folder, python, "memory")]
            return self
        attempt = carried_out(self.job, folder)
        assert attempt.failure() is None, attempt.said
        assert attempt.data("profile_failed") == []
        self.processes = [Source(attempt, source) for source in self.sources]
        if "memory" in self.job["plan"]["profile"]:
            self.memories = [played(attempt.data("allocations", source + ":memory")) for source in self.sources]
        return self


class Source:
    """What one process of an attempt has said."""

    def __init__(self, attempt, name):
        self._attempt, self._name = attempt, name

    def data(self, kind):
        return self._attempt.data(kind, self._name)


@pytest.fixture(scope="module", params=GANGS)
def gang(request, python_of, tmp_path_factory):
    found = Gang(*request.param)
    with pytest.MonkeyPatch.context() as patch:
        # Two processes that wait for each other must not spin on each other's cores.
        patch.setenv("OMP_NUM_THREADS", "1")
        return found.train(tmp_path_factory.mktemp("gang"), python_of(found.job["interpreter"]["name"]))


def test_every_gradient_is_exchanged_once_in_a_step_between_its_backward_pass_and_its_end(gang):
    for process in gang.processes:
        begun, ended, layers = phase(process, "layers")
        exchanges = layers["exchanges"]
        sizes = sorted(one["bytes"] for one in exchanges)
        assert sum(sizes) == WHOLE[gang.model]
        if gang.strategy == "ddp":
            # Gradients become ready in the reverse of the order in which the layers ran, not of that of the parameters.
            layered = [row["parameters_bytes"] for row in reversed(layers["rows"]) if row["parameters_bytes"]]
            buckets = [bucket.bytes for bucket in ddp_buckets(layered, MIB // 2)]
            assert [one["bytes"] for one in sorted(exchanges, key=lambda one: one["start_s"])] == buckets
            assert len(buckets) > 1
        elif gang.strategy in TOGETHER:
            assert len(sizes) == 1
        else:
            assert sizes == sorted(4 * math.prod(shape) for shape in SHAPES[gang.model].values())
        assert len({one["name"] for one in exchanges}) == len(exchanges)
        assert begun < layers["backward_t"] < ended
        for one in exchanges:
            assert 0 <= one["start_s"] <= one["end_s"] <= ended - layers["backward_t"]
            # With TensorFlow a short one may last no time.
            assert one["start_s"] < one["end_s"] or gang.framework == "tensorflow"
        # The first is on its way while others are still to come.
        assert len(exchanges) == 1 or exchanges[0]["start_s"] < exchanges[-1]["start_s"]
    replicas = [replica["sha256"] for process in gang.processes for replica in process.data("replica")]
    assert len(set(replicas)) == (gang.strategy != "kvstore-dist-async")


def test_waiting_for_an_exchange_is_neither_active_time_nor_part_of_a_pass(gang):
    for process in gang.processes:
        kernels, layers = only(process, "kernels"), only(process, "layers")
        assert 0 < kernels["active_s"] < kernels["elapsed_s"]
        calls = {name: count for name, count, _ in kernels["rows"]}
        if gang.strategy == "ddp":
            assert calls["gloo:all_reduce"]
        if gang.framework == "cntk":
            assert calls["Gradient Aggregation"] == kernels["steps"]
            # It begins when the last gradient is there, or when a rank has learnt from it alone.
            names = [name for name, _, _, _ in sorted(spans_of(process), key=lambda one: one[2])]
            before = [names[place - 1] for place, name in enumerate(names) if name == "Gradient Aggregation"]
            assert len(before) == kernels["steps"]
            assert {name.rpartition(" ")[2] for name in before} == {"backward" if gang.strategy == "mpi" else "Update"}
        parts, step_s = layers["breakdown"], layers["elapsed_s"] / layers["steps"]
        assert parts["exchange_s"] > 0
        assert 0 < parts["forward_s"] + parts["backward_s"] < step_s
        # Where servers update the weights it is they who have the momenta.
        assert (parts["update_s"] is None) == (gang.strategy == "kvstore-dist-async")
        assert sum(row["parameters_bytes"] for row in layers["rows"]) == WHOLE[gang.model]
        # What nobody tells has a reason.
        untold = "exposed_exchange_s" in parts.get("reasons", {})
        assert (layers["exposed_exchange_s"] is None) == untold == (gang.framework == "mxnet")
        # Two ranks and their exchanges wait for the same cores: nobody can tell how long layers pause.
        assert 0 < sum(row["backward_s"] for row in layers["rows"]) < 1.001 * parts["backward_s"]


@pytest.mark.parametrize("gang", [one for one in GANGS if one.values[0][0] in ("pytorch", "tensorflow")], indirect=True)
def test_what_of_the_exchange_overlaps_nothing_adds_up_to_the_step_with_the_other_parts(gang):
    for process in gang.processes:
        layers = only(process, "layers")
        exposed_s = layers["exposed_exchange_s"]
        whole_s = sum(dict(layers["breakdown"], exchange_s=exposed_s).values())
        covered = whole_s * layers["steps"] / layers["elapsed_s"]
        if gang.framework == "tensorflow":
            assert covered == pytest.approx(1, rel=0.001)
            assert 0 <= exposed_s <= layers["breakdown"]["exchange_s"]
        else:
            assert COVERED < covered < 1.001
            assert exposed_s > 0


def test_the_memory_of_a_process_is_that_of_all_its_ranks(gang):
    assert bool(gang.memories) == ("memory" in gang.job["plan"]["profile"])
    for memory in gang.memories:
        whole = gang.ranks_of_a_process * WHOLE[gang.model]
        assert memory.most["weights"] == whole
        assert memory.most["optimizer_state"] == STATES.get(gang.strategy, 1) * whole
        if gang.framework == "tensorflow":
            computed = whole - gang.ranks_of_a_process * SHARED[gang.model]
            assert memory.taken["weight_gradients", 2] == computed
            assert memory.peak_bytes == pytest.approx(memory.whole["peak_bytes"], rel=0.05)
        if gang.strategy == "ddp":
            # Buffers of the exchange are no feature maps.
            assert memory.most["weight_gradients"] == whole
            assert memory.most["feature_maps"] == gang.alone.most["feature_maps"]
            assert memory.most["other"] >= gang.alone.most["other"] + whole


@pytest.mark.framework("pytorch")
def test_a_rank_of_two_keeps_half_of_weights_gradients_and_state_with_fsdp(python_of, tmp_path):
    """Of GPT-2 with Adam, when each class was greatest."""
    kept = {}
    for strategy in ("ddp", "fsdp"):
        job = strategy_job("pytorch", strategy, devices=2, max_steps=4, profile=["memory"], per_device_batch_size=1)
        attempt = carried_out({**job, "model": model_facts("gpt_2")}, tmp_path / strategy)
        assert attempt.failure() is None, attempt.said
        found = played(attempt.data("allocations", job["processes"][0]["name"] + ":memory"))
        kept[strategy] = sum(found.most[name] for name in ("weights", "weight_gradients", "optimizer_state"))
    assert kept["fsdp"] / kept["ddp"] == pytest.approx(0.5, rel=0.05)
