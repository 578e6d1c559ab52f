"""The sweep of suites/scaling.yaml over hosts, with a model that only waits: so that the truth is known."""

from itertools import pairwise

import pytest

from tests.cluster.bench import Bench
from tests.cluster.scaling import carry_out, page_of, spec_of, told
from tests.support.service import seconds

pytestmark = pytest.mark.after_change

WAITS = {
    "name": "scaling-waits",
    "model": "sleep",
    "framework": "sleep",
    "topology": ["1x1", "1x2", "2x1"],
    "fabric": ["ethernet", "infiniband"],
    "per_device_batch_size": 4,
    "options": {"step_time_s": 0.1},  # long beside what another process on the machine can take
    "max_measure_s": 1.5,
}


@pytest.mark.timeout(300)
def test_a_sweep_over_hosts_runs_one_after_another_and_a_wait_scales_ideally(bench: Bench) -> None:
    before = bench.available()
    course = carry_out(bench, spec_of(WAITS, 2))
    assert bench.available() == before
    assert [run["state"] for run in course.runs] == ["completed"] * 8
    times = sorted((seconds(run["started_at"]), seconds(run["ended_at"])) for run in course.runs)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times))

    found, figure = told(bench, course.experiment)
    cells = {(item["topology"], item["fabric"]): item for item in found["items"]}
    assert set(cells) == {("1x1", None), ("1x2", None), ("2x1", "ethernet"), ("2x1", "infiniband")}
    for (topology, _), item in cells.items():
        if topology != "1x1":
            assert item["speedup"]["ci_low"] < item["speedup"]["value"] < item["speedup"]["ci_high"]
            assert 0.7 < item["efficiency"]["value"] < 1.1  # no rank computes: only joining can cost
    assert found["missing"] == []
    assert figure.startswith("<svg")
    assert "| 2x1 |" in page_of(found, course, "figure.svg", 2)
