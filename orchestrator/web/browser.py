"""Errors as pages: what the service refuses a person's browser is answered as HTML, or by the way to sign in."""

import json
import logging
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.api.door.careful_headers import HEADERS as USUAL
from orchestrator.api.problems import MEDIA_TYPE
from orchestrator.web.page import HEADERS, Page, moved, rendered, templates

_NO_PAGES = ("/api/", "/static/", "/healthz", "/readyz", "/openapi.json", "/docs")
# What a person can do about it, where that is more than what the error says itself.
_WAYS_OUT = {
    401: "Sign in, and you get to this page.",
    403: "Somebody with a wider token can do this, or its owner.",
    404: "It may have been removed. The lists have what there is.",
    503: "The service tries again by itself. Load this page again in a moment.",
}


log = logging.getLogger(__name__)


class ErrorPages:
    """ASGI middleware, around all others. Programs, which do not ask for HTML, get problems as everywhere."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_for_a_person(scope):
            await self._app(scope, receive, send)
            return
        held = _Held(send)
        try:
            await self._app(scope, receive, held.send)
        except Exception as error:
            if held.has_begun:
                raise
            answer = _as_page(Request(scope), 500, _surprise(scope, error), Headers())
            await answer(scope, receive, send)
            return
        if held.start is not None:
            answer = _as_page(Request(scope), held.start["status"], json.loads(held.body), Headers(raw=held.headers))
            await answer(scope, receive, send)


class _Held:
    """Holds a problem back, and lets everything else pass."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.start: MutableMapping[str, Any] | None = None
        self.has_begun = False
        self.body = b""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return list(self.start["headers"]) if self.start else []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            media_type = MutableHeaders(scope=message).get("content-type", "")
            self.start = message if media_type == MEDIA_TYPE else None
        if self.start is None:
            self.has_begun = True
            await self._send(message)
        else:
            self.body += message.get("body", b"")


def _surprise(scope: Scope, error: Exception) -> dict[str, Any]:
    log.error("%s %s", scope["method"], scope["path"], exc_info=error)
    return {"title": "Error", "detail": "an unexpected error; the server's log has the traceback"}


def _is_for_a_person(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    is_page = not scope["path"].startswith(_NO_PAGES)
    return is_page and scope["method"] != "HEAD" and "text/html" in headers.get("accept", "")


def _as_page(request: Request, status: int, document: MutableMapping[str, Any], headers: Headers) -> Response:
    """The page for a problem. Who has to sign in is led there, and back."""
    if status == 401 and request.method == "GET":
        if request.headers.get("sec-fetch-site") == "cross-site":
            return _once_more(request)
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return moved(f"/login?{urlencode({'next': here})}")
    detail = str(document.get("detail", "")).removesuffix("; /docs lists the paths")
    content = {"status": status, "detail": detail, "way_out": _WAYS_OUT.get(status)}
    answer = rendered(request, Page("error.html", str(document.get("title", "Error")), lambda: content, status=status))
    for name in ("retry-after", "allow", "www-authenticate", "cache-control"):
        if name in headers:
            answer.headers[name] = headers[name]
    return _careful(answer)


def _once_more(request: Request) -> Response:
    """A person followed a link on another site, and so their browser kept the cookie back (SameSite=Strict). It sends
    it when this page leads to the same place."""
    html = templates().get_template("once_more.html").render(here=str(request.url))
    return _careful(HTMLResponse(html, 200, HEADERS))


def _careful(answer: Response) -> Response:
    """The headers that other answers get further inside."""
    for name, value in USUAL.items():
        answer.headers.setdefault(name, value)
    answer.headers.setdefault("Cache-Control", "no-store")
    return answer
