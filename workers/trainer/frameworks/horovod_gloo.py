"""How Horovod's processes find each other over Gloo, without ``horovodrun`` and without ssh; for all frameworks.

Gloo coordinates in any case, and carries the gradients of CPU devices; those of GPUs are carried by NCCL.

A process of role ``scheduler`` holds Horovod's own rendezvous server on the job's port, until all ranks are in; the
workers are told in their environment who they are and where it is. Source: Horovod 0.28.1, horovod/runner/gloo_run.py
(what ``horovodrun --gloo`` sets) and horovod/common/gloo/gloo_context.cc (what is read).
"""

import importlib
import os
import socket
import socketserver
import time
import urllib.error
import urllib.request
from types import ModuleType
from typing import Any, Dict, Optional, Set

from workers.trainer.base import job as jobs
from workers.trainer.base.failure import PEER_LOST, TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Data

# A scope of the rendezvous server's store that Horovod does not use: each rank writes its number there when it is in.
ARRIVED = "tbd_arrived"

# What Horovod's exceptions say when another rank has gone (gloo/transport/tcp, horovod/common/operations.cc).
GONE = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "has been shut down",
    "Timed out waiting",
)

# Horovod 0.28.1, horovod/common/operations.cc: HOROVOD_FUSION_THRESHOLD where nobody names one.
BUCKET_MIB = 128
_THRESHOLD = "HOROVOD_FUSION_THRESHOLD"

_POLL_S = 0.05


def environment(job: Job, process: Process) -> Dict[str, str]:
    """Return what Horovod reads from the environment of the worker ``process``, beside the fabric's interface."""
    rank, address_port = process.rank, job.rendezvous
    slot = slots(job)[rank]
    # Whole seconds; at least two, so that the warning below can come before the end.
    timeout_s = max(2, int(job.plan.timeout_s))
    return {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        _THRESHOLD: str((job.plan.bucket_mib or BUCKET_MIB) * 1024 * 1024),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": address_port[0],
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(address_port[1]),
        # Gloo's waits of any kind. That for all ranks to meet is ended by the scheduler, and that for a node which is
        # cut off by its agents.
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(timeout_s),
        # A rank that does not ask for the exchange that the others wait in: an error, and no endless wait. It counts
        # only where it is longer than the time after which it is warned of.
        "HOROVOD_STALL_CHECK_TIME_SECONDS": str(min(60, timeout_s // 2)),
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": str(timeout_s),
        "HOROVOD_HOSTNAME": slot["hostname"],
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(slot["size"]),
        "HOROVOD_LOCAL_RANK": str(slot["local_rank"]),
        "HOROVOD_LOCAL_SIZE": str(slot["local_size"]),
        "HOROVOD_CROSS_RANK": str(slot["cross_rank"]),
        "HOROVOD_CROSS_SIZE": str(slot["cross_size"]),
    }


def limit_s(job: Job) -> float:
    """Return for how long a rank may wait for the others to come."""
    return min(jobs.RENDEZVOUS_TIMEOUT_S, job.plan.timeout_s)


def slots(job: Job) -> Dict[int, Any]:
    """Return {rank: its place as Horovod names it}. Hosts are named by number: their names become parts of URLs."""
    workers = sorted((process for process in job.processes if process.ranks), key=lambda process: process.rank)
    nodes = []
    for process in workers:
        if process.node not in nodes:
            nodes.append(process.node)
    members = [[process.rank for process in workers if process.node == node] for node in nodes]
    found = {}
    for index, ranks in enumerate(members):
        for local_rank, rank in enumerate(ranks):
            peers = [other for other, theirs in enumerate(members) if len(theirs) > local_rank]
            found[rank] = {
                "hostname": "host%d" % index,
                "rank": rank,
                "size": len(workers),
                "local_rank": local_rank,
                "local_size": len(ranks),
                "cross_rank": peers.index(index),
                "cross_size": len(peers),
            }
    return found


def join(horovod: ModuleType, job: Job, process: Process) -> int:
    """Meet the other ranks through ``horovod``, a module such as ``horovod.torch``; return the world size.

    Raises:
        TrainerError: ``timed_out``, the rendezvous server does not answer; ``setup_failed``, Horovod cannot begin;
            ``unsupported``, this build of it has nothing for GPUs.
    """
    if process.device_kind == "cuda" and not horovod.nccl_built():
        raise TrainerError("unsupported", "this build of Horovod exchanges between CPU devices only: it has no NCCL")
    os.environ.update(environment(job, process))
    address = job.rendezvous
    # Horovod tries three times, for a second in all, and then aborts its process.
    _wait_for_server(address, limit_s(job))
    try:
        horovod.init()
    except Exception as error:
        raise TrainerError("setup_failed", "Horovod cannot begin: %s" % error)
    _say_arrived(address, process.rank, limit_s(job))
    return horovod.size()


def _wait_for_server(address, patience_s):
    deadline = time.monotonic() + patience_s
    while True:
        try:
            socket.create_connection(address, timeout=patience_s).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                message = "no rendezvous server at %s:%s within %g s: %s" % (address + (patience_s, error))
                raise TrainerError("timed_out", message)
        time.sleep(_POLL_S)


def _say_arrived(address, rank, patience_s):
    url = "http://%s:%s/%s/%d" % (address + (ARRIVED, rank))
    # No proxy of this machine's stands between its own processes.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(urllib.request.Request(url, data=b"1", method="PUT"), timeout=patience_s).close()
    except (OSError, urllib.error.URLError) as error:
        raise TrainerError("setup_failed", "the rendezvous server at %s:%s has gone: %s" % (address + (error,)))


def serve(job: Job) -> None:
    """Hold the rendezvous server on the job's port until all ranks are in.

    Raises:
        TrainerError: ``setup_failed``, the port cannot be listened on; ``timed_out`` with the ranks that did not come.
    """
    hosts = importlib.import_module("horovod.runner.common.util.hosts")
    address, places = job.rendezvous, slots(job)
    try:
        server = _server(address)
    except OSError as error:
        raise TrainerError("setup_failed", "Horovod's rendezvous cannot listen on %s:%s: %s" % (address + (error,)))
    server.init([hosts.SlotInfo(**place) for place in places.values()])
    server.timeout = _POLL_S
    deadline = time.monotonic() + limit_s(job)
    try:
        # Each request is answered in a thread of its own; this one only accepts.
        while len(arrived(server)) < len(places):
            server.handle_request()
            if time.monotonic() > deadline:
                late = sorted(set(places) - arrived(server))
                message = "Horovod's ranks did not all meet within %g s: not %s" % (limit_s(job), late)
                raise TrainerError("timed_out", message, late)
    finally:
        server.server_close()


def _server(address):
    library = importlib.import_module("horovod.runner.http.http_server")

    class Server(library.RendezvousHTTPServer):
        def server_bind(self):
            # Its own would ask for the name of the address, which a network without a name server answers late.
            socketserver.TCPServer.server_bind(self)

    return Server(address, library.RendezvousHandler, False)


def arrived(server: Any) -> Set[int]:
    """Return the ranks that have said that they are in."""
    with server.cache_lock:
        return {int(rank) for rank in server.cache.get(ARRIVED, {})}


def exchange(horovod: ModuleType, kind: str) -> Data:
    """Return what is recorded of how gradients of devices of ``kind``, ``cpu`` or ``cuda``, are exchanged."""
    return {
        "library": "horovod",
        "version": importlib.import_module("horovod").__version__,
        "backend": _backend(horovod, kind),
        "bucket_bytes": int(os.environ[_THRESHOLD]),
        "mean": True,
    }


def _backend(horovod, kind):
    # A build with NCCL takes it for whatever lies on a GPU, and never for anything else (NCCLAllreduce::Enabled in
    # horovod/common/ops/nccl_operations.cc); ``join`` has refused GPUs to a build without.
    if kind == "cuda" and horovod.nccl_built():
        return "nccl"
    return "gloo" if horovod.gloo_enabled() else "none"


def failure_of(error: BaseException) -> Optional[str]:
    """Return the failure kind of an exception that came through Horovod, or None."""
    return PEER_LOST if any(words in str(error) for words in GONE) else None
