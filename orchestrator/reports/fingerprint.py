"""A fingerprint in words: a machine, what ran on it, and their settings that change speed."""

from collections.abc import Mapping
from typing import Any

from orchestrator.reports.numbers import memory, plain
from orchestrator.reports.tables.results_table import axis_text

Json = Mapping[str, Any]

_WORDS = {"0": "off", "1": "on", True: "on", False: "off"}
_RANDOMIZATION = {"0": "off", "1": "partly", "2": "on"}


def fingerprint_lines(fingerprint: Json) -> list[str]:
    """A whole fingerprint, a line each: its keys, what ran, each machine."""
    subject, rig = fingerprint.get("subject") or {}, fingerprint.get("rig") or {}
    keys = "  ".join(f"{part} {fingerprint.get(f'{part}_key')}" for part in ("workload", "subject", "rig"))
    machines = [f"{name}: {machine(node)}" for name, node in (rig.get("nodes") or {}).items()]
    return [keys, program(subject), *machines]


def machine(node: Json) -> str:
    """One line of a node of the rig."""
    told = [
        str(node.get("cpu_model") or "unknown processor"),
        f"{len(node.get('cores') or ())} logical cores",
        memory(node.get("memory_bytes")),
        f"kernel {node.get('kernel')}",
        f"governor {node.get('governor') or 'not known'}",
        f"NVIDIA driver {node['driver']}" if node.get("driver") else "",
        machine_settings(node),
    ]
    return ", ".join(filter(None, told))


def program(subject: Json) -> str:
    """One line of the subject: framework, interpreter, libraries, mathematics and tbd itself."""
    definition, inherited = subject.get("interpreter_definition"), inherited_settings(subject)
    libraries = ", ".join(f"{name} {version}" for name, version in (subject.get("libraries") or {}).items())
    commits = ", ".join(commit[:12] for commit in subject.get("code_commits") or []) or "unknown"
    told = [
        f"{subject.get('framework')} {subject.get('framework_version')} in interpreter {subject.get('interpreter')}"
        + (f" (definition {definition[:12]})" if definition else ""),
        libraries or "no libraries",
        f"mathematics: {axis_text(subject.get('mathematics') or {})}",
        f"inherited: {inherited}" if inherited else "",
        f"tbd at commit {commits}" + (" with uncommitted changes" if subject.get("code_dirty") else ""),
    ]
    return "; ".join(filter(None, told))


def machine_settings(node: Json) -> str:
    """One line of a node of the rig; empty where the log tells none of it."""
    told = [
        ("huge pages", node.get("transparent_hugepages")),
        ("reserved huge pages", node.get("reserved_huge_pages") or None),
        ("address randomisation", _RANDOMIZATION.get(str(node.get("address_space_randomization")))),
        ("SMT", node.get("smt")),
        ("frequency boost", _word(node.get("frequency_boost"))),
        ("energy preference", node.get("energy_preference")),
        ("NUMA balancing", _word(node.get("numa_balancing"))),
        ("preloaded", ", ".join(node.get("preloaded") or ())),
        ("limit of the control group", _limits(node.get("cgroup") or {})),
    ]
    return ", ".join(f"{name} {value}" for name, value in told if value)


def inherited_settings(subject: Json) -> str:
    """What the processes inherited from the agent, in one line; empty where that is nothing out of the ordinary."""
    inherited = subject.get("inherited") or {}
    if inherited and "environment" not in inherited:  # nodes that do not agree
        return "; ".join(f"on {name}: {_one(facts) or 'nothing'}" for name, facts in inherited.items())
    return _one(inherited)


def _one(facts: Json) -> str:
    told = [f"{name}={value}" for name, value in (facts.get("environment") or {}).items()]
    if facts.get("address_space_randomized") is False:
        told.append("addresses not randomised")
    if facts.get("huge_pages_allowed") is False:
        told.append("huge pages forbidden")
    return ", ".join(told)


def _word(value: Any) -> str | None:
    return None if value is None else _WORDS.get(value, str(value))


def _limits(cgroup: Json) -> str:
    cores, amount = cgroup.get("cpu_cores"), cgroup.get("memory_bytes")
    told = [f"{plain(cores, 3)} cores"] if cores is not None else []
    return " and ".join([*told, *([memory(amount)] if amount is not None else [])])
