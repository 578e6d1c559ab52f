"""A new experiment, or more of an old one: its YAML to edit, refused line by line, and what it would run."""

import json
import secrets
import shlex
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from orchestrator.reports.tables.lists import preview_table
from orchestrator.services.experiment.spec_text import SpecError, SpecText
from orchestrator.web.grid import grid
from orchestrator.web.page import Asked, Page, moved
from orchestrator.web.rest import API, Refused, path_of

Json = Mapping[str, Any]
BEGINNING = """\
name: first
model: resnet-50
framework: [pytorch, tensorflow]
per_device_batch_size: [4, 8]
size: small
repeats: 4
"""


async def show_new(asked: Asked) -> Page | Response:
    """The form: empty, or with the spec of an experiment (``from`` again, ``extend`` with more of it)."""
    extended, again = asked.query.get("extend"), asked.query.get("from")
    text = BEGINNING
    if extended or again:
        old = await asked.rest.get(path_of("experiments", extended or again or ""))
        text = _as_yaml(old["spec"])
    return _page(asked, text, extended)


async def new(asked: Asked) -> Page | Response:
    """Check the spec, or submit it."""
    text, extended = asked.form.get("spec", "").replace("\r\n", "\n"), asked.form.get("extend") or None
    try:
        parsed = SpecText(text)
        spec = json.loads(json.dumps(parsed.spec, default=str))  # YAML has dates, JSON has none
    except SpecError as error:
        return _page(asked, text, extended, problems=[_told(str(error))], status=422)
    except (TypeError, ValueError) as error:
        return _page(asked, text, extended, problems=[f"it has no place in JSON: {error}"], status=422)
    try:
        if asked.form.get("order") == "submit":
            path = path_of("experiments", extended, "extend") if extended else "/experiments"
            made = await asked.rest.post(path, spec, key=asked.form.get("key") or None)
            return moved(path_of("experiments", made["id"]))
        preview = await asked.rest.post("/experiments", spec, dry_run="true")
    except Refused as refused:
        items = refused.document.get("errors") or []
        problems = [_told(line) for line in parsed.explained(items)] or [str(refused)]
        return _page(asked, text, extended, problems=problems, status=refused.status)
    return _page(asked, text, extended, preview=preview, spec=spec)


def _told(line: str) -> str:
    """``line 7: model: …`` of ``:7: model: …``."""
    place, _, rest = line.partition(": ")
    return f"line {place.strip(':')}: {rest}" if place.strip(":") else rest


def _page(
    asked: Asked,
    text: str,
    extended: str | None,
    problems: list[str] | None = None,
    preview: Json | None = None,
    spec: Any = None,
    status: int = 200,
) -> Page:
    # Of an extension they are the plans of the whole spec: some of them have run.
    heading = "All that it would have; what is missing runs" if extended else "What would run"

    def content() -> Json:
        return {
            "text": text,
            "extended": extended,
            "heading": heading,
            "problems": problems or [],
            "preview": grid(preview_table(preview), heading) if preview else None,
            "curl": _curl(asked, spec, extended) if preview else None,
            "key": secrets.token_hex(16),
        }

    return Page("new.html", f"Extend {extended}" if extended else "New experiment", content, status=status)


def _as_yaml(spec: Json) -> str:
    """The fields that say something, a line each: JSON is YAML."""
    said = {name: value for name, value in spec.items() if value not in (None, [], {})}
    return "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in said.items())


def _curl(asked: Asked, spec: Any, extended: str | None) -> str:
    """The command that submits the same."""
    request = asked.request
    path = path_of("experiments", extended, "extend") if extended else "/experiments"
    url = f"{request.url.scheme}://{request.headers.get('host', '')}{API}{path}"
    token = ' -H "Authorization: Bearer $TBD_TOKEN"' if request.app.state.gate.is_closed else ""
    body = shlex.quote(json.dumps(spec, ensure_ascii=False))
    return f"curl -sS {shlex.quote(url)}{token} -H 'Content-Type: application/json' -d {body}"
