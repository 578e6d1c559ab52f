"""Plays the games of a rank: in processes of their own beside it, the model's actors, or in this one where a job has
none (as what frameworks agree on is computed).

Both have ``begin()``, images_NHW of all games, and ``step(actions_N)``, (images_NHW, rewards_N, overs_N): the image of
a game that is over is the first one of the next. A worker sends each of its actors a byte for each game that it plays,
the action, and gets a byte, 1 where the game is over, a number, the reward, and the image.

Dimensions: N games, H height, W width.
"""

import socket
import struct
from typing import Any, Dict, List, Tuple

from suites.datasets import games
from workers.trainer.base import roles
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import JOIN_TIMEOUT_S, Job, Process
from workers.trainer.base.signatures import Array

# What an actor says when it is ready: of which rank it is, and which of its actors.
_HELLO = struct.Struct("!ii")
# The connections of this process, by rank: a model may be built several times.
_connected: Dict[int, List[socket.socket]] = {}


class Here(object):
    """Games that this process plays, in turn."""

    def __init__(self, found: List[Any]) -> None:
        self._games = found

    def begin(self) -> Array:
        import numpy

        return numpy.stack([game.begin() for game in self._games])

    def step(self, actions_N: Array) -> Tuple[Array, Array, Array]:
        import numpy

        images, rewards, overs = zip(*[game.step(int(action)) for game, action in zip(self._games, actions_N)])
        shown = [game.begin() if over else image for game, image, over in zip(self._games, images, overs)]
        return numpy.stack(shown), numpy.array(rewards, numpy.float32), numpy.array(overs, bool)


class Actors(object):
    """Games that the actors at the other ends of ``connections`` play at once, each with its name in ``names``.

    ``answer_s``: how long one may take for a step of all its games.
    """

    def __init__(self, connections: List[socket.socket], names: List[str], count: int, side: int, answer_s: float):
        self._connections, self._names, self._count = connections, names, count
        self._answer_s, self._layout = answer_s, _layout(side)
        for connection in connections:
            connection.settimeout(answer_s)

    def begin(self) -> Array:
        return self._answers()[0]

    def step(self, actions_N: Array) -> Tuple[Array, Array, Array]:
        import numpy

        told = numpy.asarray(actions_N, numpy.uint8)
        for place, connection in enumerate(self._connections):
            connection.sendall(told[place :: len(self._connections)].tobytes())
        return self._answers()

    def _answers(self):
        import numpy

        found = numpy.empty(self._count, self._layout)
        for place, connection in enumerate(self._connections):
            own = found[place :: len(self._connections)]
            own[:] = numpy.frombuffer(self._taken(place, connection, own.nbytes), self._layout)
        return found["image"], found["reward"], found["over"] != 0

    def _taken(self, place, connection, size):
        try:
            return _received(connection, size)
        except socket.timeout:
            told = "%s has played no step in %g s: it hangs, or its games take that long"
            raise TrainerError("timed_out", told % (self._names[place], self._answer_s))
        except (EOFError, OSError) as error:
            raise TrainerError("crashed", "%s has gone: %s" % (self._names[place], error))


def of_rank(job: Job, rank: int, size: Any) -> Any:
    """Return what plays the games of a rank, as many as its batch has.

    Raises:
        TrainerError: ``setup_failed``, the game cannot be played; ``timed_out``, an actor does not come.
    """
    count = job.plan.per_device_batch_size
    names = [one.name for one in _beside(job, rank)]
    if not names:
        return Here(_opened(job, rank, range(count)))
    if not _connected:
        _connected.update(_accepted(job))
    return Actors(_connected[rank], names, count, size["image_pixels"], size["answer_s"])


def serve(job: Job, process: Process) -> None:
    """Play this actor's share of its rank's games until its worker has gone.

    Raises:
        TrainerError: ``setup_failed``, the game cannot be played.
    """
    import numpy

    others = _beside(job, process.of_rank)
    place = [other.name for other in others].index(process.name)
    numbers = range(place, job.plan.per_device_batch_size, len(others))
    found, layout = Here(_opened(job, process.of_rank, numbers)), _layout(job.model.size["image_pixels"])
    answer = numpy.zeros(len(numbers), layout)
    with roles.connect(job, process) as worker:
        try:
            worker.sendall(_HELLO.pack(process.of_rank, place))
            if numbers:
                answer["image"] = found.begin()
            while True:
                worker.sendall(answer.tobytes())
                # One that has no games, for there are fewer than actors, waits for what never comes.
                actions_N = numpy.frombuffer(_received(worker, len(numbers) or 1), numpy.uint8)
                if numbers:
                    answer["image"], answer["reward"], answer["over"] = found.step(actions_N)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return


def _beside(job, rank):
    return [one for one in job.processes if one.of_rank == rank]


def _opened(job, rank, numbers):
    size, root = job.model.size, job.dataset.root if job.dataset else None
    opener = games.opener(root, size["image_pixels"], size["actions"])
    # Another one for each game of all ranks, and for each seed of a plan.
    first = job.plan.seed * 1000003 + rank * job.plan.per_device_batch_size
    return [opener((first + number) % 2**31) for number in numbers]


def _accepted(job):
    """Return {rank: the connections of its actors in order}, of all ranks of this process."""
    wanted = roles.beside(job, job.process)
    found = {}
    with roles.listen(job, job.process) as server:
        server.settimeout(min(JOIN_TIMEOUT_S, job.plan.timeout_s))
        try:
            for _ in wanted:
                connection, _ = server.accept()
                connection.settimeout(server.gettimeout())
                found[_HELLO.unpack(_received(connection, _HELLO.size))] = connection
        except socket.timeout:
            told = "of %d actors %d have come in %g s"
            raise TrainerError("timed_out", told % (len(wanted), len(found), server.gettimeout()))
    return {rank: [found[one] for one in sorted(found) if one[0] == rank] for rank, _ in found}


def _layout(side):
    return [("over", "u1"), ("reward", "<f4"), ("image", "u1", (side, side))]


def _received(connection, size):
    found = bytearray(size)
    view = memoryview(found)
    while size:
        count = connection.recv_into(view, size)
        if not count:
            raise EOFError("it has closed its connection")
        view, size = view[count:], size - count
    return found
