"""How series read in a list: what they share is left out of their options, and no two of them read the same."""

from typing import Any

from orchestrator.reports.tables.history import series_table


def item(**workload: Any) -> dict[str, Any]:
    common = {"model": "net", "framework": "pytorch", "seed": 1, "cores_per_device": [1], "options": {"depth": 50}}
    return {"key": "k", "n_points": 1, "last_at": "2026-11-22T17:50:01Z", "workload": common | workload}


def lines(*items: dict[str, Any]) -> list[str]:
    return [row[-1] for row in series_table(items).rows]


def test_what_tells_two_series_apart_is_named_and_what_does_not_is_left_out() -> None:
    assert lines(item()) == ["net, pytorch"]
    assert lines(item(), item(seed=2)) == ["net, pytorch, seed 1", "net, pytorch, seed 2"]
    assert lines(item(), item(framework="mxnet", seed=2)) == ["net, pytorch", "net, mxnet"]
    assert lines(item(), item(options={"depth": 101})) == ["net, pytorch, depth 50", "net, pytorch, depth 101"]
    assert lines(item(), item(exclusive="device")) == ["net, pytorch", "net, pytorch, exclusive: device"]
    assert lines(item(), item(confirms=True)) == ["net, pytorch", "net, pytorch, confirms True"]
    assert lines(item(cores_per_device=[1]), item(cores_per_device=[2])) == [
        "net, pytorch, cores_per_device 1",
        "net, pytorch, cores_per_device 2",
    ]
