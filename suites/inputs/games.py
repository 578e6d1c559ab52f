"""Batches of games: what a network has just played, by its own actions.

A batch is (images_NHWC, actions_N, returns_N): the last ``images`` images of a game, 0 to 1, before each agent step;
the action, drawn by the network's policy; and the discounted rewards of that step and those after it in the batch, with
what the network holds the state behind them to be worth. N is ``steps`` agent steps of as many games as the batch of a
job, those of all games at a time together. Rewards are 1, 0 or -1 by their sign (Mnih et al., 2015); the score is not.

The work is counted in agent steps, in the emulator's frames, and in updates of the step, of which each rank does its
share. With it stands what the input took of the step's time, in two parts: ``emulator_s``, waiting for the games, and
``acting_s``, all else, which is the network's forward passes and the arrays that they are given. The rest of a step
learns.

A policy is asked with the weights of that step. So nothing is made ahead, a network is given all images as numbers of
single precision, and a resumed training begins its games anew.
"""

import time
from typing import Any, Callable, Iterator, List, Sequence

from suites.datasets import games
from suites.datasets.games import players
from suites.inputs import Field, evaluated_root
from suites.quality import Examples
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Batch, Size, Work

# What a reward is worth that comes a step later: Mnih et al., 2016, supplement 8, and MXNet's example.
DISCOUNT = 0.99
# Judgements: so many games are played for a score, begun by these numbers in every run.
JUDGED, JUDGED_SEED = 20, 20160616


def fields(size: Size) -> List[Field]:
    side = size["image_pixels"]
    found = [Field("images", "image", (side, side, size["images"])), Field("actions", "label", (), True)]
    return found + [Field("returns", "numbers", (), True)]


def work(images_NHWC: Array, actions_N: Array, returns_N: Array, ranks: int = 1) -> Work:
    return {"agent_steps": len(actions_N), "frames": games.FRAMES * len(actions_N), "updates": 1.0 / ranks}


class Views(object):
    """The last ``count`` images of each game; of one that has begun anew its first one, so many times.

    In memory they lie one after another: what moves is whole images, and most frameworks want them so.
    """

    def __init__(self, images_NHW: Array, count: int) -> None:
        import numpy

        self._images_CNHW = numpy.repeat(images_NHW[None], count, axis=0)

    def add(self, images_NHW: Array, begun_N: Array) -> None:
        self._images_CNHW[:-1] = self._images_CNHW[1:]
        self._images_CNHW[-1] = images_NHW
        self._images_CNHW[:, begun_N] = images_NHW[begun_N]

    def numbers(self) -> Array:
        """Return images_NHWC, float32, 0 to 1."""
        import numpy

        return (self._images_CNHW * numpy.float32(1.0 / 255.0)).transpose(1, 2, 3, 0)


def joined(images: Sequence[Array]) -> Array:
    """Return the ``Views.numbers`` of several steps as one array."""
    import numpy

    return numpy.concatenate([one.transpose(3, 0, 1, 2) for one in images], axis=1).transpose(1, 2, 3, 0)


def drawn(generator: Any, logits_NA: Array) -> Array:
    """Return actions_N, each drawn by the softmax of its logits."""
    import numpy

    shares_NA = numpy.exp(logits_NA.astype(float) - logits_NA.max(axis=1, keepdims=True))
    reached_NA = numpy.cumsum(shares_NA, axis=1)
    wanted_N1 = generator.uniform(0.0, 1.0, (len(logits_NA), 1)) * reached_NA[:, -1:]
    return (reached_NA[:, :-1] < wanted_N1).sum(axis=1).astype(numpy.int64)


def returns(rewards: Sequence[Array], overs: Sequence[Array], values_N: Array) -> List[Array]:
    """Return the returns of each step in order, from those of all games in each: ``values_N``, what the states behind
    the last one are worth. Behind the end of a game comes nothing."""
    found = []  # type: List[Array]
    for rewards_N, overs_N in zip(reversed(rewards), reversed(overs)):
        values_N = rewards_N + DISCOUNT * (1.0 - overs_N) * values_N
        found.insert(0, values_N)
    return found


def batches(
    job: Job, rank: int, size: Size, framework: str, to_tensors: Callable[..., Any], outputs: Callable[..., Any]
) -> Iterator[Batch]:
    """See ``suites.inputs``.

    Raises (while it is iterated):
        TrainerError: ``setup_failed``, the game cannot be played; ``timed_out``, an actor hangs; ``crashed``, it has
            gone.
    """
    import numpy

    generator = numpy.random.RandomState((job.plan.seed, rank))
    table = players.of_rank(job, rank, size)
    views = Views(table.begin(), size["images"])
    while True:
        begun_s, waited_s = time.monotonic(), 0.0
        images, actions, rewards, overs = [], [], [], []
        for _ in range(size["steps"]):
            images.append(views.numbers())
            actions.append(drawn(generator, outputs(images[-1])[0]))
            before_s = time.monotonic()
            images_NHW, rewards_N, overs_N = table.step(actions[-1])
            waited_s += time.monotonic() - before_s
            views.add(images_NHW, overs_N)
            rewards.append(numpy.sign(rewards_N))
            overs.append(overs_N)
        gained = returns(rewards, overs, outputs(views.numbers())[1])
        actions_N, returns_N = numpy.concatenate(actions), numpy.concatenate(gained).astype(numpy.float32)
        batch = (joined(images), actions_N, returns_N)
        tensors, done = to_tensors(*batch), dict(work(*batch, ranks=job.world_size))
        done.update(emulator_s=waited_s, acting_s=time.monotonic() - begun_s - waited_s)
        yield tensors, done


def evaluation(job: Job, size: Size) -> Iterator[Examples]:
    """See ``suites.inputs``: the first images of ``JUDGED`` games, and the games, for a metric that plays them to their
    end. The loss that is told with them is that of no reward.

    Raises:
        TrainerError: ``setup_failed``, there is no dataset, or its game cannot be played.
    """
    import numpy

    opener = games.opener(evaluated_root(job), size["image_pixels"], size["actions"])
    found = [opener(JUDGED_SEED + number) for number in range(JUDGED)]
    views = Views(numpy.stack([game.begin() for game in found]), size["images"])
    nothing = (numpy.zeros(JUDGED, numpy.int64), numpy.zeros(JUDGED, numpy.float32))
    yield Examples((views.numbers(),), nothing, Match(found, views))


class Match(object):
    """Games that have begun, and the views that a network has of them."""

    def __init__(self, found: List[Any], views: Views) -> None:
        self._games, self._views = found, views

    def scores(self, outputs: Any, compute: Callable[..., Any]) -> List[float]:
        """Play all games to their end by the policy, with the chances of ``JUDGED_SEED``; return their scores.

        Args:
            outputs: what the network gives for what it is shown first.
            compute: ``Adapter.outputs``, for all that it is shown then.
        """
        import numpy

        generator = numpy.random.RandomState(JUDGED_SEED)
        scores, plays_N = [0.0] * len(self._games), numpy.ones(len(self._games), bool)
        images_NHW, nobody_N = None, ~plays_N
        while plays_N.any():
            actions_N = drawn(generator, outputs[0])
            for number in numpy.flatnonzero(plays_N):
                image_HW, reward, over = self._games[number].step(int(actions_N[number]))
                if images_NHW is None:
                    images_NHW = numpy.zeros((len(self._games),) + image_HW.shape, image_HW.dtype)
                images_NHW[number] = image_HW
                scores[number] += reward
                plays_N[number] = not over
            self._views.add(images_NHW, nobody_N)
            outputs = compute((self._views.numbers(),))
        return scores


def epoch_samples(job: Job, size: Size) -> int:
    """See ``suites.inputs``.

    Raises:
        TrainerError: ``unsupported``: games have no end, and so no epochs.
    """
    raise TrainerError("unsupported", "games are played without end, and have no epochs: give max_steps instead")
