"""How MXNet's replicas exchange: its key-value stores, and the scheduler and servers that a distributed one needs.

* ``single``: one device, nothing to exchange.
* ``kvstore-device``: one process sums the gradients of its devices, on the devices.
* ``kvstore-dist-sync``, ``kvstore-dist-device-sync``: servers add up the gradients of all workers, a worker first adds
  up those of its own devices, on the CPU or on the devices.
* ``kvstore-dist-async``: a server updates its weights with each gradient that comes, and a worker goes on with what the
  weights then are.

In all synchronous ones each device updates its own replica, with the same sum by the same operator: replicas of equal
devices stay bitwise equal, and the servers only add. In the asynchronous one only the servers can update.

A server that has gone leaves workers waiting in MXNet's own code for ever. Meeting and parting are given a time here;
while it trains, the node agent ends all processes of an attempt when one of them has gone.
Sources: MXNet 1.9.1, src/kvstore/kvstore_dist.h; ps-lite, docs/env.md.
"""

import contextlib
import gc
import os
import socket
import sys
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Sequence, Tuple

from workers.trainer import protocol
from workers.trainer.base import job as jobs
from workers.trainer.base import updates, waiting
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Data, Rule
from workers.trainer.frameworks.mxnet import optimizers
from workers.trainer.frameworks.mxnet.library import mx

# Strategy -> MXNet's name of the store.
STORES = {
    "single": None,
    "kvstore-device": "device",
    "kvstore-dist-sync": "dist_sync",
    "kvstore-dist-device-sync": "dist_device_sync",
    "kvstore-dist-async": "dist_async",
}

# Judgement: at most this long for the workers to say good-bye to the servers.
PARTING_TIMEOUT_S = 30.0


class Exchange(object):
    """The store of a worker, from ``join`` to ``part``."""

    def __init__(self) -> None:
        self._store = None
        self._asynchronous = False
        self._workers = 1
        self._ranks = 1

    def join(self, job: Job, process: Process) -> int:
        """Meet the other workers; return the number of ranks that take part.

        Raises:
            TrainerError: ``timed_out``, they did not all come; ``unsupported``, a strategy that is none of ``STORES``,
                or one that cannot make several updates.
        """
        name = job.plan.strategy
        if name not in STORES:
            raise TrainerError("unsupported", "this adapter has no strategy %s" % name)
        if name == "kvstore-dist-async":
            updates.refuse_several(job, "the servers of %s have one optimiser for all weights" % name)
        self._ranks = len(process.ranks)
        if STORES[name] is None:
            return self._ranks
        self._asynchronous = name == "kvstore-dist-async"
        if name != "kvstore-device":
            os.environ.update(environment(job, process))
        limit_s = min(jobs.RENDEZVOUS_TIMEOUT_S, job.plan.timeout_s)
        self._store = waiting.within(
            limit_s, "MXNet's workers, servers and scheduler did not all meet", create, STORES[name]
        )
        self._workers = self._store.num_workers
        return self._workers * self._ranks

    def trainer(self, parameters: Sequence[Any], rule: Rule, first: Any = 0) -> Tuple[Any, int]:
        """Return a Gluon trainer that exchanges through the store, and the divisor that its ``step`` takes.

        ``rule`` is one of ``workers.trainer.base.optimizer``; losses are means over the samples of a rank, so the
        divisor makes of the sum of their gradients the mean over the global batch. Asynchronously each worker's
        gradient is an update of its own, and all of them together are to move the weights as far as one step of a
        synchronous run: an update has a worker's share of the learning rate.

        Trainers number their parameters: ``first`` is the number of parameters that the trainers before this one
        exchange through the same store.

        Raises:
            TrainerError: ``unsupported``, a limit of the gradients' norm where the servers update by those of several
                devices of a worker, which nobody has added up before.
        """
        options, divisor = {}, self._workers * self._ranks
        if self._asynchronous and self._ranks > 1 and rule["gradient_norm_limit"] is not None:
            raise TrainerError("unsupported", "kvstore-dist-async limits no norm of several devices together")
        if self._asynchronous:
            # The servers have the optimiser before the first step: it must know by then what gradients are divided by.
            rule = dict(rule, learning_rate=rule["learning_rate"] / self._workers)
            options["rescale_grad"], divisor = 1.0 / self._ranks, 1
        trainer = mx.gluon.Trainer(
            parameters,
            optimizers.make(rule, parameters, **options),
            kvstore=_Shifted(self._store, first) if self._store and first else self._store,
            update_on_kvstore=self._asynchronous if self._store else None,
        )
        _share_weights(trainer)
        return trainer, divisor

    def exchange(self) -> Data:
        """Return what is recorded of the exchange, {library, backend, weights_updated_by}, if there is any."""
        if self._store is None:
            return {}
        updater = "servers" if self._asynchronous else "workers"
        return {"library": "mxnet.kvstore", "backend": self._store.type, "weights_updated_by": updater}

    @property
    def store(self) -> Any:
        """MXNet's own store, None where there is nothing to exchange. Whoever keeps it keeps ``part`` from parting."""
        return self._store

    @property
    def several(self) -> bool:
        """Whether there is anything to exchange."""
        return self._store is not None

    @property
    def servers_update(self) -> bool:
        """Whether the exchange brings new weights, and no gradients that this process updates its own by."""
        return self._asynchronous

    @contextlib.contextmanager
    def each(self, around: Callable[[str, int], ContextManager[Any]]) -> Iterator[None]:
        """While this lasts, exchange each gradient within the context ``around(its name, its bytes)``."""
        store, plain = self._store, self._store.pushpull

        def pushpull(key, value, *others, **options):
            with around("key %s" % key, 4 * value[0].size):
                plain(key, value, *others, **options)

        store.pushpull = pushpull
        try:
            yield
        finally:
            del store.pushpull

    def failure_of(self, error: BaseException) -> Optional[str]:
        """Return the failure kind of the library's own exception, or None: it has none of its own."""

    def part(self) -> None:
        """Say good-bye to the servers, which end when all workers have. The trainer must have been let go.

        Where that takes too long the process ends at once: it is stuck in MXNet's code, and so would be its exit.
        """
        if self._store is None:
            return
        held = [self._store]
        self._store = None
        try:
            waiting.within(PARTING_TIMEOUT_S, "the other processes did not part from this one", let_go, held)
        except TrainerError as error:
            sys.stderr.write("%s\n" % error)
            sys.stderr.flush()
            os._exit(protocol.EXIT_STATUS[error.kind])


class _Shifted(mx.kvstore.KVStoreBase):
    """A store under keys that begin with another one: so several trainers share it."""

    def __init__(self, store, first):
        self._store = store
        self._first = first

    @property
    def type(self):
        return self._store.type

    @property
    def rank(self):
        return self._store.rank

    @property
    def num_workers(self):
        return self._store.num_workers

    def is_capable(self, capability):
        """The workers update."""
        return False

    def broadcast(self, key, value, out, priority=0):
        self._store.broadcast(self._first + key, value, out, priority)

    def pushpull(self, key, value, out=None, priority=0):
        self._store.pushpull(self._first + key, value, out=out, priority=priority)


def _share_weights(trainer):
    """Let all workers have the first worker's weights, and wait until this one has them.

    Gluon would do it in the first step, without waiting: then a first gradient may overtake the fetching of the initial
    weights, and what comes back as weights are gradients (seen with MXNet 1.9.1 in every other run of one worker).
    """
    trainer._init_kvstore()
    trainer._init_params()
    mx.nd.waitall()


def create(name: str) -> Any:
    """Return a new store; a distributed one waits for all workers, servers and the scheduler."""
    return mx.kv.create(name)


def let_go(held: List[Any]) -> None:
    """Destroy the store in the list ``held``; a distributed one waits for the other workers."""
    held.clear()
    gc.collect()


def environment(job: Job, process: Process) -> Dict[str, str]:
    """Return the variables by which MXNet's processes find each other, beside those of the fabric."""
    address, port = job.rendezvous
    roles = [other.role for other in job.processes]
    return {
        "DMLC_ROLE": process.role,
        "DMLC_PS_ROOT_URI": address,
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_WORKER": str(roles.count("worker")),
        "DMLC_NUM_SERVER": str(roles.count("server")),
    }


def serve(job: Job, process: Process) -> None:
    """Be the scheduler or a server until the workers are done.

    The role is set only now: an import of MXNet with it in the environment would not return.

    Raises:
        TrainerError: ``setup_failed``, the scheduler's port is taken; ``timed_out``, the workers did not end in time.
    """
    os.environ.update(environment(job, process))
    if process.role == "scheduler":
        _check_port(*job.rendezvous)
    server = mx.kvstore.kvstore_server.KVStoreServer(mx.kv.create("dist"))
    waiting.within(job.plan.timeout_s, "the workers did not end", server.run)


def _check_port(address, port):
    """MXNet would abort the process without a word that a person could use."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise TrainerError("setup_failed", "the scheduler cannot listen on %s:%s: %s" % (address, port, error))
