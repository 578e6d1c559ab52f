"""The client of the service: REST and server-sent events over the standard library.

``http.client`` and not ``urllib.request``: the latter takes 15 ms longer to import, and ``tbd ls`` is timed.
"""

import http.client
import json
import ssl  # which http.client imports anyway
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from orchestrator.cli.exits import FAILED, NOT_ALLOWED, UNREACHABLE, USAGE, CommandError

API = "/api/v1"
TIMEOUT_S = 30.0  # of one request; the server answers within a few seconds or says why not
# Judgement: of a request whose work grows with what is sent or stored. To remove 20,000 runs took 45 s on a busy
# machine.
LONG_TIMEOUT_S = 900.0
STREAM_TIMEOUT_S = 60.0  # the server sends a comment every 15 s
LARGE = 1 << 20  # bytes of a body: far below each limit that a server is likely to have for files
CHUNK = 1 << 16  # bytes of a file that are handed on together
AGAIN_S = 1.0  # until what has a key, and was answered with 503, is sent again
RECONNECT_S = 60.0  # how long a stream that broke is tried again

# 4 is worth trying again later: what stands behind the server, or a proxy, does not answer. Any other 5xx has reached
# a server that failed.
_CODES = {401: NOT_ALLOWED, 403: NOT_ALLOWED} | dict.fromkeys((429, 502, 503, 504, 507), UNREACHABLE)


class ServerProblem(CommandError):  # noqa: N818 - the problem is the document
    """The server answered with a problem; ``document`` is it (RFC 9457)."""

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        self.status = status
        self.document = document
        code = _CODES.get(status, FAILED if status >= 500 else USAGE)
        super().__init__(_describe(document) or f"the server answered {status}", code)


def _describe(document: dict[str, Any]) -> str:
    items = document.get("errors") or []
    if not items:
        return str(document.get("detail") or "")
    return "; ".join(f"{item['pointer'].lstrip('/') or 'the request'}: {item['detail']}" for item in items)


class Event(NamedTuple):
    """One server-sent event; ``data`` is parsed."""

    kind: str
    id: str | None
    data: Any


class Client:
    """Talks to the server at ``url``, and presents ``token`` where there is one. Not for several threads."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandError(f"{url!r} is no address of a server: they look like http://127.0.0.1:8585")
        if parts.username is not None:
            raise CommandError("an address of a server has no user and no password: set TBD_TOKEN or TBD_TOKEN_FILE")
        self._parts = parts
        self._own_headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, path: str, **parameters: Any) -> Any:
        """The JSON at ``path`` (below ``/api/v1``). Parameters that are None are left out.

        Raises:
            CommandError: the server cannot be reached, or answered with a problem.
        """
        return self._ask("GET", _with_parameters(API + path, parameters))

    def pages(self, path: str, limit: int | None = None, **parameters: Any) -> Any:
        """All items of a list, or the first ``limit``, as one page: {items, next_cursor, damaged}."""
        items: list[Any] = []
        damaged: list[Any] = []
        cursor = None
        while True:
            size = 1000 if limit is None else min(1000, limit - len(items))
            page = self.get(path, limit=size, cursor=cursor, **parameters)
            items += page["items"]
            damaged += page.get("damaged") or []
            cursor = page["next_cursor"]
            if cursor is None or (limit is not None and len(items) >= limit):
                return {**page, "items": items, "next_cursor": cursor, "damaged": damaged}

    def post(
        self,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        content_type: str = "application/jsonl",
        key: str | None = None,
        **parameters: Any,
    ) -> Any:
        """POST ``body`` as JSON, or ``raw`` as it is. With an idempotency ``key`` it is tried again where the
        connection breaks, or the server says that its database is away.

        Raises:
            CommandError: as ``get``.
        """
        content = raw if raw is not None else (b"" if body is None else json.dumps(body, default=str).encode())
        headers = {"Content-Type": content_type if raw is not None else "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        # Raw content is a log, or an archive of files.
        timeout_s = TIMEOUT_S if raw is None else LONG_TIMEOUT_S
        path = _with_parameters(API + path, parameters)
        return self._ask("POST", path, content, headers, tries=3 if key else 1, timeout_s=timeout_s)

    def patch(self, path: str, body: Any) -> Any:
        """PATCH ``body``, as JSON, at ``path``.

        Raises:
            CommandError: as ``get``.
        """
        content = json.dumps(body).encode()
        return self._ask("PATCH", API + path, content, {"Content-Type": "application/json"})

    def delete(self, path: str) -> None:
        """DELETE what is at ``path``.

        Raises:
            CommandError: as ``get``; also where it is not there (any more).
        """
        self._ask("DELETE", API + path, tries=1, timeout_s=LONG_TIMEOUT_S)

    def download(self, path: str, **parameters: Any) -> Iterator[bytes]:
        """The file at ``path``, part by part, as it comes.

        Raises:
            CommandError: as ``get``; also where the connection breaks off in the middle.
        """
        connection = self._connection(LONG_TIMEOUT_S)
        target = self._parts.path + _with_parameters(API + path, parameters)
        try:
            connection.request("GET", target, headers=self._own_headers)
            response = connection.getresponse()
            if response.status != 200:
                raise _problem(response.status, response.read())
            while chunk := response.read(CHUNK):
                yield chunk
        except http.client.IncompleteRead:
            raise CommandError(f"{self.url} broke off in the middle of the file: its log says why", FAILED) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        finally:
            connection.close()

    def is_up(self) -> bool:
        """Whether the server answers."""
        try:
            self._ask("GET", "/healthz", tries=1)
        except CommandError:
            return False
        return True

    def events(self, path: str) -> Iterator[Event]:
        """The events of the stream at ``path`` until it ends; a stream that breaks is resumed where it was.

        Raises:
            CommandError: the server cannot be reached for a minute.
        """
        last_id: str | None = None
        deadline = time.monotonic() + RECONNECT_S
        while True:
            try:
                for event in self._stream(API + path, last_id):
                    deadline = time.monotonic() + RECONNECT_S
                    last_id = event.id or last_id
                    yield event
                    if event.kind == "end":
                        return
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() > deadline:
                    raise self._unreachable(error) from None
            if time.monotonic() > deadline:
                raise CommandError(f"the stream of {self.url} keeps breaking", UNREACHABLE)
            time.sleep(0.5)

    def _stream(self, path: str, last_id: str | None) -> Iterator[Event]:
        connection = self._connection(STREAM_TIMEOUT_S)
        try:
            headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
            headers |= self._own_headers
            connection.request("GET", self._parts.path + path, headers=headers)
            response = connection.getresponse()
            if response.status != 200:
                raise _problem(response.status, response.read())
            yield from parse_events(response)
        finally:
            connection.close()

    def _ask(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        headers: Any = None,
        tries: int = 2,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        for left in reversed(range(tries)):
            connection = self._connection(timeout_s)
            try:
                connection.request(method, self._parts.path + path, content, (headers or {}) | self._own_headers)
                response = connection.getresponse()
                text = response.read()
                if response.status != 503 or not left or "Idempotency-Key" not in (headers or {}):
                    break
                time.sleep(AGAIN_S)
            except (OSError, http.client.HTTPException) as error:
                if not left or isinstance(error, ConnectionRefusedError):
                    raise self._broken_off(error, content) from None
            finally:
                connection.close()
        if response.status >= 400:
            raise _problem(response.status, text)
        return _parse(text) if text else None

    def _broken_off(self, error: Exception, content: bytes | None) -> CommandError:
        """A server that refuses a body for its length answers at once and closes: the answer may be lost by that."""
        sent = len(content or b"")
        if isinstance(error, ConnectionResetError | BrokenPipeError) and sent > LARGE:
            text = f"{self.url} broke off while {sent} bytes were sent: it may take fewer (TBD_MAX_LOG_BYTES)"
            return CommandError(text, FAILED)
        return self._unreachable(error)

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = str(self._parts.hostname), self._parts.port
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout_s)
        from orchestrator.cli.rest.credentials import tls_context

        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls_context())

    def _unreachable(self, error: Exception) -> CommandError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return CommandError(
                f"the certificate of {self.url} is not believed ({error.verify_message}). Address the server by a name "
                "that is in it; TBD_CA_FILE names the certificates of a private authority",
                UNREACHABLE,
            )
        return CommandError(
            f"the server at {self.url} cannot be reached ({error}). Start one with: tbd serve", UNREACHABLE
        )


def parse_events(lines: Any) -> Iterator[Event]:
    """The events of a stream of lines of bytes. An event that the stream ends in the middle of is dropped."""
    kind: str = "message"
    identifier: str | None = None
    data: list[str] = []
    for raw in lines:
        line = raw.decode().rstrip("\r\n")
        if not line:
            if data:
                yield Event(kind, identifier, json.loads("\n".join(data)))
            kind, identifier, data = "message", None, []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "id":
            identifier = value
        elif name == "data":
            data.append(value)


def path_of(*parts: str) -> str:
    """A path made of ``parts``, each escaped."""
    return "/" + "/".join(quote(part, safe="", errors="replace") for part in parts)


def _with_parameters(path: str, parameters: dict[str, Any]) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True, errors='replace')}" if given else path


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise CommandError("the server's answer is no JSON: is TBD_SERVER a tbd server?", UNREACHABLE) from None


def _problem(status: int, text: bytes) -> ServerProblem:
    try:
        document = json.loads(text)
    except ValueError:
        document = {"detail": text.decode(errors="replace")[:500]}
    return ServerProblem(status, document if isinstance(document, dict) else {"detail": str(document)})
