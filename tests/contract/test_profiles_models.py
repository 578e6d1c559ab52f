"""Profiles of one model of each kind, in every framework that it is there in, against what its facts say.

What a profile's figures mean is held to in ``test_profiles.py``, on two models. Here: that tables which are used twice,
weights that are not trained and branches are counted as the facts count them.
"""

import pytest

from orchestrator.services.facts.catalog import load_catalog
from suites.assemble.layers import BidirectionalLstm, BidirectionalRecurrent, Lstm, count
from tests.support.allocation_lists import played
from tests.support.networks import layers_of, way_id
from tests.support.profiled import has_outside, only
from tests.trainer_process import Trainer, make_job, run

MODELS = load_catalog().models
KINDS = [
    ("gpt-2", {}),
    ("transformer", {}),
    ("seq2seq", {}),
    ("deep-speech-2", {}),
    ("deep-speech-2", {"cell": "gru"}),
    ("bert-base", {"task": "pretrain"}),
    ("bert-base", {"task": "finetune", "freeze_encoder": True}),
    ("inception-v3", {}),
    ("wgan-gp", {}),
    ("a3c", {}),
    ("faster-rcnn", {}),
    ("mask-rcnn", {}),
]

# What CNTK's list lacks of its heap, MKL's code and buffers, is 3 MB of Inception-v3: 8.2 % of a tiny one with two
# threads, and 11.2 % with one, which takes less of all else; where MKL writes code, 23.6 % (AVX2) and 12.8 % (AVX-512).
LARGEST_RESIDUALS = {"pytorch": 0.05, "tensorflow": 0.05, "mxnet": 0.10, "cntk": 0.27}

pytestmark = pytest.mark.after_change


def cell(framework, name, options):
    return pytest.param(
        framework, name, options, marks=pytest.mark.framework(framework), id=way_id(MODELS[name], options, framework)
    )


CELLS = [cell(framework, name, options) for name, options in KINDS for framework in MODELS[name].frameworks]


def job_of(framework, name, options, profile):
    folder = MODELS[name].facts["module"].rpartition(".")[2]
    job = make_job(folder, framework, profile=profile, max_steps=2, options=options)
    return {**job, "model": MODELS[name].facts_with(options)}


def bytes_of(name, options):
    """(of all weights, of those that are trained) at the size tiny."""
    size = MODELS[name].facts_with(options)["sizes"]["tiny"]
    return 4 * size["parameters"], 4 * size["trainable_parameters"]


def added_up(name, options):
    """Bytes of biases that TensorFlow takes in a sum with others: both have one gradient together. GRUs' are apart."""
    described = layers_of(MODELS[name], MODELS[name].facts_with(options)["sizes"]["tiny"])
    kinds = (Lstm, BidirectionalLstm, BidirectionalRecurrent)
    summed = [one for one in described if isinstance(one, kinds) and getattr(one, "cell", "") != "gru"]
    found = [one for layer in summed for one in layer.parameters()]
    return 4 * sum(one.shape[0] for one in found if "bias_hh" in one.name)


def of_two_networks():
    """Bytes of gradients that TensorFlow takes in a step of WGAN-GP beyond one for each weight, and how many of them it
    may lack: the critic's for each further update, less those of the generator's shortcuts, whose biases have the same
    as those of conv2 beside them. That of the critic's last bias is a constant, of which it makes one or none."""
    size = MODELS["wgan-gp"].facts["sizes"]["tiny"]
    described, times = layers_of(MODELS["wgan-gp"], size), size["critic_updates"]
    shared = sum(one.outputs for one in described if one.name.startswith("generator.") and "shortcut" in one.name)
    return 4 * ((times - 1) * count([one for one in described if "critic." in one.name]) - shared), 4 * times


@pytest.mark.parametrize(("framework", "name", "options"), CELLS)
def test_weights_gradients_and_state_are_those_of_the_facts_and_the_residual_is_small(
    python_of, tmp_path, framework, name, options
):
    trainer = Trainer(job_of(framework, name, options, ["memory"]), tmp_path, python_of(framework), phase="memory")
    assert trainer.finish() == 0, trainer.output
    memory = played(trainer.data("allocations"))
    whole, trained = bytes_of(name, options)
    assert memory.most["weights"] == memory.live["weights"] == whole
    # Momenta are as many as the trained weights, Adam's two states twice that, with a few numbers of its own.
    assert trained <= memory.most["optimizer_state"] < 2.1 * trained
    if framework == "tensorflow":
        # It gives each gradient back when it was used.
        more, folded = of_two_networks() if name == "wgan-gp" else (0, 0)
        taken = [memory.taken["weight_gradients", step] for step in (1, 2, 3)]
        assert taken == pytest.approx([trained - added_up(name, options) + more] * 3, abs=folded)
    else:
        assert memory.most["weight_gradients"] == trained
    residual = 1 - memory.peak_bytes / memory.whole["peak_bytes"]
    assert abs(residual) < LARGEST_RESIDUALS[framework]
    assert has_outside(framework, memory)


@pytest.mark.parametrize(("framework", "name", "options"), CELLS)
def test_every_layer_with_weights_is_timed_and_all_weights_are_in_one_layer(
    python_of, tmp_path, framework, name, options
):
    (trainer,) = run(job_of(framework, name, options, ["kernels", "layers"]), tmp_path, python_of(framework))
    assert trainer.popen.returncode == 0, trainer.output
    kernels, layers = only(trainer, "kernels"), only(trainer, "layers")
    assert 0 < kernels["active_s"] <= kernels["elapsed_s"]
    assert sum(len(chunk["items"]) for chunk in trainer.data("spans")) > 0
    whole, trained = bytes_of(name, options)
    rows = [row for row in layers["rows"] if row["parameters_bytes"]]
    assert sum(row["parameters_bytes"] for row in rows) == whole
    assert [row["name"] for row in rows if not row["forward_s"]] == []
    learning = [row for row in rows if row["backward_s"]]
    if trained == whole:
        assert learning == rows
    else:
        assert trained <= sum(row["parameters_bytes"] for row in learning) < whole
