"""TensorFlow's profiles against numbers that its profiler has no part in: arithmetic, the allocator, the clock."""

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import numpy
import pytest

from orchestrator.services.catalog import load_catalog
from suites.assemble.layers import Lstm
from tests.support import networks
from tests.support.strategy_jobs import of_profiles, strategy_job, with_horovod
from tests.trainer_process import ROOT, environment_for, make_job, model_facts

SCRIPT = Path(__file__).parent / "scripts" / "profiles_tensorflow.py"
SIZES = {model: model_facts(model)["sizes"]["tiny"] for model in ("resnet_50", "lstm_classifier")}
PARAMETERS = {
    "resnet_50": networks.parameters("resnet_50"),
    "lstm_classifier": networks.parameters("lstm_classifier"),
}
# The two biases of an LSTM are only ever added up: TensorFlow computes one gradient for both.
SHARED = {
    "resnet_50": 0,
    "lstm_classifier": sum(4 * one.hidden for one in networks.described("lstm_classifier") if isinstance(one, Lstm)),
}
STEPS = 3
pytestmark = of_profiles("tensorflow")
TENSORFLOW = pytest.mark.framework("tensorflow")
MODELS = [pytest.param(model, marks=TENSORFLOW) for model in SIZES]


def profiles(python, job, folder, *arguments):
    """Run the profiles of every process of ``job``, which meet each other; return what each worker found."""
    folder.mkdir(exist_ok=True)
    (folder / "job.json").write_text(json.dumps(job))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2", **environment_for(python)}
    started = []
    for process in job["processes"]:
        target = folder / f"{process['name']}.out.json"
        command = [python, str(SCRIPT), str(folder / "job.json"), process["name"], str(target), *arguments]
        log = folder / f"{process['name']}.err"
        with log.open("wb") as errors:
            started.append((subprocess.Popen(command, cwd=folder, env=environment, stderr=errors), target, log))
    try:
        for popen, _, log in started:
            assert popen.wait(240) == 0, log.read_text(errors="replace")[-4000:]
    finally:
        for popen, _, _ in started:
            popen.kill()
    return [json.loads(target.read_text()) for _, target, _ in started]


class Memory:
    """The list of allocations, played: the greatest bytes of each class, of all, and what is left at the end."""

    def __init__(self, found):
        self.found = found
        self.live, self.greatest = Counter(), Counter()
        self.peak_bytes = 0
        self.measured_peak_bytes = found["peak_bytes"] - found["left_bytes"]
        self.taken = Counter()
        for index, delta_bytes, step in found["allocations"]:
            name = found["classes"][index]
            self.live[name] += delta_bytes
            self.greatest[name] = max(self.greatest[name], self.live[name])
            self.taken[name, step] += max(0, delta_bytes)
            assert self.live[name] >= 0, name
            self.peak_bytes = max(self.peak_bytes, sum(self.live.values()))


BATCHES = {"resnet_50": (2, 4, 8, 16), "lstm_classifier": (8, 16, 32, 64)}


@pytest.fixture(scope="module", params=MODELS)
def memories(request, python_of, tmp_path_factory):
    """(model, {batch: Memory}) for four batch sizes."""
    batches = BATCHES[request.param]
    folder = tmp_path_factory.mktemp("memory")
    (found,) = profiles(
        python_of("tensorflow"), make_job(request.param, "tensorflow"), folder, "memory", json.dumps(batches)
    )
    return request.param, {batch: Memory(one) for batch, one in zip(batches, found, strict=True)}


def test_weights_and_momenta_are_exact_to_the_byte(memories):
    model, found = memories
    for memory in found.values():
        assert memory.greatest["weights"] == memory.live["weights"] == 4 * PARAMETERS[model]
        assert memory.greatest["optimizer_state"] == memory.live["optimizer_state"] == 4 * PARAMETERS[model]


def test_the_gradients_of_a_step_are_exact_to_the_byte(memories):
    """TensorFlow gives each back when it was used: all of them are never there at once, but all of them come."""
    model, found = memories
    for memory in found.values():
        whole = 4 * (PARAMETERS[model] - SHARED[model])
        assert [memory.taken["weight_gradients", step] for step in range(4)] == [0, whole, whole, whole]
        assert memory.live["weight_gradients"] == 0
        assert 0 < memory.greatest["weight_gradients"] <= 4 * PARAMETERS[model]


def test_the_classes_add_up_to_the_allocators_own_peak(memories):
    for memory in memories[1].values():
        assert memory.peak_bytes == pytest.approx(memory.measured_peak_bytes, rel=0.05)
        assert memory.found["peak_method"]
    assert next(iter(memories[1].values())).found["outside_bytes"] > 0


def test_three_batch_sizes_predict_the_feature_maps_of_a_fourth(memories):
    model, found = memories
    *known, last = BATCHES[model]
    slope, offset = numpy.polyfit(known, [found[batch].greatest["feature_maps"] for batch in known], 1)
    assert slope > 0
    assert offset + slope * last == pytest.approx(found[last].greatest["feature_maps"], rel=0.05)


def test_feature_maps_are_given_back_by_the_end(memories):
    for memory in memories[1].values():
        assert memory.live["feature_maps"] == memory.live["workspace"] == 0
        assert memory.greatest["input"] > 0


@pytest.mark.parametrize("memories", MODELS[:1], indirect=True)
def test_the_feature_maps_of_resnet_50_are_at_least_the_inputs_of_its_backward_pass(memories):
    """The outputs of convolutions and of normalisations are held for the backward pass; TensorFlow keeps some more."""
    model, found = memories
    outputs = sum(4 * c.outputs * c.pixels**2 for c in networks.convolutions(model))
    *_, before, last = BATCHES[model]
    per_image = (found[last].greatest["feature_maps"] - found[before].greatest["feature_maps"]) / (last - before)
    assert 1.8 * outputs < per_image < 3 * outputs


@pytest.fixture(scope="module", params=MODELS)
def single(request, python_of, tmp_path_factory):
    """(model, kernels and layers of one rank)."""
    # As many texts as give the operators something to do.
    batch = {"resnet_50": 16, "lstm_classifier": 512}[request.param]
    job = make_job(request.param, "tensorflow", per_device_batch_size=batch)
    (found,) = profiles(python_of("tensorflow"), job, tmp_path_factory.mktemp("single"), "steps")
    return request.param, found


def test_the_operators_own_times_fit_into_the_time_of_the_threads(single):
    found = single[1]
    kernels, total_s = found["kernels"], sum(row[2] for row in found["kernels"]["rows"])
    assert kernels["steps"] == STEPS
    assert 0 < kernels["active_s"] <= kernels["elapsed_s"]
    assert kernels["active_s"] * 0.99 <= total_s <= found["threads"] * kernels["elapsed_s"]


def test_each_operator_is_counted_in_every_step(single):
    model, found = single
    calls = {name: count for name, count, _ in found["kernels"]["rows"]}
    names = {
        name: sum(count for other, count in calls.items() if name in other) for name in ("Momentum", "Conv2D", "LSTM")
    }
    assert names["Momentum"] == STEPS * len(found["names"])
    if model == "resnet_50":
        convolutions = len(networks.convolutions(model))
        # Forward, and two gradients each but for that of the first layer's input.
        assert names["Conv2D"] == STEPS * (3 * convolutions - 1)
    else:
        assert names["LSTM"] == STEPS * 2


def test_the_timeline_lies_on_the_clock_of_the_process(single):
    found = single[1]
    spans, (before, after) = found["kernels"]["spans"], found["between"]
    assert 0 < len(spans["items"]) <= 4000
    for name, lane, start_s, duration_s in spans["items"]:
        assert name < len(spans["names"])
        assert lane < len(spans["lanes"])
        assert before < start_s < start_s + duration_s < after


def test_parts_of_a_step_add_up_to_it(single):
    layers = single[1]["layers"]
    parts = layers["breakdown"]
    assert sum(parts.values()) == pytest.approx(layers["elapsed_s"] / STEPS, rel=0.001)
    assert parts["exchange_s"] == layers["exposed_exchange_s"] == 0
    assert all(parts[part] > 0 for part in ("input_s", "forward_s", "backward_s", "update_s"))


def test_the_layers_are_most_of_the_forward_and_backward_pass(single):
    layers = single[1]["layers"]
    for part in ("forward_s", "backward_s"):
        total_s = sum(row[part] for row in layers["rows"])
        # Pauses between operators are in no layer: on a busy machine they are long.
        assert 0.3 * layers["breakdown"][part] < total_s <= 1.001 * layers["breakdown"][part]


def test_the_forward_pass_takes_as_long_as_one_alone(single):
    """Alone it also fetches the loss, and in a step it also computes what an update can begin with."""
    found = single[1]
    assert 0.4 * found["forward_s"] < found["forward_in_step_s"] < 2.5 * found["forward_s"]


def test_the_rows_are_the_layers_of_the_network_in_order(single):
    model, found = single
    rows = found["layers"]["rows"]
    names = [row["name"] for row in rows]
    assert sum(row["parameters_bytes"] for row in rows) == 4 * PARAMETERS[model]
    kinds = {row["name"]: row["kind"] for row in rows}
    if model == "resnet_50":
        expected = [c.name for c in networks.convolutions(model)]
        # The model calls a block's shortcut before its other layers.
        assert sorted(name for name in names if kinds[name] == "Conv2D") == sorted(expected)
        assert names[:2] == ["conv1", "bn1"]
    else:
        assert names[:2] == ["embedding", "lstm.l0"]
        assert kinds["lstm.l0"] == "BlockLSTM"
    assert names.index("fc") < names.index("loss")
    assert rows[0]["backward_s"] > 0


# The smaller graph of the two.
GANGS_MODEL = "lstm_classifier"
STRATEGIES = [
    pytest.param(("mirrored", 1, 2), marks=TENSORFLOW, id="mirrored"),
    pytest.param(("multi-worker-mirrored", 2, 1), marks=TENSORFLOW, id="multi-worker-mirrored"),
    pytest.param(("horovod", 1, 2), marks=[TENSORFLOW, with_horovod("tensorflow")], id="horovod"),
]


@pytest.fixture(scope="module", params=STRATEGIES)
def gang(request, python_of, tmp_path_factory):
    """(strategy, layers and memory (where it makes that profile) of each process of a job of two ranks)."""
    strategy, nodes, devices = request.param
    with_memory = "memory" not in load_catalog().frameworks["tensorflow"].strategies[strategy].lacks
    job = strategy_job("tensorflow", strategy, nodes=nodes, devices=devices)
    job["model"] = model_facts(GANGS_MODEL)
    python = python_of(job["interpreter"]["name"])
    found = profiles(python, job, tmp_path_factory.mktemp("gang"), "gang", json.dumps(with_memory))
    return strategy, [one for one in found if one]


def test_all_gradients_are_exchanged_once_per_step_while_it_lasts(gang):
    strategy, processes = gang
    for found in processes:
        layers = found["layers"]
        exchanges = layers["exchanges"]
        assert len(exchanges) == (1 if strategy == "multi-worker-mirrored" else len(found["names"]))
        assert sum(one["bytes"] for one in exchanges) == 4 * PARAMETERS[GANGS_MODEL]
        before, after = found["between"]
        assert before < layers["backward_t"] < after
        for one in exchanges:
            assert 0 <= one["start_s"] <= one["end_s"] <= after - layers["backward_t"]


def test_the_exposed_exchange_and_the_other_parts_add_up_to_the_step(gang):
    for found in gang[1]:
        layers = found["layers"]
        parts = dict(layers["breakdown"], exchange_s=layers["exposed_exchange_s"])
        assert sum(parts.values()) == pytest.approx(layers["elapsed_s"] / STEPS, rel=0.001)
        assert 0 <= layers["exposed_exchange_s"] <= layers["breakdown"]["exchange_s"]
        assert layers["breakdown"]["exchange_s"] > 0
        assert sum(row["parameters_bytes"] for row in layers["rows"]) == 4 * PARAMETERS[GANGS_MODEL]


@pytest.mark.parametrize("gang", [STRATEGIES[0], STRATEGIES[2]], indirect=True)
def test_the_memory_of_a_process_is_that_of_all_its_ranks(gang):
    strategy, processes = gang
    ranks = 2 if strategy == "mirrored" else 1
    whole = ranks * 4 * PARAMETERS[GANGS_MODEL]
    for found in processes:
        memory = Memory(found["memory"])
        assert memory.greatest["weights"] == memory.greatest["optimizer_state"] == whole
        assert memory.taken["weight_gradients", 2] == whole - ranks * 4 * SHARED[GANGS_MODEL]
        assert memory.peak_bytes == pytest.approx(memory.measured_peak_bytes, rel=0.05)
