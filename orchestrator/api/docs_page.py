"""``/docs``: the OpenAPI description as one page that loads nothing from anywhere (FastAPI's own needs a CDN)."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

Json = Mapping[str, Any]

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
details { border-top: 1px solid #ddd; padding: .4rem 0 } summary { cursor: pointer }
code, pre { font: 13px/1.4 ui-monospace, monospace } pre { background: #f6f6f6; padding: .7rem; overflow-x: auto }
.method { display: inline-block; width: 4.5rem; font-weight: 600 } .about { color: #666; margin-left: .8rem }
"""


def docs_page(description: Json) -> str:
    """The page for an OpenAPI ``description``."""
    body = "".join(_sections(description))
    title = escape(f"{description['info']['title']}: REST")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>{escape(description['info']['description'])} The same for machines: "
        f'<a href="/openapi.json">/openapi.json</a>.</p>{body}</html>'
    )


def _sections(description: Json) -> Iterator[str]:
    by_tag: dict[str, list[str]] = {}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[0]
            by_tag.setdefault(tag, []).append(_operation(path, method, operation))
    for tag, blocks in by_tag.items():
        yield f"<h2>{escape(tag)}</h2>{''.join(blocks)}"
    yield "<h2>schemas</h2>"
    for name, schema in sorted(description["components"]["schemas"].items()):
        text = escape(json.dumps(schema, indent=1))
        yield f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary><pre>{text}</pre></details>'


def _operation(path: str, method: str, operation: Json) -> str:
    about = operation.get("description") or operation.get("summary") or ""
    head = f'<span class="method">{method.upper()}</span><code>{escape(path)}</code>'
    first = escape(about.split("\n\n")[0])
    return (
        f'<details><summary>{head}<span class="about">{first}</span></summary><p>{escape(about)}</p>'
        f"<p>in generated clients: <code>{escape(operation['operationId'])}</code></p>"
        f"{_parameters(operation)}{_body(operation)}{_answers(operation)}</details>"
    )


def _parameters(operation: Json) -> str:
    lines = [
        f"<li><code>{escape(one['name'])}</code> ({one['in']}{', required' if one.get('required') else ''}) "
        f"{escape(one.get('description', ''))}</li>"
        for one in operation.get("parameters", ())
    ]
    return f"<ul>{''.join(lines)}</ul>" if lines else ""


def _body(operation: Json) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    return "".join(f"<p>body, <code>{escape(kind)}</code>: {_link(one['schema'])}</p>" for kind, one in content.items())


def _answers(operation: Json) -> str:
    lines = [
        f"<li>{escape(status)}: {_link(content.get('schema', {}))}</li>"
        for status, answer in operation["responses"].items()
        for content in answer.get("content", {}).values()
    ]
    return f"<p>answers</p><ul>{''.join(lines)}</ul>"


def _link(schema: Json) -> str:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return f'<a href="#{escape(name)}"><code>{escape(name)}</code></a>' if name else escape(schema.get("type", "any"))
