"""What is no HTTP is answered as a problem, and a request that does not arrive is given up. On a transport in memory
and with the timers in the test's hand: nothing waits."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from orchestrator.api.door.http_protocol import HttpProtocol

PROBLEM = b"content-type: application/problem+json"


class Timer:
    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.seconds, self.call, self.ended = seconds, call, False

    def cancel(self) -> None:
        self.ended = True


class Loop:
    """A real event loop whose timers run out when the test says so."""

    def __init__(self) -> None:
        self.real = asyncio.new_event_loop()
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(seconds, call))
        return self.timers[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    @property
    def waiting(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.ended]

    def run_out(self) -> None:
        (timer,) = self.waiting
        timer.ended = True
        timer.call()

    def settle(self) -> None:
        """Run what can run: the application has no more than a few steps."""
        for _ in range(20):
            self.real.run_until_complete(asyncio.sleep(0))


class Transport:
    """Keeps what is written; tells the protocol that the connection is lost as asyncio does: in the next turn."""

    def __init__(self, loop: Loop, protocol: HttpProtocol) -> None:
        self.written, self.closing, self.reading = b"", False, True
        self._loop, self._protocol = loop, protocol

    def write(self, data: bytes) -> None:
        assert not self.closing
        self.written += data

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self._loop.real.call_soon(self._protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_extra_info(self, name: str) -> None:
        return None


class Connection:
    """A client and the protocol that it talks to; ``seen`` has what the application received of bodies."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.reads = True
        self.loop = Loop()
        asyncio.set_event_loop(self.loop.real)
        config = Config(self._app, http=HttpProtocol, interface="asgi3", lifespan="off", log_config=None)
        config.load()
        self.protocol = HttpProtocol(config, ServerState(), {}, self.loop)  # type: ignore[arg-type]
        self.transport = Transport(self.loop, self.protocol)
        self.protocol.connection_made(self.transport)  # type: ignore[arg-type]

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        while self.reads:
            message = await receive()
            self.seen.append(message)
            if not message.get("more_body"):
                break
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    def send(self, data: bytes) -> None:
        self.protocol.data_received(data)
        self.loop.settle()

    def expire(self) -> None:
        self.loop.run_out()
        self.loop.settle()

    @property
    def answer(self) -> tuple[int, dict[str, Any]]:
        """Status and document of the problem that was answered."""
        head, _, body = self.transport.written.partition(b"\r\n\r\n")
        assert PROBLEM in head.lower()
        assert b"connection: close" in head.lower()
        return int(head.split()[1]), json.loads(body)


@pytest.fixture
def client() -> Iterator[Connection]:
    made = Connection()
    yield made
    made.loop.settle()
    asyncio.set_event_loop(None)
    made.loop.real.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # without a Host
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nBad Header: b\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000, 431),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),  # TLS
    ],
)
def test_what_is_no_http_is_answered_as_a_problem(client: Connection, sent: bytes, status: int) -> None:
    client.send(sent)
    code, document = client.answer
    assert (code, document["status"], document["type"]) == (status, status, "urn:tbd:problem:malformed-request")
    assert "HTTP/1.1" in document["detail"]
    assert client.transport.closing
    assert not client.loop.waiting


def test_half_a_body_is_given_up_when_no_more_of_it_arrives(client: Connection) -> None:
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345")
    client.expire()
    assert client.answer[0] == 408
    assert client.transport.closing
    assert client.seen[-1] == {"type": "http.disconnect"}  # the application waits no longer either
    assert not client.loop.waiting


def test_a_body_may_take_long_as_long_as_it_goes_on_arriving(client: Connection) -> None:
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
    for byte in (b"1", b"2"):
        before = client.loop.waiting
        client.send(byte)
        assert len(client.loop.waiting) == 1
        assert client.loop.waiting != before  # a clock of its own
    client.send(b"3")
    assert client.transport.written.endswith(b"ok")
    assert not client.transport.closing


def test_half_a_head_is_given_up_and_single_bytes_do_not_prolong_it(client: Connection) -> None:
    client.send(b"GET / HT")
    before = client.loop.waiting
    client.send(b"TP/1.1\r\n")
    assert client.loop.waiting == before
    client.expire()
    assert client.answer[0] == 408


def test_half_a_head_after_an_answer_is_given_up_as_well(client: Connection) -> None:
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    client.transport.written = b""
    client.send(b"GET / HT")
    client.expire()
    assert client.answer[0] == 408


def test_a_connection_that_is_never_used_is_closed_without_an_answer(client: Connection) -> None:
    client.expire()
    assert client.transport.closing
    assert client.transport.written == b""


def test_a_body_that_nobody_reads_is_not_waited_for_for_ever(client: Connection) -> None:
    client.reads = False
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345")
    assert client.transport.written.endswith(b"ok")
    for timer in client.loop.waiting:
        timer.call()
    client.loop.settle()
    assert client.transport.closing
    assert client.transport.written.endswith(b"ok")  # one answer, not two


def test_a_client_that_waits_for_its_answer_has_all_the_time(client: Connection) -> None:
    held = client.loop.real.create_future()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await held

    client.protocol.app = slow
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert not client.loop.waiting
    held.set_result(None)


def test_what_we_do_not_read_ourselves_is_not_held_against_the_client(client: Connection) -> None:
    client.reads = False
    held = client.loop.real.create_future()

    async def busy(scope: Any, receive: Any, send: Any) -> None:
        await held
        await Connection._app(client, scope, receive, send)

    client.protocol.app = busy
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 200_000)
    assert not client.transport.reading
    client.expire()
    assert not client.transport.closing
    assert len(client.loop.waiting) == 1
    held.set_result(None)
