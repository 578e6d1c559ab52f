"""Print the operations of one step of a job for each sample of its batch, by the formulas of PyTorch's own counter.

Not by FlopCounterMode itself: it hangs on the gradients of modules, and fails at one that is asked for in a loss.
"""

import sys

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from workers.trainer.base import job as jobs
from workers.trainer.frameworks.pytorch.adapter import Adapter


class Counter(TorchDispatchMode):
    total = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        if function._overloadpacket in flop_registry:
            self.total += flop_registry[function._overloadpacket](*args, **(kwargs or {}), out_val=found)
        return found


def main(path):
    job, adapter = jobs.read(path), Adapter()
    adapter.join(job, job.process)
    adapter.build(job, job.process, iter)
    with Counter() as counter:
        adapter.step()
    print(counter.total / job.plan.per_device_batch_size)


if __name__ == "__main__":
    main(*sys.argv[1:])
