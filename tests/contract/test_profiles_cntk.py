"""CNTK's profiles of ResNet-50, by real processes: against the arithmetic of the model and against the wall clock."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy
import pytest

from suites.inputs import images
from tests.support import networks
from tests.support.allocation_lists import classes_at_peak, memory_by_batch
from tests.support.strategy_jobs import carried_out, of_profiles, strategy_job
from tests.trainer_process import ROOT, environment_for, make_job, model_facts, run

pytestmark = [pytest.mark.framework("cntk"), of_profiles("cntk")]

SIZE = model_facts("resnet_50")["sizes"]["tiny"]
SHAPES = networks.shapes("resnet_50")
CONVOLUTIONS = networks.convolutions("resnet_50")
NORMALIZATIONS = networks.normalizations("resnet_50")
STEPS = 3


def bytes_of(name):
    return 4 * int(numpy.prod(SHAPES[name]))


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Several would wait for each other by spinning, on cores that others use too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def profiled(python_of, tmp_path_factory):
    """A training process that has profiled its nodes and layers."""
    job = make_job("resnet_50", "cntk", profile=["kernels", "layers"], max_steps=2)
    (trainer,) = run(job, tmp_path_factory.mktemp("cntk"), python_of("cntk"))
    assert trainer.popen.returncode == 0, trainer.output
    return trainer


def test_the_table_of_nodes_counts_every_convolution_of_every_step(profiled):
    (kernels,) = profiled.data("kernels")
    calls = {name: count for name, count, _ in kernels["rows"]}
    for name in ("Convolution forward", "Convolution backward", "BatchNormalization forward"):
        assert calls[name] == STEPS * len(CONVOLUTIONS)
    assert calls["Weight Update"] == STEPS


def test_nodes_follow_each_other_and_add_up_to_the_active_time(profiled):
    (kernels,) = profiled.data("kernels")
    assert sum(row[2] for row in kernels["rows"]) == pytest.approx(kernels["active_s"], rel=0.01)
    assert kernels["active_s"] <= kernels["elapsed_s"]


def test_the_timeline_is_on_the_clock_of_the_process(profiled):
    events = profiled.events()
    began = next(event for event in events if event["kind"] == "activity")
    ended = next(event for event in events if event["kind"] == "kernels")
    spans = [item for chunk in profiled.data("spans") for item in chunk["items"]]
    starts = [item[2] for item in spans]
    assert starts == sorted(starts)
    assert began["t"] < starts[0]
    assert spans[-1][2] + spans[-1][3] < ended["t"]


def test_every_layer_is_there_with_its_parameters_and_both_passes(profiled):
    (layers,) = profiled.data("layers")
    rows = {row["name"]: row for row in layers["rows"]}
    for convolution in CONVOLUTIONS:
        assert rows[convolution.name]["kind"] == "Convolution"
        assert rows[convolution.name]["parameters_bytes"] == bytes_of(convolution.name + ".weight")
        norm = NORMALIZATIONS[convolution.name]
        assert rows[norm]["parameters_bytes"] == 2 * bytes_of(norm + ".weight")
        for name in (convolution.name, norm):
            assert rows[name]["forward_s"] > 0, name
            assert rows[name]["backward_s"] > 0, name
    assert sum(row["parameters_bytes"] for row in layers["rows"]) == 4 * SIZE["parameters"]
    names = [row["name"] for row in layers["rows"]]
    assert [name for name in names if name in (CONVOLUTIONS[0].name, "fc")] == [CONVOLUTIONS[0].name, "fc"]


def test_layers_add_up_to_the_passes_and_the_passes_to_the_step(profiled):
    (layers,) = profiled.data("layers")
    breakdown, rows = layers["breakdown"], layers["rows"]
    for part in ("forward_s", "backward_s"):
        # Pauses between nodes are in no layer: on a busy machine they are long.
        assert 0.5 * breakdown[part] < sum(row[part] for row in rows) <= 1.001 * breakdown[part], part
    step_s = layers["elapsed_s"] / layers["steps"]
    assert 0.5 * step_s < sum(breakdown.values()) <= 1.01 * step_s
    assert layers["exchanges"] == []
    assert breakdown["exchange_s"] == 0


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun: apt-get install openmpi-bin")
@pytest.mark.parametrize(
    ("strategy", "states", "exchanges_after"),
    [("mpi", 1, " backward"), ("mpi-block-momentum", 3, "Weight Update")],
)
def test_two_ranks_are_profiled_with_their_exchange(python_of, tmp_path, strategy, states, exchanges_after):
    python_of("cntk")
    profile = ["kernels", "layers", "memory"]
    attempt = carried_out(strategy_job("cntk", strategy, 1, 2, max_steps=4, profile=profile), tmp_path / "attempt")
    assert attempt.failure() is None, attempt.said
    assert attempt.data("profile_failed") == []
    for rank in ("worker0", "worker1"):
        (kernels,), (layers,) = (attempt.data(kind, rank) for kind in ("kernels", "layers"))
        assert {name: calls for name, calls, _ in kernels["rows"]}["Gradient Aggregation"] == kernels["steps"]
        (exchange,) = layers["exchanges"]
        assert exchange["bytes"] == 4 * SIZE["parameters"]
        assert exchange["end_s"] - exchange["start_s"] > 0
        assert exchange["start_s"] > 0
        # It begins when the last gradient is there, or when a rank has learnt from it alone.
        names = timeline(attempt.data("spans", rank))
        before = [names[place - 1] for place, name in enumerate(names) if name == "Gradient Aggregation"]
        assert len(before) == kernels["steps"]
        assert all(name.endswith(exchanges_after) for name in before), before
        assert layers["breakdown"]["exchange_s"] > 0
        chunks = attempt.data("allocations", rank + ":memory")
        items = [(chunk["classes"][index], *rest) for chunk in chunks for index, *rest in chunk["items"]]
        assert classes_at_peak(items)[0]["optimizer_state"] == states * 4 * SIZE["parameters"]


def timeline(chunks):
    """Return the names of all spans in the order of their starts."""
    spans = [(start, chunk["names"][name]) for chunk in chunks for name, _, start, _ in chunk["items"]]
    return [name for _, name in sorted(spans)]


BATCHES = (2, 4, 8, 16)


@pytest.fixture(scope="module")
def by_batch(python_of, tmp_path_factory):
    """{batch: (items, the whole)} of allocation profiles at the tiny size."""
    return memory_by_batch("cntk", python_of("cntk"), tmp_path_factory.mktemp("memory"), BATCHES)


def test_weights_gradients_and_momenta_are_exact_to_the_byte(by_batch):
    for items, _ in by_batch.values():
        at_peak, most = classes_at_peak(items)
        for name in ("weights", "weight_gradients", "optimizer_state"):
            assert at_peak[name] == most[name] == 4 * SIZE["parameters"], name


def test_feature_maps_grow_linearly_with_the_batch(by_batch):
    maps = {batch: classes_at_peak(items)[1]["feature_maps"] for batch, (items, _) in by_batch.items()}
    slope, fixed = numpy.polyfit(BATCHES[:3], [maps[batch] for batch in BATCHES[:3]], 1)
    assert slope > 0
    assert maps[BATCHES[3]] == pytest.approx(fixed + slope * BATCHES[3], rel=0.05)


def test_the_input_is_what_the_network_copies_and_the_batches_that_come_round_again(by_batch):
    for batch, (items, _) in by_batch.items():
        image_and_label = 4 * (3 * SIZE["image_pixels"] ** 2 + 1)
        assert classes_at_peak(items)[0]["input"] == (images.POOL + 1) * batch * image_and_label


def test_the_list_never_holds_more_than_the_process_has_used(by_batch):
    for items, whole in by_batch.values():
        assert sum(classes_at_peak(items)[0].values()) < whole["peak_bytes"]


# Ways of MKL 2018 to compute: 3 over CNTK's own layout, as on processors that it does not know, 5 with AVX2 in layouts
# of its own. The switch is not documented; the version is that of CNTK's last package.
@pytest.mark.parametrize("way", ["3", "5"])
def test_what_a_sample_adds_to_the_list_is_what_it_takes_from_the_heap(python_of, tmp_path, monkeypatch, way):
    """The C library's count knows nothing of the list, and is no matter of pages; code and tables do not grow."""
    if way == "5" and "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no AVX2")
    monkeypatch.setenv("MKL_DEBUG_CPU_TYPE", way)
    few, many = (counted(python_of("cntk"), tmp_path, batch) for batch in (BATCHES[0], BATCHES[-1]))
    if few["heap"] is None:
        pytest.skip("this C library does not count its heap")
    assert many["listed"] - few["listed"] == pytest.approx(many["heap"] - few["heap"], rel=0.01)


def counted(python, folder, batch):
    """Return {listed, heap} of a process that trains with ``batch`` images: see ``scripts/memory_cntk.py``."""
    path = folder / f"{batch}.json"
    job = make_job("resnet_50", "cntk", per_device_batch_size=batch)
    path.write_text(json.dumps({**job, "process": "worker-0"}))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment_for(python)}
    command = [python, str(Path(__file__).parent / "scripts/memory_cntk.py"), str(path)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd="/")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])
