"""HTTP/1.1 as uvicorn speaks it; but what is no HTTP gets a problem document, and no client is waited for for ever."""

import sys
from asyncio import Transport
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from orchestrator.api.problems import problem

# Judgements: a head is sent at once, and a body goes on arriving. A person with a terminal has the time to type a head.
HEAD_S = 30.0
SILENCE_S = 30.0


class HttpProtocol(H11Protocol):
    """One connection. The head of a request must be there ``HEAD_S`` after it began (or after the connection was made),
    and its body must not stop arriving for ``SILENCE_S``: else it is answered 408 and the connection is closed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._patience: Any = None
        self._awaited: str | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for("head")

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_for(None)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what h11 could not read; ``msg`` is uvicorn's, the error that is being handled says more."""
        error = sys.exc_info()[1]
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else HTTPStatus.BAD_REQUEST
        self._refuse(HTTPStatus(status), "malformed-request", f"this is no HTTP/1.1 request: {error or msg}")

    def _watch(self) -> None:
        """Wait for what the client owes now: the rest of a body, the rest of a head, or nothing."""
        if self.transport.is_closing():
            self._wait_for(None)
        elif self.conn.their_state is h11.SEND_BODY:
            self._wait_for("body")
        elif self.conn.their_state is not h11.IDLE:
            self._wait_for(None)
        elif self.conn.trailing_data[0] and self._awaited != "head":
            self._wait_for("head")

    def _wait_for(self, awaited: str | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._awaited = awaited
        seconds = SILENCE_S if awaited == "body" else HEAD_S
        self._patience = None if awaited is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if self.flow.read_paused:  # it is we who do not read
            self._wait_for(self._awaited)
        elif self._awaited == "head" and not self.conn.trailing_data[0]:
            self.transport.close()  # a connection that was opened and never used
        else:
            seconds = SILENCE_S if self._awaited == "body" else HEAD_S
            detail = f"the {self._awaited} of the request did not arrive: the server waited for {seconds:g} s"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "request-timeout", detail)

    def _refuse(self, status: HTTPStatus, slug: str, detail: str) -> None:
        """Answer, unless an answer has begun already, and close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = problem("", status, slug, detail, headers={"Connection": "close"})
            self._write(h11.Response(status_code=status, headers=answer.raw_headers, reason=status.phrase))
            self._write(h11.Data(data=bytes(answer.body)))
            self._write(h11.EndOfMessage())
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.close()

    def _write(self, event: h11.Event) -> None:
        self.transport.write(self.conn.send(event) or b"")
