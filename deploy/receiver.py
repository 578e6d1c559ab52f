"""A receiver of webhooks on this host: keeps what comes, with whether its signature is right, and answers as it is told
to. Its clock is not asked: those of demos are moved."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook as Signer


@dataclass(frozen=True)
class Received:
    """One try of a message. ``answered``: the status; 0: the connection was closed without one."""

    id: str
    headers: Mapping[str, str]
    body: str
    answered: int

    def is_signed_by(self, secret: str) -> bool:
        at = datetime.fromtimestamp(int(self.headers["webhook-timestamp"]), UTC)
        return Signer(secret).sign(self.id, at, self.body) == self.headers["webhook-signature"]

    @property
    def told(self) -> Mapping[str, Any]:
        """The payload."""
        return dict(json.loads(self.body))


class Receiver:
    """``received``: all tries, oldest first; ``answer``: the status of the next one; ``location``: of redirects."""

    def __init__(self, answer: Callable[[], int] = lambda: 204, location: str = "") -> None:
        self.received: list[Received] = []
        found = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                headers = {name.lower(): value for name, value in self.headers.items()}
                status = answer()
                found.append(Received(headers["webhook-id"], headers, body, status))
                if status:
                    self.send_response(status)
                    if location:
                        self.send_header("Location", location)
                    self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
