"""The stack of docker-compose.yml on an engine of our own, from a clone of this tree, as a user would have it up."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.deploy.engine import Engine
from tests.support.service import Service, until
from workers.node.port_choice import free_port

ROOT = Path(__file__).resolve().parents[2]
BUILD_S = 1500.0
UP_S = 300
# So that a test need not wait as long as a person would rather have it: the same ways, walked faster.
HASTE = {
    "TBD_FENCE_S": "20",
    "TBD_RAY_WAIT_S": "10",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "8",
}


def clone(target: Path) -> None:
    """The tree as it is now, changes and new files too, with its commit."""
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(target)], check=True)
    for name in _git("diff", "--name-only", "-z", "HEAD") + _git("ls-files", "-o", "--exclude-standard", "-z"):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
        else:
            (target / name).unlink(missing_ok=True)


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True)
    return [name for name in done.stdout.split("\0") if name]


class Api(Service):
    """REST of the published port, with a token."""

    def __init__(self, url: str) -> None:
        super().__init__(Path("/nowhere"))
        self.url = url
        self.token = ""

    def open(self, request: urllib.request.Request) -> Any:
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        return super().open(request)


class Stack:
    """``up`` and ``down`` may follow each other. ``api`` talks to its published port."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.tree = folder / "tree"
        clone(self.tree)
        settings = self.tree / "deploy" / "ray" / "tbd.env"
        settings.write_text(settings.read_text() + "".join(f"{name}={text}\n" for name, text in HASTE.items()))
        pip = folder / "pip.conf"
        pip.write_text("[global]\ncert = /etc/ssl/certs/ca-certificates.crt\ntimeout = 60\n" + _index())
        port = free_port()
        self._given = {
            "TBD_PUBLISH": f"127.0.0.1:{port}",
            "TBD_PYTHON_BUILD": "tbd-test-python",
            "TBD_PYTHON_RUN": "tbd-test-python",
            "TBD_POSTGRES_IMAGE": "tbd-test-postgres",
            "TBD_PIP_CONFIG": str(pip),
        }
        self.api = Api(f"http://127.0.0.1:{port}")

    def compose(self, *words: str, timeout_s: float = 180.0, **more: str) -> str:
        """What ``docker compose`` prints."""
        return self.engine.docker("compose", *words, cwd=self.tree, timeout_s=timeout_s, **{**self._given, **more})

    def build(self) -> None:
        self.compose("build", timeout_s=BUILD_S)

    def up(self, **more: str) -> None:
        """All that a person does; ``more`` are settings of docs/operate/operations.md.

        Raises:
            RuntimeError: it did not become healthy; with what its services said.
        """
        try:
            self.compose("up", "--wait", "--wait-timeout", str(UP_S), timeout_s=UP_S + 60, **more)
        except RuntimeError as error:
            raise RuntimeError(f"{error}\n{self.said()}") from None

    def down(self, *words: str) -> None:
        self.compose("down", *words, timeout_s=180)

    def said(self, lines: int = 40) -> str:
        """The last lines of what all services said, and how they are."""
        return self.compose("ps", "-a") + self.compose("logs", "--no-color", "--tail", str(lines))

    def inside(self, service: str, *words: str, timeout_s: float = 120.0) -> str:
        """What a program prints that runs in the container of ``service``."""
        return self.compose("exec", "-T", service, *words, timeout_s=timeout_s)

    def put_secret(self, name: str, text: str) -> None:
        script = f'cd /etc/tbd/secrets; rm -f {name}; umask 227; echo "$1" >{name}'
        self.compose("run", "--rm", "-T", "--no-deps", "secrets", "sh", "-c", script, "sh", text)

    def install(self, framework: str) -> None:
        """Make the framework's environment in the worker, with the index and the wheels that this machine has."""
        pip, wheels = "/tmp/pip.conf", "/tmp/wheels"
        self.compose("cp", self._given["TBD_PIP_CONFIG"], f"worker:{pip}")
        given = ["-e", f"PIP_CONFIG_FILE={pip}"]
        if folder := os.environ.get("PIP_FIND_LINKS"):
            self.compose("cp", folder, f"worker:{wheels}", timeout_s=600)
            given += ["-e", f"PIP_FIND_LINKS={wheels}"]
        words = ["exec", "-T", *given, "worker", "tbd", "frameworks", "install", framework]
        self.compose(*words, timeout_s=BUILD_S)

    def container(self, service: str) -> str:
        return self.compose("ps", "-a", "-q", service).split()[0]

    def kill(self, service: str) -> None:
        """End the first process of the service's container, and wait until it was started again."""
        container = self.container(service)
        before = self._started(container)
        self.engine.kill(container)
        until(lambda: self._started(container) != before, 90, 0.3)

    def _started(self, container: str) -> str:
        state = json.loads(self.engine.docker("inspect", "--format", "{{json .State}}", container))
        return str(state["StartedAt"]) if state["Running"] else ""

    def inspect(self) -> dict[str, dict[str, Any]]:
        """Service -> what the engine knows of its container, of those that run."""
        found = json.loads(self.engine.docker("inspect", *self.compose("ps", "-q").split()))
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in found}

    def tbd(self, *words: str, code: int = 0, **more: str) -> "subprocess.CompletedProcess[str]":
        """The command of this tree, outside of all containers, with the token; ``more`` goes into its environment."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("TBD_") and name != "COLUMNS"}
        ours = {"TBD_SERVER": self.api.url, "TBD_TOKEN": self.api.token, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        ours |= more
        command = [sys.executable, "-m", "orchestrator.cli.main", *words]
        done = subprocess.run(
            command, env=kept | ours, cwd=self.tree, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def node(self, name: str) -> Mapping[str, Any]:
        """The node as REST shows it; nothing where it has not joined."""
        return next((one for one in self.api.call("GET", "/api/v1/nodes")["items"] if one["name"] == name), {})

    def sizes(self) -> dict[str, int]:
        """Image -> bytes."""
        names = ("tbd-test-python", "tbd-control-plane:latest", "tbd-worker:latest")
        return {name: int(self.engine.docker("image", "inspect", "--format", "{{.Size}}", name)) for name in names}


def _index() -> str:
    """The index that pip uses on this machine, where it is one that containers reach too."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    return f"index-url = {done.stdout.strip()}\n" if done.stdout.startswith("http") else ""
