"""What mpirun is told of the nodes of a job, and how it reaches them without ssh.

mpirun runs in ``launcher0`` on the first node. It starts the ranks there itself; for each other node it calls a remote
shell, which for us is ``workers.node.mpi.agent``: that connects to the node's own ``launcher<i>``
(``workers.node.mpi.launch``), which starts OpenMPI's daemon ``orted`` there. A rank is started by
``workers.node.mpi.rank`` as the agent of its node has written down.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Mapping, Sequence

# In the environment of a launcher, and of what it starts: the agent's own Python, and the attempt's folder here.
PYTHON_VARIABLE = "TBD_MPI_PYTHON"
FOLDER_VARIABLE = "TBD_MPI_FOLDER"

REMOTE_SHELL = "tbd-mpi-agent"

# The first node is the one that mpirun runs on. The others get addresses that no machine has (240.0.0.0/4 is reserved,
# RFC 1112): mpirun takes whatever resolves to an address of its own machine for that machine, and looks up names, which
# can take long.
FIRST = "localhost"
_NOWHERE = "240.0."

# Judgement, as in the trainer's control channel: how long the nodes of a gang may take to meet (datasets are prepared,
# interpreters start).
JOIN_TIMEOUT_S = 300.0


def label(index: int) -> str:
    """Return what mpirun calls the node number ``index``, below 65536."""
    return f"{_NOWHERE}{index // 256}.{index % 256}" if index else FIRST


def index_of(text: str) -> int:
    """Return the number of the node that mpirun calls ``text``.

    Raises:
        ValueError: it is no label of ours.
    """
    high, _, low = text[len(_NOWHERE) :].partition(".")
    index = int(high) * 256 + int(low) if text.startswith(_NOWHERE) else 0
    if label(index) != text:
        raise ValueError(f"mpirun asks for the node {text!r}, which is none of the job's")
    return index


def command(job: Mapping[str, Any]) -> list[str]:
    """Return the command line of mpirun for ``job``: one rank after another, each on its own node.

    Ranks are not bound to cores: each is pinned to those of its devices when it is started.
    """
    found = ["mpirun", "--noprefix", "--oversubscribe", "--bind-to", "none", "--leave-session-attached", "--wdir", "/"]
    parameters = {
        "plm": "rsh",
        "plm_rsh_agent": REMOTE_SHELL,
        # Each daemon is started from here, and has its own environment: interfaces have other names there.
        "plm_rsh_no_tree_spawn": "1",
        "plm_rsh_pass_environ_mca_params": "0",
        "orte_startup_timeout": str(round(join_timeout_s(job))),
    }
    for name, value in parameters.items():
        found += ["--mca", name, value]
    labels = {node["name"]: label(index) for index, node in enumerate(job["nodes"])}
    contexts = [_context(process, labels, len(job["nodes"])) for process in ranks(job)]
    return found + [word for context in contexts for word in [":", *context]][1:]


def join_timeout_s(job: Mapping[str, Any]) -> float:
    """Return how long the nodes of ``job`` may take to meet."""
    return min(JOIN_TIMEOUT_S, float(job["plan"]["timeout_s"]))


def ranks(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the processes that mpirun starts, in the order of their ranks."""
    started = [process for process in job["processes"] if process.get("started_by")]
    return sorted(started, key=lambda process: min(process["ranks"]))


def _context(process: Mapping[str, Any], labels: Mapping[str, str], nodes: int) -> list[str]:
    # By way of the shell: the agent's Python and its folders have other paths on other nodes.
    run = f'exec "${PYTHON_VARIABLE}" -S -m workers.node.mpi.rank "$0"'
    host = labels[process["node"]] if nodes > 1 else FIRST
    return ["-np", "1", "--host", host, "/bin/sh", "-c", run, process["name"]]


def environment(folder: Path, scratch: Path, python: str, interface: str | None) -> dict[str, str]:
    """Make what a launcher needs below ``scratch``, its own folder; return what its environment has besides.

    Args:
        folder: the attempt's folder.
        python: the agent's own.
        interface: the network interface by which OpenMPI's daemons reach each other.
    """
    programs = scratch / "programs"
    programs.mkdir()
    shell = programs / REMOTE_SHELL
    shell.write_text(f'#!/bin/sh\nexec "${PYTHON_VARIABLE}" -S -m workers.node.mpi.agent "$@"\n')
    shell.chmod(0o700)
    added = {
        PYTHON_VARIABLE: python,
        FOLDER_VARIABLE: str(folder),
        "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)]),
        # OpenMPI's own files go with the attempt's.
        "TMPDIR": str(scratch),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    if interface:
        added["OMPI_MCA_oob_tcp_if_include"] = interface
    return added


def missing_programs(names: Sequence[str] = ("mpirun", "orted")) -> str | None:
    """Return what to do about OpenMPI's programs if they are not on PATH, else None."""
    missing = [name for name in names if shutil.which(name) is None]
    return f"{', '.join(missing)} not found: `apt-get install openmpi-bin` brings it" if missing else None
