"""What ``tbd doctor --nodes`` says of nodes: each by what its agent tells, and one against the other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.cli.machine import gpu_checks, machine_checks
from orchestrator.cli.machine.findings import Finding
from orchestrator.domain.words.untrusted import visible

Json = Mapping[str, Any]

# Judgement: answers take a tenth of a second.
SLOW_S = 5.0

# What GPUs of one model are compared by over nodes, with its name and its unit's factor and sign.
_COMPARED = (
    ("most_sm_clock_hz", "greatest clock", 1e-6, "MHz"),
    ("application_clock_hz", "application clock", 1e-6, "MHz"),
    ("power_limit_w", "power limit", 1.0, "W"),
)


def findings(answers: Sequence[Json]) -> Iterator[tuple[str, Finding]]:
    """(node, finding) of all nodes; those that are of several nodes have no node. ``answers``: of GET /nodes/checks."""
    for answer in answers:
        for finding in _of_node(answer):
            yield answer["node"], finding
    for finding in _across(answers):
        yield "", finding


def _of_node(answer: Json) -> Iterator[Finding]:
    if answer["facts"] is None:
        advice = "Look at its agent's log; an agent that is too old is ended and started anew by the service"
        yield Finding("agent", "broken", visible(answer["reason"]), advice)
        return
    if answer["took_s"] > SLOW_S:
        advice = "Its host or its driver is slow to answer: look at its load, and at nvidia-smi -pm"
        yield Finding("agent", "note", f"answered after {answer['took_s']:.0f} s", advice)
    facts = answer["facts"]
    for name, found in (("gpus", gpu_checks.findings), ("machine", machine_checks.findings)):
        try:
            yield from list(found(facts[name]))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            told = f"its facts are of another version of tbd ({name}: {type(error).__name__} {error})"
            yield Finding("agent", "broken", told, "Install one version of tbd on all nodes")


def _across(answers: Sequence[Json]) -> Iterator[Finding]:
    """GPUs of one model that are set differently on different nodes: a run is as fast as the slowest."""
    found: dict[tuple[str, str], dict[Any, set[str]]] = {}
    for answer in answers:
        for device in ((answer["facts"] or {}).get("gpus") or {}).get("devices") or ():
            for key, _, _, _ in _COMPARED:
                values = found.setdefault((device["name"], key), {})
                values.setdefault(device.get(key), set()).add(answer["node"])
    for (model, key), values in found.items():
        known = {value: nodes for value, nodes in values.items() if value is not None}
        if len(known) > 1:
            _, what, factor, unit = next(one for one in _COMPARED if one[0] == key)
            told = [f"{value * factor:.0f} {unit} ({', '.join(sorted(nodes))})" for value, nodes in known.items()]
            advice = "Runs over several nodes are as fast as the slowest: set them alike (nvidia-smi -pl, -ac, -lgc)"
            yield Finding("GPUs of one model", "note", f"{model}: {what} {', '.join(sorted(told))}", advice)
