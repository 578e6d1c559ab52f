"""TensorFlow's strategy ``single``: one rank that has nobody to talk to.

Its class is what every strategy of the TensorFlow adapter is. ``run`` and ``mean`` are called while the training step
is traced; everything else is called outside of it.
"""

from typing import Any, Callable, ContextManager, List, Optional, Sequence

import tensorflow as tf

from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Data


class Strategy(object):
    """How the ranks of a job exchange their gradients, and how many of them this process drives."""

    def __init__(self) -> None:
        self._device = None

    def join(self, job: Job, process: Process, device: str) -> int:
        """Meet the other ranks, which will train on devices like ``device``, "/CPU:0" or "/GPU:0".

        Nothing has been computed yet: devices may still be divided and servers started.

        Returns:
            The world size that the library itself counts.

        Raises:
            TrainerError: ``timed_out`` with the ranks that did not come; ``setup_failed``.
        """
        self._device = device
        return job.world_size

    def scope(self) -> ContextManager[Any]:
        """Return the context in which the model and all variables are made."""
        return tf.device(self._device)

    def begin(self, variables: Sequence[tf.Variable]) -> None:
        """Give all ranks the initial values of rank 0, where ``scope`` has not done so."""

    def batch(self, batches: Sequence[Any]) -> Any:
        """Return what ``run`` takes, from a batch for each rank of this process."""
        return batches[0]

    def run(self, update: Callable[[Any], Any], batch: Any) -> Any:
        """Call ``update(batch)`` for each rank of this process; return its results, to be read by ``of_ranks``."""
        with tf.device(self._device):
            return update(batch)

    def mean(self, gradients: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
        """Return, inside of ``update``, the mean of each gradient over all ranks of the job."""
        return gradients

    def of_ranks(self, value: Any) -> List[Any]:
        """Return a list with the value of each rank of this process: of a result of ``run``, or of a variable."""
        return [value]

    def position(self) -> Any:
        """Return what ``rewind`` takes before a step that the profiler records; None where it need not be called."""

    def rewind(self, position: Any) -> None:
        """Let the next step use what the library has agreed on among the ranks since ``position``."""

    def exchange(self) -> Data:
        """Return what is recorded of the exchange: library, backend, what is fused and what is not sent."""
        return {}

    def failure_of(self, error: BaseException) -> Optional[str]:
        """Return the failure kind of the library's own exception, ``failure.PEER_LOST``, or None."""

    def close(self) -> None:
        """Leave the other ranks."""
