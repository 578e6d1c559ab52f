"""The datasets that nodes offer beside those of the catalogue: files that somebody registered there by a name."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.domain.asked.catalog import Catalog, DatasetFacts
from orchestrator.domain.asked.placement import Node


def on_nodes(nodes: Sequence[Node]) -> dict[str, DatasetFacts]:
    """The registered datasets of all nodes, by name. Where a name stands for different files on different nodes, the
    facts are of one of them and ``differs`` says so."""
    found: dict[str, dict[str, Any]] = {}
    where: dict[str, dict[str, str]] = {}
    for node in sorted(nodes, key=lambda node: node.name):
        for name, facts in (node.inventory.get("datasets") or {}).items():
            found.setdefault(name, dict(facts))
            where.setdefault(name, {})[node.name] = facts["sha256"]
    for name, digests in where.items():
        if len(set(digests.values())) > 1:
            told = ", ".join(f"{digest[:12]}… on {node}" for node, digest in digests.items())
            found[name]["differs"] = f"{name} is not the same files on all nodes ({told}): register them by two names"
    return {name: of_facts(facts) for name, facts in found.items()}


def of_facts(facts: Mapping[str, Any]) -> DatasetFacts:
    return DatasetFacts(facts["name"], facts["module"], facts["domain"], facts)


def extended(catalog: Catalog, registered: Mapping[str, DatasetFacts]) -> Catalog:
    """``catalog`` with the registered datasets; a name that comes with tbd keeps its meaning."""
    return replace(catalog, datasets={**registered, **catalog.datasets})
