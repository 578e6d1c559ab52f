"""MXNet's profiles of ResNet-50, by real processes: against the arithmetic of the model and against the wall clock."""

import numpy
import pytest

from tests.support import networks
from tests.support.allocation_lists import classes_at_peak, memory_by_batch
from tests.support.strategy_jobs import carried_out, of_profiles, strategy_job, with_horovod
from tests.trainer_process import make_job, model_facts, run

pytestmark = [pytest.mark.framework("mxnet"), of_profiles("mxnet")]

SIZE = model_facts("resnet_50")["sizes"]["tiny"]
SHAPES = networks.shapes("resnet_50")
CONVOLUTIONS = networks.convolutions("resnet_50")
NORMALIZATIONS = networks.normalizations("resnet_50")
STEPS = 3


def bytes_of(name):
    return 4 * int(numpy.prod(SHAPES[name]))


@pytest.fixture(scope="module")
def profiled(python_of, tmp_path_factory):
    """A training process that has profiled its operators and layers."""
    job = make_job("resnet_50", "mxnet", profile=["kernels", "layers"], per_device_batch_size=16)
    (trainer,) = run(job, tmp_path_factory.mktemp("mxnet"), python_of("mxnet"))
    assert trainer.popen.returncode == 0, trainer.output
    return trainer


def test_the_table_of_operators_counts_every_convolution_of_every_step(profiled):
    (kernels,) = profiled.data("kernels")
    calls = {name: count for name, count, _ in kernels["rows"]}
    assert kernels["steps"] == STEPS
    for name in ("Convolution", "_backward_Convolution", "BatchNorm", "_backward_BatchNorm"):
        assert calls[name] == STEPS * len(CONVOLUTIONS)


def test_operators_of_one_device_follow_each_other(profiled):
    """The engine has one thread per CPU device: what its operators took together is when any of them ran."""
    (kernels,) = profiled.data("kernels")
    total_s = sum(row[2] for row in kernels["rows"])
    assert 0 < kernels["active_s"] <= kernels["elapsed_s"]
    assert total_s == pytest.approx(kernels["active_s"], rel=0.02)


def test_the_timeline_lies_within_the_profile_and_adds_up_to_the_table(profiled):
    (kernels,) = profiled.data("kernels")
    spans = [item for chunk in profiled.data("spans") for item in chunk["items"]]
    assert sum(item[3] for item in spans) == pytest.approx(sum(row[2] for row in kernels["rows"]), rel=0.02)
    starts = [item[2] for item in spans]
    assert starts == sorted(starts)
    assert starts[-1] - starts[0] < kernels["elapsed_s"]
    assert {name for chunk in profiled.data("spans") for name in chunk["lanes"]} == {"cpu/0"}


def test_the_timeline_is_on_the_clock_of_the_process(profiled):
    """It lies between the events before and after it, within the millisecond that aligning the clocks may be off."""
    events = profiled.events()
    began = next(event for event in events if event["kind"] == "stopped")
    ended = next(event for event in events if event["kind"] == "kernels")
    spans = [item for chunk in profiled.data("spans") for item in chunk["items"]]
    assert began["t"] < spans[0][2]
    assert spans[-1][2] + spans[-1][3] < ended["t"]


def test_every_layer_is_there_with_its_parameters_and_both_passes(profiled):
    (layers,) = profiled.data("layers")
    rows = {row["name"]: row for row in layers["rows"]}
    for convolution in CONVOLUTIONS:
        assert rows[convolution.name]["kind"] == "Conv2D"
        assert rows[convolution.name]["parameters_bytes"] == bytes_of(convolution.name + ".weight")
        norm = NORMALIZATIONS[convolution.name]
        assert rows[norm]["parameters_bytes"] == 2 * bytes_of(norm + ".weight")
        for name in (convolution.name, norm):
            assert rows[name]["forward_s"] > 0, name
            assert rows[name]["backward_s"] > 0, name
    assert sum(row["parameters_bytes"] for row in layers["rows"]) == 4 * SIZE["parameters"]
    assert not layers["serialised"]


def test_layers_add_up_to_the_passes_and_the_passes_to_the_step(profiled):
    (layers,) = profiled.data("layers")
    breakdown, rows = layers["breakdown"], layers["rows"]
    assert sum(row["forward_s"] for row in rows) == pytest.approx(breakdown["forward_s"], rel=0.01)
    assert sum(row["backward_s"] for row in rows) == pytest.approx(breakdown["backward_s"], rel=0.01)
    step_s = layers["elapsed_s"] / layers["steps"]
    assert 0.5 * step_s < sum(breakdown.values()) <= 1.01 * step_s
    assert layers["exchanges"] == []
    assert breakdown["exchange_s"] == 0


def test_devices_exchange_every_gradient_once(python_of, tmp_path):
    job = strategy_job("mxnet", "kvstore-device", devices=2, profile=["kernels", "layers"])
    (trainer,) = run(job, tmp_path, python_of("mxnet"))
    assert trainer.popen.returncode == 0, trainer.output
    (layers,) = trainer.data("layers")
    assert sorted(entry["bytes"] for entry in layers["exchanges"]) == sorted(map(bytes_of, SHAPES))
    ends = [entry["end_s"] for entry in layers["exchanges"]]
    assert all(entry["start_s"] < entry["end_s"] for entry in layers["exchanges"])
    assert ends == sorted(ends)
    assert layers["breakdown"]["exchange_s"] > 0
    assert len({replica["sha256"] for replica in trainer.data("replica")}) == 1


# The LSTM's are so small that its arrays find no room in the copies of weights that MXNet's plan gives back to them.
BATCHES = {"resnet_50": (6, 10, 14, 30), "lstm_classifier": (3, 5, 6, 10)}
PARAMETERS = {name: model_facts(name)["sizes"]["tiny"]["parameters"] for name in ("resnet_50", "lstm_classifier")}


@pytest.fixture(scope="module", params=PARAMETERS)
def model(request):
    return request.param


@pytest.fixture(scope="module")
def by_batch(model, python_of, tmp_path_factory):
    """{batch: (items, the whole)} of allocation profiles at the tiny size."""
    return memory_by_batch("mxnet", python_of("mxnet"), tmp_path_factory.mktemp(model), BATCHES[model], model)


def test_weights_gradients_and_momenta_are_exact_to_the_byte(model, by_batch):
    for items, _ in by_batch.values():
        at_peak, most = classes_at_peak(items)
        for name in ("weights", "weight_gradients", "optimizer_state"):
            assert at_peak[name] == most[name] == 4 * PARAMETERS[model], name


def test_feature_maps_grow_linearly_with_the_batch(model, by_batch):
    maps = {batch: classes_at_peak(items)[1]["feature_maps"] for batch, (items, _) in by_batch.items()}
    *first, last = BATCHES[model]
    slope, fixed = numpy.polyfit(first, [maps[batch] for batch in first], 1)
    assert maps[last] == pytest.approx(fixed + slope * last, rel=0.05)
    # Without a batch there are none.
    assert fixed == pytest.approx(0, abs=0.05 * maps[last])
    if model == "resnet_50":
        # At least what the convolutions leave for the backward pass: their outputs.
        assert slope > sum(4 * c.outputs * c.pixels**2 for c in CONVOLUTIONS)


def test_the_classes_add_up_to_what_the_heap_has_grown_by(python_of, tmp_path):
    """At a size that makes the libraries' own memory small; the C library knows nothing of the list."""
    items, whole = memory_by_batch("mxnet", python_of("mxnet"), tmp_path, [4], size="small")[4]
    at_peak, _ = classes_at_peak(items)
    assert "mallinfo2" in whole["peak_method"]
    assert sum(at_peak.values()) == pytest.approx(whole["peak_bytes"], rel=0.10)
    assert sum(at_peak.values()) < whole["peak_bytes"]


@pytest.mark.parametrize(
    ("strategy", "nodes", "others"),
    [
        ("kvstore-dist-async", 1, ["memory"]),
        pytest.param("horovod", 2, [], marks=with_horovod("mxnet")),
    ],
)
def test_the_waiting_of_an_exchange_is_neither_active_time_nor_part_of_a_pass(
    python_of, tmp_path, strategy, nodes, others
):
    job = strategy_job("mxnet", strategy, nodes, 1, max_steps=2, profile=["kernels", "layers", *others])
    python_of(job["interpreter"]["name"])
    attempt = carried_out(job, tmp_path / "job")
    assert attempt.popen.returncode == 0, attempt.said
    for kernels, layers in zip(attempt.data("kernels"), attempt.data("layers"), strict=True):
        assert 0 < kernels["active_s"] < kernels["elapsed_s"]
        breakdown = layers["breakdown"]
        assert 0 < breakdown["forward_s"] + breakdown["backward_s"] < layers["elapsed_s"] / layers["steps"]
        assert sorted(entry["bytes"] for entry in layers["exchanges"]) == sorted(map(bytes_of, SHAPES))
        # Where servers update the weights it is they who have the momenta.
        assert (breakdown["update_s"] is None) == (strategy == "kvstore-dist-async")
    classes = {event["classes"][index] for event in attempt.data("allocations") for index, _, _ in event["items"]}
    assert ("weights" in classes) == bool(others)
    assert "optimizer_state" not in classes
