"""A model's own roles: processes beside the worker of each rank, such as the actors of reinforcement learning.

The facts say how many (``[roles.actor] per_rank = 2``). Such a process holds no rank and no device, needs no framework,
and runs on the cores of its rank's device. It carries out ``serve(job, process)`` of ``<module>.actor``, which returns
when the worker has gone. If it fails, or ends before its worker has gone, the attempt has failed.

Its entry in the job says whom it is ``beside`` (the worker's name) and ``of_rank``. They meet at a Unix socket in the
attempt's folder, which nobody but their user may use: the worker listens, before or while its model is built.
"""

import os
import select
import socket
import time
from typing import List

from workers.trainer.base import job as jobs
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import JOIN_TIMEOUT_S, Job, Process

RETRY_S = 0.05

# Judgement: how long a worker may take to close a connection over which it has told its actor to end.
GONE_S = 1.0

# Linux: the peer has closed its end, or will write nothing more. The module ``select`` names it from Python 3.7 on.
_PEER_GONE = select.POLLHUP | 0x2000

# Copies of the connections of this process. They are never closed: so a worker notices that this process has gone when
# it really has, and this process can see whether its worker has.
_connections: List[int] = []


def worker_has_gone() -> bool:
    """Whether the worker that this process has been ``connect``-ed to has gone."""
    return bool(_connections) and all(_has_gone(connection) for connection in _connections)


def _has_gone(connection):
    poll = select.poll()
    poll.register(connection, _PEER_GONE)
    return bool(poll.poll(GONE_S * 1000))


def beside(job: Job, process: Process) -> List[Process]:
    """Return the processes of the model's own roles that stand beside the worker ``process``, in order."""
    return [other for other in job.processes if other.beside == process.name]


def listen(job: Job, process: Process) -> socket.socket:
    """Return a socket on which the worker ``process`` accepts a connection from each of those ``beside`` it."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(_address(job, process.name))
    server.listen(len(beside(job, process)))
    return server


def connect(job: Job, process: Process) -> socket.socket:
    """Return a socket that is connected to the worker which ``process`` is beside, once that listens.

    Raises:
        TrainerError: ``timed_out``, it does not in the time that all ranks have to meet.
    """
    limit_s = min(JOIN_TIMEOUT_S, job.plan.timeout_s)
    deadline = time.monotonic() + limit_s
    while True:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            client.connect(_address(job, process.beside))
            _connections.append(os.dup(client.fileno()))
            return client
        except (FileNotFoundError, ConnectionRefusedError):
            client.close()
        if time.monotonic() > deadline:
            told = "%s does not listen to %s after %g s" % (process.beside, process.name, limit_s)
            raise TrainerError("timed_out", told)
        time.sleep(RETRY_S)


def _address(job, worker):
    # Relative, for the address of a Unix socket has 107 characters at most, and each process begins in that folder.
    return os.path.relpath(jobs.socket_path(job.folder, worker))
