"""The same network in every framework: the same weights and the same batch give the same loss and gradients."""

import json
import os
import subprocess
from pathlib import Path

import numpy
import pytest

from suites.models.resnet_50 import architecture
from tests.trainer_process import ROOT, environment_for, make_job, model_facts, run

SCRIPTS = Path(__file__).parent / "scripts"
SIZES = model_facts("resnet_50")["sizes"]


def script(python, name, *arguments):
    """Run one of ``scripts`` in the interpreter ``python``; return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2", **environment_for(python)}
    command = [python, str(SCRIPTS / name), *map(str, arguments)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd="/")
    assert result.returncode == 0, result.stderr
    return result.stdout


def random_case(size, batch):
    """Return weights and a batch in which no parameter has its initial, symmetric value."""
    generator = numpy.random.default_rng(7)
    case = architecture.initial_weights(size, 5)
    for name, value in case.items():
        if value.ndim == 1:
            case[name] = (value + generator.normal(0, 0.2, value.shape)).astype(numpy.float32)
    pixels = size["image_pixels"]
    case["images"] = generator.standard_normal((batch, pixels, pixels, 3)).astype(numpy.float32)
    case["labels"] = generator.integers(0, size["classes"], batch)
    return case


def distance(a, b):
    """Euclidean distance of two arrays, relative to the length of the first."""
    return float(numpy.linalg.norm(a - b) / max(numpy.linalg.norm(a), 1e-12))


OTHERS = [pytest.param(name, marks=pytest.mark.framework(name)) for name in ("tensorflow", "mxnet", "cntk")]


@pytest.fixture(scope="module", params=[("tiny", 8), ("small", 4)], ids=["tiny", "small"])
def case(request, python_of, tmp_path_factory):
    """(size, folder, PyTorch's gradients in double precision, and in single) of random weights and a batch."""
    size, folder = SIZES[request.param[0]], tmp_path_factory.mktemp(request.param[0])
    numpy.savez(folder / "input.npz", **random_case(size, request.param[1]))
    (folder / "size.json").write_text(json.dumps(size))
    return size, folder, gradients(python_of, folder, "pytorch", "float64"), gradients(python_of, folder, "pytorch")


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("other", OTHERS)
def test_equal_weights_and_batch_give_equal_loss_and_gradients(python_of, case, other):
    """The other is as near to the exact result as PyTorch is: at full depth rounding alone moves gradients by 1 %."""
    size, folder, exact, pytorch = case
    found = gradients(python_of, folder, other)
    assert set(exact) == set(pytorch) == set(found)
    assert set(architecture.shapes(size)) < set(exact)
    assert found.pop("loss") == pytest.approx(exact["loss"], rel=1e-5)
    off = {key: distance(exact[key], value) for key, value in found.items()}
    # Where rounding puts a ReLU's input on the other side of zero is chance: the worst parameters are compared.
    rounding = max(distance(exact[key], pytorch[key]) for key in off)
    assert max(off.values()) < min(0.05, 1e-4 + 5 * rounding), max(off, key=off.get)


def gradients(python_of, folder, framework, *precision):
    """Return {name: gradient or running statistic} and the loss of the case in ``folder``."""
    target = folder / f"{framework}{''.join(precision)}.npz"
    files = [folder / "input.npz", folder / "size.json", target]
    script(python_of(framework), f"gradients_{framework}.py", *files, *precision)
    return dict(numpy.load(target))


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("other", OTHERS)
def test_equal_seeds_train_alike_step_by_step(python_of, tmp_path, other):
    """Initial weights, batches, momentum and weight decay (made large to be seen) are all in this trajectory.

    Few steps: rounding makes any two trajectories part sooner or later, those of one framework on 1 and 2 threads too.
    """
    losses = {}
    for framework in ("pytorch", other):
        (tmp_path / framework).mkdir()
        job = make_job("resnet_50", framework, max_steps=6)
        job["model"]["optimizer"]["weight_decay"] = 10.0
        (trainer,) = run(job, tmp_path / framework, python_of(framework))
        losses[framework] = [loss["value"] for loss in trainer.data("loss")]
    assert len(losses["pytorch"]) == 6
    assert losses["pytorch"] == pytest.approx(losses[other], rel=5e-3)


@pytest.mark.framework("pytorch")
def test_the_facts_state_the_operations_and_parameters_that_pytorch_counts(python_of):
    counted = json.loads(script(python_of("pytorch"), "flops_pytorch.py", json.dumps(SIZES)))
    facts = model_facts("resnet_50")
    for name, size in SIZES.items():
        assert counted[name] == [size["flops_per_sample"], size.get("parameters", facts["parameters"])]
