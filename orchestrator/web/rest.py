"""REST, asked in this very process by whoever asks for a page: the same paths, the same checks, the same answers."""

import json
from collections.abc import Mapping, MutableMapping
from typing import Any
from urllib.parse import quote, unquote, urlencode

from starlette.requests import Request

API = "/api/v1"
# What a request for a page hands on to those that it makes: who asks, and what FastAPI needs.
_KEPT = (
    *("type", "asgi", "http_version", "scheme", "client", "server", "app", "state"),
    *("starlette.exception_handlers", "fastapi_middleware_astack", "tbd.actor"),
)


class Refused(Exception):  # noqa: N818 - reads as what happened
    """REST answered with a problem (RFC 9457): its ``status`` and ``document``."""

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        self.status = status
        self.document = document
        super().__init__(str(document.get("detail", "")))


def path_of(*parts: str) -> str:
    """The path of ids and words, whatever signs they have."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def twin_of(path: str, parameters: Mapping[str, Any] | None = None) -> str:
    """What to ask REST for the same: its path with its parameters."""
    return API + path + (f"?{urlencode(parameters, doseq=True)}" if parameters else "")


class Rest:
    """Asks on behalf of ``request``."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def get(self, path: str, /, **parameters: Any) -> Any:
        """The JSON of a path below /api/v1.

        Raises:
            Refused: it is answered with a problem.
        """
        return await self._ask("GET", path, parameters, b"", {})

    async def post(self, path: str, body: Any = None, /, key: str | None = None, **parameters: Any) -> Any:
        """The same of what is done. ``key``: what makes it safe to send again. Raises as ``get``."""
        return await self.send("POST", path, body, key, **parameters)

    async def send(self, method: str, path: str, body: Any = None, key: str | None = None, **parameters: Any) -> Any:
        """The same by any method."""
        headers = {} if key is None else {"idempotency-key": key}
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            headers |= {"content-type": "application/json", "content-length": str(len(content))}
        return await self._ask(method, path, parameters, content, headers)

    async def _ask(
        self, method: str, path: str, parameters: Mapping[str, Any], content: bytes, headers: Mapping[str, str]
    ) -> Any:
        whole, outer = API + path, self._request.scope
        query = urlencode({name: value for name, value in parameters.items() if value is not None}, doseq=True)
        scope: dict[str, Any] = {name: outer[name] for name in _KEPT if name in outer}
        scope |= {"method": method, "path": unquote(whole), "raw_path": whole.encode(), "root_path": ""}
        scope["query_string"] = query.encode()
        scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
        answer = _Answer()

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        await self._request.app.router(scope, receive, answer.send)
        document = json.loads(answer.body) if answer.body else None
        if answer.status >= 400:
            raise Refused(answer.status, document or {})
        return document


class _Answer:
    """What was sent of an answer."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")
