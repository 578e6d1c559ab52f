"""A node of Ray in the foreground: it ends with its core processes, with its command, and when it is told to."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.cluster import ray_node
from orchestrator.domain.words.errors import SettingsError
from workers.node import processes

ROOT = Path(__file__).resolve().parents[2]
# Stands for `ray start`: leaves a process behind that is called raylet, as the kernel knows it, and its pid in a file.
RAY = """
import os, sys, subprocess
if "--broken" in sys.argv:
    sys.exit("the head does not answer")
folder = os.environ["TEST_FOLDER"]
raylet = subprocess.Popen([os.path.join(folder, "raylet"), "60"])
open(os.path.join(folder, "pid"), "w").write(str(raylet.pid))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "ray" / "scripts"
    package.mkdir(parents=True)
    (tmp_path / "ray" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "scripts.py").write_text(RAY)
    (tmp_path / "raylet").symlink_to("/bin/sleep")
    return tmp_path


def start(folder: Path, *words: str) -> "subprocess.Popen[str]":
    path = os.pathsep.join([str(folder), str(ROOT)])
    kept = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    environment = kept | {"PYTHONPATH": path, "TEST_FOLDER": str(folder)}
    command = [sys.executable, "-m", "orchestrator.cluster.ray_node", *words]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def raylet(folder: Path) -> int:
    deadline = time.monotonic() + 20
    while not (folder / "pid").exists() or not (folder / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int((folder / "pid").read_text())


def lives(pid: int) -> bool:
    process = processes.identify(pid)
    return process is not None and processes.alive(process)


def is_up(node: "subprocess.Popen[str]") -> None:
    assert node.stderr is not None
    assert "is up: raylet" in node.stderr.readline()


def test_options_end_where_the_command_begins() -> None:
    assert ray_node.divided(["--head", "--port=1"]) == (["--head", "--port=1"], [])
    assert ray_node.divided(["--head", "--", "tbd", "serve", "--", "x"]) == (["--head"], ["tbd", "serve", "--", "x"])


def test_it_ends_with_status_4_when_a_core_process_has_ended(folder: Path) -> None:
    node = start(folder)
    is_up(node)
    os.kill(raylet(folder), signal.SIGTERM)  # in order: `ray start --block` would not mind
    _, said = node.communicate(timeout=20)
    assert (node.returncode, "raylet of this node of Ray has ended" in said) == (4, True)


def test_told_to_end_it_ends_the_node_too(folder: Path) -> None:
    node = start(folder)
    is_up(node)
    node.send_signal(signal.SIGTERM)
    node.communicate(timeout=20)
    assert node.returncode == 0
    assert not lives(raylet(folder))


def test_its_command_gives_the_exit_status_and_ends_the_node(folder: Path) -> None:
    node = start(folder, "--", sys.executable, "-c", "raise SystemExit(7)")
    node.communicate(timeout=20)
    assert node.returncode == 7
    assert not lives(raylet(folder))


def test_a_node_that_does_not_start_says_why(folder: Path) -> None:
    node = start(folder, "--broken")
    _, said = node.communicate(timeout=20)
    assert (node.returncode, "the head does not answer" in said) == (4, True)


def test_a_token_that_is_missing_or_open_to_all_is_refused_by_name(tmp_path: Path) -> None:
    token = tmp_path / "ray_token"
    with pytest.raises(SettingsError, match=f"RAY_AUTH_TOKEN_PATH: .*{token}"):
        ray_node.check_token({"RAY_AUTH_TOKEN_PATH": str(token)})
    token.write_text("secret")
    token.chmod(0o444)
    with pytest.raises(SettingsError, match="mode 0444"):
        ray_node.check_token({"RAY_AUTH_TOKEN_PATH": str(token)})
    token.chmod(0o440)
    ray_node.check_token({"RAY_AUTH_TOKEN_PATH": str(token)})
    ray_node.check_token({})
