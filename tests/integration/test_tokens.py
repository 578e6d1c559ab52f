"""Tokens, TLS and what others reach, with a real server and the real commands."""

import http.client
import json
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.integration.service_rig import Tbd, environment
from tests.support.certificates import certificate
from tests.support.processes import command_lines
from tests.support.service import Service, until

HELD = {"name": "held", "model": "sleep", "framework": "sleep", "per_device_batch_size": 1, "size": "tiny"}
HELD |= {"nodes": {"names": ["nowhere"]}}  # it waits for ever
NOTICED_S = 3.0  # a second, and what a busy machine adds


class Place:
    """A folder with a database, commands on it, and a server once it is started."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.folder = folder
        self.more = more
        self.service = Service(folder / "data", **environment(folder, HOME=str(folder), **more))

    def tbd(self, token: str | None = None, **more: str) -> Tbd:
        """Commands that talk to the server, once there is one, with ``token``."""
        made = Tbd(self.folder, self.service.url or None)
        made.environment |= {"HOME": str(self.folder)} | more | ({"TBD_TOKEN": token} if token else {})
        return made

    def add(self, name: str, scope: str = "submit", *more: str) -> str:
        """A new token, made on the database itself."""
        made = Tbd(self.folder, None)
        made.environment |= {"HOME": str(self.folder)}
        return made("token", "add", name, "--scope", scope, *more).stdout.strip()

    def revoke(self, name: str) -> None:
        made = Tbd(self.folder, None)
        made.environment |= {"HOME": str(self.folder)}
        made("token", "revoke", name)

    def status(self, path: str, token: str | None = None, method: str = "GET", **headers: str) -> int:
        address = self.service.url.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=60)
        sent = headers | ({"Authorization": f"Bearer {token}"} if token else {})
        connection.request(method, path, headers=sent)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    def cookie(self, token: str) -> str:
        """That of a session that a browser gets for ``token``."""
        connection = http.client.HTTPConnection(self.service.url.removeprefix("http://"), timeout=60)
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/login", f"token={token}", form)
        text = connection.getresponse().getheader("Set-Cookie", "").partition(";")[0]
        connection.close()
        return text


@pytest.fixture
def place(tmp_path: Path) -> Any:
    made = Place(tmp_path)
    yield made
    if made.service.url:
        assert made.service.stop() == 0


@pytest.mark.after_change
def test_beyond_loopback_a_server_starts_only_where_an_admin_can_enter(tmp_path: Path) -> None:
    place = Place(tmp_path, TBD_HOST="0.0.0.0")
    started = Tbd(tmp_path, None)
    started.environment |= {"TBD_HOST": "0.0.0.0", "TBD_PORT": "0"}
    refused = started("serve", code=2)
    assert "tbd token add NAME --scope admin" in refused.stderr
    place.add("ada", "submit")
    assert "no usable token of scope admin" in started("serve", code=2).stderr
    root = place.add("root", "admin")
    place.service.start()
    try:
        assert place.service.url.startswith("http://127.0.0.1:")
        assert place.status("/api/v1/runs") == 401
        assert place.status("/healthz") == 200
        assert place.tbd(root).json("nodes")["items"]
        assert "TBD_TOKEN" in place.tbd()("ls", code=5).stderr
    finally:
        assert place.service.stop() == 0


@pytest.mark.after_change
def test_a_server_notices_a_token_that_is_made_or_revoked_beside_it(place: Place) -> None:
    place.service.start()
    assert place.status("/api/v1/runs") == 200
    token = place.add("ada")
    began = time.monotonic()
    until(lambda: place.status("/api/v1/runs") == 401, NOTICED_S)
    assert place.status("/api/v1/runs", token) == 200
    place.revoke("ada")
    until(lambda: place.status("/api/v1/runs", token) == 401, NOTICED_S)
    assert time.monotonic() - began < 30
    told = place.tbd(token)("ls", code=5).stderr
    assert "is revoked: ask for a new one" in told


@pytest.mark.after_change
def test_tokens_are_administered_over_rest(place: Place) -> None:
    root = place.add("root", "admin")
    place.service.start()
    admin = place.tbd(root)
    ada = admin("token", "add", "ada", "--expires", "1d").stdout.strip()
    assert [one["name"] for one in admin.json("token", "ls")["items"]] == ["ada", "root"]
    told = place.tbd(ada)("token", "ls", code=5).stderr
    assert "scope admin" in told
    admin("token", "revoke", "ada")
    place.tbd(ada)("ls", code=5)
    did = [(one["who"], one["action"]) for one in admin.json("audit")["items"]]
    assert did[:2] == [("root", "token revoke"), ("root", "token add submit")]
    assert did[2][1] == "token add admin"
    assert "token revoke" in admin("audit").stdout


@pytest.mark.parametrize("by", ["Authorization", "Cookie"])
@pytest.mark.after_change
def test_a_stream_ends_when_its_token_is_revoked(place: Place, by: str) -> None:
    root, ada = place.add("root", "admin"), place.add("ada")
    place.service.start()
    experiment = place.service.call("POST", "/api/v1/experiments", HELD, Authorization=f"Bearer {ada}")["id"]
    request = urllib.request.Request(f"{place.service.url}/api/v1/experiments/{experiment}/events")
    request.add_header(by, place.cookie(ada) if by == "Cookie" else f"Bearer {ada}")
    stream = urllib.request.urlopen(request, timeout=60)
    lines: list[bytes] = []
    reader = threading.Thread(target=lambda: lines.extend(stream))
    reader.start()
    until(lambda: lines, 30)
    place.revoke("ada")
    reader.join(timeout=NOTICED_S)  # though nothing happens that it would tell
    assert not reader.is_alive()
    place.service.call("POST", f"/api/v1/experiments/{experiment}/cancel", Authorization=f"Bearer {root}")


@pytest.mark.after_change
def test_https_by_files_and_a_private_authority(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "server")
    other, _ = certificate(tmp_path, "other")
    place = Place(tmp_path, TBD_TLS_CERT=str(cert), TBD_TLS_KEY=str(key))
    root = place.add("root", "admin")
    place.service.start()
    try:
        assert place.service.url.startswith("https://localhost:")
        assert place.tbd(root, TBD_CA_FILE=str(cert)).json("nodes")["items"]
        told = place.tbd(root, TBD_CA_FILE=str(other))("ls", code=4).stderr
        assert "is not believed" in told
        assert "TBD_CA_FILE" in told
        plain = place.tbd(root)
        plain.environment["TBD_SERVER"] = place.service.url.replace("https", "http")
        assert "cannot be reached" in plain("ls", code=4).stderr
        found = Tbd(tmp_path, None)  # through the data directory
        found.environment |= {"TBD_CA_FILE": str(cert), "TBD_TOKEN": root, "HOME": str(tmp_path)}
        assert found.json("nodes")["items"]
    finally:
        assert place.service.stop() == 0


def test_a_certificate_that_does_not_fit_its_key_is_told_before_anything_starts(tmp_path: Path) -> None:
    cert, _ = certificate(tmp_path, "one")
    _, key = certificate(tmp_path, "two")
    started = Tbd(tmp_path, None)
    started.environment |= {"TBD_TLS_CERT": str(cert), "TBD_TLS_KEY": str(key), "TBD_PORT": "0"}
    assert "is not the key of" in started("serve", code=2).stderr
    assert not list((tmp_path / "data").glob("tbd.sqlite3*"))


def test_no_token_is_in_logs_or_command_lines(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path)
    root, ada = place.add("root", "admin"), place.add("ada", "read")
    wrong = ada[:-4] + "0000"
    capfd.readouterr()
    place.service.start()
    try:
        for token in (root, ada, wrong):
            place.status("/api/v1/runs", token)
            place.status("/api/v1/tokens", token)
            place.status(f"/api/v1/runs?token={token}", token)
        watching = place.tbd(root).start("watch", "latest")
        place.tbd(wrong)("ls", code=5)
        lines = command_lines()
        watching.communicate(timeout=60)
    finally:
        assert place.service.stop() == 0
    told = "".join(capfd.readouterr())
    assert "refused: GET /api/v1/tokens from 127.0.0.1: ada (read) may not" in told
    kept = [path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()]
    for token in (root, ada, wrong):
        secret = token.rpartition("_")[2]
        assert secret not in told
        assert not [line for line in lines if secret in line]
        assert not [one for one in kept if secret.encode() in one]


@pytest.mark.after_change
def test_a_proxy_on_this_machine_says_who_asks_and_no_other(place: Place) -> None:
    root = place.add("root", "admin")
    place.more["TBD_PROXIES"] = "127.0.0.1"
    place.service.start()
    for address in ("10.9.8.7", "10.9.8.6"):
        body = json.dumps({"name": "x"}).encode()
        request = urllib.request.Request(f"{place.service.url}/api/v1/tokens", body, method="POST")
        for name, value in (("Content-Type", "application/json"), ("X-Forwarded-For", address)):
            request.add_header(name, value)
        request.add_header("Authorization", f"Bearer {root}")
        urllib.request.urlopen(request, timeout=60).close()
    found = place.tbd(root).json("audit", "--limit", "2")["items"]
    assert [one["address"] for one in found] == ["10.9.8.6", "10.9.8.7"]
