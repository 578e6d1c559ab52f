"""The allocation profile of a process of its own, and the profiles of the model that waits."""

import itertools

import pytest

from tests.trainer_process import read_job
from workers.trainer import profiling, protocol
from workers.trainer.base.failure import TrainerError
from workers.trainer.frameworks.sleep.adapter import Adapter

PARAMETERS = 100_000


class Channel:
    def __init__(self):
        self.calls = []

    def join(self):
        self.calls.append("join")


def profile(adapter, **plan):
    """Carry out the phase ``memory`` of a job of one rank; return its events as (kind, data)."""
    options = {"parameters": PARAMETERS, "step_time_s": 0.0}
    job = read_job("sleep", "sleep", options=options, **{"profile": ["memory"], "per_device_batch_size": 2, **plan})
    events = []

    def emit(kind, **data):
        events.append((kind, protocol.event(kind, data)["data"]))

    ticks = itertools.count()
    profiling.allocations(job, job.processes[0], adapter, Channel(), emit, None, lambda: float(next(ticks)))
    return events


def built(**options):
    adapter = Adapter()
    options = {"step_time_s": 0.02, "parameters": 1000, **options}
    job = read_job("sleep", "sleep", options=options)
    adapter.build(job, job.processes[0], None)
    return adapter


class ManyAllocations(Adapter):
    """As the model that waits, with a list that needs several events."""

    def memory_profile(self, job, process, watch):
        found = super().memory_profile(job, process, watch)
        return {**found, "allocations": [[0, number, 0] for number in range(1200)]}


def test_a_list_of_allocations_comes_in_parts_and_the_last_one_tells_the_whole():
    *parts, (kind, cost) = profile(ManyAllocations())
    assert [(name, len(data["items"]), data["last"]) for name, data in parts] == [
        ("allocations", 500, False),
        ("allocations", 500, False),
        ("allocations", 200, True),
    ]
    assert [item[1] for _, data in parts for item in data["items"]] == list(range(1200))
    assert ["peak_bytes" in data for _, data in parts] == [False, False, True]
    assert (kind, cost["profile"], cost["elapsed_s"]) == ("profiled", "memory", 1.0)


def test_an_adapter_that_follows_no_allocations_is_refused():
    class Plain(Adapter):
        abilities = ("activity",)

    with pytest.raises(TrainerError, match="no profile of memory") as caught:
        profile(Plain())
    assert caught.value.kind == "unsupported"


def test_the_waiting_model_really_allocates_what_it_reports():
    """Its peak comes from Python's own tracer, which knows nothing of the list."""
    (_, found), _ = profile(Adapter())
    totals, level, peak = {}, 0, 0
    for index, size, _ in found["items"]:
        name = found["classes"][index]
        totals[name] = totals.get(name, 0) + size
        level += size
        peak = max(peak, level)
    assert totals["weights"] == totals["weight_gradients"] == totals["optimizer_state"] == 4 * PARAMETERS
    assert totals["feature_maps"] == 0
    assert peak == 4 * PARAMETERS * 3 + 2 * 4 * PARAMETERS
    assert peak <= found["peak_bytes"] < 1.05 * peak


def test_the_operators_of_the_waiting_model_add_up_to_what_it_waited():
    found = built().kernels(3)
    assert {name: calls for name, calls, _ in found["rows"]} == {
        "first.forward": 3,
        "second.forward": 3,
        "second.backward": 3,
        "first.backward": 3,
        "update": 3,
    }
    total = sum(seconds for _, _, seconds in found["rows"])
    assert 0.06 <= total == pytest.approx(found["active_s"])
    assert found["active_s"] <= found["elapsed_s"]
    assert len(found["spans"]["items"]) == 15


def test_the_layers_of_the_waiting_model_add_up_to_its_breakdown():
    found = built().layers(2)
    breakdown = found["breakdown"]
    assert set(protocol.BREAKDOWN) == set(breakdown) - {"reasons"}
    assert [key for key in protocol.BREAKDOWN if breakdown[key] is None] == list(breakdown["reasons"])
    assert sum(row["forward_s"] for row in found["rows"]) == pytest.approx(breakdown["forward_s"])
    assert sum(row["parameters_bytes"] for row in found["rows"]) == 4000
    in_all = breakdown["forward_s"] + breakdown["backward_s"] + breakdown["update_s"]
    assert 0.02 <= in_all <= found["elapsed_s"] / found["steps"]
