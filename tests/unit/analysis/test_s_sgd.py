"""The S-SGD model: closed forms against the events of the task graph, buckets, the published traces."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.analysis.s_sgd import forecast, iteration, more_nodes, task_graph
from orchestrator.analysis.s_sgd.buckets import MIB, Bucket, ddp_buckets, horovod_buckets, horovod_exchanges
from orchestrator.analysis.s_sgd.communication import Communication, Segment, fit
from orchestrator.analysis.s_sgd.forecast import Way
from orchestrator.analysis.s_sgd.inputs import Inputs
from orchestrator.analysis.s_sgd.iteration import Exchange, Loading, Parts
from orchestrator.analysis.s_sgd.labels import Algorithm, Merger
from orchestrator.analysis.s_sgd.prediction import Merging, Nodes, NotPredictable, predict
from orchestrator.analysis.s_sgd.tables import Trace, read_log, read_trace
from orchestrator.analysis.s_sgd.task_graph import Overlap, Task, ends_s

FOLDER = Path(__file__).resolve().parents[2] / "replays" / "s_sgd"
TRACES = {nodes: read_trace((FOLDER / f"googlenet_layers_{nodes}nodes_10gbe.csv").read_text()) for nodes in (2, 4)}
LOGS = {nodes: read_log((FOLDER / f"allreduce_{nodes}nodes.csv").read_text()) for nodes in (2, 4)}

# Of any size, and with 0 and equal ones among them: many things happen at once.
SECONDS = st.one_of(st.integers(0, 3).map(float), st.floats(0, 10))
LAYERS = st.lists(st.tuples(SECONDS, SECONDS, SECONDS, st.booleans()), min_size=1, max_size=12)


@st.composite
def iterations(draw: st.DrawFn) -> tuple[Parts, list[Exchange]]:
    """Parts, and exchanges of one layer or several: the boolean of a layer says whether its bucket ends with it."""
    layers = draw(LAYERS)
    parts = Parts(draw(SECONDS), draw(SECONDS), draw(SECONDS), tuple(one[0] for one in layers), draw(SECONDS))
    numbered = list(enumerate(layers, 1))[::-1]
    return parts, [Exchange(layer, push, 0.0, pull) for layer, (_, push, pull, ends) in numbered if ends or layer == 1]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(drawn=iterations(), loading=st.sampled_from(Loading), lanes=st.integers(1, 3))
def test_the_closed_forms_are_what_the_events_of_the_graph_give(
    drawn: tuple[Parts, list[Exchange]], loading: Loading, lanes: int
) -> None:
    parts, exchanges = drawn
    forms = {
        (Overlap.WAIT_FREE, ()): iteration.one_device_s(parts, loading),
        (Overlap.NONE, tuple(exchanges)): iteration.without_overlap_s(parts, loading, exchanges),
        (Overlap.PARAMETER_SERVER, tuple(exchanges)): iteration.parameter_server_s(parts, loading, exchanges),
    }
    for (overlap, given_exchanges), expected in forms.items():
        found = task_graph.iteration_s(parts, loading, overlap, given_exchanges)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    found = task_graph.iteration_s(parts, loading, Overlap.WAIT_FREE, exchanges, lanes)
    assert found == pytest.approx(iteration.wait_free_s(parts, loading, exchanges, lanes), rel=1e-9, abs=1e-9)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(backward=st.lists(st.floats(0, 0.01), min_size=1, max_size=12), sizes=st.data(), threshold=st.integers(1, 300))
def test_horovods_exchanges_wait_for_a_cycle_and_are_those_of_the_graph(
    backward: list[float], sizes: st.DataObject, threshold: int
) -> None:
    gradients = sizes.draw(st.lists(st.integers(1, 200), min_size=len(backward), max_size=len(backward)))
    ready = iteration.backward_ends_s(backward)[::-1]
    fused = horovod_exchanges(ready, gradients, lambda size: 1e-4 + size * 1e-5, threshold)
    assert [one.bucket.first for one in fused] == [0, *(one.bucket.last for one in fused[:-1])]
    assert (fused[-1].bucket.last, sum(one.bucket.bytes for one in fused)) == (len(backward), sum(gradients))
    exchanges = []
    for one in fused:
        waited = one.start_s - ready[one.bucket.last - 1]
        assert waited >= 0
        exchanges.append(Exchange(len(backward) - one.bucket.last + 1, one.end_s - one.start_s, waited))
    parts = Parts(0.0, 0.0, 0.0, tuple(backward), 0.0)
    expected = max(fused[-1].end_s, ready[-1])
    for found in (
        task_graph.iteration_s(parts, Loading.NONE, Overlap.WAIT_FREE, exchanges),
        iteration.wait_free_s(parts, Loading.NONE, exchanges),
    ):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_task_that_waits_for_a_later_one_is_refused() -> None:
    with pytest.raises(ValueError, match="after it"):
        ends_s([Task("compute", 1.0, (1,)), Task("compute", 1.0)], {"compute": 1})


def test_buckets_are_closed_as_each_library_does_it() -> None:
    gradients = [3 * MIB, 1 * MIB, 20 * MIB, 6 * MIB, 2 * MIB]
    whole = sum(gradients)
    # What torch.distributed._compute_bucket_assignment_by_size (2.13) says of the same sizes.
    assert ddp_buckets(gradients, 25 * MIB) == [Bucket(0, 4, 30 * MIB), Bucket(4, 5, 2 * MIB)]
    assert ddp_buckets(gradients, 25 * MIB, MIB) == [
        Bucket(0, 1, 3 * MIB),
        Bucket(1, 4, 27 * MIB),
        Bucket(4, 5, 2 * MIB),
    ]
    assert horovod_buckets(gradients, 25 * MIB) == [Bucket(0, 3, 24 * MIB), Bucket(3, 5, 8 * MIB)]
    assert ddp_buckets(gradients, 1) == horovod_buckets(gradients, 1) != ddp_buckets(gradients, whole)
    assert ddp_buckets([], 1) == horovod_buckets([], 1) == []


def ms(seconds: float) -> float:
    return round(seconds * 1e3, 1)


@pytest.mark.parametrize(("nodes", "expected"), [(2, (200.3, 154.0, 200.7, 0.4)), (4, (206.8, 261.5, 262.0, 55.2))])
def test_the_published_traces_give_what_was_computed_from_them(nodes: int, expected: tuple[float, ...]) -> None:
    found = predict(TRACES[nodes])
    assert expected == tuple(
        map(ms, (found.sum_backward_s, found.sum_exchange_s, found.end_of_exchange_s, found.exposed_s))
    )


def test_a_library_alone_is_quicker_than_in_the_training() -> None:
    for nodes, ratio in ((2, 1.64), (4, 2.25)):
        function = fit(LOGS[nodes].sizes, LOGS[nodes].seconds).function
        found = predict(TRACES[nodes], function)
        assert (found.exchange_ratio, found.beyond) == (pytest.approx(ratio, abs=0.01), 11)
        assert found.exposed_s < 0.001


def test_four_nodes_are_predicted_from_two_within_a_tenth() -> None:
    measured = predict(TRACES[4]).end_of_exchange_s
    found = predict(TRACES[2], nodes=Nodes(2, 4)).end_of_exchange_s
    assert found == pytest.approx(measured, rel=0.1)
    assert predict(TRACES[2]).end_of_exchange_s < 0.8 * measured  # what "no change" would say
    for algorithm in Algorithm:
        same = predict(TRACES[2], nodes=Nodes(2, 2, algorithm))
        assert same.end_of_exchange_s == pytest.approx(predict(TRACES[2]).end_of_exchange_s)


def test_merged_gradients_are_the_trace_in_fewer_exchanges() -> None:
    found = predict(TRACES[2], merging=Merging(25 * MIB, MIB))
    assert (len(found.exchanges), found.exchanges[0]) == (3, 1025024 * 4)
    fused = predict(TRACES[2], merging=Merging(128 * MIB, by=Merger.HOROVOD))
    assert (sum(fused.exchanges), fused.sum_backward_s) == (sum(found.exchanges), found.sum_backward_s)
    assert fused.exposed_s < found.exposed_s  # what is ready goes, and waits for no cap
    assert found.exchange_ratio == pytest.approx(1.108, abs=0.001)  # of what the fit leaves out
    assert sum(found.exchanges) == sum(TRACES[2].gradient_bytes) == 13_379_136 * 4


@pytest.mark.parametrize(
    ("trace", "asked"),
    [
        (Trace((0, 0), (1.0, 1.0), (0.0, 0.0)), {}),
        (Trace((4, 4), (1.0, 1.0), (1.0, 2.0)), {"merging": Merging(8)}),
        (Trace((4, 8), (1.0, 1.0), (0.0, 2.0)), {"nodes": Nodes(2, 4)}),
    ],
)
def test_what_a_trace_cannot_tell_is_refused(trace: Trace, asked: dict[str, Merging]) -> None:
    with pytest.raises(NotPredictable):
        predict(trace, **asked)


@pytest.mark.parametrize(
    ("steps", "errors", "factor"),
    [
        ([0.1], [], 2.0),  # nothing was judged: within a factor of two
        ([0.1], [0.01] * 8, 2.0),
        ([0.1], [-3.0, 0.1], math.exp(3.0)),  # … or as far off as one was
        ([0.1], [0.01] * 8 + [-0.2], math.exp(0.2)),  # of nine the largest
        ([0.1], [0.3] + [0.01] * 18, math.exp(0.01)),  # of nineteen the last but one
        ([0.1, 0.1, 0.1], [0.1] * 9, math.exp(0.1)),
    ],
)
def test_the_interval_of_a_prediction_has_the_errors_of_earlier_ones(steps, errors, factor):
    assert math.exp(forecast.half_width(steps, errors)) == pytest.approx(factor)


def test_the_interval_of_a_prediction_has_the_spread_of_its_runs():
    # Student's t of 2 degrees of freedom: 2.92 at 95 %; the logarithms' standard deviation is 0.1
    spread = 2.92 * 0.1 / math.sqrt(3)
    found = forecast.half_width([math.exp(one) for one in (-0.1, 0.0, 0.1)], [0.05] * 9)
    assert found == pytest.approx(math.hypot(spread, 0.05), rel=1e-3)


@given(st.integers(1, 5000), st.integers(1, 40))
def test_as_many_nodes_are_found_as_have_the_efficiency(truth, least):
    found = forecast.most_nodes(lambda nodes: 1.0 if nodes <= truth else 0.5, 0.8, least, 4000)
    assert found == (None if least > truth else min(truth, 4000))


@given(st.floats(1e-4, 1e4))
def test_the_least_bandwidth_that_is_enough_is_found(enough):
    found = forecast.least_bandwidth(lambda times: 1.0 if times >= enough else 0.0, 0.5)
    assert found == pytest.approx(enough, rel=1e-6)
    assert forecast.least_bandwidth(lambda times: 0.4, 0.5) is None


PUSH, PULL = (Communication((Segment(1, 10**9, latency_s, rate),)) for latency_s, rate in ((1e-3, 1e9), (2e-3, 5e8)))
STEP = Inputs(Parts(0.001, 0.0, 0.02, (0.01, 0.02, 0.01), 0.005), 0.0, (30 * 10**6, 0, 50 * 10**6), 1.0)


def test_with_servers_pushes_and_pulls_have_a_lane_each() -> None:
    found = forecast.expected(STEP, Way(True, None), (PUSH, PULL))
    graph = [Exchange(3, 0.051, pull_s=0.102), Exchange(1, 0.031, pull_s=0.062)]
    wanted = task_graph.iteration_s(STEP.parts, Loading.NONE, Overlap.PARAMETER_SERVER, graph)
    assert found.iteration_s == pytest.approx(wanted)
    assert found.exchanges == (50 * 10**6, 30 * 10**6)
    with pytest.raises(NotPredictable):
        forecast.expected(replace(STEP, gradient_bytes=(0, 0, 0)), Way(True, None), (PUSH, PULL))


def test_gradients_that_are_exchanged_together_pay_one_latency() -> None:
    found = forecast.expected(STEP, Way(False, Merging(more_nodes.MOST_BYTES)), (PUSH,))
    assert (found.exchanges, found.exposed_s) == ((80 * 10**6,), pytest.approx(0.081))


def test_servers_on_each_node_keep_a_share_of_the_bytes_and_two_messages() -> None:
    (there,) = more_nodes.on_other_nodes(PUSH, Algorithm.SERVERS, 2, 4).segments
    assert (there.latency_s, there.bytes_per_s) == (PUSH.segments[0].latency_s, pytest.approx(1e9 / 1.5))
    (half,) = more_nodes.over_link(1e-3, 1e9, Algorithm.SERVERS, 4, 2).segments
    assert (half.latency_s, half.bytes_per_s) == (1e-3, pytest.approx(1e9 / 0.75))
