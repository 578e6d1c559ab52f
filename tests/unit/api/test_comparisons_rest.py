"""The cells of one experiment against each other, over REST."""

import math
from typing import Any

import pytest

from orchestrator.domain.value.measurement import Analysis
from orchestrator.services.reconcile.review import review
from tests.unit import builders
from tests.unit.api.api_rig import Rig, fingerprint_of, rate

BOTH = ["pytorch", "tensorflow"]
NOISE = (1.0, 1.02, 0.99, 1.01, 0.98, 1.0)
OTHER = (1.01, 0.99, 1.0, 0.98, 1.02, 1.01)


def measured(rig: Rig, rates: dict[Any, Any], by: str = "framework", **changes: Any) -> str:
    """The id of an experiment whose runs had these rates: value of the axis -> a rate, or an analysis, of each run."""
    experiment = rig.submit(**({by: list(rates), "repeats": len(next(iter(rates.values())))} | changes))
    waiting: dict[Any, dict[Any, list[Any]]] = {}
    for run in rig.store.runs_of(experiment["id"]):
        value = run.plan.told(by)
        left = waiting.setdefault(value, {}).setdefault(run.plan.cell_key, list(rates[value]))
        one = left.pop(0)
        rig.start(run.id)
        rig.finish(run.id, one if isinstance(one, Analysis) else rate(one), fingerprint=fingerprint_of())
    return str(experiment["id"])


def comparisons(rig: Rig, experiment_id: str, **parameters: str) -> Any:
    return rig.get(f"/experiments/{experiment_id}/comparisons", **parameters)


def refused(rig: Rig, experiment_id: str, **parameters: str) -> Any:
    answer = rig.http.get(f"/api/v1/experiments/{experiment_id}/comparisons", params=parameters)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()["errors"]


def test_frameworks_are_compared_at_each_batch_size_and_all_pairs_are_one_family(rig: Rig) -> None:
    rates = {"pytorch": [100 * one for one in NOISE], "tensorflow": [130 * one for one in OTHER]}
    found = comparisons(rig, measured(rig, rates, per_device_batch_size=[1, 2]), axis="framework")
    assert (found["axis"], found["axes"]) == ("framework", ["framework", "per_device_batch_size"])
    assert [one["group"] for one in found["items"]] == [{"per_device_batch_size": 1}, {"per_device_batch_size": 2}]
    first = found["items"][0]
    assert (first["a"]["value"], first["b"]["value"], first["family"], first["blocks"]) == (
        "pytorch",
        "tensorflow",
        2,
        6,
    )
    assert first["verdict"] == "faster"
    mean = math.exp(sum(math.log(130 * b / (100 * a)) for a, b in zip(NOISE, OTHER, strict=True)) / 6)
    assert first["ratio"]["value"] == pytest.approx(mean)
    low, high = first["ratio"]["ci_low"], first["ratio"]["ci_high"]
    assert 1 < low < mean < high
    assert first["text"] == f"tensorflow {mean:.3g} x pytorch ({low:.3g} to {high:.3g})"
    assert first["p_holm"] <= 2 * first["p"] + 1e-12
    assert "at a foreign load of 10 % or less" in first["scope"]
    assert "at a foreign load of 10 % or less" in found["scope"]
    assert found["not_compared"] == []


def test_where_it_cannot_tell_it_says_how_many_runs_would(rig: Rig) -> None:
    rates = {"pytorch": [100 * one for one in NOISE], "tensorflow": [100 * one for one in OTHER]}
    (item,) = comparisons(rig, measured(rig, rates))["items"]
    assert item["verdict"] == "cannot_tell"
    smallest = f"{100 * item['detectable_ratio']:.2g} %"
    assert item["text"].startswith(f"cannot tell below {smallest}; {item['more_runs']} more runs would tell ")


def test_a_baseline_declares_the_smaller_family(rig: Rig) -> None:
    rates = {batch: [batch * one for one in NOISE] for batch in (1, 2, 4)}
    experiment = measured(rig, rates, by="per_device_batch_size", framework="pytorch")
    assert [item["family"] for item in comparisons(rig, experiment)["items"]] == [3, 3, 3]
    found = comparisons(rig, experiment, axis="batch", baseline="2")
    assert found["baseline"] == "batch 2"
    assert [(item["a"]["label"], item["b"]["label"], item["family"]) for item in found["items"]] == [
        ("batch 2", "batch 1", 2),
        ("batch 2", "batch 4", 2),
    ]


def test_one_disturbed_cell_puts_all_cells_of_the_family_on_their_planned_runs(rig: Rig) -> None:
    disturbed = [rate(100 * one, builders.LOADED) for one in NOISE[:3]]
    experiment = measured(rig, {"pytorch": disturbed, "tensorflow": [130 * one for one in OTHER[:3]]})
    (item,) = comparisons(rig, experiment)["items"]
    assert (item["grade"], item["blocks"]) == ("disturbed", 3)
    assert "with what else ran" in item["scope"]


def test_a_broken_cell_is_named_with_its_reason_and_its_pairs_stay_in_the_family(rig: Rig) -> None:
    broken = [builders.analysis(builders.REPLICAS_DIFFER)] * 6
    rates = {"pytorch": [100 * one for one in NOISE], "tensorflow": broken}
    found = comparisons(rig, measured(rig, rates))
    assert [(item["verdict"], item["ratio"], item["grade"]) for item in found["items"]] == [
        ("too_few_runs", None, "broken")
    ]
    assert [(one["axes"]["framework"], one["reason"]) for one in found["not_compared"]] == [
        ("tensorflow", builders.REPLICAS_DIFFER.text)
    ]


def test_a_cell_without_a_partner_is_named(rig: Rig) -> None:
    rates = {"pytorch": [100 * one for one in NOISE], "tensorflow": [130 * one for one in OTHER]}
    only = {"exclude": [{"framework": "tensorflow", "per_device_batch_size": 2}]}
    experiment = measured(rig, rates, per_device_batch_size=[1, 2], **only)
    found = comparisons(rig, experiment, axis="framework")
    assert [item["family"] for item in found["items"]] == [1]
    (alone,) = found["not_compared"]
    assert alone["axes"]["per_device_batch_size"] == 2
    assert alone["reason"] == "no other cell of its unit of work differs from it in framework only"
    (against,) = comparisons(rig, experiment, axis="framework", baseline="tensorflow")["not_compared"]
    assert against["reason"] == "there is none of tensorflow that differs from it in framework only"


def test_where_variance_chose_the_runs_the_first_stage_tells_the_noise_and_it_says_so(rig: Rig) -> None:
    rates = {"pytorch": [100 * one for one in NOISE], "tensorflow": [130 * one for one in OTHER]}
    experiment = measured(rig, rates, precision_target=0.001, max_repeats=7)
    (before,) = comparisons(rig, experiment)["items"]
    assert review(rig.context, experiment) is True
    for run in rig.store.runs_of(experiment)[12:]:
        rig.start(run.id)
        rig.finish(run.id, rate({"pytorch": 100.0, "tensorflow": 200.0}[run.plan.framework]))
    (item,) = comparisons(rig, experiment)["items"]
    assert (before["blocks"], item["blocks"]) == (6, 7)
    assert "noise of the first stage (Stein)" in item["method"]
    before_half, half = (math.log(one["ratio"]["ci_high"] / one["ratio"]["ci_low"]) for one in (before, item))
    assert half == pytest.approx(before_half * math.sqrt(6 / 7))


def test_while_nothing_has_run_the_pairs_wait(rig: Rig) -> None:
    found = comparisons(rig, rig.submit(framework=BOTH)["id"])
    assert [item["verdict"] for item in found["items"]] == ["too_few_runs"]
    assert {one["reason"] for one in found["not_compared"]} == {"no run has ended yet"}


def test_devices_of_another_kind_are_noted(rig: Rig) -> None:
    experiment = rig.submit(framework=BOTH, repeats=2)
    for run in rig.store.runs_of(experiment["id"]):
        rig.start(run.id)
        observed = fingerprint_of()
        observed["workload"]["device_models"] = [f"the cpu of {run.plan.framework}"]
        rig.finish(run.id, rate(100.0 + run.plan.repetition), fingerprint=observed)
    (item,) = comparisons(rig, experiment["id"])["items"]
    assert item["notes"] == ["they ran on other devices: the cpu of pytorch (1 cores); the cpu of tensorflow (1 cores)"]


def test_an_unknown_axis_or_baseline_is_refused_with_those_that_there_are(rig: Rig) -> None:
    experiment = rig.submit(framework=BOTH)["id"]
    (axis,) = refused(rig, experiment, axis="framwork")
    assert (axis["pointer"], axis["in"]) == ("/axis", "query")
    assert axis["detail"] == "there is no axis 'framwork': did you mean framework? several values have: framework"
    (baseline,) = refused(rig, experiment, axis="framework", baseline="caffe")
    assert baseline["pointer"] == "/baseline"
    assert baseline["detail"] == "no cell has framework 'caffe'; there are: pytorch, tensorflow"


def test_an_experiment_whose_axes_have_one_value_each_has_nothing_to_compare(rig: Rig) -> None:
    experiment = rig.submit()["id"]
    found = comparisons(rig, experiment)
    assert (found["axis"], found["axes"], found["items"]) == (None, [], [])
    (axis,) = refused(rig, experiment, axis="framework")
    assert axis["detail"] == "framework has one value in this experiment; no axis has several values"
