"""Refuses what a page of another web site has a browser send: names of hosts that are not ours, foreign origins.

A browser lets any page send requests to this machine. It says which page it was (``Origin``, ``Sec-Fetch-Site``), so
that a foreign page can be refused. A page whose own name was pointed at this machine (DNS rebinding) has no foreign
origin, but the name stands in ``Host``. Programs such as curl send neither header and the address that they use.
"""

import re
from collections.abc import Collection
from http import HTTPStatus
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.api.problems import problem
from orchestrator.serve.settings import is_loopback

_AUTHORITY = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s\[\]:/@,]+)(:(?P<port>\d{1,5}))?", re.IGNORECASE)
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/]+)", re.IGNORECASE)
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_SHOWN = 100  # characters of a header that a message repeats


class Refusal(NamedTuple):
    """Why a request is not served."""

    status: HTTPStatus
    slug: str
    detail: str


class Visitors:
    """ASGI middleware. Answers 421 to a ``Host`` that is not ours, and 403 to what a foreign page sends.

    Args:
        allowed_hosts: names beside those of loopback, in lower case and without ports.
    """

    def __init__(self, app: ASGIApp, allowed_hosts: Collection[str]) -> None:
        self._app = app
        self._allowed_hosts = frozenset(allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope["method"], Headers(scope=scope)) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await problem(scope["path"], *refusal)(scope, receive, send)

    def _refusal(self, method: str, headers: Headers) -> Refusal | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return Refusal(HTTPStatus.MISDIRECTED_REQUEST, "unknown-host", _unknown_host(host))
        foreign = [origin for origin in headers.getlist("origin") if not _is_same_site(origin, host)]
        if foreign:
            detail = f"the request comes from a page of {foreign[0][:_SHOWN]!r} (header Origin)"
        elif headers.get("sec-fetch-site") == "cross-site" and not _is_a_followed_link(method, headers):
            detail = "the request comes from a page of another site (header Sec-Fetch-Site)"
        else:
            return None
        return Refusal(HTTPStatus.FORBIDDEN, "foreign-page", f"{detail}: only pages of this server may use it")

    def _is_ours(self, host: str) -> bool:
        found = _AUTHORITY.fullmatch(host)
        if not found:
            return False
        name = found["name"].lower().strip("[]").removesuffix(".")
        return name in self._allowed_hosts or is_loopback(name)


def _unknown_host(host: str) -> str:
    named = f"{host[:_SHOWN]!r}" if host else "no name"
    return (
        f"the request asks for {named} (header Host); this server answers to localhost, 127.0.0.1 and [::1], and to "
        "the names that TBD_ALLOWED_HOSTS lists"
    )


def _is_same_site(origin: str, host: str) -> bool:
    """Whether the page and the request have the same name and port. Their scheme may differ: a proxy may speak TLS."""
    found = _ORIGIN.fullmatch(origin)
    if not found:
        return False  # "null", for instance: a page in a sandbox
    default = _DEFAULT_PORTS[found["scheme"].lower()]
    return _name_and_port(found["authority"], default) == _name_and_port(host, default)


def _name_and_port(authority: str, default: str) -> tuple[str, int] | None:
    found = _AUTHORITY.fullmatch(authority)
    return (found["name"].lower(), int(found["port"] or default)) if found else None


def _is_a_followed_link(method: str, headers: Headers) -> bool:
    """A person clicked a link on another site: the page that opens is ours, and the other one does not see it."""
    navigates = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    return navigates and method in ("GET", "HEAD")
