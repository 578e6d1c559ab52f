"""Which cells are compared: those that agree in all axes but one."""

from typing import Any

import pytest

from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.expansion.groups import axes_of, chosen_axis, chosen_value, groups_of, label, value_of
from orchestrator.domain.expansion.sweep import expand, place_in_sweep
from orchestrator.domain.words.errors import InvalidRequest
from tests.unit import builders

BOTH = ["pytorch", "tensorflow"]


def cells(**changes: Any) -> tuple[Any, list[Plan]]:
    """A spec and one plan for each of its cells, in the order of its sweep."""
    spec = builders.spec(repeats=1, **changes)
    plans = expand(spec, builders.facts(pool=(4, 1)), [])
    return spec, sorted(plans, key=lambda plan: place_in_sweep(spec, plan))


def grouped(by: str, **changes: Any) -> list[tuple[dict[str, Any], list[Any]]]:
    """(what they share, what each has on the axis) of each group."""
    spec, plans = cells(**changes)
    found = groups_of(spec, plans, by)
    return [(dict(group.shared), [value_of(plan, by) for plan in group.plans]) for group in found]


def test_frameworks_are_compared_at_each_batch_size_though_strategy_and_interpreter_follow_them() -> None:
    found = grouped("framework", framework=BOTH, per_device_batch_size=[1, 2])
    assert found == [({"per_device_batch_size": 1}, BOTH), ({"per_device_batch_size": 2}, BOTH)]


def test_the_strategy_that_auto_stood_for_follows_the_topology() -> None:
    spec, plans = cells(topology=["1x1", "2x1", "4x1"])
    assert {plan.strategy for plan in plans} == {"single", "ddp"}
    assert axes_of(spec, plans) == ["topology"]
    assert grouped("topology", topology=["1x1", "2x1", "4x1"]) == [({}, ["1x1", "2x1", "4x1"])]


def test_a_strategy_that_was_named_keeps_cells_apart() -> None:
    found = grouped(
        "framework", framework=BOTH, strategy=["auto", "ddp"], exclude=[{"framework": "tensorflow", "strategy": "ddp"}]
    )
    assert [values for _, values in found] == [["pytorch"], BOTH]


def test_a_cell_of_one_node_stands_beside_each_fabric() -> None:
    both = {"topology": ["1x1", "2x1"], "fabric": ["ethernet", "infiniband"]}
    found = grouped("topology", **both)
    assert found == [({"fabric": "ethernet"}, ["1x1", "2x1"]), ({"fabric": "infiniband"}, ["1x1", "2x1"])]
    assert [values for _, values in grouped("fabric", **both)] == [[None], ["ethernet", "infiniband"]]
    one_node = groups_of(*cells(framework=BOTH, fabric=["ethernet", "infiniband"]), "framework")
    assert len(one_node) == 1


def test_rates_of_different_units_are_in_different_groups() -> None:
    spec, plans = cells(framework=BOTH)
    assert len(groups_of(spec, plans, "framework", lambda plan: plan.framework)) == 2


def test_axes_are_those_that_have_several_values_framework_first_and_sizes_never() -> None:
    many = {"framework": BOTH, "precision": "fp32", "size": ["full", "small"], "seed": [1, 2]}
    spec, plans = cells(options={"depth": [50, 101], "rate": 0.1}, per_device_batch_size=[1, 2], **many)
    assert axes_of(spec, plans) == ["framework", "per_device_batch_size", "seed", "options.depth"]
    assert chosen_axis(spec, plans, "batch") == "per_device_batch_size"
    assert chosen_axis(spec, plans, "depth") == chosen_axis(spec, plans, "options.depth") == "options.depth"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("framwork", "there is no axis 'framwork': did you mean framework? several values have: framework"),
        ("colour", "there is no axis 'colour'; several values have: framework"),
        ("strategy", "strategy has one value in this experiment; several values have: framework"),
        ("size", "cells of another size do other work: they are never compared; several values have: framework"),
    ],
)
def test_an_axis_that_cannot_be_compared_is_refused_with_those_that_can(asked: str, why: str) -> None:
    spec, plans = cells(framework=BOTH, size=["full", "small"])
    with pytest.raises(InvalidRequest) as caught:
        chosen_axis(spec, plans, asked)
    assert [(one.pointer, one.message) for one in caught.value.problems] == [("/axis", why)]


def test_a_baseline_is_named_with_or_without_its_word() -> None:
    assert chosen_value([1, 2], "per_device_batch_size", "2") == 2
    assert chosen_value([1, 2], "per_device_batch_size", "batch 2") == 2
    assert chosen_value([True, False], "options.compile", "true") is True
    with pytest.raises(
        InvalidRequest, match=r"no cell has framework 'torch': did you mean pytorch\? there are: pytorch"
    ):
        chosen_value(BOTH, "framework", "torch")


def test_values_are_called_so_that_a_sentence_can_be_read() -> None:
    assert [label("framework", "mxnet"), label("topology", "1x2"), label("per_device_batch_size", 4)] == [
        "mxnet",
        "topology 1x2",
        "batch 4",
    ]
    assert [label("options.depth", 101), label("options.compile", False), label("fabric", None)] == [
        "depth 101",
        "compile false",
        "fabric none",
    ]


def test_the_largest_batches_that_were_found_are_compared_with_each_other() -> None:
    spec = builders.spec(framework=BOTH, per_device_batch_size=[4, "max"], memory_limit_bytes=2**30)
    found = {"pytorch": 37, "tensorflow": 21}
    plans = [builders.plan(framework=one, per_device_batch_size=batch) for one in BOTH for batch in (4, found[one])]
    groups = groups_of(spec, plans, "framework")
    assert [dict(group.shared) for group in groups] == [{"per_device_batch_size": 4}, {"per_device_batch_size": "max"}]
    assert [plan.per_device_batch_size for plan in groups[1].plans] == [37, 21]
