"""Webhooks over real sockets: what is sent, what targets may do, and the commands. A sender that is killed:
tests/unit/bench/test_told.py."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from standardwebhooks import Webhook as Signer

from deploy.receiver import Receiver
from orchestrator.db.store import SqlStore
from orchestrator.domain.around.webhooks import GIVEN_UP_S, Message, Webhook
from orchestrator.serve import webhook_post
from orchestrator.services.clock import SystemClock, new_id
from orchestrator.services.context import Context
from orchestrator.services.gate import chats
from orchestrator.services.gate.messenger import Messenger
from orchestrator.services.gate.outbox import body_of
from orchestrator.services.reconcile.reconciler import Bell
from tests.contract.test_store_webhooks import deed
from tests.integration.service_rig import environment
from tests.support.service import Service, until

SECRET = "whsec_" + "b" * 43 + "="
SHORT_S = 0.3


@pytest.fixture
def raw() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """A server that treats each connection as it is told; its URL."""
    made: list[socket.socket] = []

    def serve(treat: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        made.append(listener)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=treat, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/"

    yield serve
    for one in made:
        one.close()


def dripping(connection: socket.socket) -> None:
    try:
        while True:
            connection.sendall(b"H")
            time.sleep(SHORT_S / 3)
    except OSError:
        pass


def hanging(connection: socket.socket) -> None:
    time.sleep(60.0)
    connection.close()


def pouring(connection: socket.socket) -> None:
    try:
        while True:
            connection.sendall(b"x" * 65536)
    except OSError:
        pass


@pytest.mark.parametrize(
    ("treat", "told"),
    [
        (hanging, "no answer within 0 s"),
        (dripping, "no answer within 0 s"),
        (pouring, "is no HTTP"),
        (lambda connection: connection.close(), "is no HTTP|Reset|Broken pipe"),
        (lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n"), "200 OK"),
    ],
)
def test_an_answer_is_its_status_and_takes_no_longer_than_the_limit(
    raw: Callable[[Callable[[socket.socket], None]], str],
    treat: Callable[[socket.socket], None],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook_post, "LIMIT_S", SHORT_S)
    began = time.monotonic()
    answer = webhook_post.post(raw(treat), {}, b"{}")
    assert time.monotonic() - began < 10 * SHORT_S
    assert re.search(told, answer.text)
    assert answer.is_taken == (told == "200 OK")


@pytest.mark.parametrize(
    ("url", "told"), [("http://127.0.0.1:1/", "refused"), ("https://no-such-name.invalid/", "gaierror")]
)
def test_a_target_that_is_not_there_is_said_to_be_so(url: str, told: str) -> None:
    assert told in webhook_post.post(url, {}, b"{}").text


def test_a_redirect_is_not_followed() -> None:
    inside = Receiver()
    outside = Receiver(lambda: 307, inside.url)
    answer = webhook_post.post(outside.url, {"webhook-id": "msg_1"}, b"{}")
    assert (answer.is_taken, answer.text) == (False, "307 Temporary Redirect: redirects are not followed")
    outside.close()
    inside.close()
    assert inside.received == []


def mail_server(told: list[str], answer: bytes) -> Callable[[socket.socket], None]:
    """A host that takes mail (RFC 5321), and answers it with that."""

    def treat(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            connection.sendall(b"220 here\r\n")
            in_mail = False
            for line in lines:
                told.append(line.decode())
                in_mail = in_mail and line != b".\r\n"
                if in_mail:
                    continue
                word = line[:4].upper()
                in_mail = word == b"DATA"
                connection.sendall(b"354 go on\r\n" if in_mail else answer if word == b".\r\n" else b"250 well\r\n")

    return treat


@pytest.mark.parametrize(("answer", "is_taken"), [(b"250 taken\r\n", True), (b"554 not here\r\n", False)])
def test_e_mail_is_told_in_words(
    raw: Callable[[Callable[[socket.socket], None]], str], answer: bytes, is_taken: bool
) -> None:
    told: list[str] = []
    host = urlsplit(raw(mail_server(told, answer))).netloc
    url = f"mailto://{host}?smtp=127.0.0.1&mode=insecure&from=tbd@mail.example&to=ada@mail.example&format=text"
    alert = {"id": "alt_1", "state": "open", "cells": ["net pytorch 4", "net pytorch 8"], "place": "n0 cuda:0"}
    alert |= {"since": "2026-12-04T02:00:00Z", "tried": "confirmed", "changed": ["suite.commit"], "operators": []}
    data = {"schedule": {"id": "sch_1", "name": "nightly"}, "alerts": [alert, {**alert, "state": "closed"}]}
    found = chats.send(url, body_of("alerts.changed", 0.0, data))
    assert (found.is_taken, 'ada@mail.example" failed' in found.text) == (is_taken, not is_taken)
    sent = "".join(told).replace("=\r\n", "")
    assert "Subject: tbd: nightly: 1 open, 1 closed" in sent
    assert (
        "open: net pytorch 4 and 1 more on n0 cuda:0 since 2026-12-04T02:00:00Z: confirmed. Changed: suite.commit"
        in sent
    )


@pytest.mark.parametrize(("sender", "why"), [("from=a@b.example&", "Connection error"), ("", "Invalid ~From~")])
def test_mail_that_nobody_takes_is_said_to_be_so(sender: str, why: str) -> None:
    url = f"mailto://127.0.0.1:1?mode=insecure&{sender}to=a@b.example"
    found = chats.send(url, body_of("test", 0.0, {"webhook": "whk_1"}))
    assert (found.is_taken, why in found.text) == (False, True)


def test_a_webhook_that_hangs_delays_no_other(
    raw: Callable[[Callable[[socket.socket], None]], str], tmp_path: Path
) -> None:
    store, good = SqlStore(f"sqlite:///{tmp_path / 'tbd.sqlite3'}"), Receiver()
    for number, target in enumerate((raw(hanging), good.url)):
        store.add_webhook(Webhook(f"whk_{number}", target, SECRET, time.time()), 2, deed())
    bell = Bell()
    messenger = Messenger(Context(store, None, None, SystemClock(), bell.ring), bell, webhook_post.post)  # type: ignore[arg-type]
    messenger.start()
    for _ in range(3):
        store.add_message(Message(new_id("msg"), time.time(), time.time() + GIVEN_UP_S, '{"type":"test"}'))
        bell.ring()
        count = len(good.received)
        until(lambda at_least=count: len(good.received) > at_least, timeout_s=webhook_post.LIMIT_S / 2)
    for one in good.received:
        Signer(SECRET).verify(one.body, dict(one.headers))
    began = time.monotonic()
    messenger.close()
    assert time.monotonic() - began < webhook_post.LIMIT_S / 2
    store.close()
    good.close()


@pytest.mark.after_change
def test_the_commands_add_test_list_and_remove_a_webhook_of_a_server(tmp_path: Path) -> None:
    answers = [500, 204]
    receiver = Receiver(lambda: answers.pop())
    service = Service(tmp_path / "data", **environment(tmp_path)).start()

    def tbd(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "orchestrator.cli.main", "webhooks", *words]
        given = {**os.environ, "TBD_SERVER": service.url, "COLUMNS": "200"}
        return subprocess.run(command, capture_output=True, text=True, env=given, check=False)

    try:
        refused = tbd("add", "ftp://x.example/")
        assert (refused.returncode, "apprise knows no ftp://" in refused.stderr) == (2, True)
        made = tbd("add", receiver.url)
        secret, webhook = made.stdout.strip(), made.stderr.split()[0]
        assert (tbd("test", webhook).returncode, tbd("test", webhook).returncode) == (0, 1)
        assert [json.loads(one.body)["type"] for one in receiver.received] == ["test", "test"]
        for one in receiver.received:
            Signer(secret).verify(one.body, dict(one.headers))
        listed = tbd("ls").stdout
        assert "500 Internal Server Error" in listed
        assert secret not in listed
        assert tbd("rm", webhook).returncode == 0
        assert tbd("test", webhook).returncode == 2
        assert "nobody is told" in tbd("ls").stdout
        deeds = service.call("GET", "/api/v1/audit")["items"]
        assert [one["action"] for one in deeds if one["target"] == webhook] == ["webhook rm", "webhook add"]
    finally:
        service.stop()
        receiver.close()
