"""Extending an experiment: what takes something away is refused by the name of its field."""

from typing import Any

import pytest

from orchestrator.domain.expansion.extension import grown, lost_cells, taken_away
from tests.unit import builders as make

OLD: dict[str, Any] = {"per_device_batch_size": [4, 8], "options": {"depth": [50]}, "repeats": 3}


@pytest.mark.parametrize(
    ("pointer", "changes"),
    [
        ("/per_device_batch_size", {"per_device_batch_size": [8, 16]}),
        ("/per_device_batch_size", {"per_device_batch_size": None, "global_batch_size": [4, 8]}),
        ("/framework", {"framework": "tensorflow"}),
        ("/options/depth", {"options": {"depth": [101]}}),
        ("/options/depth", {"options": {}}),
        ("/repeats", {"repeats": 2}),
        ("/max_repeats", {"max_repeats": 9}),
        ("/nodes/gpu_model", {"nodes": {"gpu_model": "H100"}}),
        ("/nodes/names", {"nodes": {"names": ["a"]}}),
        ("/timeout_s", {"timeout_s": 60}),
        ("/labels", {"labels": {"team": "b"}}),
        ("/device_time_budget_s", {"device_time_budget_s": 100}),
    ],
)
def test_what_takes_something_away_is_refused_by_name(pointer: str, changes: dict[str, Any]) -> None:
    problems = taken_away(make.spec(**OLD), make.spec(**OLD | changes))
    assert [problem.pointer for problem in problems] == [pointer]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"per_device_batch_size": [16, 8, 4]},
        {"options": {"depth": [50, 101]}},
        {"framework": ["pytorch", "tensorflow"]},
        {"topology": ["1x1", "powers-of-two"]},
        {"repeats": 7},
        {"nodes": {"gpu_model": [None, "H100"]}},
        {"precision_target": 0.01},
        {"options": {"depth": 50, "rate": [0.1, 0.2]}},
        {"framework": ["pytorch", "tensorflow"], "exclude": [{"framework": "tensorflow", "per_device_batch_size": 4}]},
    ],
)
def test_more_is_an_extension_that_keeps_every_cell(changes: dict[str, Any]) -> None:
    old, new = make.spec(**OLD), make.spec(**OLD | changes)
    assert taken_away(old, new) == []
    assert grown(make.facts(), make.facts(), old, new) is not None


def test_a_precision_may_only_become_finer_and_a_budget_larger() -> None:
    old = make.spec(**OLD, precision_target=0.02, device_time_budget_s=100)
    assert taken_away(old, make.spec(**OLD, precision_target=0.01, device_time_budget_s=200)) == []
    problems = taken_away(old, make.spec(**OLD, precision_target=0.03))
    assert {problem.pointer for problem in problems} == {"/precision_target", "/device_time_budget_s"}


@pytest.mark.parametrize(
    ("pointer", "changes"),
    [
        ("/exclude", {"exclude": [{"per_device_batch_size": 8}]}),
        ("/options/rate", {"options": {"depth": 50, "rate": [0.2, 0.3]}}),
    ],
)
def test_cells_that_go_without_a_value_that_goes_are_named(pointer: str, changes: dict[str, Any]) -> None:
    old, new = make.spec(**OLD), make.spec(**OLD | changes)
    assert grown(make.facts(), make.facts(), old, new) is None
    assert [problem.pointer for problem in lost_cells(old, new)] == [pointer]


def test_powers_of_two_grow_with_the_pool_and_do_not_shrink_with_it() -> None:
    spec = make.spec(topology="powers-of-two")
    small, large = make.facts(pool=(1, 2)), make.facts(pool=(2, 2))
    assert grown(small, large, spec, spec) == large
    assert grown(large, small, spec, spec) == large
