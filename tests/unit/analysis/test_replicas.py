"""Replicas of the ranks at the end: equal, near, apart, unheard of."""

import numpy

from orchestrator.analysis.analyse import analyse
from tests.unit.analysis.logs import NODE, a_job, a_log, closed
from workers.trainer import replica

SYNCHRONOUS = {"name": "ddp", "synchronous": True}


def with_replicas(weights, **strategy):
    """A log of a good run whose ranks end with ``weights`` (arrays by rank)."""
    job = a_job(ranks=len(weights), strategy={**SYNCHRONOUS, **strategy})
    entries = a_log(ranks=len(weights), job=job)[:-1]
    like = entries[-1]
    told = [
        {**like, "kind": "replica", "rank": rank, "data": replica.describe([array])}
        for rank, array in enumerate(weights)
        if array is not None
    ]
    return {NODE: closed([*entries, *told])}


def weights(distance=0.0):
    generator = numpy.random.RandomState(1)
    array = generator.standard_normal(1000)
    other = generator.standard_normal(1000)
    return array + distance * other * numpy.linalg.norm(array) / numpy.linalg.norm(other)


def measured(analysis):
    return next(one for one in analysis.measurements if one.metric == "replica_distance_ratio")


def test_equal_replicas_are_zero_apart():
    analysis = analyse(with_replicas([weights(), weights()]))
    assert analysis.validity.sound
    assert measured(analysis).value == 0.0
    assert "checksums" in measured(analysis).method


def test_synchronous_replicas_that_differ_make_a_run_invalid_for_good():
    analysis = analyse(with_replicas([weights(), weights(0.1), weights()]))
    (reason,) = analysis.validity.reasons
    assert (reason.code, reason.replaceable) == ("replicas_differ", False)
    assert "replicas differ: 2 different sets of weights on 3 ranks" in reason.text
    assert 0.08 < measured(analysis).value < 0.12


def test_replicas_within_the_strategys_tolerance_are_noted():
    analysis = analyse(with_replicas([weights(), weights(1e-6)], replica_tolerance=1e-5))
    assert analysis.validity.sound
    assert any("within the strategy's tolerance" in note for note in analysis.validity.notes)


def test_asynchronous_replicas_have_a_distance_that_is_reported():
    analysis = analyse(with_replicas([weights(), weights(0.1)], synchronous=False))
    assert analysis.validity.sound
    assert any("asynchronous" in note for note in analysis.validity.notes)
    assert measured(analysis).value > 0.08


def test_a_rank_that_says_nothing_of_its_weights_makes_the_run_invalid():
    analysis = analyse(with_replicas([weights(), None]))
    assert [reason.code for reason in analysis.validity.reasons] == ["replicas_missing"]


def test_weights_that_are_no_numbers_are_infinitely_far_apart():
    broken = weights()
    broken[3] = numpy.nan
    analysis = analyse(with_replicas([weights(), broken], replica_tolerance=1.0))
    assert [reason.code for reason in analysis.validity.reasons] == ["replicas_differ"]
    assert measured(analysis).value is None
