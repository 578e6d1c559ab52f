"""The two programs that only containers run: the health check, and what makes the secrets."""

import http.server
import json
import os
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.certificates import certificate

DOCKER = Path(__file__).resolve().parents[3] / "deploy" / "docker"


def run(program: str, *words: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-IS", str(DOCKER / program), *words]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("TBD_")} | settings
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)


class Control(http.server.BaseHTTPRequestHandler):
    """A control plane that 127.0.0.1 has joined, and that is not ready."""

    def do_GET(self) -> None:
        ready = self.path == "/readyz?node=127.0.0.1" and self.headers["Host"] == "127.0.0.1"
        body = json.dumps({"status": "ready"} if ready else {"detail": "the database is away"}).encode()
        self.send_response(200 if ready else 503)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Control) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    with serving() as address:
        yield address


def test_a_node_asks_the_control_plane_for_its_own_address(control: str) -> None:
    done = run("healthy.py", "node", control)
    assert done.returncode == 0, done.stdout


def test_a_control_plane_that_is_not_ready_is_unhealthy_with_its_own_words(control: str) -> None:
    done = run("healthy.py", "ready", control)
    assert (done.returncode, "the database is away" in done.stdout) == (1, True)


def test_where_the_service_speaks_https_so_does_the_check_of_its_health(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with serving(context) as address:
        done = run("healthy.py", "node", address, TBD_TLS_CERT=str(cert))
        assert done.returncode == 0, done.stdout
        done = run("healthy.py", "ready", address, TBD_TLS_CERT=str(cert))
        assert (done.returncode, "the database is away" in done.stdout) == (1, True)


def test_a_port_is_healthy_when_somebody_takes_connections(control: str) -> None:
    assert run("healthy.py", "port", control).returncode == 0
    nobody = run("healthy.py", "port", "127.0.0.1:1")
    assert (nobody.returncode, "refused" in nobody.stdout) == (1, True)


def test_secrets_are_made_once_and_only_owner_and_group_may_read_them(tmp_path: Path) -> None:
    for _ in range(2):
        assert run("make_secrets.py", str(tmp_path), "database_password", "ray_token").returncode == 0
        texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
        assert sorted(texts) == ["database_password", "ray_token"]
        before = texts
    assert before == texts
    assert len(set(texts.values())) == 2
    assert all(len(text.strip()) == 64 for text in texts.values())
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o440}


def test_a_secret_that_everybody_may_use_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "ray_token").write_text("mine\n")
    (tmp_path / "ray_token").chmod(0o644)
    done = run("make_secrets.py", str(tmp_path), "ray_token")
    assert done.returncode == 1
    assert "everybody may use the secret" in done.stderr
    assert "mode 0644" in done.stderr
    assert (tmp_path / "ray_token").read_text() == "mine\n"
