"""Precisions of 16 bits against the exact result, each by its own stated tolerance (``tbd parity --precision``)."""

from functools import cache

import numpy
import pytest

from orchestrator.analysis.probe import parity as judging
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.probe import parity
from tests.trainer_process import run
from workers.trainer.base.processor import lacks_bfloat16

CATALOG = load_catalog()
MODELS = ("resnet-50", "alexnet", "googlenet", "lstm-classifier", "seq2seq", "deep-speech-2", "wgan-gp")


@pytest.fixture(scope="module")
def computed(python_of, tmp_path_factory):
    """A function: (model, precision, framework) -> what that finds for the case of the model, which fp64 makes."""
    cases = tmp_path_factory.mktemp("cases")

    @cache
    def compute(name, precision, framework="pytorch"):
        exact = precision == "fp64"
        if not exact:
            compute(name, "fp64")
        model = CATALOG.models[name]
        job = parity.job(model, framework, parity.size_of(model, "tiny", {}), 4, 1, [0], precision=precision)
        folder = tmp_path_factory.mktemp("run")
        found = folder / "found.npz"
        files = {"case": str(cases / f"{name}.npz"), "makes_case": exact, "found": str(found)}
        (trainer,) = run({**job, "parity": files}, folder, python_of(framework), phase="parity")
        assert trainer.popen.returncode == 0, trainer.output
        return dict(numpy.load(found)), dict(numpy.load(files["case"]))

    return compute


@pytest.mark.after_change
@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("precision", ["bf16", "amp-bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_16_bits_lose_no_more_than_is_stated_and_more_than_single_precision(computed, name, precision):
    if name in ("lstm-classifier", "seq2seq") and precision == "amp-bf16" and lacks_bfloat16():
        pytest.skip(lacks_bfloat16())
    (exact, _), (found, case) = computed(name, "fp64"), computed(name, precision)
    assert judging.judge(exact, found, case, precision).problems == ()
    assert judging.judge(exact, found, case, "fp32").problems


@pytest.mark.after_change
@pytest.mark.framework("pytorch")
@pytest.mark.framework("tensorflow")
@pytest.mark.parametrize("name", ["resnet-50", "alexnet", "googlenet"])
def test_bf16_of_tensorflow_loses_no_more_than_is_stated(computed, name):
    (exact, _), (found, case) = computed(name, "fp64"), computed(name, "bf16", "tensorflow")
    assert judging.judge(exact, found, case, "bf16").problems == ()
    assert judging.judge(exact, found, case, "fp32").problems


@pytest.mark.after_change
@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("precision", ["bf16", "amp-bf16"])
def test_a_planted_difference_is_found_in_16_bits_too(computed, precision):
    (exact, _), (found, case) = computed("alexnet", "fp64"), computed("alexnet", precision)
    scaled = {**found, "gradient.conv2.weight": 2.0 * found["gradient.conv2.weight"]}
    assert "conv2.weight" in judging.judge(exact, scaled, case, precision).problems[0]


def test_a_precision_without_a_tolerance_or_a_framework_is_refused():
    with pytest.raises(parity.InvalidRequest) as refused:
        parity.why_not_in(CATALOG, "pytorch", "tf32", "alexnet")
    assert refused.value.problems[0].message == "networks are compared in fp32, bf16, amp-bf16, not in tf32"
    assert parity.why_not_in(CATALOG, "cntk", "bf16", "alexnet") == "on CPU devices it computes in fp32, not in bf16"
    assert parity.why_not_in(CATALOG, "tensorflow", "bf16", "lstm-classifier").startswith("TensorFlow's LSTM")
    assert parity.why_not_in(CATALOG, "tensorflow", "bf16", "alexnet") is None
