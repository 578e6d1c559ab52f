"""PyTorch's strategy ``single``: one rank that has nobody to talk to.

Its class is what every strategy of the PyTorch adapter is: the verbs of exchange, none of which does anything here.
"""

import contextlib
from typing import Any, Callable, ContextManager, Iterator, List, Optional, Sequence

from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Data
from workers.trainer.base.updates import Update


class Strategy(object):
    """How the ranks of a job exchange their gradients."""

    # Why PyTorch's profiler does not see the exchange, where it does not.
    unseen_exchange = None

    def join(self, job: Job, process: Process, device: Any) -> int:
        """Meet the other ranks, which will train on ``device`` (a torch device) as this one does.

        Returns:
            The world size that the library itself counts.

        Raises:
            TrainerError: ``timed_out`` with the ranks that did not come; ``setup_failed``.
        """
        return job.world_size

    def spread(self, network: Any) -> None:
        """Spread the weights of the model's module over all ranks, where each keeps a share of them only."""

    def losses(self, model: Any, updates: Sequence[Update]) -> List[Any]:
        """Return the loss of each of the model's ``updates``, after all ranks begin with the weights of rank 0.

        What the strategy needs is put around ``model.network``, or around the losses.
        """
        return [update.loss for update in updates]

    def bare(self, network: Any) -> Any:
        """Return the model's own module, without what ``losses`` put around it."""
        return network

    def optimizer(self, optimizer: Any, named: Any) -> Any:
        """Return what updates the weights, [(name, parameter)], by gradients that are averaged over all ranks."""
        return optimizer

    @contextlib.contextmanager
    def averaged(self, optimizer: Any) -> Iterator[None]:
        """Within it the gradients of ``optimizer`` are averaged over all ranks, and its step exchanges nothing."""
        yield

    def exchange(self) -> Data:
        """Return what is recorded of the exchange: library, backend, what is fused and what is not sent."""
        return {}

    @contextlib.contextmanager
    def waits_marked(self, optimizers: Sequence[Any], mark: Callable[[], ContextManager[Any]]) -> Iterator[None]:
        """Put ``mark()`` around each wait for the exchange that is in an update, while this lasts: there is none where
        gradients have come when the backward pass ends."""
        yield

    def rest(self) -> None:
        """Return when none of the library's threads has anything left to do for the steps before."""

    def failure_of(self, error: BaseException) -> Optional[str]:
        """Return the failure kind of the library's own exception, ``failure.PEER_LOST``, or None."""

    def close(self) -> None:
        """Leave the other ranks."""
