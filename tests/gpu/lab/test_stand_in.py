"""The real trainer's code paths of a GPU, in PyTorch's CPU build with ``stand_in`` in the GPU's place."""

import json
import math
import subprocess

import pytest

from tests.contract.test_checkpoints import begun, ended, job_of, weights
from tests.contract.test_convergence import apart
from tests.gpu import names, stand_in_names
from tests.support import networks
from tests.support.allocation_lists import played
from tests.trainer_process import ROOT, Trainer, make_job

__all__ = ["apart"]  # a fixture

pytestmark = [pytest.mark.framework("pytorch"), pytest.mark.after_change]

INSTALLED = ["import torch", "from tests.gpu import stand_in", "stand_in.install()"]
# At the end, which a training that is over takes at once (``os._exit``, as its forked children do) and others do not.
TELL = """
import atexit, json, os
def tell(trainer=os.getpid()): os.getpid() == trainer and print('called ' + json.dumps(stand_in.called), flush=True)
def leave(status, end=os._exit): tell(), end(status)
atexit.register(tell)
os._exit = leave
"""


def run(python, folder, phase="train", planted=(), **plan):
    folder.mkdir(exist_ok=True)
    job = make_job("resnet_50", "pytorch", device="cuda", warm_up_s=0.0, **plan)
    trainer = Trainer(job, folder, python, phase=phase, planted=[*INSTALLED, TELL, *planted])
    trainer.finish(120.0)
    return trainer


def called(trainer):
    return json.loads(next(line for line in trainer.output.splitlines() if line.startswith("called "))[7:])


@pytest.fixture(scope="module")
def python(python_of):
    return python_of("pytorch")


@pytest.fixture(scope="module")
def trained(python, tmp_path_factory):
    trainer = run(
        python,
        tmp_path_factory.mktemp("trained"),
        precision="amp-fp16",
        profile=["kernels", "layers"],
        data_on="pinned",
    )
    assert trainer.data("finished"), trainer.output[-3000:]
    return trainer


@pytest.fixture(scope="module")
def remembered(python, tmp_path_factory):
    trainer = run(python, tmp_path_factory.mktemp("remembered"), phase="memory", profile=["memory"])
    assert trainer.data("allocations"), trainer.output[-3000:]
    return trainer


@pytest.fixture(scope="module")
def resumed(python, apart, tmp_path_factory):
    """A training in mixed precision, and the one that goes on from its checkpoint."""
    folder = tmp_path_factory.mktemp("resumed")
    told = {"device": "cuda", "precision": "amp-fp16", "max_steps": 4, "evaluate_every": 2}
    jobs = [job_of(apart, folder / "kept", name, **told) for name in ("first", "second")]
    return [ended(begun(job, folder, python, [*INSTALLED, TELL])) for job in jobs]


def test_parts_by_events_are_seconds_and_those_of_a_step(trained):
    (layers,) = trained.data("layers")
    parts = sum(layers["breakdown"][name + "_s"] for name in ("host_to_device", "forward", "backward", "update"))
    timed = [data["duration_s"] / data["n"] for data in trained.data("interval") if data["phase"] == "timed"]
    # The same steps on the same cores: a wrong unit or number of steps is off by more than any other load.
    assert min(timed) / 3 < parts < 3 * max(timed), (parts, timed)
    assert "parts by CUDA events" in layers["method"]


def test_kernels_are_counted_once_and_belong_to_layers(trained):
    (table,), (activity,), (layers,) = (trained.data(kind) for kind in ("kernels", "activity", "layers"))
    # There is one stream: what the rows add up to is what the union is.
    assert sum(row[2] for row in table["rows"]) == pytest.approx(table["active_s"], rel=1e-6)
    assert 0.0 < activity["active_s"] < activity["elapsed_s"]
    assert all(row[0].startswith("kernel of aten::") for row in table["rows"])
    assert table["rows"][0][1] % table["steps"] == 0
    rows = {row["name"]: row for row in layers["rows"]}
    assert rows["conv1"]["forward_s"] > 0.0
    assert rows["conv1"]["backward_s"] > 0.0
    # No more than all kernels of a step.
    assert sum(row["forward_s"] + row["backward_s"] for row in rows.values()) * layers["steps"] < layers["elapsed_s"]


def test_the_meter_of_memory_holds_what_was_put_on_the_gpu(trained):
    (memory,) = trained.data("memory")
    assert memory["method"] == "torch.cuda.max_memory_allocated"
    assert memory["peak_bytes"] >= 4 * networks.parameters("resnet_50")


def test_a_batch_is_page_locked_and_the_loss_of_float16_scaled(trained):
    assert called(trained)[".pin_memory"] >= 2
    assert trained.data("built")[0]["mathematics"]["loss_scaling"].startswith("dynamic")
    assert all(math.isfinite(data["value"]) for data in trained.data("loss"))


def test_the_allocation_profile_is_that_of_the_gpu_s_allocator(remembered):
    events = remembered.data("allocations")
    most = played(events).most
    assert most["weights"] == 4 * networks.parameters("resnet_50")
    # What mem_get_info says is taken, less the allocator's own peak.
    assert events[-1]["outside_bytes"] == stand_in_names.CONTEXT_BYTES
    assert ".pin_memory" not in called(remembered)  # its batches lie on the GPU from the beginning
    assert events[-1]["peak_bytes"] >= sum(most[name] for name in ("weights", "weight_gradients"))


def test_a_training_goes_on_from_its_checkpoint_with_its_generator_and_the_factor_of_its_loss(resumed):
    first, second = resumed
    assert second.data("resumed")[0]["step"] == 2
    assert weights(second) == weights(first)
    assert called(second)["torch.cuda.set_rng_state"] == 1


def test_every_function_of_torch_cuda_that_training_uses_was_called(trained, remembered, resumed):
    used = {use.name for use in names.uses() if use.where.startswith("workers/trainer/frameworks/pytorch")}
    used = {name for name in used if name.startswith("torch.cuda.")}
    assert used - {name for one in (trained, remembered, *resumed) for name in called(one)} == stand_in_names.NOT_CALLED


def test_events_that_nobody_waited_for_are_a_fault(python, tmp_path):
    """What the adapter would do without its last ``synchronize``."""
    unheeded = "torch.cuda.synchronize = lambda *_: torch.cuda.init()"
    trainer = run(python, tmp_path, planted=[unheeded], profile=["layers"], max_steps=2)
    (failed,) = trainer.data("error")
    assert "Both events must be completed" in failed["message"]
    assert not trainer.data("layers")


ORDER = """
import json, sys
import torch
from tests.gpu import stand_in
stand_in.install()
gpu = torch.device("cuda", 0)
def said(function):
    try:
        return repr(function())
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)
def timed():
    return torch.cuda.Event(enable_timing=True)
def both(wait):
    first, second = timed(), timed()
    first.record(), second.record()
    if wait:
        torch.cuda.synchronize(gpu)
    return first.elapsed_time(second) >= 0.0
found = {"reset before": said(lambda: torch.cuda.reset_peak_memory_stats(gpu))}
found["peak before"] = said(lambda: torch.cuda.max_memory_allocated(gpu))
held = torch.zeros(1000, device=gpu)
found["peak"] = said(lambda: torch.cuda.max_memory_allocated(gpu))
del held
found["now"] = said(lambda: torch.cuda.memory_allocated(gpu))
found["reset"] = said(lambda: (torch.cuda.reset_peak_memory_stats(gpu), torch.cuda.max_memory_allocated(gpu))[1])
found["unrecorded"] = said(lambda: timed().elapsed_time(timed()))
found["untimed"] = said(lambda: torch.cuda.Event().elapsed_time(timed()))
found["unwaited"], found["waited"] = said(lambda: both(False)), said(lambda: both(True))
from suites.models.calibration.pytorch import Products
products = Products(gpu, 0)
products.prepare("bf16", 8, 8, 8)
products.multiply()
found["product"] = [products.device, products.arithmetics(), products.error() < 0.02]
print(json.dumps(found))
"""


def test_the_order_of_calls_is_pytorch_s(python, tmp_path):
    done = subprocess.run([python, "-c", ORDER], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("product") == [stand_in_names.NAME, ["fp32", "tf32", "bf16", "fp16"], True]
    assert found == {
        "reset before": "RuntimeError: Invalid device argument 0: did you call init?",
        "peak before": "0",
        "peak": "4000",
        "now": "0",
        "reset": "0",
        "unrecorded": "ValueError: Both events must be recorded before calculating elapsed time.",
        "untimed": "ValueError: Both events must be created with argument 'enable_timing=True'.",
        "unwaited": "RuntimeError: Both events must be completed before calculating elapsed time.",
        "waited": "True",
    }
