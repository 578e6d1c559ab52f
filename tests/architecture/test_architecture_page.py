"""docs/build/architecture.md keeps up with the code: its names, and its table of who may import whom."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from tests.architecture.test_walk import ROOT, wrong_places

PAGE = (ROOT / "docs" / "build" / "architecture.md").read_text(encoding="utf-8")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
ORCHESTRATOR = sorted({path.stem for path in (ROOT / "orchestrator").iterdir() if (path / "__init__.py").is_file()})
ROOMS = [*(f"orchestrator.{name}" for name in (*ORCHESTRATOR, "app")), "workers.node", "workers.trainer", "suites"]
ROW = re.compile(r"^\| `([\w.]+)` \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def allowed(contracts: list[Mapping[str, Any]]) -> dict[str, set[str]]:
    """room -> the rooms that no contract keeps it from importing as a whole."""
    return {one: {other for other in ROOMS if other != one and not _kept(contracts, one, other)} for one in ROOMS}


def _kept(contracts: list[Mapping[str, Any]], one: str, other: str) -> bool:
    return any(
        _above(contract["layers"], one, other)
        if contract["type"] == "layers"
        else _within(one, contract["source_modules"]) and _within(other, contract["forbidden_modules"])
        for contract in contracts
    )


def _above(layers: list[str], one: str, other: str) -> bool:
    """Whether ``other`` stands in a layer above that of ``one``, or beside it."""
    place = {room: height for height, layer in enumerate(layers) for room in layer.split(" | ")}
    return one in place and other in place and place[other] <= place[one]


def _within(room: str, modules: list[str]) -> bool:
    return any(room == module or room.startswith(f"{module}.") for module in modules)


def told() -> dict[str, set[str]]:
    """room -> the rooms that the page says it may import."""
    return {room: set(re.findall(r"`([\w.]+)`", cell)) for room, cell in ROW.findall(PAGE)}


def test_every_name_of_the_page_is_there() -> None:
    assert wrong_places(PAGE) == []


def test_the_page_tells_who_may_import_whom_as_the_linter_has_it() -> None:
    assert told() == allowed(CONTRACTS)


def test_a_contract_that_is_added_or_taken_away_is_noticed() -> None:
    without_layers = [contract for contract in CONTRACTS if contract["type"] != "layers"]
    assert told() != allowed(without_layers)
    more = {"type": "forbidden", "source_modules": ["orchestrator.domain"], "forbidden_modules": ["suites"]}
    assert told() != allowed([*CONTRACTS, more])
