"""The doctor of the cluster: nodes that answer, late, not at all, or in another language; nodes that differ."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from orchestrator.cli.machine.node_checks import findings
from orchestrator.domain.asked.placement import Node, NodeState
from orchestrator.domain.words.errors import NodeFailed, NodeUnreachable
from orchestrator.services.facts import checks
from tests.unit import builders as make
from tests.unit.api.api_rig import Rig
from workers.node import host_facts
from workers.node.gpu_choice import Offer
from workers.node.telemetry.nvml import Nvml

ANSWER_S = 0.2


def facts(**of_device: Any) -> dict[str, Any]:
    """What this machine says, with one GPU that it may not have."""
    nvml = Nvml()
    gpus = host_facts.of_gpus(nvml, Offer(nvml, {}))
    device = dict.fromkeys(("persistence", "ecc", "ecc_pending", "remapping_failed", "remapping_pending"))
    device |= {"uncorrected_ecc_errors": None, "counters": "ok", "throttle_reasons": 0, "id": "GPU-0", "number": "0"}
    device |= {"name": "H100", "most_sm_clock_hz": 1.98e9, "application_clock_hz": None, "power_limit_w": 700.0}
    nvml.close()
    return {"gpus": {**gpus, "devices": [device | of_device]}, "machine": host_facts.of_machine()}


def answered(node: str, **changes: Any) -> dict[str, Any]:
    return {"node": node, "facts": facts(), "reason": None, "took_s": 0.1} | changes


def found_in(*answers: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    return {(node, one.check): f"{one.level}: {one.found}" for node, one in findings(answers)}


def test_a_node_that_says_nothing_or_late_or_in_another_language_is_a_finding() -> None:
    silent = answered("n1", facts=None, reason="no answer to the checks within 20 s")
    strange = answered("n3", facts={"gpus": {}, "machine": facts()["machine"]})
    found = found_in(answered("n0"), silent, answered("n2", took_s=12.3), strange)
    assert found[("n1", "agent")] == "broken: no answer to the checks within 20 s"
    assert found[("n2", "agent")] == "note: answered after 12 s"
    assert "another version of tbd (gpus" in found[("n3", "agent")]
    assert ("n3", "load") in found  # the rest of it is told all the same
    assert ("n0", "agent") not in found


def test_gpus_of_one_model_that_are_set_differently_on_different_nodes_are_told_once() -> None:
    slower = answered("n1", facts=facts(most_sm_clock_hz=1.755e9))
    told = found_in(answered("n0"), slower, answered("n2"))[("", "GPUs of one model")]
    assert told == "note: H100: greatest clock 1755 MHz (n1), 1980 MHz (n0, n2)"
    assert ("", "GPUs of one model") not in found_in(answered("n0"), answered("n2"))


class Waiting:
    """A cluster of nodes that each take a while to answer, as hosts elsewhere do."""

    def __init__(self, count: int) -> None:
        self.found = [make.node(f"n{index:02}") for index in range(count)]

    def nodes(self) -> Sequence[Node]:
        return self.found

    def checks(self, node: str) -> Mapping[str, Any]:
        time.sleep(ANSWER_S)
        return {"of": node}


def test_32_nodes_are_asked_side_by_side(rig: Rig) -> None:
    took = {}
    for count in (1, 32):
        object.__setattr__(rig.context, "cluster", Waiting(count))
        began = time.monotonic()
        found = checks.of_nodes(rig.context)
        took[count] = time.monotonic() - began
        assert [one.facts for one in found] == [{"of": f"n{index:02}"} for index in range(count)]
    assert took[32] <= 3 * took[1], took


def test_an_agent_that_is_too_old_and_one_that_is_away_have_a_reason(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_checks(node: str) -> Mapping[str, Any]:
        if node == "n0":
            raise NodeFailed(node, "its agent answers 'checks' with ValueError: unknown method 'checks'")
        raise NodeUnreachable(node, "no answer to the checks within 20 s")

    monkeypatch.setattr(rig.cluster, "checks", no_checks)
    away = make.node("n2", state=NodeState.UNREACHABLE)
    monkeypatch.setattr(rig.cluster, "nodes", lambda: [make.node("n0"), make.node("n1"), away])
    found = {one["node"]: one for one in rig.get("/nodes/checks")["items"]}
    assert [one["facts"] for one in found.values()] == [None, None, None]
    assert "too old for the checks" in found["n0"]["reason"]
    assert "20 s" in found["n1"]["reason"]
    assert "cannot be reached" in found["n2"]["reason"]
