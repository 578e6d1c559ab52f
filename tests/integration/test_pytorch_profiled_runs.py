"""Whole runs in PyTorch that ask for all profiles, by the node agent and real processes, read by the analysis."""

import json

import pytest

from orchestrator.analysis.log.events import read_log
from orchestrator.analysis.profile.profiles import measurements, profiles_of
from orchestrator.analysis.profile.trace import trace_of
from tests.support import perfetto
from tests.support.strategy_jobs import carried_out, strategy_job
from workers.trainer import protocol

PROFILES = ["kernels", "layers", "memory"]
STEPS = 3
pytestmark = pytest.mark.framework("pytorch")


@pytest.fixture(scope="module", params=["ddp", "horovod"])
def attempt(request, python_of, tmp_path_factory):
    """A run of two ranks with the strategy."""
    job = strategy_job("pytorch", request.param, 1, 2, max_steps=STEPS, profile=PROFILES)
    python_of(job["interpreter"]["name"])
    attempt = carried_out(job, tmp_path_factory.mktemp("profiled"))
    assert attempt.failure() is None, attempt.said
    attempt.strategy = request.param
    return attempt


@pytest.mark.after_change
def test_a_run_of_two_ranks_has_all_profiles_and_ends_with_equal_weights(attempt) -> None:
    found = profiles_of([read_log("node-0", attempt.entries())])
    assert not found.reasons
    assert [one.rank for one in found.memory] == [one.rank for one in found.kernels] == [0, 1]
    parameters = attempt.data("built")[0]["parameters"]
    for memory in found.memory:
        sizes = {name: share.max_bytes for name, share in {**memory.classes, **memory.parts}.items()}
        assert sizes["weights"] == sizes["weight_gradients"] == sizes["optimizer_state"] == 4 * parameters
        assert abs(memory.residual_ratio) <= 0.05
    for layers in found.layers:
        assert sum(row.parameters_bytes for row in layers.rows) == 4 * parameters
        assert bool(layers.exchanges) == (attempt.strategy == "ddp")
        assert (layers.breakdown["exchange_s"] is None) == ("exchange_s" in layers.reasons)
        assert (layers.breakdown["exchange_s"] is None) == (attempt.strategy == "horovod")
    assert len({replica["sha256"] for replica in attempt.data("replica")}) == 1


def test_nothing_is_profiled_before_the_last_timed_interval_has_ended(attempt) -> None:
    for rank in (0, 1):
        mine = [entry for entry in attempt.entries() if entry["rank"] == rank]
        timed = [entry for entry in mine if entry["kind"] == "interval"]
        assert sum(entry["data"]["n"] for entry in timed) == STEPS
        begun = [protocol.number(entry["data"]["begun_t"]) for entry in mine if entry["kind"] == "profiled"]
        assert len(begun) == len(PROFILES)
        (activity,) = (entry for entry in mine if entry["kind"] == "activity")
        begun.append(activity["t"] - protocol.number(activity["data"]["cost_s"]))
        assert timed[-1]["t"] < min(begun)


def test_perfetto_opens_the_run_s_timeline_and_loses_nothing_of_it(attempt) -> None:
    trace = trace_of({"node-0": attempt.entries()})
    found = perfetto.imported(json.dumps(trace, ensure_ascii=False))
    assert not found.errors, found.examples
    of_kernels = sum(len(data["items"]) for data in attempt.data("spans"))
    of_exchange = sum(len(data["exchanges"]) for data in attempt.data("layers"))
    assert bool(of_exchange) == (attempt.strategy == "ddp")
    # beside them: what was built, and every interval; activity, kernels, layers and memory
    beside = len(attempt.data("built")) + len(attempt.data("interval")) + 2 * (1 + len(PROFILES))
    assert len(found.slices) == of_kernels + of_exchange + beside
    assert {name for (pid, _), name in found.threads.items() if pid == 0} >= {"steps", "profiling phases"}


def test_the_profiled_kernels_of_a_run_lie_within_the_phase_that_profiled_them(attempt) -> None:
    found = perfetto.imported(json.dumps(trace_of({"node-0": attempt.entries()})))
    threads = {(one.pid, one.tid): found.threads[one.pid, one.tid] for one in found.slices}
    for rank in (0, 1):
        own = [one for one in found.slices if one.pid == rank]
        (phase,) = (one for one in own if one.name == "kernels" and threads[rank, one.tid] == "profiling phases")
        outside = ("steps", "profiling phases", "gradient exchange of one step")
        spans = [one for one in own if not threads[rank, one.tid].startswith(outside)]
        assert spans
        assert min(one.start_ns for one in spans) >= phase.start_ns
        assert max(one.start_ns + one.duration_ns for one in spans) <= phase.start_ns + phase.duration_ns


def test_the_cost_of_every_profiling_phase_is_measured_that_of_the_activity_too(attempt) -> None:
    logs = [read_log("node-0", attempt.entries())]
    costs = [one for one in measurements(logs, profiles_of(logs), None) if one.metric == "profile_cost_s"]
    found = {one.subject: one.value for one in costs}
    assert set(found) == {None, "activity", *PROFILES}
    assert all(value > 0 for value in found.values())
    for data in attempt.data("activity"):
        assert found["activity"] >= data["cost_s"] >= protocol.number(data["elapsed_s"])
