"""Whether an old and a new subject can be made again side by side, and by which plans."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.analysis.gate.suspects import Suspect
from orchestrator.domain.asked.fingerprint import Changed
from orchestrator.domain.asked.plan import DEFINITION, SIDE, SUITE, VARIABLE, Plan
from orchestrator.services.history.observed import Place
from orchestrator.services.history.words import fields
from orchestrator.services.reconcile.confirming import NEW, OLD

# Fields of a subject that an environment brings about, and those that name it.
_OF_ENVIRONMENT = ("framework_version", "libraries", "mathematics")
_ENVIRONMENT = ("interpreter", "interpreter_definition")
_INHERITED = "inherited.environment."
_NEVER = "LD_"  # where a loader looks is nobody's to choose from afar


def sides_of(plan: Plan, place: Place, suspect: Suspect) -> tuple[Plan, Plan] | str:
    """The plans of the old and the new side, on the devices of ``place``; or why there are none, in words.

    Args:
        plan: of the cell, as a night planned it.
    """
    subjects = (suspect.before.subject, suspect.begins.subject)
    return why_not(suspect.changes, subjects) or pinned(plan, place, subjects)


def pinned(plan: Plan, place: Place, subjects: Sequence[Mapping[str, Any]]) -> tuple[Plan, Plan]:
    """The plans of an old and a new side on the devices of ``place``, of ``subjects`` that can be made again."""
    same = replace(
        plan,
        profile=(),
        placement="same-devices",
        node_names=place.nodes,
        device_ids=tuple(sorted(place.device_ids)),
        repetition=1,
    )
    names = {name for subject in subjects for name in _variables(subject)}
    return _side(same, OLD, subjects[0], names), _side(same, NEW, subjects[1], names)


def _side(plan: Plan, side: str, subject: Mapping[str, Any], names: set[str]) -> Plan:
    recorded = _variables(subject)
    pins: dict[str, str | None] = {SIDE: side}
    pins |= {VARIABLE + name: recorded.get(name) for name in names if not name.startswith(_NEVER)}
    if subject.get("interpreter_definition"):
        pins[DEFINITION] = subject["interpreter_definition"]
    if subject.get("suite"):
        pins[SUITE] = subject["suite"]["commit"]
    interpreter = str(subject.get("interpreter") or plan.interpreter)
    return replace(plan, interpreter=interpreter, pins=tuple(sorted(pins.items())))


def _variables(subject: Mapping[str, Any]) -> Mapping[str, str]:
    found: Mapping[str, str] = (subject.get("inherited") or {}).get("environment") or {}
    return found


def why_not(changes: Sequence[Changed], subjects: Sequence[Mapping[str, Any]]) -> str | None:
    """Why two subjects between which these are the ``changes`` cannot be made again, or None."""
    if not changes:
        return "nothing that is recorded changed: it is those devices', or of something that is not recorded"
    named = {change.field.partition(".")[0] for change in changes}
    if named.isdisjoint(_ENVIRONMENT):
        lost = [one for one in changes if one.field.partition(".")[0] in _OF_ENVIRONMENT[:2]]
        if lost:
            return f"{fields(lost)} changed in an environment that was changed in its place: the old one is gone"
    follows = all(_follows_suite(subject) for subject in subjects)
    lost = [one for one in changes if not _is_made_again(one.part, one.field, follows)]
    if lost:
        return f"{fields(lost)} cannot be made again"
    return why_not_again(subjects)


def why_not_again(subjects: Sequence[Mapping[str, Any]]) -> str | None:
    """Why subjects cannot be made again, whatever they differ in; or None."""
    for subject in subjects:
        suite = subject.get("suite")
        if isinstance(suite, list) or (suite and (suite.get("dirty_sha256") or not suite.get("commit"))):
            return "the model's folder had changes beyond its commit, or was not the same on all nodes"
    return None if subjects[-1].get("interpreter") else "the interpreter is not recorded"


def _follows_suite(subject: Mapping[str, Any]) -> bool:
    """Whether the code of a project is made again with the commit of the folder that its facts are in."""
    script, suite = subject.get("script") or {}, subject.get("suite") or {}
    if script.get("dirty_sha256") or not isinstance(suite, Mapping):
        return False
    return bool(script.get("pinned")) or (bool(suite) and script.get("commit") == suite.get("commit"))


def _is_made_again(part: str, field: str, follows_suite: bool) -> bool:
    if part != "subject":
        return False
    if field.startswith("script."):
        return follows_suite
    if field.startswith(_INHERITED):
        return not field.removeprefix(_INHERITED).startswith(_NEVER)
    return field == "suite.commit" or field.partition(".")[0] in (*_OF_ENVIRONMENT, *_ENVIRONMENT)
