"""The frameworks, and on which nodes their interpreters are ready."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.asked.catalog import Catalog, FrameworkFacts
from orchestrator.domain.asked.placement import Node, NodeState
from orchestrator.domain.words.errors import ClusterUnavailable
from orchestrator.services.context import Context


@dataclass(frozen=True)
class InterpreterOnNode:
    """A named environment of one node. ``ready`` is None where the node cannot be asked; ``reason`` says why not."""

    name: str
    node: str
    ready: bool | None
    reason: str | None = None
    definition: str | None = None
    versions: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class FrameworkStatus:
    """What an adapter declares, and where it can run."""

    facts: FrameworkFacts
    interpreters: Sequence[InterpreterOnNode]


def frameworks(context: Context) -> list[FrameworkStatus]:
    """All frameworks with the state of each of their interpreters on each node; the nodes are asked at once."""
    nodes = sorted(context.cluster.nodes(), key=lambda node: node.name)
    with ThreadPoolExecutor(max_workers=8, thread_name_prefix="interpreters") as pool:
        answers = dict(zip((node.name for node in nodes), pool.map(lambda n: _ask(context, n), nodes), strict=True))
    return of_answers(context.catalog, answers)


Answer = Mapping[str, Mapping[str, Any]] | str  # interpreter -> what the node says of it, or why it says nothing


def _ask(context: Context, node: Node) -> Answer:
    if node.state is NodeState.UNREACHABLE:
        return "the node cannot be reached"
    try:
        return {one["name"]: one for one in context.cluster.interpreters(node.name)}
    except ClusterUnavailable as error:
        return str(error)


def of_answers(catalog: Catalog, answers: Mapping[str, Answer]) -> list[FrameworkStatus]:
    """All frameworks, given what each node (by its name) says of its interpreters."""
    return [_status(facts, answers) for _, facts in sorted(catalog.frameworks.items())]


def _status(facts: FrameworkFacts, answers: Mapping[str, Answer]) -> FrameworkStatus:
    names = sorted({strategy.interpreter for strategy in facts.strategies.values()})
    known = [one for answer in answers.values() if not isinstance(answer, str) for one in answer.values()]
    names += sorted({one["name"] for one in known if one.get("derived_from") in names})
    return FrameworkStatus(facts, [_on_node(name, node, answer) for name in names for node, answer in answers.items()])


def _on_node(name: str, node: str, answer: Answer) -> InterpreterOnNode:
    if isinstance(answer, str):
        return InterpreterOnNode(name, node, None, answer)
    found = answer.get(name)
    if found is None:
        return InterpreterOnNode(name, node, False, "the node does not know this interpreter")
    return InterpreterOnNode(
        name=name,
        node=node,
        ready=bool(found.get("ready")),
        reason=found.get("reason"),
        definition=found.get("definition"),
        versions=found.get("versions"),
    )
