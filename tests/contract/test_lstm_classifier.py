"""The LSTM classifier in every framework: the same weights and the same batch give the same loss and gradients.

The exact result is a forward pass by the LSTM's equations in numpy, and PyTorch's gradients in double precision.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy
import pytest

from suites.datasets import texts
from suites.models.lstm_classifier import architecture
from tests.trainer_process import ROOT, environment_for, make_job, model_facts, run

SCRIPTS = Path(__file__).parent / "scripts"
FACTS = model_facts("lstm_classifier")
SIZE = {**FACTS["sizes"]["tiny"], "lstm_layers": 2}
FRAMEWORKS = [pytest.param(name, marks=pytest.mark.framework(name)) for name in ("pytorch", "tensorflow", "mxnet")]


def script(python, name, *arguments):
    """Run one of ``scripts`` in the interpreter ``python``; return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2", **environment_for(python)}
    command = [python, str(SCRIPTS / name), *map(str, arguments)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd="/")
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """(folder, weights and batch by name) with two layers, so that one reads another's outputs."""
    folder = tmp_path_factory.mktemp("lstm")
    found = architecture.initial_weights(SIZE, 5)
    found["tokens"], found["shares"], found["labels"] = next(texts.synthetic(6, SIZE, (9, 0)))
    numpy.savez(folder / "input.npz", **found)
    (folder / "size.json").write_text(json.dumps(SIZE))
    return folder, found


def gradients(python_of, folder, framework, *precision):
    """Return {name: gradient} and the loss of the case in ``folder``."""
    target = folder / f"{framework}{''.join(precision)}.npz"
    files = [folder / "input.npz", folder / "size.json", target]
    script(python_of(framework), f"gradients_lstm_{framework}.py", *files, *precision)
    return dict(numpy.load(target))


def loss_by_the_equations(case):
    """Hochreiter and Schmidhuber's cell with the forget gate of Gers et al., word after word, in double precision."""
    words = case["embedding.weight"].astype(float)[case["tokens"]]
    for layer in architecture.layers(SIZE):
        w, v, b, c = (case[f"lstm.{part}_{layer.name}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        hidden = cell = numpy.zeros((len(words), layer.hidden))
        outputs = []
        for place in range(SIZE["words"]):
            gates = numpy.split(words[:, place] @ w.T + b + hidden @ v.T + c, 4, axis=1)
            enter, forget, leave = (1 / (1 + numpy.exp(-gates[gate])) for gate in (0, 1, 3))
            cell = forget * cell + enter * numpy.tanh(gates[2])
            hidden = leave * numpy.tanh(cell)
            outputs.append(hidden)
        words = numpy.stack(outputs, axis=1)
    lengths = (case["tokens"] != texts.PADDING).sum(axis=1)
    means = numpy.stack([text[:length].mean(axis=0) for text, length in zip(words, lengths, strict=True)])
    logits = means @ case["fc.weight"].T + case["fc.bias"]
    chosen = logits[numpy.arange(len(logits)), case["labels"]]
    return float((numpy.log(numpy.exp(logits).sum(axis=1)) - chosen).mean())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_loss_is_that_of_the_equations_and_the_gradients_are_those_of_double_precision(python_of, case, framework):
    folder, given = case
    exact = gradients(python_of, folder, "pytorch", "float64")
    found = gradients(python_of, folder, framework)
    assert float(exact["loss"]) == pytest.approx(loss_by_the_equations(given), rel=1e-6)
    assert float(found["loss"]) == pytest.approx(float(exact["loss"]), rel=1e-6)
    assert set(found) == set(exact) == {*architecture.shapes(SIZE), "loss"}
    for name in architecture.shapes(SIZE):
        off = numpy.linalg.norm(exact[name] - found[name]) / numpy.linalg.norm(exact[name])
        assert off < 1e-5, (name, off)


# Losses after each of 6 steps as PyTorch printed them, weight decay and rate made large to be seen.
LOSSES = [1.28554, 1.48746, 1.40374, 1.45424, 1.21342, 1.4639]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_equal_seeds_train_alike_step_by_step(python_of, tmp_path, framework):
    """Initial weights, batches, momentum and weight decay are all in this trajectory."""
    job = make_job("lstm_classifier", framework, max_steps=6)
    job["model"]["optimizer"].update(weight_decay=0.1, learning_rate=10.0)
    (trainer,) = run(job, tmp_path, python_of(framework))
    assert trainer.popen.returncode == 0, trainer.output
    assert [loss["value"] for loss in trainer.data("loss")] == pytest.approx(LOSSES, rel=1e-3)
    assert trainer.data("built")[0]["parameters"] == FACTS["sizes"]["tiny"]["parameters"]
    assert all(set(interval["work"]) == {"texts", "words"} for interval in trainer.data("interval"))


@pytest.mark.framework("pytorch")
def test_the_facts_state_the_operations_and_parameters_that_pytorch_counts(python_of):
    counted = json.loads(script(python_of("pytorch"), "flops_lstm_pytorch.py", json.dumps(FACTS["sizes"])))
    for name, size in FACTS["sizes"].items():
        assert counted[name] == [size["flops_per_sample"], size.get("parameters", FACTS["parameters"])]
