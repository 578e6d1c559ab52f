"""The paper's observations on scripted results: what makes each hold, fail, or lack data."""

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.analysis.paper.observation_rules import Answer, CellResult
from orchestrator.analysis.paper.observations import observe

HOLDS, DOES_NOT, NOT_ENOUGH, NOT_APPLICABLE = Answer.HOLDS, Answer.DOES_NOT, Answer.NOT_ENOUGH, Answer.NOT_APPLICABLE
KERNELS = [("sgemm", 0.6, 0.8), ("batch_norm", 0.3, 0.1), ("copy", 0.1, 0.0)]


def cell(batch=8, rate=100.0, model="resnet-50", framework="pytorch", layer="convolution", kind="cuda", **more):
    device = more.pop("device", "a gpu" if kind == "cuda" else "a cpu")
    return CellResult(
        series=f"{model} {framework} {device}",
        workload=device,
        model=model,
        dominant_layer=layer,
        framework=framework,
        device_kind=kind,
        device_name=device,
        batch=batch,
        throughput=rate,
        **more,
    )


def series(rates, levels=None, metric="compute_utilization_ratio", **more):
    """Batches 8, 16, 32 …; ``levels``: of ``metric``."""
    levels = [{}] * len(rates) if levels is None else [{metric: level} for level in levels]
    return [
        cell(8 << index, rate, measured=level, **more)
        for index, (rate, level) in enumerate(zip(rates, levels, strict=True))
    ]


def lstm(*arguments, **more):
    return series(*arguments, model="lstm", layer="lstm", **more)


def answer(number, cells):
    (found,) = [one for one in observe(cells) if one.number == number]
    assert found.finding.told
    return found.finding.answer


def test_without_results_there_is_not_enough_data_for_any():
    assert [one.finding.answer for one in observe([])] == [NOT_ENOUGH] * 12
    assert [one.number for one in observe([])] == list(range(1, 13))


def test_what_speaks_of_gpus_does_not_apply_to_cpu_devices():
    found = {one.number: one.finding.answer for one in observe(series([100, 110, 120], kind="cpu"))}
    assert {number for number, given in found.items() if given is NOT_APPLICABLE} == {2, 4, 5, 6, 7, 8, 9, 10}
    assert found[1] is HOLDS


@pytest.mark.parametrize(
    ("rates", "wanted"),
    [([100, 150, 180], HOLDS), ([100, 150, 140], DOES_NOT), ([100, 101, 102], DOES_NOT), ([100, 150], NOT_ENOUGH)],
)
def test_1_rates_grow_with_the_batch(rates, wanted):
    assert answer(1, series(rates)) is wanted


def test_1_one_series_that_does_not_is_enough_to_refute_it():
    assert answer(1, series([100, 150, 180]) + lstm([100, 99, 98])) is DOES_NOT


@pytest.mark.parametrize(
    ("rates", "peak", "wanted"),
    [
        ([100, 180, 300], 60.0, HOLDS),
        ([100, 180, 190], 60.0, DOES_NOT),
        ([100, 180, 300], 20.0, NOT_ENOUGH),
    ],
)
def test_2_recurrent_models_still_gain_where_memory_is_full(rates, peak, wanted):
    levels = [peak / 4, peak / 2, peak]
    cells = [replace(one, device_memory_bytes=100.0) for one in lstm(rates, levels, "peak_memory_bytes")]
    assert answer(2, cells) is wanted
    assert answer(2, series(rates, levels, "peak_memory_bytes")) is NOT_ENOUGH


def test_3_the_fastest_framework_differs():
    both = [cell(rate=100), cell(rate=80, framework="tensorflow")]
    others = [cell(rate=100, model="lstm"), cell(rate=150, model="lstm", framework="tensorflow")]
    assert answer(3, both + others) is HOLDS
    assert answer(3, [*both, cell(rate=100, model="lstm"), cell(rate=50, model="lstm", framework="mxnet")]) is DOES_NOT
    tie = [cell(rate=100, model="lstm"), cell(rate=101, model="lstm", framework="tensorflow")]
    assert answer(3, both + tie) is NOT_ENOUGH
    elsewhere = [replace(one, workload="another device") for one in others]
    assert answer(3, both + elsewhere) is NOT_ENOUGH


@pytest.mark.parametrize(
    ("levels", "wanted"), [([0.5, 0.7, 0.9], HOLDS), ([0.6, 0.6, 0.6], DOES_NOT), ([0.97, 0.98, 0.98], HOLDS)]
)
def test_4_a_large_batch_keeps_the_gpu_busy(levels, wanted):
    assert answer(4, series([1, 2, 3], levels)) is wanted


@pytest.mark.parametrize(("number", "metric"), [(5, "compute_utilization_ratio"), (7, "fp32_utilization_ratio")])
def test_5_and_7_recurrent_models_use_the_gpu_less(number, metric):
    others = series([1, 2, 3], [0.7, 0.8, 0.9], metric)
    assert answer(number, others + lstm([1, 2, 3], [0.1, 0.2, 0.3], metric)) is HOLDS
    assert answer(number, others + lstm([1, 2, 3], [0.6, 0.7, 0.8], metric)) is DOES_NOT
    assert answer(number, others) is NOT_ENOUGH


@pytest.mark.parametrize(("levels", "wanted"), [([0.2, 0.3, 0.5], HOLDS), ([0.5, 0.5, 0.5], DOES_NOT)])
def test_6_a_large_batch_uses_the_fp32_units(levels, wanted):
    assert answer(6, series([1, 2, 3], levels, "fp32_utilization_ratio")) is wanted


def test_8_long_kernels_are_below_the_average():
    assert answer(8, [cell(kernels=KERNELS)]) is HOLDS
    even = [(name, share, 0.5) for name, share, _ in KERNELS]
    assert answer(8, [cell(kernels=even)]) is DOES_NOT
    unknown = [(name, share, None) for name, share, _ in KERNELS]
    assert answer(8, [cell(kernels=unknown)]) is NOT_ENOUGH


def test_9_the_host_is_mostly_idle():
    metric = "cpu_utilization_ratio"
    idle = [cell(measured={metric: 0.1}, model=f"m{k}") for k in range(3)]
    assert answer(9, [*idle, cell(measured={metric: 0.9})]) is HOLDS
    assert answer(9, [*idle[:1], cell(measured={metric: 0.9})]) is DOES_NOT
    assert answer(9, [cell()]) is NOT_ENOUGH


def on(device, peak, used, rate):
    measured = {"mfu_data_sheet_ratio": used, "model_flops_per_s": used * peak}
    return cell(rate=rate, device=device, measured=measured)


def test_10_a_higher_peak_is_used_less():
    assert answer(10, [on("small", 5e12, 0.5, 100), on("large", 12e12, 0.4, 190)]) is HOLDS
    assert answer(10, [on("small", 5e12, 0.5, 100), on("large", 12e12, 0.6, 290)]) is DOES_NOT
    assert answer(10, [on("small", 5e12, 0.5, 100), on("same", 5e12, 0.4, 90)]) is NOT_ENOUGH


def test_11_feature_maps_take_most_of_the_memory():
    most = {"weights": 10.0, "feature_maps": 80.0, "workspace": 10.0}
    assert answer(11, [cell(memory=most, kind="cpu")]) is HOLDS
    assert answer(11, [cell(memory={**most, "weights": 100.0})]) is DOES_NOT
    # the largest class, but less than half
    assert answer(11, [cell(memory={"weights": 40.0, "feature_maps": 45.0, "workspace": 15.0})]) is DOES_NOT
    assert answer(11, [cell()]) is NOT_ENOUGH


@pytest.mark.parametrize(("rates", "wanted"), [([100, 150, 152], HOLDS), ([100, 150, 220], DOES_NOT)])
def test_12_the_last_memory_can_be_wasted(rates, wanted):
    assert answer(12, series(rates, [1e9, 1.6e9, 3e9], "peak_memory_bytes")) is wanted


def test_of_a_series_each_batch_counts_once_the_newest():
    newest = series([100, 150, 180])
    assert answer(1, newest + [replace(one, throughput=1.0) for one in newest]) is HOLDS


def test_the_page_for_readers_has_every_claim_and_every_test():
    page = (Path(__file__).resolve().parents[3] / "docs" / "read_results" / "observations.md").read_text()
    plain = " ".join(page.split())
    for one in observe([]):
        assert one.says in plain, one.number
        assert one.test in plain, one.number
