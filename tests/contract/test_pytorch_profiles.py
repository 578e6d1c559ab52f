"""PyTorch's profiles against numbers that PyTorch's profiler has no part in: arithmetic, the C library, the clock."""

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import numpy
import pytest

from tests.support import networks
from tests.support.strategy_jobs import of_profiles, strategy_job
from tests.trainer_process import ROOT, make_job, model_facts

pytestmark = [pytest.mark.framework("pytorch"), of_profiles("pytorch")]
SCRIPT = Path(__file__).parent / "scripts" / "profiles_pytorch.py"
PARAMETERS = {
    "resnet_50": networks.parameters("resnet_50"),
    "lstm_classifier": networks.parameters("lstm_classifier"),
}
STEPS = 2


def profiles(python, job, folder, *arguments):
    """Run the profiles of every process of ``job``, which meet each other; return what each found."""
    folder.mkdir(exist_ok=True)
    (folder / "job.json").write_text(json.dumps(job))
    # One thread: two processes that wait for each other must not spin on each other's cores.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    started = []
    for process in job["processes"]:
        target = folder / f"{process['name']}.out.json"
        command = [python, str(SCRIPT), str(folder / "job.json"), process["name"], str(target), *arguments]
        log = (folder / f"{process['name']}.err").open("wb")
        started.append((subprocess.Popen(command, cwd=folder, env=environment, stderr=log), target))
    try:
        for popen, target in started:
            assert popen.wait(240) == 0, target.with_name(target.name.replace(".out.json", ".err")).read_text()
    finally:
        for popen, _ in started:
            popen.kill()
    return [json.loads(target.read_text()) for _, target in started]


class Memory:
    """The list of allocations, played: the greatest bytes of each class, of all, and what is left at the end."""

    def __init__(self, found):
        self.found = found["memory"]
        self.grown_bytes = found["grown_bytes"]
        self.live, self.greatest = Counter(), Counter()
        self.peak_bytes = 0
        for index, delta_bytes, _ in self.found["allocations"]:
            name = self.found["classes"][index]
            self.live[name] += delta_bytes
            self.greatest[name] = max(self.greatest[name], self.live[name])
            assert self.live[name] >= 0
            self.peak_bytes = max(self.peak_bytes, sum(self.live.values()))


BATCHES = {"resnet_50": (2, 4, 8, 16), "lstm_classifier": (8, 16, 32, 64)}


# Least share of a time that its parts must add up to. A part that is lost is more than the rest; on a machine that is
# busy with other things pauses come between the parts, of a length that nobody can tell.
COVERED = 0.5


@pytest.fixture(scope="module", params=["resnet_50", "lstm_classifier"])
def memories(request, python_of, tmp_path_factory):
    """(model, {batch: Memory}) for four batch sizes."""
    job, batches = make_job(request.param, "pytorch"), BATCHES[request.param]
    arguments = ("memory", json.dumps(batches))
    (found,) = profiles(python_of("pytorch"), job, tmp_path_factory.mktemp("memory"), *arguments)
    return request.param, {batch: Memory(one) for batch, one in zip(batches, found, strict=True)}


def test_weights_gradients_and_momenta_are_exact_to_the_byte(memories):
    model, found = memories
    for memory in found.values():
        for name in ("weights", "weight_gradients", "optimizer_state"):
            assert memory.greatest[name] == 4 * PARAMETERS[model], name


def test_the_classes_add_up_to_the_allocators_own_peak(memories):
    for memory in memories[1].values():
        assert abs(memory.found["peak_bytes"] - memory.peak_bytes) <= 0.05 * memory.found["peak_bytes"]
        assert memory.found["peak_method"]
        assert memory.found["outside_bytes"] > 0


def test_three_batch_sizes_predict_the_feature_maps_of_a_fourth(memories):
    model, found = memories
    *known, last = BATCHES[model]
    slope, offset = numpy.polyfit(known, [found[batch].greatest["feature_maps"] for batch in known], 1)
    assert slope > 0
    assert offset + slope * last == pytest.approx(found[last].greatest["feature_maps"], rel=0.05)


def test_feature_maps_are_given_back_by_the_end_and_the_rest_stays(memories):
    model, found = memories
    for memory in found.values():
        assert memory.live["feature_maps"] == memory.live["workspace"] == 0
        assert memory.live["weights"] == memory.live["optimizer_state"] == 4 * PARAMETERS[model]


def test_the_feature_maps_are_what_the_c_library_counts_over_a_forward_pass(memories):
    """ResNet-50's are all held until the backward pass; an LSTM's mean gives some back before."""
    model, found = memories
    memory = found[BATCHES[model][-1]]
    if memory.grown_bytes is None:
        pytest.skip("this C library has no mallinfo2")
    assert memory.greatest["feature_maps"] == pytest.approx(
        memory.grown_bytes, rel=0.05 if model == "resnet_50" else 0.2
    )


@pytest.mark.parametrize("memories", ["resnet_50"], indirect=True)
def test_the_feature_maps_of_resnet_50_are_those_of_its_layers(memories):
    """Held for the backward pass: inputs of convolutions and normalisations (a ReLU overwrites) and the maxima with
    their indices. At the end of the last block its two branches are there besides."""
    model, found = memories
    outputs = {c.name: 4 * c.outputs * c.pixels**2 for c in networks.convolutions("resnet_50")}
    per_image = sum(outputs.values())
    per_image += sum(count for name, count in outputs.items() if not name.endswith("downsample.0"))
    per_image += 2 * outputs["layer4.0.conv3"]
    size = model_facts(model)["sizes"]["tiny"]
    per_image += (4 + 8) * size["width"] * (size["image_pixels"] // 4) ** 2
    *_, before, last = BATCHES[model]
    grown = found[last].greatest["feature_maps"] - found[before].greatest["feature_maps"]
    assert grown / (last - before) == pytest.approx(per_image, rel=0.01)


@pytest.fixture(scope="module", params=["resnet_50", "lstm_classifier"])
def single(request, python_of, tmp_path_factory):
    """(model, kernels and layers of one rank)."""
    job = make_job(request.param, "pytorch", per_device_batch_size=16)
    (found,) = profiles(python_of("pytorch"), job, tmp_path_factory.mktemp("single"), "steps")
    return request.param, found


def test_the_operators_own_times_add_up_to_the_time_with_any_operator(single):
    kernels = single[1]["kernels"]
    total_s = sum(total_s for _, _, total_s in kernels["rows"])
    assert total_s == pytest.approx(kernels["active_s"], rel=0.02)
    assert kernels["active_s"] <= kernels["elapsed_s"]
    begun, ended = single[1]["kernels_around"]
    assert kernels["elapsed_s"] <= ended - begun


def test_an_operator_is_called_as_often_as_the_network_has_it(single):
    model, found = single
    calls = {name: count for name, count, _ in found["kernels"]["rows"]}
    if model == "resnet_50":
        convolutions = len(networks.convolutions(model))
        assert calls["aten::convolution_backward"] == calls["aten::native_batch_norm"] == STEPS * convolutions
    else:
        assert calls["aten::lstm"] == calls["aten::embedding"] == STEPS


def test_the_timeline_lies_on_the_process_s_own_monotonic_clock(single):
    begun, ended = single[1]["kernels_around"]
    spans = single[1]["kernels"]["spans"]
    assert 0 < len(spans["items"]) <= 4000
    for name, lane, start_s, duration_s in spans["items"]:
        assert spans["names"][name]
        assert spans["lanes"][lane]
        assert begun < start_s <= start_s + duration_s < ended
    first, last = spans["items"][0], spans["items"][-1]
    assert COVERED < (last[2] - first[2]) / single[1]["kernels"]["elapsed_s"] < 1.001


def test_layers_come_in_order_with_all_weights_among_them(single):
    model, found = single
    rows = found["layers"]["rows"]
    assert sum(row["parameters_bytes"] for row in rows) == 4 * PARAMETERS[model]
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names)
    expected = (
        ["conv1", "layer1.0.conv1", "layer2.0.conv2", "fc"] if model == "resnet_50" else ["embedding", "lstm", "fc"]
    )
    assert [name for name in names if name in expected] == expected
    kinds = {row["name"]: row["kind"] for row in rows}
    assert kinds["fc"] == "Linear"
    assert kinds["conv1" if model == "resnet_50" else "lstm"] == ("Conv2d" if model == "resnet_50" else "LSTM")


def test_every_layer_with_weights_has_a_forward_and_a_backward_time(single):
    for row in single[1]["layers"]["rows"]:
        if row["parameters_bytes"]:
            assert row["forward_s"] > 0
            assert row["backward_s"] > 0


def test_the_layers_add_up_to_the_passes_and_the_parts_to_the_step(single):
    layers = single[1]["layers"]
    parts = layers["breakdown"]
    for part in ("forward_s", "backward_s"):
        assert COVERED < sum(row[part] for row in layers["rows"]) / parts[part] < 1.001, part
    assert list(parts) == ["input_s", "host_to_device_s", "forward_s", "backward_s", "exchange_s", "update_s"]
    assert COVERED < sum(parts.values()) * STEPS / layers["elapsed_s"] < 1.001
    assert parts["exchange_s"] == 0.0
    assert layers["exchanges"] == []
    assert layers["serialised"] is False


@pytest.fixture(scope="module")
def pair(python_of, tmp_path_factory):
    """Kernels and layers of both ranks of ResNet-50, in buckets of half a MiB."""
    job = strategy_job("pytorch", "ddp", devices=2)
    return profiles(python_of("pytorch"), job, tmp_path_factory.mktemp("pair"), "steps", "0.5")


def test_every_bucket_is_exchanged_between_the_start_of_the_backward_pass_and_its_end(pair):
    for found in pair:
        layers = found["layers"]
        exchanges = layers["exchanges"]
        assert len(exchanges) > 1
        assert len({one["name"] for one in exchanges}) == len(exchanges)
        assert sum(one["bytes"] for one in exchanges) == 4 * PARAMETERS["resnet_50"]
        assert all(0 < one["start_s"] < one["end_s"] < layers["elapsed_s"] for one in exchanges)
        # The first is on its way while gradients of earlier layers are still to come, and the last has them.
        assert exchanges[0]["start_s"] < exchanges[-1]["start_s"]


def test_what_the_exchange_adds_to_the_backward_pass_is_not_in_it(pair):
    for found in pair:
        layers = found["layers"]
        parts, exposed_s = layers["breakdown"], layers["exposed_exchange_s"]
        assert parts["exchange_s"] > 0
        assert exposed_s > 0
        whole = sum(parts.values()) - parts["exchange_s"] + exposed_s
        assert COVERED < whole * STEPS / layers["elapsed_s"] < 1.001
        backward_s = sum(row["backward_s"] for row in layers["rows"])
        # Two ranks and their exchanges wait for the same cores: nobody can tell how long layers pause.
        assert 0 < backward_s / parts["backward_s"] < 1.001


def test_the_exchange_is_a_row_of_the_table_and_no_active_time(pair):
    for found in pair:
        kernels = found["kernels"]
        assert "gloo:all_reduce" in [name for name, _, _ in kernels["rows"]]
        assert kernels["active_s"] < kernels["elapsed_s"]


@pytest.mark.parametrize("memories", ["resnet_50"], indirect=True)
def test_buffers_of_the_exchange_are_no_feature_maps(memories, python_of, tmp_path):
    model, found = memories
    job = strategy_job("pytorch", "ddp", devices=2)
    for rank in profiles(python_of("pytorch"), job, tmp_path, "memory"):
        memory = Memory(rank)
        assert memory.greatest["feature_maps"] == found[4].greatest["feature_maps"]
        assert memory.greatest["weights"] == memory.greatest["weight_gradients"] == 4 * PARAMETERS[model]
        assert memory.greatest["other"] >= found[4].greatest["other"] + 4 * PARAMETERS[model]
