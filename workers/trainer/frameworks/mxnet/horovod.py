"""MXNet's strategy ``horovod``: a process per device, Horovod's trainer in place of Gluon's."""

import collections
import contextlib
import importlib
from typing import Any, Callable, ContextManager, Iterator, Optional, Sequence, Tuple

# Horovod makes the symbols of MXNet's library global, those of a libjpeg among them: by these Pillow reads no image
# ("broken data stream"), unless it was there before.
with contextlib.suppress(ImportError):
    importlib.import_module("PIL.Image")

import horovod.mxnet  # noqa: E402

from workers.trainer.base.job import Job, Process  # noqa: E402
from workers.trainer.base.signatures import Data, Rule  # noqa: E402
from workers.trainer.frameworks import horovod_gloo  # noqa: E402
from workers.trainer.frameworks.mxnet import optimizers  # noqa: E402


class Exchange(object):
    """See ``store.Exchange``."""

    servers_update = False

    def __init__(self) -> None:
        self._kind = None

    @property
    def several(self) -> bool:
        return horovod.mxnet.size() > 1

    @contextlib.contextmanager
    def each(self, around: Callable[[str, int], ContextManager[Any]]) -> Iterator[None]:
        plain = horovod.mxnet.allreduce_

        def allreduce(gradient, *others, **options):
            with around("key %s" % options.get("name"), 4 * gradient.size):
                return plain(gradient, *others, **options)

        # Horovod's trainer looks it up in its module.
        horovod.mxnet.allreduce_ = allreduce
        try:
            yield
        finally:
            horovod.mxnet.allreduce_ = plain

    def join(self, job: Job, process: Process) -> int:
        self._kind = process.device_kind
        return horovod_gloo.join(horovod.mxnet, job, process)

    def trainer(self, parameters: Sequence[Any], rule: Rule, first: Any = 0) -> Tuple[Any, int]:
        """Return Horovod's trainer, and the divisor that its ``step`` takes: it averages over the ranks itself.

        ``first``: see ``store.Exchange.trainer``; Horovod goes by names.
        """
        prefix = "from %d: " % first if first else None
        named = collections.OrderedDict(("%04d" % index, parameter) for index, parameter in enumerate(parameters))
        horovod.mxnet.broadcast_parameters(named, root_rank=0, prefix=prefix)
        return horovod.mxnet.DistributedTrainer(named, optimizers.make(rule, parameters), prefix=prefix), 1

    def exchange(self) -> Data:
        return horovod_gloo.exchange(horovod.mxnet, self._kind)

    def failure_of(self, error: BaseException) -> Optional[str]:
        return horovod_gloo.failure_of(error)

    def part(self) -> None:
        horovod.mxnet.shutdown()
