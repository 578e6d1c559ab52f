"""The spec: what it accepts, and that what it refuses is named by a JSON pointer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.domain.asked.fields import AXES
from orchestrator.domain.asked.spec import ExperimentSpec, NodeChoice, parse_spec
from orchestrator.domain.words.errors import InvalidRequest

GOOD = {"name": "a-sweep", "model": "net", "framework": ["pytorch", "tensorflow"], "per_device_batch_size": [4, 8]}


def pointers(data: object) -> list[str]:
    with pytest.raises(InvalidRequest) as caught:
        parse_spec(data)
    return [problem.pointer for problem in caught.value.problems]


def test_a_spec_reads_back_as_it_was_written() -> None:
    spec = parse_spec(GOOD)
    assert parse_spec(spec.to_json()) == spec
    assert spec.to_json()["model"] == "net"
    assert spec.to_json()["per_device_batch_size"] == [4, 8]


def test_every_axis_is_a_field_that_takes_lists() -> None:
    assert set(AXES) - {"gpu_model"} < set(ExperimentSpec.model_fields)
    assert "gpu_model" in NodeChoice.model_fields
    assert all(isinstance(getattr(parse_spec(GOOD), axis), list | None) for axis in AXES)


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"batch_size": 4}, "/batch_size"),
        ({"a/b~c": 4}, "/a~1b~0c"),
        ({"name": "Not A Name"}, "/name"),
        ({"framework": "torch"}, "/framework"),
        ({"framework": ["pytorch", "torch"]}, "/framework/1"),
        ({"topology": "2"}, "/topology"),
        ({"topology": "0x1"}, "/topology"),
        ({"per_device_batch_size": 0}, "/per_device_batch_size"),
        ({"per_device_batch_size": True}, "/per_device_batch_size"),
        ({"per_device_batch_size": []}, "/per_device_batch_size"),
        ({"repeats": "three"}, "/repeats"),
        ({"timeout_s": float("nan")}, "/timeout_s"),
        ({"timeout_s": "60"}, "/timeout_s"),
        ({"deadline_s": True}, "/deadline_s"),
        ({"target": "0.9"}, "/target"),
        ({"nodes": {"gpu": "H100"}}, "/nodes/gpu"),
        ({"options": {"depth": {}}}, "/options/depth"),
        ({"global_batch_size": 8}, "/global_batch_size"),
        ({"per_device_batch_size": None}, "/per_device_batch_size"),
        ({"repeats": 5, "max_repeats": 4}, "/max_repeats"),
        ({"seed": [1, 1]}, "/seed"),
    ],
)
def test_what_is_wrong_is_named_by_a_pointer(change: dict[str, object], pointer: str) -> None:
    assert pointers(GOOD | change) == [pointer]


def test_a_missing_field_is_named() -> None:
    assert pointers({"model": "net", "per_device_batch_size": 1}) == ["/name", "/framework"]


@pytest.mark.parametrize("data", [None, [], "spec", 3])
def test_a_spec_is_an_object(data: object) -> None:
    assert pointers(data) == [""]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(field=st.sampled_from([*ExperimentSpec.model_fields, "unknown"]), value=JSON)
def test_no_value_of_any_field_does_worse_than_being_refused(field: str, value: object) -> None:
    try:
        spec = parse_spec(GOOD | {field: value})
    except InvalidRequest:
        return
    assert parse_spec(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("given", "repeats", "most"),
    [
        ({}, 6, 10),
        ({"repeats": 6}, 6, 10),
        ({"repeats": 20}, 20, 30),
        ({"repeats": 1000}, 1000, 1000),
        ({"max_repeats": 2}, 2, 2),
        ({"max_repeats": 40}, 6, 40),
        ({"repeats": 20, "max_repeats": 20}, 20, 20),
    ],
)
def test_the_default_of_repeats_and_of_its_limit_contradicts_neither(
    given: dict[str, int], repeats: int, most: int
) -> None:
    spec = parse_spec(GOOD | given)
    assert (spec.repeats, spec.max_repeats) == (repeats, most)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"framework": "torch"}, "or 'sleep': did you mean pytorch?"),
        ({"framework": "caffe"}, "and plain Caffe in those of Debian 11 only"),
        ({"size": ["full", "smal"]}, "did you mean small?"),
        ({"per_device_batch_sizes": 4}, "unknown key 'per_device_batch_sizes': did you mean per_device_batch_size?"),
        ({"nodes": {"name": ["a"]}}, "unknown key 'name': did you mean names?"),
        ({"x" * 5000: 4}, "'"),
        ({"zzz": 4}, "unknown key 'zzz'"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_one_that_was_meant(change: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_spec(GOOD | change)
    assert caught.value.problems[0].message.endswith(told)
