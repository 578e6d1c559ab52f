"""mpirun's remote shell: ``tbd-mpi-agent HOST COMMAND…`` has the command line of ``orted`` carried out on another node.

It connects to that node's launcher and passes on what orted prints and its exit status. It ends with mpirun; its end,
however it comes about, closes the connection, and that ends orted.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Mapping, Sequence

from workers.node.mpi import hosts
from workers.node.mpi.launch import FIRST_LAUNCHER
from workers.trainer import protocol

_PR_SET_PDEATHSIG = 1

_RETRY_S = 0.1
_CONNECT_S = 5.0


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return orted's exit status, 1 if it could not be started."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    host, *words = arguments
    job = protocol.read_job(str(Path(os.environ[hosts.FOLDER_VARIABLE]) / (FIRST_LAUNCHER + ".job.json")))
    node = job["nodes"][hosts.index_of(host)]
    try:
        channel = connect(node, hosts.join_timeout_s(job))
    except OSError as error:
        port = node["ports"]["framework"]
        print(f"node {node['name']} ({node['address']}:{port}) does not answer: {error}", file=sys.stderr)
        return 1
    with channel:
        channel.sendall((json.dumps({"token": job["token"], "words": words}) + "\n").encode())
        with channel.makefile("r", encoding="utf-8") as answers:
            for line in answers:
                answer = json.loads(line)
                if "exit" in answer:
                    return int(answer["exit"])
                sys.stderr.write(answer.get("output") or answer.get("refused") or "")
                sys.stderr.flush()
    print(f"node {node['name']} has closed the connection to its orted", file=sys.stderr)
    return 1


def connect(node: Mapping[str, Any], timeout_s: float) -> socket.socket:
    """Connect to the launcher of ``node``, which may not be there yet.

    Raises:
        OSError: it did not come within ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            channel = socket.create_connection((node["address"], node["ports"]["framework"]), timeout=_CONNECT_S)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
        else:
            # From here on it is orted that takes its time: as long as the run.
            channel.settimeout(None)
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return channel


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
