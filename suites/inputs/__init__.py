"""Batches for models, as numpy arrays; a model names its module here by ``input`` in its facts. Each module has

``fields(size)``
    the ``Field`` of each array of a batch, in order: first what the network is given, then the targets
``work(*arrays)``
    the work of a batch, in the model's unit and others beside
``batches(job, rank, size, framework, to_tensors)``
    the endless iterator of ``(tensors, work)`` for one rank: synthetic ones, or those of the job's dataset. A module in
    ``ACTING``, whose batches follow from what the network does, is also given ``outputs(*arrays)``: what it gives now
    for these arrays of its inputs, as arrays

``evaluation(job, size)``
    where the model's quality can be told: an iterator of ``suites.quality.Examples``, batches of what the job's dataset
    keeps apart from training, all of it once and always in the same order. The last batch may be smaller
``epoch_samples(job, size)``
    with ``evaluation``: how many samples of the job's dataset all ranks together train on in an epoch

Synthetic batches lie in the host's memory, as those of a dataset do, and are copied to the rank's device at each step:
in every framework, so that none of them is spared what another has to do.
"""

from typing import NamedTuple, Tuple

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job

# The modules here that have ``evaluation`` and ``epoch_samples``.
EVALUATED = (
    *("images", "masked_pairs", "noise_and_images", "prose", "questions"),
    *("sentence_pairs", "utterances", "games", "boxed_images", "segmented_images"),
)

# Those whose batches follow from what the network gives: nobody can tell what they would have been before a checkpoint.
ACTING = ("games",)


class Field(NamedTuple):
    """One array of a batch.

    ``kind`` says how a framework lays it out: "image" (HWC, float32), "label", "tokens" (integers), "numbers"
    (float32). ``shape``: of one sample. ``target``: whether only the loss and the quality are computed with it.
    """

    name: str
    kind: str
    shape: Tuple[int, ...]
    target: bool = False


def evaluated_root(job: Job) -> str:
    """Return the folder of the job's dataset.

    Raises:
        TrainerError: ``setup_failed``, there is none: what is random has no quality.
    """
    if job.dataset is None:
        raise TrainerError("setup_failed", "synthetic data has no quality that could be evaluated: name a dataset")
    return job.dataset.root
