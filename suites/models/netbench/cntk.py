"""Messages by MPI, as CNTK's learners send them: the Open MPI library that CNTK has loaded and begun.

It is called as it is, through ctypes: CNTK's interpreter has no mpi4py. Open MPI's handles are addresses of objects of
the library, and ``MPI_IN_PLACE`` is 1 (ompi/include/mpi.h.in).
"""

import ctypes
from typing import List, Sequence

import cntk
import numpy

from workers.trainer.base import waiting
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter

IN_PLACE = ctypes.c_void_p(1)
STATUS_IGNORE = ctypes.c_void_p(0)
TAG = ctypes.c_int(7)
# Judgement: how long the ranks may take to part.
PARTING_TIMEOUT_S = 30.0


def open_exchange(job: Job, process: Process, adapter: Adapter) -> "Exchange":
    """Return the exchange of this process, which has joined.

    Raises:
        TrainerError: ``unsupported``, another strategy or device than the one whose exchange this is.
    """
    strategy, kind = job.plan.strategy, process.device_kind
    if strategy != "mpi" or kind != "cpu":
        raise TrainerError("unsupported", "CNTK's netbench needs strategy mpi on cpu, not %s on %s" % (strategy, kind))
    return Exchange(process.rank)


class Exchange(object):
    """See ``workers.trainer.loops.netbench``."""

    library = "mpi"
    device = "cpu"
    operations = ("point_to_point", "all_reduce")
    mean = False
    queues = False

    def __init__(self, rank: int) -> None:
        self._mpi = ctypes.CDLL("libmpi.so.12")
        self._world = self._handle("ompi_mpi_comm_world")
        self._float = self._handle("ompi_mpi_float")
        self._sum = self._handle("ompi_mpi_op_sum")
        self._random = numpy.random.RandomState(1 + rank)
        self._data = self._inbox = None

    def _handle(self, name):
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self._mpi, name)))

    def fill(self, count: int, heads: Sequence[Sequence[float]]) -> None:
        (head,) = heads
        self._data = self._inbox = None  # two sizes need not be held at once
        self._data = self._random.random_sample(count).astype(numpy.float32)
        self._data[: len(head)] = head
        self._inbox = numpy.zeros_like(self._data)

    def heads(self, count: int) -> List[List[float]]:
        return [self._data[:count].tolist()]

    def received(self, count: int) -> List[List[float]]:
        return [self._inbox[:count].tolist()]

    def scale(self, factor: float) -> None:
        self._data *= numpy.float32(factor)

    def all_reduce(self) -> None:
        self._call("Allreduce", IN_PLACE, _address(self._data), self._count(), self._float, self._sum, self._world)

    def send(self, rank: int) -> None:
        self._call("Send", _address(self._data), self._count(), self._float, ctypes.c_int(rank), TAG, self._world)

    def receive(self, rank: int) -> None:
        arguments = (_address(self._inbox), self._count(), self._float, ctypes.c_int(rank), TAG, self._world)
        self._call("Recv", *(arguments + (STATUS_IGNORE,)))

    def synchronize(self) -> None:
        """Nothing is left to wait for: all calls return when their data is there."""

    def close(self) -> None:
        """Part from the other ranks, which have all come to their end."""
        self._data = self._inbox = None
        with waiting.alarm(PARTING_TIMEOUT_S):
            cntk.distributed.Communicator.finalize()

    def _count(self):
        return ctypes.c_int(self._data.size)

    def _call(self, name, *arguments):
        error = getattr(self._mpi, "MPI_" + name)(*arguments)
        if error:
            raise TrainerError("crashed", "MPI_%s answered error %d" % (name, error))


def _address(array):
    return ctypes.c_void_p(array.ctypes.data)
