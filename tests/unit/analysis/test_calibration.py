"""From the log of a calibration to the best of its shapes."""

import pytest

from orchestrator.analysis.analyse import analyse
from orchestrator.domain.value.measurement import Analysis
from tests.unit.analysis.logs import NODE, a_job, closed, quiet


def a_calibration(told, ranks=1):
    """``told``: (rank, arithmetic, shape, durations)."""
    made = a_job(ranks)
    made["model"] = {**made["model"], "measures": "calibration", "loss": "any"}
    entries, t = [], 100.0

    def add(kind, rank=None, **data):
        entries.append({"t": t, "wall": 1e9 + t, "kind": kind, "rank": rank, "data": data})

    inventory = {"hostname": NODE, "cores": [0, 1], "driver_version": None, "devices": []}
    opened = {"protocol": 1, "attempt_id": "attempt-1", "run_id": "run-1", "node": NODE}
    add("log_opened", **opened, job=made, inventory=inventory, provenance={"tbd": {"version": "0.1"}})
    for rank in range(ranks):
        add("joined", rank, world_size=ranks)
    for rank, arithmetic, shape, durations in told:
        t += sum(durations)
        add("reading", window_s=sum(durations), values=quiet())
        m, n, k = shape
        more = {"library": "torch 2", "products": 1, "loaded_s": 30.2}
        add(
            "calibration",
            rank,
            arithmetic=arithmetic,
            shape=shape,
            flops=2.0 * m * n * k,
            duration_s=durations,
            **more,
        )
    for rank in range(ranks):
        add("stopped", rank, step=9, reason="max_steps")
        add("finished", rank, steps=9, weights_sha256=None)
    return {NODE: closed(entries)}


CUBE, LARGE = [100, 100, 100], [200, 200, 200]


def test_the_best_shape_s_median_repetition_is_the_peak():
    found = analyse(a_calibration([(0, "fp32", CUBE, [0.9, 1.0, 5.0]), (0, "fp32", LARGE, [4.0, 4.0, 4.1])]))
    assert found.validity.sound, found.validity
    (row,) = found.calibrations
    assert row.flops_per_s == pytest.approx(2 * 200**3 / 4.0)
    assert (row.shape, row.arithmetic, row.repetitions) == ((200, 200, 200), "fp32", 3)
    assert row.rates == {"100x100x100": pytest.approx(2e6), "200x200x200": pytest.approx(4e6)}
    assert (row.node, row.device_id, row.cores, row.devices) == (NODE, "cpu:0-1", 2, 1)
    assert row.loaded_s == 30.2
    assert found.summary["flops_per_s"] == {"fp32": pytest.approx(4e6)}
    assert Analysis.from_json(found.to_json()).calibrations == found.calibrations


def test_each_device_and_arithmetic_has_a_row():
    told = [(rank, name, CUBE, [1.0 + rank] * 3) for name in ("fp32", "bf16") for rank in (0, 1)]
    found = analyse(a_calibration(told, ranks=2))
    assert [(row.arithmetic, row.devices) for row in found.calibrations] == [("fp32", 2), ("bf16", 2)] * 2
    assert found.summary["flops_per_s"]["fp32"] == pytest.approx(1e6)  # of the slower one


def test_a_rank_that_reports_nothing_makes_it_invalid():
    found = analyse(a_calibration([(0, "fp32", CUBE, [1.0] * 3)], ranks=2))
    assert [reason.code for reason in found.validity.reasons] == ["calibration_missing"]
    assert found.calibrations == ()


@pytest.mark.parametrize("durations", [[], [0.0, 1.0, 1.0], ["NaN", 1.0, 1.0]])
def test_durations_that_cannot_be_are_an_invalid_log(durations):
    entries = a_calibration([(0, "fp32", CUBE, [1.0] * 3)])
    for entry in entries[NODE]:
        if entry["kind"] == "calibration":
            entry["data"]["duration_s"] = durations
    assert analyse(entries).failure.kind == "invalid_log"
