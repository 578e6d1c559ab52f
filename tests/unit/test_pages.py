"""The pages keep up with the tree: every file and every page that a text names is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.services.facts.catalog import load_catalog
from tests.architecture.test_walk import names_in

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("orchestrator", "workers", "suites", "deploy", "docs", "tests")
KINDS = (".py", ".md", ".toml", ".yaml", ".yml", ".sh")
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
# A page of ours by its path from the root, as texts of all kinds name it.
NAMED = re.compile(r"(?<!ps-lite, )\b(docs/[\w/.-]+\.md)\b")
# The target of a link of Markdown, without its anchor; not one to another host.
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
# A module of ours by its dotted name, and a name in it.
DOTTED = re.compile(r"`((?:orchestrator|workers|suites)(?:\.\w+)+)`")
# A module by the end of its path, as a page may call it.
MODULE = re.compile(r"`((?:\w+/)*\w+\.py)(?:: [\w., ]+)?`")
# Of an example, and of somebody else.
NOT_OURS = {"two_convolutions/__init__.py", "two_convolutions/network.py", "run_squad.py"}
# Documents that those who build tbd have beside the repository, and nobody else.
OUTSIDE = re.compile(r"\b(?:DESIGN|CONTRACT|STATISTICS|REVIEW)\b")


def texts() -> Iterator[Path]:
    """Every text of the repository that a person writes."""
    yield from (ROOT / name for name in ("README.md", "CHANGELOG.md", "Makefile", "pyproject.toml"))
    for folder in FOLDERS:
        yield from (path for path in (ROOT / folder).rglob("*") if path.suffix in KINDS and path != Path(__file__))


def dead_links(page: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere."""
    return [link for link in LINK.findall(text) if not (page.parent / link).exists()]


def unknown_names(text: str) -> list[str]:
    """The dotted names of a text that lead to no module, nor to a name in one."""
    return [name for name in DOTTED.findall(text) if not _is_there(name.split("."))]


def _is_there(parts: list[str]) -> bool:
    for count in range(len(parts), 0, -1):
        place, rest = ROOT.joinpath(*parts[:count]), ".".join(parts[count:])
        module = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if module.is_file():
            return not rest or rest in names_in(module)
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert dead_links(page, page.read_text(encoding="utf-8")) == []


def test_the_models_of_the_readme_are_those_of_the_catalogue_with_their_counts() -> None:
    shown = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert shown == [
        f"| `{model.name}` | {model.domain} | {', '.join(model.frameworks)} | {model.parameters:,} "
        f"| {(model.flops_per_sample or 0) / 1e9:.3g} |"
        for model in load_catalog().models.values()
        if model.parameters
    ]


def test_every_module_that_a_page_names_is_there() -> None:
    there = [str(path) for folder in (*FOLDERS, "bench") for path in (ROOT / folder).rglob("*.py")]
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]
    named = {module for page in pages for module in MODULE.findall(page.read_text(encoding="utf-8"))}
    assert sorted(one for one in named - NOT_OURS if not any(path.endswith("/" + one) for path in there)) == []


def test_a_dead_link_is_found_with_underscores_and_anchors_too() -> None:
    text = "[a](docs/build/states.md) [b](docs/no_such_page.md) [c](docs/gone.md#part) [d](https://a.org/) [e](#f)"
    assert dead_links(ROOT / "README.md", text) == ["docs/no_such_page.md", "docs/gone.md"]


def test_every_page_that_any_text_names_is_there_and_none_is_outside_the_repository() -> None:
    wrong = []
    for path in texts():
        text = path.read_text(encoding="utf-8")
        missing = [name for name in NAMED.findall(text) if not (ROOT / name).is_file()]
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in (*missing, *OUTSIDE.findall(text))]
    assert wrong == []


def test_every_dotted_name_that_any_text_names_is_there() -> None:
    wrong = [f"{path.relative_to(ROOT)}: {name}" for path in texts() for name in unknown_names(path.read_text("utf-8"))]
    assert wrong == []


def test_a_dotted_name_that_leads_nowhere_is_found() -> None:
    text = "`orchestrator.domain.ports.Store` `orchestrator.domain.port` `workers.node` `workers.trainer.host.Hosts`"
    assert unknown_names(text) == ["orchestrator.domain.port", "workers.trainer.host.Hosts"]


def test_every_page_of_the_docs_can_be_reached_from_the_readme() -> None:
    reached, new = set(), {ROOT / "README.md"}
    while new:
        reached |= new
        linked = {(page.parent / link).resolve() for page in new for link in LINK.findall(page.read_text("utf-8"))}
        new = {page for page in linked if page.suffix == ".md" and page.is_file()} - reached
    assert set(PAGES) - reached == set()
