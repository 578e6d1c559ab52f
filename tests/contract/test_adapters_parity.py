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


def random_case(size, batch, seed):
    """Return weights and a batch in which no parameter has its initial, symmetric value."""
    generator = numpy.random.default_rng(seed)
    case = architecture.initial_weights(size, seed)
    for name, value in case.items():
        if value.ndim == 1:
            case[name] = (value + generator.normal(0, 0.2, value.shape)).astype(numpy.float32)
    pixels = size["image_pixels"]
    case["images"] = generator.standard_normal((batch, pixels, pixels, 3)).astype(numpy.float32)
    case["labels"] = generator.integers(0, size["classes"], batch)
    return case


def gated_case(size, batch, seed):
    """Return such a case in which each ReLU lets a whole channel through, or, of each fourth channel, nothing.

    Normalised values have a deviation of about 0.2 around 2.5 or -2.5, which no value comes near zero from.
    """
    case = random_case(size, batch, seed)
    for norm in (convolution.norm for convolution in architecture.convolutions(size)):
        scale, offset = case[norm + ".weight"], case[norm + ".bias"]
        case[norm + ".weight"] = 0.2 * (1 + 0.1 * (scale - 1))
        side = numpy.where(numpy.arange(len(offset)) % 4 == 3, -2.5, 2.5)
        case[norm + ".bias"] = (0.1 * offset + side).astype(numpy.float32)
    return case


def distances(exact, found):
    """Return {name: Euclidean distance of two arrays}, relative to the length of the first.

    What is nothing beside most others is compared with a tenth of these: a normalisation takes away what the one
    before it adds to a channel, so that the exact gradient of that is zero where a ReLU lets all of it through.
    """
    lengths = {name: float(numpy.linalg.norm(value)) for name, value in exact.items()}
    least = 0.1 * float(numpy.median(list(lengths.values())))
    return {
        name: float(numpy.linalg.norm(exact[name] - value)) / max(lengths[name], least) for name, value in found.items()
    }


OTHERS = [pytest.param(name, marks=pytest.mark.framework(name)) for name in ("tensorflow", "mxnet", "cntk")]

# (size, how it is made, batch, seed): which side of zero rounding puts the input of a ReLU on is chance, and differs
# between processors, and so does which of two values of a pooling window is the larger. One that changes sides moves
# the gradients of all layers before it: by 0.5 % at the size tiny. So nothing may be near its border. In a small batch
# of the size tiny a seed in 300 is enough; of the 7 million values of the size small some are always near zero unless
# they are kept away.
CASES = [("tiny", random_case, 2, 88), ("small", gated_case, 4, 14)]
# How far everything is from zero, and the largest of a window from the second: in PyTorch single precision moves what
# the first ReLU is given by up to 3e-6 at the size tiny.
LEAST = {"tiny": {"from_zero": 5e-5, "apart": 2e-5}, "small": {"from_zero": 0.1, "apart": 5e-6}}


# Rounding then moves gradients by 1e-5 and, through 50 layers, by 1e-3: with AVX-512 as with SSE 4.1.
MOST = {"tiny": 1e-4, "small": 5e-3}


@pytest.fixture(scope="module", params=CASES, ids=["tiny", "small"])
def case(request, python_of, tmp_path_factory):
    """(size, folder, PyTorch's gradients in double precision, how near others must come)."""
    name, make, batch, seed = request.param
    size, folder = SIZES[name], tmp_path_factory.mktemp(name)
    numpy.savez(folder / "input.npz", **make(size, batch, seed))
    (folder / "size.json").write_text(json.dumps(size))
    exact = gradients(python_of, folder, "pytorch", "float64")
    margins = {key: float(exact.pop(key)) for key in LEAST[name]}
    assert all(margins[key] > least for key, least in LEAST[name].items()), margins
    return size, folder, exact, MOST[name]


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("framework", [pytest.param("pytorch"), *OTHERS])
def test_equal_weights_and_batch_give_equal_loss_and_gradients(python_of, case, framework):
    size, folder, exact, most = case
    found = gradients(python_of, folder, framework)
    assert set(exact) == set(found)
    assert set(architecture.shapes(size)) < set(exact)
    assert found.pop("loss") == pytest.approx(exact["loss"], rel=1e-5)
    off = distances(exact, found)
    assert max(off.values()) < most, max(off, key=off.get)


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
