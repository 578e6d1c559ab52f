"""The way out to webhooks: one POST, of whose answer nothing but the status is read.

So no redirect is followed, no body is held, and nobody reads through this service what only this host can reach. A
proxy of the environment is not used. Certificates are checked, by the authorities of this host (or SSL_CERT_FILE).
"""

import http.client
import re
import socket
import ssl
import time
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from orchestrator.domain.around.webhooks import Answer
from orchestrator.domain.words.untrusted import visible

LIMIT_S = 15.0  # for each of: an address that takes the connection, and all that follows. The specification: 15 to 30
MOST_HEAD = 4096  # bytes in which the line of the status has to be
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9]\d\d)[ \r\n]")


def post(url: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """Send ``body``; what became of it. Does not raise."""
    try:
        status = _status_of(url, headers, body)
    except TimeoutError:
        return Answer(False, f"no answer within {LIMIT_S:.0f} s")
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        told = getattr(error, "verify_message", None) or getattr(error, "strerror", None) or error
        return Answer(False, visible(f"{type(error).__name__}: {told}")[:200])
    if status is None:
        return Answer(False, "what it answered is no HTTP")
    text = f"{status} {_PHRASES.get(status, '')}".strip()
    return Answer(200 <= status < 300, f"{text}: redirects are not followed" if 300 <= status < 400 else text)


_PHRASES = {one.value: one.phrase for one in HTTPStatus}


def _status_of(url: str, headers: Mapping[str, str], body: bytes) -> int | None:
    parts = urlsplit(url)
    host, target = str(parts.hostname), (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, parts.port, context=context)
    else:
        connection = http.client.HTTPConnection(host, parts.port)
    with socket.create_connection((host, connection.port), LIMIT_S) as plain:
        until = time.monotonic() + LIMIT_S
        plain.settimeout(LIMIT_S)
        connection.sock = context.wrap_socket(plain, server_hostname=host) if parts.scheme == "https" else plain
        with connection.sock:
            connection.sock.settimeout(_left(until))
            connection.request("POST", target, body, {**headers, "User-Agent": "tbd", "Connection": "close"})
            return _read_status(connection.sock, until)


def _read_status(sock: socket.socket, until: float) -> int | None:
    """The number in the first line, however slowly that comes; None where it is none."""
    head = b""
    while b"\n" not in head and len(head) < MOST_HEAD:
        sock.settimeout(_left(until))
        more = sock.recv(MOST_HEAD - len(head))
        if not more:
            break
        head += more
    found = _STATUS.match(head)
    return int(found[1]) if found else None


def _left(until: float) -> float:
    """Seconds. Raises TimeoutError where there are none."""
    left = until - time.monotonic()
    if left <= 0.0:
        raise TimeoutError
    return left
