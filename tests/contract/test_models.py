"""What holds for every model that is made from described layers, in every framework that it is there in.

The same weights and the same batch give the same loss, gradients and, after three updates, weights; a training from a
seed begins alike; and a planted difference is found. It is the phase of the trainer that ``tbd parity`` starts, here in
one process of each framework for all models; a difference is planted in a process of its own. Fresh processes, and the
size small, are ``test_every_cell.py``'s.
"""

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import numpy
import pytest

from orchestrator.analysis.probe import parity as judging
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.probe import parity
from suites.assemble import layers
from suites.assemble.layers import BidirectionalRecurrent, LayerNormalization, Lstm
from suites.inputs import texts
from suites.models.lstm_classifier import network as lstm_network
from tests.support.networks import layers_of, offers, way_id, ways
from tests.support.warm import Interpreter
from tests.trainer_process import ROOT, environment_for, run

MODELS = {name: model for name, model in load_catalog().models.items() if "input" in model.facts}

# What the size tiny leaves out of the network: blocks without a shortcut's convolution, a layer that reads another's.
WHOLE = {"resnet-50": {"blocks": [2, 2, 2, 1]}, "lstm-classifier": {"lstm_layers": 2}}
BATCH, SEED = 4, 1

# Single precision moves the numbers that a network chooses by about 1e-6 of their size. In a network of many poolings
# there is always a window whose choice is not much farther from another (orchestrator.analysis.probe.parity allows for
# it).
LEAST = {"from_zero": 1e-4, "apart": 1e-6}


def of_framework(framework, *values, slow=False):
    own = [pytest.mark.after_change] if slow else []
    return pytest.param(*values, framework, marks=[pytest.mark.framework(framework), *own])


# Every model as it is by default, and by every option that makes it another network at the size tiny. BERT large is the
# code of BERT base, where its options are tried.
WAYS = {
    way_id(model, options): (name, options)
    for name, model in MODELS.items()
    for options in ways(model)
    if offers(model, options, "tiny") and not (options and name == "bert-large")
}
# TensorFlow takes longest: in every test run is one of its networks of each kind, by default.
QUICK = ("resnet-50", "gpt-2", "seq2seq", "a3c")


def is_long(framework, name, options):
    """Deep Speech 2 with options is many layers of kinds that others have, too."""
    if framework == "tensorflow":
        return bool(options) or name not in QUICK
    return name == "deep-speech-2" and bool(options)


CELLS = [
    of_framework(framework, way, slow=is_long(framework, name, options))
    for way, (name, options) in WAYS.items()
    for framework in MODELS[name].frameworks
]


def table(way):
    name, options = WAYS[way]
    whole = {} if options else WHOLE.get(name, {})
    return {**MODELS[name].facts_with(options)["sizes"]["tiny"], **whole}


def described(way):
    return layers_of(MODELS[WAYS[way][0]], table(way))


def job_of(way, framework):
    name, options = WAYS[way]
    return parity.job(MODELS[name], framework, table(way), BATCH, SEED, [0], options)


class Bench:
    """Computes results, each once: the exact ones, those of frameworks, and those with a difference planted."""

    def __init__(self, python_of, folder):
        self._python_of = python_of
        self._folder = folder
        self._warm = {}
        self.exact = cache(self._exact)

    def close(self):
        for interpreter in self._warm.values():
            interpreter.close()

    def case(self, name):
        """The weights and the batch of a model, by name."""
        self.exact(name)
        return dict(numpy.load(self._case(name)))

    def _case(self, name):
        return self._folder / f"{name}.npz"

    def _exact(self, name):
        job = parity.exactly(job_of(name, "pytorch"))
        return self._result(name, job, "exact", makes_case=True)

    def found(self, name, framework, planted=()):
        self.exact(name)
        job = job_of(name, framework)
        return self._result(name, job, f"{framework}-planted" if planted else framework, planted=planted)

    def of_case(self, label, case, job):
        """What a job computes of a case that is given to it."""
        numpy.savez(self._case(label), **case)
        return self._result(label, job, "given")

    def _result(self, name, job, label, makes_case=False, planted=()):
        folder = self._folder / f"{name}-{label}"
        folder.mkdir(exist_ok=True)
        found = folder / "found.npz"
        job["parity"] = {"case": str(self._case(name)), "makes_case": makes_case, "found": str(found)}
        framework = job["plan"]["framework"]
        if planted:
            (trainer,) = run(job, folder, self._python_of(framework), "parity", planted)
            assert trainer.popen.returncode == 0, trainer.output
        else:
            self._interpreter(framework).carry_out(job, "parity", folder)
        return dict(numpy.load(found))

    def _interpreter(self, framework):
        if framework not in self._warm:
            folder = self._folder / f"interpreter-{framework}"
            folder.mkdir()
            self._warm[framework] = Interpreter(self._python_of(framework), folder)
        return self._warm[framework]


@pytest.fixture(scope="module")
def bench(python_of, tmp_path_factory):
    made = Bench(python_of, tmp_path_factory.mktemp("parity"))
    yield made
    made.close()


@pytest.mark.parametrize(("name", "framework"), CELLS)
def test_a_model_is_the_same_network_in_every_framework(bench, name, framework):
    exact, found = bench.exact(name), bench.found(name, framework)
    judged = judging.judge(exact, found, bench.case(name))
    assert judged.problems == ()
    trained = sum(value.size for key, value in found.items() if key.startswith("gradient."))
    stay = layers.frozen(described(name), table(name).get("frozen", ()))
    assert trained == layers.count(described(name), stay)


@pytest.mark.parametrize(
    ("name", "framework"), [of_framework("pytorch", way, slow=is_long("pytorch", *WAYS[way])) for way in WAYS]
)
def test_the_case_is_far_from_borders_where_rounding_decides(bench, name, framework):
    margins = judging.margins(bench.exact(name))
    assert all(margins[key] > least for key, least in LEAST.items()), margins
    initial = layers.initial_weights(described(name), SEED)
    vectors = {one: value for one, value in bench.case(name).items() if one in initial and value.ndim == 1}
    assert all((value != initial[one]).all() for one, value in vectors.items())


# What is changed in one framework only -> (framework, model, how, what is then another). Each is a mistake that a port
# of a network may have.
PLANTED = {
    "another epsilon": (
        "mxnet",
        "resnet-50",
        [
            "from suites.assemble import layers",
            "from suites.assemble.mxnet import layers as own",
            "made = own._normalization",
            "own._BLOCKS[layers.Normalization] = lambda layer: made(layer._replace(epsilon=1e-3))",
        ],
        "gradient",
    ),
    "another padding": (
        "tensorflow",
        "resnet-50",
        ["from suites.assemble.tensorflow import layers", "layers._padding = lambda side, beyond=0: 'SAME'"],
        "gradient",
    ),
    "the stride in another convolution": (
        "cntk",
        "resnet-50",
        [
            "from suites.models.resnet_50 import network",
            "made = network._block",
            "def early(name, inputs, width, stride, pixels):",
            "    block = made(name, inputs, width, stride, pixels)",
            "    if name != 'layer2.0':",
            "        return block",
            "    first, second = block.conv1._replace(stride=stride), block.conv2._replace(stride=1)",
            "    return block._replace(conv1=first, conv2=second)",
            "network._block = early",
        ],
        "gradient",
    ),
    "a bias that is left out": (
        "cntk",
        "resnet-50",
        [
            "import cntk as c",
            "from suites.assemble import layers",
            "from suites.assemble.cntk import layers as own",
            "def linear(self, layer, x_F):",
            "    return c.times(x_F, self._weight(layer)) + 0.0 * self._weight(layer, 'bias')",
            "own._OPERATIONS[layers.Linear] = linear",
        ],
        "gradient",
    ),
    "gates in another order": (
        "tensorflow",
        "lstm-classifier",
        [
            "from suites.assemble import layouts",
            "from suites.assemble.tensorflow import layers",
            "layers.LAYOUTS.update(lstm=layouts.TRANSPOSED, lstm_bias=layouts.AS_IT_IS)",
        ],
        "gradient",
    ),
    "no weight decay": (
        "mxnet",
        "lstm-classifier",
        [
            "from workers.trainer.base import optimizer",
            "numbers = optimizer.of_job",
            "optimizer.of_job = lambda job: dict(numbers(job), weight_decay=0.0)",
        ],
        "weight after the updates",
    ),
    "no limit of the gradients' norm": (
        "mxnet",
        "seq2seq",
        [
            "from workers.trainer.frameworks.mxnet import optimizers",
            "limited = optimizers.update",
            "optimizers.update = lambda trainer, divisor, limit, *more: limited(trainer, divisor, None, *more)",
        ],
        "weight after the updates",
    ),
    "padding that is turned round too": (
        "tensorflow",
        "seq2seq",
        [
            "import tensorflow as tf",
            "tf.reverse_sequence = lambda x, lengths, seq_axis, batch_axis: tf.reverse(x, [seq_axis])",
        ],
        "gradient",
    ),
    "no momentum": (
        "cntk",
        "resnet-50",
        [
            "from workers.trainer.base import optimizer",
            "numbers = optimizer.of_job",
            "optimizer.of_job = lambda job: dict(numbers(job), momentum=0.0)",
        ],
        "weight after the updates",
    ),
    "no mask": (
        "tensorflow",
        "transformer",
        ["from suites.assemble.tensorflow import layers", "layers._NOTHING = 0.0"],
        "gradient",
    ),
    "a decay of biases": (
        "tensorflow",
        "gpt-2",
        [
            "from workers.trainer.base import optimizer",
            "numbers = optimizer.of_job",
            "optimizer.of_job = lambda job: dict(numbers(job), decay_vectors=True)",
        ],
        "weight after the updates",
    ),
    "another beginning": (
        "mxnet",
        "lstm-classifier",
        [
            "from suites.assemble import layers",
            "drawn = layers.initial_weights",
            "layers.initial_weights = lambda described, seed: drawn(described, seed + 1)",
        ],
        "beginning of a training",
    ),
}


FOUND = [of_framework(framework, what, slow=framework == "tensorflow") for what, (framework, *_) in PLANTED.items()]


@pytest.mark.parametrize(("what", "framework"), FOUND)
def test_a_planted_difference_is_found(bench, what, framework):
    _, name, lines, told = PLANTED[what]
    judged = judging.judge(bench.exact(name), bench.found(name, framework, lines), bench.case(name))
    assert any(problem.startswith(f"the {told}") for problem in judged.problems), judged


@pytest.mark.framework("pytorch")
def test_the_exact_loss_of_the_lstm_is_that_of_its_equations(bench):
    case = bench.case("lstm-classifier")
    assert float(bench.exact("lstm-classifier")["loss"]) == pytest.approx(loss_by_the_equations(case), rel=1e-6)


def loss_by_the_equations(case):
    """Hochreiter and Schmidhuber's cell with the forget gate of Gers et al., word after word, in double precision."""
    tokens = case["batch.tokens"]
    words = case["embedding.weight"].astype(float)[tokens]
    for layer in lstm_network.lstm(table("lstm-classifier")):
        w, v, b, c = (case[layer.parameter(part)] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        hidden = cell = numpy.zeros((len(words), layer.hidden))
        outputs = []
        for place in range(words.shape[1]):
            gates = numpy.split(words[:, place] @ w.T + b + hidden @ v.T + c, 4, axis=1)
            enter, forget, leave = (1 / (1 + numpy.exp(-gates[gate])) for gate in (0, 1, 3))
            cell = forget * cell + enter * numpy.tanh(gates[2])
            hidden = leave * numpy.tanh(cell)
            outputs.append(hidden)
        words = numpy.stack(outputs, axis=1)
    lengths = (tokens != texts.PADDING).sum(axis=1)
    means = numpy.stack([text[:length].mean(axis=0) for text, length in zip(words, lengths, strict=True)])
    logits = means @ case["fc.weight"].T + case["fc.bias"]
    chosen = logits[numpy.arange(len(logits)), case["batch.labels"]]
    return float((numpy.log(numpy.exp(logits).sum(axis=1)) - chosen).mean())


# Model, what of its size says how wide a batch's arrays are, and which places of its outputs are no padding.
PADDED = {
    "seq2seq": (("source_tokens", "target_tokens"), lambda case: case["batch.shares"] > 0),
    "deep-speech-2": (("frames", "characters"), lambda case: case["batch.mask"][:, ::2] > 0),
    "deep-speech-2-cell=gru": (("frames", "characters"), lambda case: case["batch.mask"][:, ::2] > 0),
}


@pytest.mark.parametrize(
    ("way", "framework"),
    [
        of_framework(framework, way, slow=framework == "tensorflow" or "gru" in way)
        for way in PADDED
        for framework in MODELS[WAYS[way][0]].frameworks
    ],
)
def test_padding_changes_no_result(bench, way, framework):
    found, case = bench.found(way, framework), bench.case(way)
    (widths, no_padding), (name, options) = PADDED[way], WAYS[way]
    size = {**table(way), **{key: table(way)[key] + 3 for key in widths}}
    wide = {one for one in case if one.startswith("batch.") and case[one].ndim > 1}
    beyond = {one: [(0, 0)] * (case[one].ndim - 1) + [(0, 3)] for one in wide}
    wider = {one: numpy.pad(array, beyond[one]) if one in wide else array for one, array in case.items()}
    job = parity.job(MODELS[name], framework, size, BATCH, SEED, [0], options)
    padded = bench.of_case(f"wider-{way}-{framework}", wider, job)
    within, outputs = no_padding(case), "evaluated.output_0"
    padded[outputs] = padded[outputs][:, : found[outputs].shape[1]]
    assert (case["batch.mask"] == 0).any()
    for name in (one for one in found if one.startswith(("evaluated.", "gradient.", "statistic.", "weight."))):
        one, other = (x[name][within] if name == "evaluated.output_0" else x[name] for x in (padded, found))
        # By lengths, as parity: long sequences add up more rounding.
        assert numpy.linalg.norm(one - other) <= 1e-4 * numpy.linalg.norm(other), name


# How near a framework's own count of operations comes to the facts. TensorFlow also counts those that are neither
# convolution nor matrix product, and knows none of an LSTM's.
COUNTERS = {"pytorch": 0.01, "tensorflow": 0.03}


@pytest.mark.parametrize("framework", [of_framework(framework) for framework in COUNTERS])
@pytest.mark.after_change
def test_the_facts_state_the_operations_that_a_framework_counts(python_of, framework):
    cells = [
        (model.facts_with(options), name)
        for model in MODELS.values()
        for options in ways(model)
        for name in model.sizes
        if offers(model, options, name)
        if framework == "pytorch" or countable(name, layers_of(model, model.facts_with(options)["sizes"][name]))
    ]
    sizes = [facts["sizes"][name] for facts, name in cells]
    given = [
        [facts["module"], facts["input"], {**size, "dropout": 0.0}]
        for (facts, _), size in zip(cells, sizes, strict=True)
    ]
    counted = script(python_of(framework), f"operations_{framework}.py", json.dumps(given))
    stated = [size["flops_per_sample"] for size in sizes]
    assert json.loads(counted) == pytest.approx(stated, rel=COUNTERS[framework])


def zeros_of_wgan_gp():
    """Through the gradient of an average PyTorch sends zeros back, and through the layer before it."""
    (pooled,) = [layer for layer in described("wgan-gp") if layer.name == "critic.res4.conv2"]
    return table("wgan-gp")["critic_updates"] * 2 * pooled.flops()


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
@pytest.mark.parametrize(("name", "more"), [("wgan-gp", zeros_of_wgan_gp), ("a3c", lambda: 0)], ids=["wgan-gp", "a3c"])
def test_the_facts_state_the_operations_of_a_step_that_is_no_three_passes_forward(python_of, tmp_path, name, more):
    job = parity.job(MODELS[name], "pytorch", table(name), BATCH, SEED, [0])
    (tmp_path / "job.json").write_text(json.dumps({**job, "process": "worker0"}))
    counted = script(python_of("pytorch"), "operations_of_step.py", str(tmp_path / "job.json"))
    assert json.loads(counted) == table(name)["step_flops_per_sample"] + more()


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
@pytest.mark.parametrize("name", ["faster-rcnn", "mask-rcnn"])
def test_what_a_detector_does_not_learn_has_no_gradient_and_no_operations(python_of, tmp_path, name):
    """Of fixed layers neither the gradient of what they are given is computed nor that of their weights."""
    size = table(name)
    job = parity.job(MODELS[name], "pytorch", size, BATCH, SEED, [0])
    (tmp_path / "job.json").write_text(json.dumps({**job, "process": "worker0"}))
    counted = script(python_of("pytorch"), "operations_of_step.py", str(tmp_path / "job.json"))
    assert json.loads(counted) == 3 * size["flops_per_sample"] - size["input_gradient_flops_per_sample"]


def countable(size, described):
    """Whether TensorFlow's statistics tell: they know nothing of an LSTM or a loop, and a normalisation of few numbers
    counts."""
    if any(isinstance(one, (Lstm, BidirectionalRecurrent)) for one in described):
        return False
    return size != "tiny" or not any(isinstance(one, LayerNormalization) for one in described)


def script(python, name, argument):
    """Run one of ``scripts`` in the interpreter ``python``; return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2", **environment_for(python)}
    command = [python, str(Path(__file__).parent / "scripts" / name), argument]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd="/")
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()[-1]
