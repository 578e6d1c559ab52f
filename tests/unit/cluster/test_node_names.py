"""What nodes of Ray are called."""

import pytest

from orchestrator.cluster.node_names import free_name, given_name, name_in_ray
from orchestrator.domain.words.errors import SettingsError


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({"NodeName": "10.0.0.7"}, "host"),  # Ray's own name for it
        ({"NodeName": "gpu-7"}, "gpu-7"),
        ({"NodeName": "../gpu"}, "host"),
        ({}, "host"),  # an older Ray
    ],
)
def test_a_node_is_called_as_it_was_told_or_by_its_host(told: dict[str, str], name: str) -> None:
    assert name_in_ray({"NodeManagerAddress": "10.0.0.7", "NodeManagerHostname": "host", **told}) == name


@pytest.mark.parametrize(
    ("taken", "left", "name"),
    [
        ([], [], "host"),
        (["host"], [], "host-2"),  # two that live, also of one image
        (["host"], ["host"], None),
        (["host", "host-2"], ["host-2"], None),
        (["host", "host-3"], ["host-3"], "host-2"),
    ],
)
def test_a_name_is_waited_for_that_the_machine_itself_has_left(
    taken: list[str], left: list[str], name: str | None
) -> None:
    assert free_name("host", taken, left.__contains__) == name


@pytest.mark.parametrize("name", ["a/b", "-a", "a" * 64, "a b"])
def test_a_name_that_no_node_can_have_is_refused_by_its_variable(name: str) -> None:
    assert given_name({}) is None
    with pytest.raises(SettingsError, match="TBD_NODE_NAME"):
        given_name({"TBD_NODE_NAME": name})
