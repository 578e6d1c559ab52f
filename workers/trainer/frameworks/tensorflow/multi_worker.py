"""TensorFlow's strategy ``multi-worker-mirrored``: one process for each node, which drives all devices of it.

The processes find each other by ``TF_CONFIG``; gradients go around in a ring over gRPC between CPU devices, through
NCCL between GPUs. Initial values are those of the first process, sent when the variables are made.

TensorFlow waits for the others inside its library, with the interpreter locked, for an hour if need be: an alarm ends
the process before (``outcome`` in the node agent reads SIGALRM as ``timed_out``), and what can be waited for from
outside is.
"""

import copy
import json
import os
import signal
import socket
import time
from typing import Any, Optional, Tuple

import tensorflow as tf
from tensorflow.python.distribute import collective_all_reduce_strategy

from workers.trainer.base import job as jobs
from workers.trainer.base.failure import PEER_LOST, TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Data
from workers.trainer.frameworks.tensorflow import mirrored

RETRY_S = 0.1
# Beyond the waiting for the first process, in which that one waits for the others.
ALARM_MARGIN_S = 5.0
LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)


class Strategy(mirrored.Strategy):
    """See ``single.Strategy``."""

    def join(self, job: Job, process: Process, device: str) -> int:
        gpus = device.startswith("/GPU")
        implementations = tf.distribute.experimental.CommunicationImplementation
        implementation = implementations.NCCL if gpus else implementations.RING
        patience_s = min(jobs.RENDEZVOUS_TIMEOUT_S, job.plan.timeout_s)
        cluster = cluster_of(job, process)
        os.environ["TF_CONFIG"] = json.dumps(cluster)
        if cluster["task"]["index"] > 0:
            wait_for(job.rendezvous, patience_s)
        # Without ``timeout_seconds``: for each exchange that has one TensorFlow (2.21) starts a thread that sleeps for
        # so long (Env::SchedClosureAfter): some ten thousand steps take all the threads that a host has. A rank
        # that waits for ever is ended by the agent, by the limit of the attempt.
        options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
        count = len(process.ranks)
        signal.setitimer(signal.ITIMER_REAL, patience_s + ALARM_MARGIN_S)
        try:
            self._strategy = _strategy(options, 0 if gpus else count)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        # The library takes SIGTERM for a preemption that it should survive; here it is a request to end.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._exchange = {
            "library": "tf.distribute.MultiWorkerMirroredStrategy",
            "backend": "nccl" if gpus else "ring over gRPC",
        }
        return self._strategy.num_replicas_in_sync

    def position(self) -> Any:
        """See ``single.Strategy``.

        TensorFlow gives each exchange of each step a key of its own, and the ranks agree on it first: begun in one
        thread, ended in one of gRPC's. The profiler (2.21) loses such events and now and then corrupts the heap by them
        ("free(): invalid pointer" when it is stopped; traceme_recorder.cc seems to keep pointers to events that a
        growing vector has copied by then). What has been agreed on before is found in the same thread.
        """
        return copy.deepcopy(self._keys()._instance_key_table)

    def rewind(self, position: Any) -> None:
        self._keys()._instance_key_table = copy.deepcopy(position)

    def _keys(self):
        return self._strategy.extended._collective_keys

    def failure_of(self, error: BaseException) -> Optional[str]:
        if not isinstance(error, tf.errors.OpError):
            return None
        if isinstance(error, tf.errors.DeadlineExceededError):
            return "timed_out"
        if "Could not start gRPC server" in error.message:
            return "setup_failed"
        return PEER_LOST if isinstance(error, LOST) or "Collective ops is aborted" in error.message else None


def cluster_of(job: Job, process: Process) -> Data:
    """Return what ``TF_CONFIG`` says: the servers of all nodes in rank order, and which of them this process is.

    Raises:
        TrainerError: ``setup_failed``, a node has no port for it.
    """
    nodes = job.nodes
    if any(node.framework_port is None for node in nodes):
        raise TrainerError("setup_failed", "the job names no port for TensorFlow's server on each node")
    servers = ["%s:%d" % (node.address, node.framework_port) for node in nodes]
    index = nodes.index(job.node_of(process))
    return {"cluster": {"worker": servers}, "task": {"type": "worker", "index": index}}


def wait_for(address: Tuple[str, int], patience_s: float) -> None:
    """Wait until the first process's server listens at ``address``.

    Raises:
        TrainerError: ``timed_out``, it did not.
    """
    deadline = time.monotonic() + patience_s
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TrainerError("timed_out", "TensorFlow's server of rank 0 does not listen on %s:%s" % address, [0])
        try:
            socket.create_connection(address, timeout=left).close()
            return
        except OSError:
            time.sleep(RETRY_S)


def _strategy(options, cpu_devices):
    """Return the strategy; several CPU devices of one process need more than its public class offers."""
    if cpu_devices <= 1:
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    mirrored.divide_cpu(cpu_devices)
    return _ManyCpus(options, cpu_devices)


class _ManyCpus(collective_all_reduce_strategy.CollectiveAllReduceStrategy):
    """MultiWorkerMirroredStrategy over several logical CPU devices of each process.

    The public class takes all GPUs of a process but only one CPU device; nothing else in it depends on that. Held to
    the pinned TensorFlow by the tests of the strategies.
    """

    def __init__(self, options, count):
        extended = _ManyCpusExtended(self, options, count)
        super(collective_all_reduce_strategy.CollectiveAllReduceStrategy, self).__init__(extended)


class _ManyCpusExtended(collective_all_reduce_strategy.CollectiveAllReduceExtended):
    def __init__(self, strategy, options, count):
        self._count = count
        super().__init__(strategy, cluster_resolver=None, communication_options=options)

    def _initialize_local_devices(self, cluster_resolver, worker_device):
        return tuple("%s/device:CPU:%d" % (worker_device, index) for index in range(self._count)), "CPU"
