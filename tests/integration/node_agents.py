"""Fixtures of tests that give attempts to an agent: the agent, and a disk that is soon full."""

import os
import subprocess

import pytest

from tests.integration.node_attempts import NODE
from workers.node.agent import Agent


@pytest.fixture
def agent(tmp_path):
    agent = Agent(tmp_path / "agent", NODE, fence_s=60)
    yield agent
    agent.close()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 400 kB."""
    if os.getuid() != 0:
        pytest.skip("mounting a small disk needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
