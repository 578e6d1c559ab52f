"""The amounts that metrics of quality add up, against what they are by definition."""

import importlib
import math
import tomllib
from pathlib import Path

import numpy
import pytest

from suites import inputs, quality
from suites.quality import Examples, perplexity, top_k

ROOT = Path(quality.__file__).parent.parent


def of_classes(logits, labels):
    examples = Examples((numpy.zeros((len(labels), 1)),), (numpy.array(labels),))
    return top_k.sums([numpy.array(logits, numpy.float32)], examples, None)


def test_a_choice_is_right_where_the_label_has_the_highest_logit_and_among_five_where_it_has_one_of_these():
    rows = [[9, 1, 2, 3, 4, 5, 6], [9, 8, 2, 3, 4, 5, 6], [9, 8, 7, 6, 5, 1, 4], [9, 8, 7, 6, 5, 4, 3]]
    assert of_classes(rows, [0, 1, 4, 6]) == {"n": 4.0, "top_1": 1.0, "top_5": 3.0}


@pytest.mark.parametrize("logit", [0.0, math.nan, math.inf])
def test_a_network_that_tells_nothing_is_never_right(logit):
    assert of_classes([[logit] * 6] * 6, range(6)) == {"n": 6.0, "top_1": 0.0, "top_5": 0.0}


def test_the_likelihood_of_tokens_is_that_of_the_softmax_in_double_precision():
    generator = numpy.random.RandomState(1)
    logits = (generator.standard_normal((2, 3, 7)) * 40.0).astype(numpy.float32)
    following = generator.randint(0, 7, (2, 3))
    found = perplexity.sums([logits], Examples((following,), (following,)), None)
    each = [
        math.log(sum(math.exp(float(one) - float(row[chosen])) for one in row))
        for row, chosen in zip(logits.reshape(6, 7), following.reshape(6), strict=True)
    ]
    assert found["tokens"] == 6.0
    assert found["nll"] == pytest.approx(sum(each), rel=1e-12)


def test_a_network_that_foresees_nothing_is_as_perplexed_as_there_are_tokens():
    following = numpy.zeros((2, 4), int)
    found = perplexity.sums([numpy.zeros((2, 4, 50), numpy.float32)], Examples((following,), (following,)), None)
    assert math.exp(found["nll"] / found["tokens"]) == pytest.approx(50.0)


def test_every_metric_that_is_offered_has_a_module_and_a_model_that_names_it():
    facts = [tomllib.loads(path.read_text()) for path in ROOT.glob("models/*/model.toml")]
    tables = [table for one in facts for table in (one, *one.get("variants", ()))]
    named = {table.get("quality", {}).get("metric") for table in tables}
    assert set(quality.METRICS) <= named
    assert all(callable(quality.module_of(metric).sums) for metric in quality.METRICS)
    assert set(quality.BOUNDS) == set(quality.METRICS)


def test_the_inputs_that_are_said_to_have_an_evaluation_are_those_that_have_one():
    having = {path.stem for path in ROOT.glob("inputs/*.py") if "\ndef evaluation(" in path.read_text()}
    assert set(inputs.EVALUATED) == having
    assert all(callable(importlib.import_module(f"suites.inputs.{name}").epoch_samples) for name in having)


@pytest.mark.parametrize(
    ("metric", "sums", "value"),
    [
        ("top_1_accuracy_ratio", {"n": 8.0, "top_1": 6.0, "top_5": 8.0}, 0.75),
        ("perplexity", {"tokens": 10.0, "nll": 20.0}, math.exp(2.0)),
        ("perplexity", {"tokens": 1.0, "nll": 1e6}, math.inf),
    ],
)
def test_the_quality_is_computed_from_the_totals(metric, sums, value):
    assert quality.value(metric, sums) == pytest.approx(value)


def test_a_target_is_reached_from_its_own_side_and_never_by_what_is_no_number():
    assert [quality.reaches(one, 0.8, "higher") for one in (0.79, 0.8, math.inf, math.nan)] == [
        False,
        True,
        False,
        False,
    ]
    assert [quality.reaches(one, 20.0, "lower") for one in (20.1, 20.0, math.nan)] == [False, True, False]
