"""How a real server is reached: kept connections, all names of loopback, and what it says to what is no HTTP."""

import asyncio
import http.client
import json
import os
import signal
import socket
import sys
import time
import weakref
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from orchestrator.app import End, listen
from orchestrator.domain.words.errors import SettingsError
from orchestrator.serve.settings import Settings, read_settings
from tests.integration.service_rig import Tbd, environment, service
from tests.support.service import Service


def has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


HOSTS = [
    "127.0.0.1",
    "localhost",
    pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="this machine has no [::1]")),
]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(read_settings({"TBD_DATA_DIR": str(tmp_path)}), port=0)


@pytest.mark.parametrize("host", HOSTS)
def test_the_body_of_an_answer_does_not_wait_for_the_client_to_acknowledge_its_head(
    settings: Settings, host: str
) -> None:
    """Else every request but the first of a kept connection takes 40 ms more (TCP_NODELAY)."""

    async def option_of_an_accepted_connection() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = listen(replace(settings, host=host))
        async with await asyncio.start_server(accepted, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            try:
                return await found
            finally:
                writer.close()

    assert asyncio.run(option_of_an_accepted_connection()) != 0


def test_a_port_in_use_is_told(settings: Settings) -> None:
    with listen(settings) as first:
        port = first.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"cannot listen on 127\.0\.0\.1:{port}: .*another TBD_PORT"):
            listen(replace(settings, port=port))


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.after_change
def test_commands_find_the_server_under_each_name_of_loopback(tmp_path: Path, host: str) -> None:
    running = Service(tmp_path / "data", **environment(tmp_path, TBD_HOST=host)).start()
    try:
        address = f"[{host}]" if ":" in host else host
        assert urlsplit(running.url).netloc.startswith(f"{address}:")
        for url in (running.url, None):  # named by TBD_SERVER, and found through its data directory
            tbd = Tbd(tmp_path, url)
            assert [node["name"] for node in tbd.json("nodes")["items"]]
    finally:
        assert running.stop() == 0


@pytest.mark.after_change
def test_a_real_server_tells_strangers_apart_and_answers_everything_as_a_problem(tmp_path: Path) -> None:
    with service(tmp_path) as url:
        address = urlsplit(url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
        for headers, status in (
            ({}, 200),
            ({"Host": "evil.example"}, 421),
            ({"Origin": "http://evil.example", "Content-Type": "text/plain"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Origin": url}, 200),
        ):
            connection.request("GET", "/api/v1/nodes", headers=headers)
            answer = connection.getresponse()
            document = json.load(answer)
            assert answer.status == status, headers
            assert status == 200 or answer.headers["Content-Type"] == "application/problem+json", document
        connection.close()
        with socket.create_connection((address.hostname, address.port), timeout=60) as raw:
            raw.sendall(b"this is no HTTP\r\n\r\n")
            with raw.makefile("rb") as reader:
                head, _, body = reader.read().partition(b"\r\n\r\n")
        assert b"application/problem+json" in head
        assert json.loads(body)["status"] == 400


def test_a_signal_is_not_forgotten_where_what_it_raises_is_dropped(monkeypatch):
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    dropped = []
    monkeypatch.setattr(sys, "unraisablehook", dropped.append)

    def end_it(_):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)

    end = End()
    end.in_order()
    try:
        thing = type("Thing", (), {})()
        reference = weakref.ref(thing, end_it)
        del thing
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert reference() is None
    assert [type(one.exc_value) for one in dropped] == [SystemExit]
    assert end.asked == "SIGTERM"
