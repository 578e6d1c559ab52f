"""What a replay needs: a run of one device with a profile of layers, from its submission to its job."""

from dataclasses import replace

import pytest

from orchestrator.analysis.s_sgd.inputs import Inputs
from orchestrator.analysis.s_sgd.iteration import Parts
from orchestrator.analysis.s_sgd.replay import layers_to_wait_for
from orchestrator.domain.asked.catalog import OptionFacts
from orchestrator.domain.value.profile import GradientExchange
from orchestrator.services.experiment.replay import NotReplayable, replayed
from tests.unit.api import test_waterfall_rest
from tests.unit.api.api_rig import SPEC, Rig
from tests.unit.api.test_waterfall_rest import PROFILED, complete

ASKED = SPEC | {"model": "replay", "per_device_batch_size": 1, "strategy": "ddp", "topology": "2x1", "repeats": 1}


@pytest.fixture
def run_id(rig: Rig) -> str:
    """A profiled run of one device; the catalogue has the model ``replay``."""
    models = rig.context.catalog.models
    option = {"run": OptionFacts("run", "str", "")}
    again = replace(models["net"], name="replay", options=option, facts={"name": "replay", "replays": "run"})
    models["replay"] = again  # type: ignore[index]
    complete(rig, experiment := rig.submit(**PROFILED)["id"])
    return next(run.id for run in rig.store.runs_of(experiment) if run.plan.world_size == 1)


def refused(rig: Rig, run: str, pointer: str = "/options/run", **more: object) -> str:
    answer = rig.http.post("/api/v1/experiments", json=ASKED | {"options": {"run": run}} | more)
    assert answer.status_code == 422
    (problem,) = answer.json()["errors"]
    assert problem["pointer"] == pointer
    return str(problem["detail"])


def test_a_replay_waits_as_long_as_the_run_took_until_that_is_removed(rig: Rig, run_id: str) -> None:
    (run,) = rig.store.runs_of(rig.submit(**ASKED | {"options": {"run": run_id}})["id"])
    layers = replayed(rig.context, run.plan)
    assert layers
    original = rig.store.run(run_id)
    assert original.analysis
    step_s = original.analysis.measurement("step_time_s")
    assert step_s
    assert 0 < sum(there + back for _, there, back in layers) <= step_s.value  # type: ignore[operator]
    assert replayed(rig.context, original.plan) is None
    rig.http.delete(f"/api/v1/experiments/{original.experiment_id}")
    with pytest.raises(NotReplayable, match=f"there is no run {run_id}: name one of one device"):
        replayed(rig.context, run.plan)


def test_what_cannot_be_replayed_says_why(rig: Rig, run_id: str) -> None:
    assert (
        refused(rig, "") == "replay needs the run that it is to replay: name one of one device with a profile of layers"
    )
    assert "there is no run run_x" in refused(rig, "run_x")
    experiment = rig.store.run(run_id).experiment_id
    gang = next(run.id for run in rig.store.runs_of(experiment) if run.plan.world_size > 1)
    assert "which exchange in a step: name one of 1x1" in refused(rig, gang)
    (unfinished,) = rig.store.runs_of(rig.submit(repeats=1)["id"])
    assert "name a run that completed" in refused(rig, unfinished.id)
    told = refused(rig, run_id, "/per_device_batch_size", per_device_batch_size=4)
    assert told == "replay waits as long for any batch: ask for a batch of 1"


def test_exchanges_beside_a_replayed_backward_pass_are_those_of_its_profiles(
    rig: Rig, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, beside = SPEC | {"strategy": "ddp", "topology": "2x1"}, {"beside": "backward-pass"}
    answer = rig.http.post("/api/v1/predictions", json=asked, params=beside).json()
    assert answer["items"] == []
    (missing,) = answer["missing"]
    assert missing["command"].startswith("tbd run replay -f pytorch --strategy ddp --batch 1 --topology 2x1 --fabric")
    sent = (GradientExchange("a", 4_000_000, 0.0, 0.03), GradientExchange("b", 8_000_000, 0.03, 0.08))
    monkeypatch.setattr(test_waterfall_rest, "TIMES", replace(test_waterfall_rest.TIMES, exchanges=sent))
    complete(rig, rig.submit(**ASKED | {"options": {"run": run_id}})["id"])
    (found,) = rig.http.post("/api/v1/predictions", json=asked, params=beside).json()["items"]
    assert found["rests_on"]["beside"] == "backward-pass"
    assert found["parts"][1]["seconds"] > 0


def test_layers_without_parameters_are_waited_for_before_the_next_gradient() -> None:
    parts = Parts(0.0, 0.0, 1.0, (0.1, 0.2, 0.3, 0.4), 0.0)
    inputs = Inputs(parts, 0.0, (0, 40, 0, 8), 1.0)
    below, above = layers_to_wait_for(inputs)
    assert above == pytest.approx((2, 0.4, 0.4))
    assert below == pytest.approx((10, 0.6, 0.6))  # its own, the one above it without parameters, and the one below
    assert layers_to_wait_for(replace(inputs, gradient_bytes=(0, 0, 0, 0))) == []
