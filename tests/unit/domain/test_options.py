"""Options of models: what they change in the facts, and that a later one leaves earlier plans as they were."""

from dataclasses import replace

import pytest

from orchestrator.domain.asked.catalog import OptionFacts, Variant
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.fingerprint import fingerprint
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.expansion.groups import groups_of
from orchestrator.domain.expansion.sweep import check, expand
from orchestrator.domain.words.errors import InvalidRequest
from orchestrator.services.facts.catalog import load_catalog
from tests.unit import builders as make

HEAD = OptionFacts("head", "bool", default=False, sizes=("full",), later=True)


def suite_facts() -> Facts:
    return Facts(load_catalog(), "cpu", (1, 1))


def plan_of_resnet(**options: object) -> Plan:
    spec = make.spec(
        model="resnet-50", framework="pytorch", per_device_batch_size=4, size="tiny", options=options, repeats=1
    )
    (plan,) = expand(spec, suite_facts(), [])
    return plan


def test_plans_that_were_stored_before_the_depth_was_declared_keep_their_identity() -> None:
    """The values are those of the plans of tbd before ResNet-50 had any option."""
    plan = plan_of_resnet()
    assert (plan.cell_key, fingerprint(plan, {})["workload_key"]) == (
        "b9adf930650ecdfea7b3321efe5321e0",
        "236ba0f0dbbf1b58",
    )
    stored = plan.to_json()
    del stored["implied"]
    stored["options"] = {}
    assert Plan.from_json(stored).key == plan.key


def test_a_default_that_is_said_is_the_same_plan_and_another_value_is_another() -> None:
    assert plan_of_resnet(depth=50) == plan_of_resnet()
    deep = plan_of_resnet(depth=152)
    assert deep.key != plan_of_resnet().key
    assert fingerprint(deep, {})["workload"]["options"] == {"depth": 152}
    assert Plan.from_json(deep.to_json()) == deep
    assert Plan.from_json(plan_of_resnet().to_json()) == plan_of_resnet()


def test_depths_are_compared_by_their_values_the_default_among_them() -> None:
    spec = make.spec(model="resnet-50", framework="pytorch", options={"depth": [50, 101, 152]}, repeats=1)
    (group,) = groups_of(spec, expand(spec, suite_facts(), []), "options.depth")
    assert sorted(dict(plan.options)["depth"] for plan in group.plans) == [50, 101, 152]


def facts_with_a_head() -> Facts:
    catalog = make.catalog()
    model = replace(catalog.models["net"], options={**catalog.models["net"].options, "head": HEAD})
    return Facts(replace(catalog, models={"net": model}), "cpu", (1, 1))


def test_an_option_that_is_not_offered_at_a_size_is_refused_there_only() -> None:
    check(make.spec(options={"head": True}, size="full"), facts_with_a_head())
    check(make.spec(options={"head": False}, size="small"), facts_with_a_head())
    with pytest.raises(InvalidRequest) as error:
        check(make.spec(options={"head": True}, size="small"), facts_with_a_head())
    told = {(problem.pointer, problem.message) for problem in error.value.problems}
    assert told == {("/options/head", "option head is True only at the sizes full, not at small")}


def test_a_sweep_over_sizes_and_such_an_option_is_told_how_to_leave_the_cell_out() -> None:
    spec = make.spec(options={"head": [False, True]}, size=["small", "full"])
    with pytest.raises(InvalidRequest) as error:
        check(spec, facts_with_a_head())
    assert "size: small, head: true}]" in error.value.problems[0].message
    check(make.spec(options={"head": [False, True]}, size=["small", "full"], exclude=[{"size": "small", "head": True}]),
          facts_with_a_head())  # fmt: skip


def test_facts_that_depend_on_options_are_laid_over_those_of_the_defaults_in_order() -> None:
    model = replace(
        make.catalog().models["net"],
        facts={"layers": 50, "sizes": {"full": {"blocks": 4, "pixels": 224}, "small": {"blocks": 4}}},
        variants=(
            Variant({"depth": 101}, {"layers": 101, "sizes": {"full": {"blocks": 8}}}),
            Variant({"depth": 101, "rate": 0.5}, {"sizes": {"full": {"blocks": 9}}}),
        ),
    )
    assert model.facts_with({}) == model.facts == model.facts_with({"rate": 0.5})
    deep = model.facts_with({"depth": 101})
    assert deep == {"layers": 101, "sizes": {"full": {"blocks": 8, "pixels": 224}, "small": {"blocks": 4}}}
    assert model.facts_with({"depth": 101, "rate": 0.5})["sizes"]["full"]["blocks"] == 9
    assert model.facts["sizes"]["full"] == {"blocks": 4, "pixels": 224}  # those of others are left alone
