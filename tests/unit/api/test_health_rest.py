"""Readiness of a node, as its own health check asks for it: it has joined, answers and offers devices."""

import re
from dataclasses import replace

import pytest

from orchestrator.domain.around.server import Server
from orchestrator.domain.asked.placement import Node, NodeState
from orchestrator.services.pulse import LONGEST_S
from tests.unit import builders
from tests.unit.api.api_rig import Rig

VERSIONS = "its agent is tbd 0.1.0, and the service is tbd 0.2.0"
NODES = [
    replace(builders.node("worker"), address="10.0.0.2"),
    replace(builders.node("head", devices=0), address="10.0.0.1"),
    replace(builders.node("old", state=NodeState.UNREACHABLE), address="10.0.0.3", reason=VERSIONS),
]


@pytest.fixture
def standing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(rig.cluster, "nodes", lambda: list[Node](NODES))
    return rig


@pytest.mark.parametrize("name", ["worker", "10.0.0.2"])
def test_a_node_that_offers_devices_is_ready_by_name_and_by_address(standing: Rig, name: str) -> None:
    ready = {"status": "ready", "role": "leader", "leader": None, "nodes": 3}
    assert standing.http.get("/readyz", params={"node": name}).json() == ready


def test_a_follower_says_who_leads(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig.context.store, "leads", lambda: False)
    monkeypatch.setattr(rig.context.store, "leader", lambda: Server("http://10.0.0.1:8585", "one", 7, 60.0))
    told = rig.http.get("/readyz").json()
    assert (told["role"], told["leader"]) == ("follower", "http://10.0.0.1:8585 on one")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nobody", "it has not joined"),
        ("head", "it has joined and offers no devices"),
        ("old", VERSIONS),
        ("10.0.0.3", VERSIONS),
    ],
)
def test_a_node_that_is_not_ready_says_why(standing: Rig, name: str, why: str) -> None:
    answer = standing.http.get("/readyz", params={"node": name})
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:tbd:problem:node-unreachable")
    assert why in answer.json()["detail"]


def test_a_service_whose_passes_do_not_end_is_not_ready(rig: Rig) -> None:
    now = rig.context.clock.monotonic()
    rig.context.pulse.beat(now - LONGEST_S - 1.0)
    rig.context.pulse.trouble("ValueError: strange")
    answer = rig.http.get("/readyz")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:tbd:problem:cluster-unavailable")
    told = r"no pass over the runs was completed for \d+ s: ValueError: strange"
    assert re.search(told, answer.json()["detail"])
    rig.context.pulse.beat(now)
    assert rig.http.get("/readyz").status_code == 200


def test_the_reason_stands_in_the_list_of_nodes(standing: Rig) -> None:
    reasons = {node["name"]: node["reason"] for node in standing.get("/nodes")["items"]}
    assert reasons == {"worker": None, "head": None, "old": VERSIONS}
