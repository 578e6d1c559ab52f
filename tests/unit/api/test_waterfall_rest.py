"""Waterfalls over REST and as text: what is told with a profile of layers, without one, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.domain.runs.run import RunState
from orchestrator.domain.value.measurement import Analysis, Measurement, Reason, Validity
from orchestrator.domain.value.profile import LayerTimes, Profiles
from orchestrator.reports.tables import waterfall
from tests.unit import builders
from tests.unit.analysis.test_waterfall import TIMES
from tests.unit.api.api_rig import Rig, entry, fingerprint_of
from tests.unit.builders import LOADED, REPLICAS_DIFFER

NOISE = (0.0, 0.001, -0.001, 0.0005)
STEP_S = {"1x1": 0.1, "2x1": 0.226}
PROFILED = {"topology": ["1x1", "2x1"], "strategy": "ddp", "repeats": 4}


def times(rank: int, step_s: float, compute_s: float, exposed_s: float | None) -> LayerTimes:
    """A profile whose two steps took twice as long as timed ones."""
    parts = {"input_s": 0.0, "host_to_device_s": 0.0, "exchange_s": 0.1, "update_s": 0.02}
    parts |= {"forward_s": compute_s / 2, "backward_s": 1.5 * compute_s - 0.02}
    changes = {
        "steps": 2,
        "elapsed_s": 4 * step_s,
        "reasons": {} if exposed_s is not None else {"exposed_exchange_s": "why"},
    }
    exposed = None if exposed_s is None else 2 * exposed_s
    return replace(TIMES, rank=rank, breakdown=parts, exposed_exchange_s=exposed, **changes)


def an_analysis(step_s: float, profiles: Profiles, *reasons: Reason) -> Analysis:
    measured = [Measurement("throughput", 4 / step_s, "images/s", "m"), Measurement("step_time_s", step_s, "s", "m")]
    measured.append(Measurement("input_ratio", 0.0, "1", "m"))
    return Analysis(Validity(reasons), measurements=tuple(measured), profiles=profiles, code_version="1")


def complete(rig: Rig, experiment_id: str, profiled: bool = True, *reasons: Reason) -> dict[str, str]:
    """Complete its runs; topology -> the id of one. Rank 1 of two computes 4 ms longer, in every run."""
    found = {}
    for run in rig.store.runs_of(experiment_id):
        topology = str(run.plan.topology)
        nodes = ("n0", "n1")[: run.plan.world_size]
        attempt = builders.attempt(run.id, nodes=nodes, created_at=1.0)
        rig.store.begin_attempt(run.id, attempt)
        rig.store.move_run(run.id, RunState.PLACING, RunState.RUNNING, at=2.0)
        noise = NOISE[run.plan.repetition - 1]
        step_s = STEP_S[topology] + noise
        computes = {"1x1": [0.09 + noise], "2x1": [0.1 + noise, 0.104 + noise]}[topology]
        exposed = [0.0] if topology == "1x1" else [0.11, 0.106]
        told = [times(rank, step_s, *both) for rank, both in enumerate(zip(computes, exposed, strict=True))]
        active = [entry(1, "activity", active_s=own, elapsed_s=step_s, steps=1, method="union") for own in computes]
        for rank, one in enumerate(active):
            rig.store.append_entries(attempt.id, nodes[rank], [one | {"rank": rank}])
        rig.finish(
            run.id,
            an_analysis(step_s, Profiles(layers=tuple(told) if profiled else ()), *reasons),
            fingerprint=fingerprint_of(),
        )
        found[topology] = run.id
    return found


def parts_of(found: Any) -> dict[str, float]:
    return {part["name"]: part["seconds"] for part in found["parts"]}


def test_parts_of_a_profiled_cell_add_up_and_the_slow_rank_is_named(rig: Rig) -> None:
    run_id = complete(rig, rig.submit(**PROFILED)["id"])["2x1"]
    found = rig.get(f"/runs/{run_id}/waterfall")
    parts = parts_of(found)
    assert parts == pytest.approx(
        {
            "one device": 0.100125,
            "input, copy": 0.0,
            "cores taken": 0.012,
            "exposed exchange": 0.106,
            "straggler": 0.002,
            "residual": 0.006,
        },
        abs=1e-9,
    )
    assert sum(parts.values()) == pytest.approx(found["iteration_s"])
    slow = found["straggler"]
    assert (slow["rank"], slow["node"], slow["device"], slow["named"]) == (1, "n1", "cpu:0", True)
    assert (found["blocks"], found["paired"], found["missing"]) == (4, True, [])
    text = waterfall.text(found)
    assert "cores taken        +12 ms" in text
    assert "straggler           +2 ms" in text
    assert "rank 1, n1 cpu:0" in text
    assert text.splitlines()[0].startswith("net, pytorch ddp, 2x1 over ethernet: 17.69 ± ")
    assert "| exposed exchange | +106 ms |" in waterfall.markdown(found)


def test_without_a_profile_the_waits_of_the_ranks_stand_for_the_exchange_and_the_command_is_named(rig: Rig) -> None:
    run_id = complete(rig, rig.submit(**PROFILED)["id"], profiled=False)["2x1"]
    found = rig.get(f"/runs/{run_id}/waterfall")
    parts = parts_of(found)
    assert sum(parts.values()) == pytest.approx(found["iteration_s"])
    assert parts["cores taken"] == pytest.approx(0.012)
    assert parts["exposed exchange"] == pytest.approx(0.112)  # of rank 1: 122 ms, and one device has 10 ms of them
    assert found["straggler"]["rank"] == 1
    (one,) = found["missing"]
    assert "pytorch makes no profile of layers with ddp on cpu devices" in one["what"]  # as this catalogue has it
    assert one["command"] is None


def test_without_one_device_there_is_a_straggler_and_the_command_for_it(rig: Rig) -> None:
    run_id = complete(rig, rig.submit(**PROFILED | {"topology": "2x1", "options": {"depth": 101}})["id"])["2x1"]
    found = rig.get(f"/runs/{run_id}/waterfall")
    assert next(iter(parts_of(found))) == "computing"
    assert sum(parts_of(found).values()) == pytest.approx(found["iteration_s"])
    assert (found["one_device"], found["straggler"]["rank"]) == (None, 1)
    wanted = "tbd run net -f pytorch --strategy ddp --topology 1x1,2x1 --batch 4 --option depth=101"
    assert [one["command"] for one in found["missing"]] == [wanted]
    complete(rig, rig.submit(**PROFILED | {"topology": "1x1", "options": {"depth": 101}, "seed": 2})["id"])
    complete(rig, rig.submit(**PROFILED | {"topology": "1x1"})["id"])
    assert rig.get(f"/runs/{run_id}/waterfall")["one_device"] is None  # other workloads
    # Another experiment has it: then it is taken, and nothing is paired.
    complete(rig, rig.submit(**PROFILED | {"topology": "1x1", "options": {"depth": 101}})["id"])
    found = rig.get(f"/runs/{run_id}/waterfall")
    assert found["one_device"]["topology"] == "1x1"
    assert (found["paired"], found["efficiency"]) == (False, None)
    assert "one device is of another experiment" in waterfall.text(found)


def test_the_cell_of_another_framework_or_strategy_differs_by_parts(rig: Rig) -> None:
    mine = complete(rig, rig.submit(**PROFILED)["id"])["2x1"]
    theirs = complete(rig, rig.submit(**PROFILED | {"data_on": "host"})["id"], profiled=False)["2x1"]
    found = rig.get(f"/runs/{mine}/waterfall", other=theirs)["other"]
    differences = {part["name"]: part["difference_s"] for part in found["parts"]}
    assert differences["forward"] is None
    assert (differences["rest"], differences["iteration"]) == pytest.approx((0.0, 0.0))
    assert "exposed exchange" in waterfall.difference_text(rig.get(f"/runs/{mine}/waterfall", other=theirs))


@pytest.mark.parametrize(
    ("spec", "reasons", "status", "told"),
    [
        ({"topology": "1x1"}, (), 422, "has one device, which waits for no other"),
        ({"topology": "2x1"}, (REPLICAS_DIFFER,), 409, "gives no number: the weights of the ranks differ"),
        ({"topology": "2x1"}, None, 409, "is queued: what it did can be told when it has ended"),
    ],
)
def test_what_has_no_waterfall_says_why(rig: Rig, spec: dict[str, Any], reasons: Any, status: int, told: str) -> None:
    made = rig.submit(strategy="ddp", **spec)["id"]
    if reasons is not None:
        complete(rig, made, True, *reasons)
    run_id = rig.store.runs_of(made)[0].id
    answer = rig.http.get(f"/api/v1/runs/{run_id}/waterfall")
    assert answer.status_code == status, answer.text
    assert told in answer.text


def test_an_asynchronous_strategy_is_refused(rig: Rig) -> None:
    run_id = complete(rig, rig.submit(**PROFILED)["id"])["2x1"]
    strategies: Any = rig.context.catalog.frameworks["pytorch"].strategies
    strategies["ddp"] = replace(strategies["ddp"], synchronous=False)
    answer = rig.http.get(f"/api/v1/runs/{run_id}/waterfall")
    assert answer.status_code == 422
    assert "the strategy ddp is asynchronous" in answer.text


def test_a_disturbed_cell_is_explained_by_what_counts_of_it(rig: Rig) -> None:
    run_id = complete(rig, rig.submit(**PROFILED)["id"], True, LOADED)["2x1"]
    assert rig.get(f"/runs/{run_id}/waterfall")["blocks"] == 4


def test_a_cell_of_another_workload_is_not_set_beside(rig: Rig) -> None:
    mine = complete(rig, rig.submit(**PROFILED)["id"])["2x1"]
    theirs = complete(rig, rig.submit(**PROFILED | {"per_device_batch_size": 8})["id"])["2x1"]
    answer = rig.http.get(f"/api/v1/runs/{mine}/waterfall", params={"other": theirs})
    assert answer.status_code == 422
    assert "per_device_batch_size (4, there 8)" in answer.text
