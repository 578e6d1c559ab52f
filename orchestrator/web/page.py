"""What a page is made of, and how it goes out: templates, headers, and the secret of its forms."""

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from orchestrator.api.door.access import PAGES, actor_in, check_scope, cookie_of
from orchestrator.api.problems import problem
from orchestrator.domain.around import access
from orchestrator.domain.words.errors import NotAllowed
from orchestrator.domain.words.untrusted import visible
from orchestrator.reports.numbers import NOTHING
from orchestrator.web.rest import Refused, Rest

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    # With no-referrer, as elsewhere, a browser says "Origin: null" of our own forms (Fetch standard, "append a request
    # Origin header").
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
NAVIGATION = (
    ("/", "Home"),
    ("/experiments", "Experiments"),
    ("/runs", "Runs"),
    ("/results", "Results"),
    ("/history", "History"),
    ("/compare", "Compare"),
    ("/observations", "Observations"),
    ("/schedules", "Schedules"),
    ("/nodes", "Nodes"),
    ("/new", "New"),
)
FORM = "application/x-www-form-urlencoded"
# Marks that turn the direction of what follows round: a name could look like another one.
_DIRECTION = re.compile("[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
_BLANK = re.compile("([\n\t])")  # control characters that may be seen


@dataclass(frozen=True)
class Page:
    """``content`` makes what ``template`` shows: it is called in a thread, and the template is carried out there. What
    REST answers for the same is at ``twin``."""

    template: str
    title: str
    content: Callable[[], Mapping[str, Any]] = dict
    twin: str | None = None
    status: int = 200


@dataclass(frozen=True)
class Asked:
    """A request for a page: ``query`` without what was left empty, and of a POST the fields of its ``form``."""

    request: Request
    rest: Rest
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)

    def id(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def at(self, /, **changes: str | None) -> str:
        """This page by other parameters of its URL; None takes one away, and the place in a list begins anew."""
        changed = {**self.query, "cursor": None, **changes}
        given = {name: value for name, value in changed.items() if value}
        return self.request.url.path + (f"?{urlencode(given)}" if given else "")


Handler = Callable[[Asked], Awaitable[Page | Response]]


def route(method: str, path: str, handler: Handler) -> Route:
    """The route of a page: who may not see it is refused, and what REST refuses is answered as REST does."""

    async def endpoint(request: Request) -> Response:
        check_scope(actor_in(request.scope), PAGES.get((method, path)))
        return await answered(request, handler)

    return Route(path, endpoint, methods=[method], include_in_schema=False)


async def answered(request: Request, handler: Handler) -> Response:
    """The answer of ``handler``, whose form was checked."""
    try:
        query = {name: value for name, value in request.query_params.items() if value}
        form = await _checked_form(request) if request.method == "POST" else {}
        made = await handler(Asked(request, Rest(request), query, form))
        return made if isinstance(made, Response) else await run_in_threadpool(rendered, request, made)
    except Refused as refused:
        return refused_as(request, refused)


def refused_as(request: Request, refused: Refused) -> Response:
    """What REST answered, of this path."""
    slug = str(refused.document.get("type", "")).removeprefix("urn:tbd:problem:")
    headers = {"Retry-After": "2"} if refused.status in (503, 507) else None
    return problem(request.url.path, refused.status, slug, str(refused), headers=headers)


async def _checked_form(request: Request) -> dict[str, str]:
    """The fields of a form that carries the secret of its session. (That it comes from a page of ours, the header
    Origin says: ``orchestrator.api.door.visitors``.)

    Raises:
        NotAllowed: it carries another one, or none.
    """
    form = await read_form(request)
    if not hmac.compare_digest(form.get("secret", "").encode(), form_secret(request).encode()):
        raise NotAllowed("this form is not of this session: go back, load its page again, and send it anew")
    return form


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form, unchecked.

    Raises:
        NotAllowed: the body is none, or none of ours.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise NotAllowed(f"a form is sent here, as {FORM}: programs use /api/v1")
    text = (await request.body()).decode("utf-8", "replace")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=200))
    except ValueError:
        raise NotAllowed("no form of ours has so many fields") from None


def form_secret(request: Request) -> str:
    """What the forms of this caller carry: of its session or, where nobody needs one, of this process. (There a cookie
    may be anybody's who has a port of this host.)"""
    shown = access.presented_cookie(cookie_of(request.scope) or "") if request.app.state.gate.is_closed else None
    return access.form_secret(shown.secret) if shown else str(request.app.state.form_secret)


def moved(to: str) -> Response:
    """Where to look after something was done: loading that again does nothing anew."""
    return RedirectResponse(to, status_code=303)


def rendered(request: Request, page: Page) -> Response:
    """The page as HTML."""
    actor = actor_in(request.scope)
    html = (
        templates()
        .get_template(page.template)
        .render(
            title=page.title,
            twin=page.twin,
            path=request.url.path,
            here=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            navigation=NAVIGATION,
            who=actor if actor and actor.token_id else None,
            may_submit=actor is not None and actor.scope.covers(access.Scope.SUBMIT),
            may_administer=actor is not None and actor.scope.covers(access.Scope.ADMIN),
            secret=form_secret(request),
            **page.content(),
        )
    )
    return HTMLResponse(html, page.status, HEADERS)


@cache
def templates() -> Environment:
    """The templates. Whatever they print passes ``shown`` and is escaped."""
    folder = Path(__file__).parent / "templates"
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def shown(value: Any) -> Any:
    """A value as a page shows it: nothing as a dash, signs that cannot be seen as escapes."""
    if value is None:
        return NOTHING
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    parts = _BLANK.split(value.replace("\r\n", "\n"))
    text = "".join(part if part in ("\n", "\t") else visible(part) for part in parts)
    return _DIRECTION.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
