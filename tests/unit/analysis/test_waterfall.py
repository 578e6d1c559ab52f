"""Waterfalls: their parts add up whatever is told, and who is slower than the others is named, and nobody else."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis.s_sgd.buckets import Bucket
from orchestrator.analysis.s_sgd.explain.cell_difference import differences
from orchestrator.analysis.s_sgd.explain.rank_steps import RankStep, RunSteps, load
from orchestrator.analysis.s_sgd.explain.waterfall import COMPUTING, EXPOSED, RESIDUAL, waterfall
from orchestrator.analysis.s_sgd.inputs import NotAnInput, active_step, inputs_of, step_of
from orchestrator.analysis.s_sgd.labels import Merger
from orchestrator.domain.value.profile import GradientExchange, Layer, LayerTimes

seconds = st.floats(0.0, 10.0)


@st.composite
def runs(draw, ranks, told):
    passes = [tuple(draw(seconds) for _ in range(3)) for _ in range(ranks)]
    steps = tuple(
        RankStep(
            rank,
            draw(seconds),
            draw(seconds),
            math.fsum(own) if told != "nothing" else None,
            own if told == "layers" else None,
            draw(seconds) if told == "layers" else None,
        )
        for rank, own in enumerate(passes)
    )
    return RunSteps(draw(st.floats(0.1, 50.0)), steps)


def side(draw, ranks, told):
    blocks = draw(st.lists(st.integers(1, 5), min_size=1, unique=True))
    return {block: draw(runs(ranks, told)) for block in blocks}


@given(st.data(), st.sampled_from(["layers", "activity", "nothing"]), st.booleans(), st.booleans())
def test_parts_add_up_to_the_iteration_whatever_is_told(data, told, alone, paired):
    many = side(data.draw, data.draw(st.integers(1, 3)), told)
    one = None if alone else side(data.draw, 1, told)
    found = waterfall(many, one, paired)
    known = [part.estimate.seconds for part in found.parts if part.estimate]
    assert math.fsum(known) == pytest.approx(found.iteration.seconds, abs=1e-9)
    for part in found.parts:
        if part.estimate and part.estimate.ci_low is not None:
            assert part.estimate.ci_low <= part.estimate.seconds <= part.estimate.ci_high
    rest = found.parts[-1]
    assert rest.name == RESIDUAL
    if told == "activity" and not (found.straggler and found.straggler.named):
        assert rest.estimate.seconds == pytest.approx(0.0, abs=1e-9)
    if one is not None:
        *parts, whole = differences(many, one, paired)
        told_of_both = [part.difference.seconds for part in parts if part.difference]
        assert math.fsum(told_of_both) == pytest.approx(whole.difference.seconds, abs=1e-9)


def a_run(step_s, *computes, exposed_s=None):
    return RunSteps(step_s, tuple(RankStep(r, 0.0, 0.0, one, None, exposed_s) for r, one in enumerate(computes)))


def test_each_part_is_the_difference_to_one_device_within_blocks():
    slow = (0.0, 40.0, 80.0)
    one = {block: a_run(100.0 + s, 90.0 + s, exposed_s=1.0) for block, s in enumerate(slow)}
    many = {block: a_run(150.0 + s, 100.0 + s, 104.0 + s, exposed_s=30.0) for block, s in enumerate(slow)}
    found = waterfall(many, one)
    values = {part.name: part.estimate.seconds for part in found.parts}
    # Rank 1 is 2 s above the mean in every block: of 30 s exposed it waits for nobody, one device has 1 s.
    assert values == pytest.approx(
        {"one device": 140, "input, copy": 0, "cores taken": 12, EXPOSED: 29, "straggler": 2, RESIDUAL: 7}
    )
    assert (found.straggler.rank, found.straggler.named, found.paired, found.blocks) == (1, True, True, 3)
    assert found.bottleneck == "the exchange: 15% of the iteration, as far as these runs tell"
    # The slow blocks are slow in both: they widen the interval of two experiments, and not that of one.
    apart = waterfall(many, one, paired=False)
    taken = [one.parts[2].estimate for one in (found, apart)]
    assert taken[0].ci_low is None
    assert taken[1].ci_low < 12 < taken[1].ci_high
    assert waterfall(many, None).parts[0].name == COMPUTING


def test_what_a_gpu_does_not_tell_is_in_the_residual():
    untold = RunSteps(2.0, (RankStep(0, 0.5, 0.0, None), RankStep(1, 0.5, 0.0, None)))
    found = waterfall({1: untold}, {1: RunSteps(1.0, (RankStep(0, 0.25, 0.0, None),))})
    values = {part.name: part.estimate and part.estimate.seconds for part in found.parts}
    expected = {"one device": 1.0, "input, copy": 0.25, "cores taken": None, EXPOSED: None, "straggler": None}
    assert values == {**expected, RESIDUAL: 0.75}
    assert found.bottleneck == "not told apart: see what is missing"
    assert found.straggler is None


def gangs(slowed, seed, count=200, blocks=6, ranks=4, noise=0.01):
    """Named ranks of gangs whose runs differ by ``noise``, and ranks within them by as much again."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        found = {}
        for block in range(blocks):
            computes = (1 + noise * random.standard_normal()) * (1 + noise * random.standard_normal(ranks))
            computes[2] *= slowed
            found[block] = a_run(1.5, *computes)
        straggler = waterfall(found, None).straggler
        yield straggler.rank if straggler.named else None


def test_a_rank_that_is_five_percent_slower_is_named_and_a_level_gang_is_not_accused():
    assert sum(named == 2 for named in gangs(1.05, seed=1)) >= 0.95 * 200
    assert sum(named is not None for named in gangs(1.0, seed=2)) <= 0.02 * 200
    assert next(gangs(1.5, seed=3, blocks=1)) is None  # one run knows no noise


TIMES = LayerTimes(
    rank=0,
    method="hooks",
    steps=2,
    elapsed_s=4.0,
    serialised=False,
    breakdown={
        "input_s": 0.1,
        "host_to_device_s": None,
        "forward_s": 0.5,
        "backward_s": 1.0,
        "exchange_s": 0.0,
        "update_s": 0.2,
    },
    reasons={"host_to_device_s": "nothing is copied"},
    rows=(Layer("stem", "Conv", 3, 0.2, 0.1), Layer("relu", "ReLU", 0, 0.1, 0.1), Layer("fc", "Linear", 5, 0.1, 0.2)),
    exposed_exchange_s=0.0,
)


def test_inputs_are_scaled_to_the_timed_step_and_gradients_become_ready_from_the_last_layer_on():
    found = inputs_of(TIMES, step_s=1.0)
    assert found.slowdown == 2.0
    parts = found.parts
    assert (parts.io_s, parts.host_to_device_s, parts.forward_s, parts.update_s) == (0.05, 0.0, 0.25, 0.1)
    assert parts.backward_s == pytest.approx((0.125, 0.125, 0.25))  # they are all of the backward pass
    assert found.gradient_bytes == (3, 0, 5)
    assert found.buckets(Merger.DDP, 5) == [Bucket(0, 1, 5), Bucket(1, 2, 3)]
    assert found.buckets(Merger.HOROVOD, 8) == [Bucket(0, 2, 8)]
    step = step_of(TIMES, 1.0, input_s=0.3)
    assert (step.input_s, step.passes, step.exposed_s) == (0.3, (0.25, 0.5, 0.1), 0.0)
    copied = step_of(replace(TIMES, breakdown={**TIMES.breakdown, "host_to_device_s": 0.4}), 1.0, input_s=0.3)
    assert load(RunSteps(1.0, (copied,)), copied) == pytest.approx(0.3 + 0.2)
    by_itself = replace(TIMES, exchanges=(GradientExchange("bucket 0", 8, 0.0, 1.0),))
    assert inputs_of(by_itself, 1.0) == found  # a rank of DDP that is alone exchanges with itself
    assert active_step(1, 0.6, 1.2, 3.0, 0.3).compute_s == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"steps": 0}, "took no time"),
        ({"breakdown": {**TIMES.breakdown, "backward_s": None}}, "does not tell backward_s"),
        ({"rows": (Layer("stem", "Conv", 3, 0.2, None),)}, "does not tell the backward pass of each layer"),
    ],
)
def test_a_profile_that_is_none_of_one_device_is_refused(changes, told):
    with pytest.raises(NotAnInput, match=told):
        inputs_of(replace(TIMES, **changes), 1.0)
