"""The communication function: segments, errors on the published logs, other numbers of nodes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.analysis.s_sgd.communication import Communication, Segment, fit
from orchestrator.analysis.s_sgd.labels import Algorithm, Beside
from orchestrator.analysis.s_sgd.more_nodes import counts, on_other_nodes
from tests.unit.analysis.test_s_sgd import LOGS

TWO = Communication((Segment(4, 1000, 1e-4, None), Segment(2000, 9000, 3e-4, 1e7)))


@pytest.mark.parametrize(("nodes", "one_line"), [(2, 0.105), (4, 0.213)])
def test_the_published_logs_are_met_also_at_sizes_left_out(nodes: int, one_line: float) -> None:
    sizes, seconds = np.array(LOGS[nodes].sizes), np.array(LOGS[nodes].seconds)
    line = np.polyval(np.polyfit(sizes, seconds, 1), sizes)
    assert float(np.mean(np.abs(line / seconds - 1))) == pytest.approx(one_line, abs=5e-4)
    found = fit(LOGS[nodes].sizes, LOGS[nodes].seconds, Beside.IDLE)
    assert found.function.beside is Beside.IDLE
    assert found.mean_absolute_percentage_error <= 0.03
    assert found.left_out is not None
    assert found.left_out.error_within_segments <= 0.035
    assert found.left_out.between <= 9


def test_segments_that_are_there_are_found_and_no_more() -> None:
    rng = np.random.default_rng(1)
    sizes = [*range(4, 1001, 20), *range(2000, 9001, 100)]
    found = fit(sizes, list(TWO.seconds(sizes) * np.exp(rng.normal(0, 0.02, len(sizes)))))
    flat, steep = found.function.segments
    assert (flat.to_bytes, flat.bytes_per_s, steep.from_bytes) == (984, None, 2000)
    assert (flat.latency_s, steep.latency_s) == (pytest.approx(1e-4, rel=0.02), pytest.approx(3e-4, rel=0.05))
    assert steep.bytes_per_s == pytest.approx(1e7, rel=0.05)


def test_a_function_over_nine_orders_of_magnitude_is_found_exactly() -> None:
    true = Communication((Segment(4, 2**14, 1e-6, 1e10), Segment(2**15, 2**36, 1e-3, 1e8)))
    sizes = [2**power for power in range(2, 37)]
    for found, expected in zip(fit(sizes, list(true.seconds(sizes))).function.segments, true.segments, strict=True):
        assert (found.from_bytes, found.to_bytes) == (expected.from_bytes, expected.to_bytes)
        assert (found.latency_s, found.bytes_per_s) == pytest.approx((expected.latency_s, expected.bytes_per_s), 1e-6)


def test_between_segments_and_beyond_them_lines_go_on() -> None:
    sizes = [1, 1000, 1500, 2000, 19000]
    assert TWO.seconds(sizes) == pytest.approx([1e-4, 1e-4, 3e-4, 5e-4, 2.2e-3])
    assert list(TWO.between(sizes)) == [False, False, True, False, False]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    points=st.dictionaries(
        st.one_of(st.integers(1, 40), st.integers(1, 10**15)), st.floats(1e-15, 1e9), min_size=2, max_size=40
    )
)
def test_no_times_make_a_function_without_sense(points: dict[int, float]) -> None:
    sizes = sorted(points)
    found = fit(sizes, [points[size] for size in sizes])
    assert all(math.isfinite(value) and value >= 0 for value in found.function.seconds([1, *sizes, 10**16]))
    for one in found.function.segments:
        assert one.latency_s >= 0
        assert one.bytes_per_s is None or 0 < one.bytes_per_s < math.inf
    assert [found.function.segments[0].from_bytes, found.function.segments[-1].to_bytes] == [sizes[0], sizes[-1]]


@pytest.mark.parametrize(("sizes", "seconds"), [([4], [1.0]), ([4, 4], [1.0, 1.0]), ([4, 8], [1.0, 0.0])])
def test_what_cannot_be_fitted_is_refused(sizes: list[int], seconds: list[float]) -> None:
    with pytest.raises(ValueError, match=r"two sizes|have to rise"):
        fit(sizes, seconds)


# From 2 nodes: messages and bytes over the busiest link, as multiples of what 2 nodes have.
@pytest.mark.parametrize(
    ("algorithm", "nodes", "messages", "load"),
    [
        (Algorithm.RING, 4, 3, 1.5),
        (Algorithm.HALVING_DOUBLING, 4, 2, 1.5),
        (Algorithm.TREE, 5, 3, 3),
        (Algorithm.SERVER, 8, 1, 4),
    ],
)
def test_other_numbers_of_nodes_follow_the_formulas(
    algorithm: Algorithm, nodes: int, messages: float, load: float
) -> None:
    flat, steep = on_other_nodes(TWO, algorithm, 2, nodes).segments
    assert (flat.latency_s, flat.bytes_per_s) == (pytest.approx(1e-4 * messages), None)
    assert (steep.latency_s, steep.bytes_per_s) == (pytest.approx(3e-4 * messages), pytest.approx(1e7 / load))
    for wrong in (1, 10**6):
        with pytest.raises(ValueError, match="2 to"):
            counts(algorithm, wrong)
