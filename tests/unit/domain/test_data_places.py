"""Where synthetic batches lie: what a spec may ask for, and that the usual place changes no key."""

from typing import Any

import pytest

from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.fingerprint import workload_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.expansion.data_places import resolved
from orchestrator.domain.expansion.groups import groups_of
from orchestrator.domain.expansion.sweep import check, expand, spec_of
from orchestrator.domain.words.errors import InvalidRequest
from orchestrator.services.facts.catalog import load_catalog
from tests.unit import builders as make

REAL = load_catalog()


def facts(device: str) -> Facts:
    return Facts(REAL, device, (1, 2))


def plans(device: str, **spec: Any) -> list[Plan]:
    found = make.spec(**{"model": "resnet-50", "repeats": 1, **spec})
    check(found, facts(device))
    return expand(found, facts(device), [])


def refusal(device: str, **spec: Any) -> tuple[str, str]:
    with pytest.raises(InvalidRequest) as caught:
        plans(device, **spec)
    (problem,) = caught.value.problems
    return problem.pointer, problem.message


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "mxnet", "cntk"])
def test_the_usual_place_changes_no_key(framework: str, device: str) -> None:
    usual = resolved("auto", device)
    assert REAL.frameworks[framework].data_on[device][0] == usual
    (silent,) = plans(device, framework=framework)
    (named,) = plans(device, framework=framework, data_on=usual)
    assert named == silent
    assert silent.data_on == usual
    assert "data_on" not in silent.to_json()
    assert "data_on" not in workload_of(silent)
    assert Plan.from_json(silent.to_json()) == silent


def test_another_place_is_another_workload() -> None:
    found = plans("cuda", data_on=["auto", "host", "pinned"])
    assert {plan.data_on for plan in found} == {"pinned", "host", "device"}
    assert len({plan.cell_key for plan in found}) == 3
    (on_host,) = (plan for plan in found if plan.data_on == "host")
    assert workload_of(on_host)["data_on"] == "host"
    assert Plan.from_json(on_host.to_json()) == on_host
    assert expand(spec_of(on_host, "again"), facts("cuda"), [])[0].key == on_host.key
    assert expand(spec_of(found[0], "again"), facts("cuda"), [])[0].key == found[0].key


def test_on_cpu_devices_the_device_is_the_host() -> None:
    (both,) = plans("cpu", data_on=["host", "device"])
    assert both == plans("cpu")[0]


@pytest.mark.parametrize(
    ("device", "spec", "told"),
    [
        ("cpu", {"data_on": "pinned"}, "data_on pinned is for GPUs: page-locked memory is there to be copied from"),
        (
            "cuda",
            {"framework": "tensorflow", "data_on": "pinned"},
            "tensorflow has no data_on pinned: TensorFlow makes",
        ),
        ("cuda", {"framework": "cntk", "data_on": "pinned"}, "cntk has no data_on pinned: CNTK makes no values"),
        (
            "cuda",
            {"data": "photographs", "data_on": "pinned"},
            "data_on pinned is for synthetic data: where batches of",
        ),
        ("cuda", {"model": "netbench", "data_on": "host"}, "data_on host is not offered for netbench, which makes"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(device: str, spec: dict[str, Any], told: str) -> None:
    pointer, message = refusal(device, **spec)
    assert pointer == "/data_on"
    assert message.startswith(told)


def test_a_dataset_is_read_as_it_always_was() -> None:
    (plan,) = plans("cuda", data="photographs", data_on="device")
    assert plan == plans("cuda", data="photographs")[0]


def test_all_frameworks_are_fed_alike() -> None:
    spec = make.spec(model="resnet-50", framework=["pytorch", "tensorflow"], repeats=1)
    found = expand(spec, facts("cuda"), [])
    assert [plan.data_on for plan in found] == ["device", "device"]
    (group,) = groups_of(spec, found, "framework")
    assert len(group.plans) == 2


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            {"model": "netbench", "framework": "pytorch"},
            "is for trainings in tbd's own loop: model netbench has another",
        ),
        (
            {"mode": "convergence", "data": "photographs", "max_steps": 100},
            "is for mode throughput: to a target every step counts",
        ),
    ],
)
def test_what_has_no_untimed_steps_cannot_be_told_how_long_they_are(spec: dict[str, Any], told: str) -> None:
    assert refusal("cuda", **spec, warm_up_s=5) == ("/warm_up_s", told)
    assert plans("cuda", **spec)  # at the usual it can be


def test_an_unusual_warm_up_is_another_workload() -> None:
    (usual,), (none,) = plans("cuda"), plans("cuda", warm_up_s=0)
    assert (usual.warm_up_s, "warm_up_s" in usual.to_json(), plans("cpu")[0].warm_up_s) == (30.0, False, 0.0)
    assert workload_of(none)["warm_up_s"] == 0.0
    assert Plan.from_json(none.to_json()) == none != usual
