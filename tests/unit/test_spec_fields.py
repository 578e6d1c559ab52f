"""Every field of a request says what it means: in OpenAPI, on the page of the docs, and at the terminal."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from orchestrator.cli.main import main
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.reports import spec_fields
from orchestrator.services.probe.calibrate import CalibrationRequest
from orchestrator.services.probe.netbench import NetbenchRequest
from tests.support.openapi_changes import description

REQUESTS = (ExperimentSpec, NetbenchRequest, CalibrationRequest)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "use" / "spec.md"


def described(kind: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str | None]]:
    """(field, description) of a type and of the types that its fields are made of."""
    for name, field in kind.model_fields.items():
        yield prefix + name, field.description
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from described(field.annotation, f"{prefix}{name}.")


@pytest.mark.parametrize("kind", REQUESTS)
def test_every_field_has_a_description(kind: type[BaseModel]) -> None:
    found = dict(described(kind))
    assert "nodes.gpu_model" in found  # nested ones are looked at
    assert [name for name, text in found.items() if not text or len(text) < 10] == []


@pytest.mark.parametrize("kind", REQUESTS)
def test_openapi_shows_every_description(kind: type[BaseModel]) -> None:
    schemas = description()["components"]["schemas"]
    shown = schemas[kind.__name__]["properties"]
    shown = shown | {f"nodes.{name}": field for name, field in schemas["NodeChoice"]["properties"].items()}
    assert {name: field.get("description") for name, field in shown.items()} == dict(described(kind))


def test_the_page_is_what_the_type_says() -> None:
    command = "python -m orchestrator.reports.spec_fields > docs/use/spec.md"
    assert PAGE.read_text(encoding="utf-8") == spec_fields.page(), f"write it anew: {command}"


def test_the_page_has_every_field_with_what_it_takes() -> None:
    rows = {row.name: row for row in spec_fields.rows()}
    assert set(rows) == {name for name, _ in described(ExperimentSpec)} - {"nodes"}
    assert rows["per_device_batch_size"].takes == "whole number ≥ 1, ≤ 1000000 or max; takes a list too"
    assert rows["precision_target"].takes == "number > 0, < 1"
    assert rows["exclude"].takes == "list of objects"
    assert (rows["name"].default, rows["topology"].default, rows["repeats"].default) == (None, "1x1", "6")


def test_plan_lists_the_fields_and_its_help_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["plan", "--fields"], ["plan", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
    out = capsys.readouterr().out
    table, _, text = out.partition("usage:")
    assert all(row.name in table for row in spec_fields.rows())
    assert "tbd plan --fields" in text
