"""Specs that train to convergence: what is refused and in which words, and what a plan gets."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.fingerprint import workload_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import parse_spec
from orchestrator.domain.expansion.sweep import check, expand, spec_of
from orchestrator.domain.words.errors import InvalidRequest
from orchestrator.services.facts.catalog import load_catalog

CATALOG = load_catalog()
FACTS = Facts(CATALOG, "cpu", (1, 2))
SPEC = {
    "name": "reaching",
    "model": "resnet-50",
    "framework": "pytorch",
    "per_device_batch_size": 4,
    "size": "tiny",
    "data": "photographs",
    "mode": "convergence",
    "target": 0.7,
    "max_steps": 400,
}


def refused(facts: Facts = FACTS, **changes: Any) -> list[tuple[str, str]]:
    spec = {name: value for name, value in {**SPEC, **changes}.items() if value is not None}
    with pytest.raises(InvalidRequest) as caught:
        check(parse_spec(spec), facts)
    return [(problem.pointer, problem.message) for problem in caught.value.problems]


def planned(**changes: Any) -> Any:
    spec = parse_spec({**SPEC, **changes})
    check(spec, FACTS)
    return expand(spec, FACTS, ())[0]


def test_a_plan_has_the_target_and_how_often_it_is_looked_for() -> None:
    plan = planned()
    assert (plan.mode, plan.target, plan.evaluate_every) == ("convergence", 0.7, 20)
    assert planned(evaluate_every=7).evaluate_every == 7
    assert planned(max_steps=None, max_measure_s=60.0).evaluate_every == 100


def test_epochs_are_a_budget_of_their_own_cell_in_the_same_series() -> None:
    plan = planned(max_steps=None, max_epochs=2)
    assert (plan.max_steps, plan.max_epochs, plan.evaluate_every) == (None, 2.0, 100)
    assert planned(max_steps=None, max_epochs=2.0).key == plan.key
    assert planned(max_steps=None, max_epochs=0.5).cell_key != plan.cell_key
    assert "max_epochs" not in {*planned().to_json(), *workload_of(plan)}
    assert expand(spec_of(plan, "again"), FACTS, ())[0] == plan
    assert Plan.from_json(plan.to_json()) == plan


def test_what_has_no_epochs_and_what_is_no_number_of_them_is_refused() -> None:
    assert refused(mode="throughput", target=None, max_epochs=1)[0][0] == "/max_epochs"
    resnet = CATALOG.models["resnet-50"]
    learnable = replace(resnet, facts={**resnet.facts, "learnable": True})
    facts = Facts(replace(CATALOG, models={**CATALOG.models, "resnet-50": learnable}), "cpu", (1, 2))
    told = refused(facts, data="synthetic", max_epochs=1)
    assert told == [("/data", "synthetic data has no epochs, for it never ends: give max_steps or max_measure_s")]
    for wrong in (0, -1, "2", float("nan"), True):
        with pytest.raises(InvalidRequest) as caught:
            parse_spec({**SPEC, "max_epochs": wrong})
        assert [problem.pointer for problem in caught.value.problems] == ["/max_epochs"]


def test_a_run_to_convergence_is_another_cell_and_another_series_than_one_for_throughput() -> None:
    plan = planned()
    fast = planned(mode="throughput", target=None)
    assert plan.cell_key != fast.cell_key
    assert workload_of(plan)["mode"] == "convergence"
    assert workload_of(plan)["target"] == 0.7
    assert not {"target", "evaluate_every"} & {*fast.to_json(), *workload_of(fast)}


def test_a_plan_repeated_by_hand_is_the_same_plan() -> None:
    plan = planned()
    spec = spec_of(plan, "again")
    check(spec, FACTS)
    assert expand(spec, FACTS, ())[0] == plan
    fast = planned(mode="throughput", target=None)
    assert expand(spec_of(fast, "again"), FACTS, ())[0] == fast


def test_a_target_is_for_convergence_only() -> None:
    (problem,) = refused(mode="throughput")
    assert problem == ("/target", "target is for mode convergence: say mode: convergence, or leave it out")
    assert refused(mode="throughput", target=None, evaluate_every=3)[0][0] == "/evaluate_every"


def test_convergence_wants_a_budget_and_room_in_it_for_an_evaluation() -> None:
    ((pointer, message),) = refused(max_steps=None)
    assert pointer == "/max_steps"
    assert "give max_steps, max_epochs or max_measure_s" in message
    assert refused(evaluate_every=500)[0] == ("/evaluate_every", "after 500 steps comes no evaluation in 400 steps")


@pytest.mark.parametrize("target", [76.13, 0.0, -1.0])
def test_a_target_that_the_metric_cannot_have_is_refused(target: float) -> None:
    ((pointer, message),) = refused(target=target)
    assert pointer == "/target"
    assert message.startswith("top_1_accuracy_ratio of resnet-50 lies between 0 and 1, and higher is better")
    assert ("Is 0.7613 meant?" in message) == (target == 76.13)


def test_a_perplexity_is_the_lower_the_better_and_never_below_1() -> None:
    told = refused(model="gpt-2", data="documentation", target=0.9)
    assert told[0][0] == "/target"
    assert "perplexity of gpt-2 lies above 1, and lower is better: 0.9 is no target" in told[0][1]


def test_synthetic_data_has_no_quality_unless_a_model_says_that_it_can_be_learnt() -> None:
    ((pointer, message),) = refused(data="synthetic")
    assert pointer == "/data"
    assert "take data: photographs" in message
    resnet = CATALOG.models["resnet-50"]
    learnable = replace(resnet, facts={**resnet.facts, "learnable": True})
    check(
        parse_spec({**SPEC, "data": "synthetic"}),
        Facts(replace(CATALOG, models={**CATALOG.models, "resnet-50": learnable}), "cpu", (1, 2)),
    )


def test_a_model_or_framework_without_evaluation_is_refused() -> None:
    ((pointer, message),) = refused(model="sleep", framework="sleep", data="synthetic", size="full", target=None)
    assert pointer == "/framework"
    assert "sleep evaluates nothing" in message


@pytest.mark.parametrize(("field", "value"), [("per_device_batch_size", "max"), ("precision_target", 0.01)])
def test_what_is_of_throughput_alone_is_refused(field: str, value: Any) -> None:
    assert f"/{field}" in [pointer for pointer, _ in refused(**{field: value})]
