"""CNTK's allocation profile beside what the C library has given out: ``python memory_cntk.py JOB.json`` prints both.

``listed``: the sum of the list at its end, when all that is made once is there; ``heap``: what was taken from the C
library's heap from before the build to the last step and not given back, touched or not, null where that cannot be
counted.
"""

import json
import sys

from workers.trainer import protocol
from workers.trainer.frameworks import heap
from workers.trainer.frameworks.cntk import graph, memory
from workers.trainer.frameworks.cntk.adapter import Adapter


def main(path):
    job = protocol.read_job(path)
    adapter, process, taken = Adapter(), protocol.process_of(job), []
    adapter._prepare(job, process)

    def build():
        taken.append(heap.in_use_bytes())
        adapter.build(job, process, lambda batches: batches)
        return adapter._model.parameters

    def train():
        adapter.step()
        taken.append(heap.in_use_bytes())

    batch = job["plan"]["per_device_batch_size"]
    found = memory.profile(build, train, lambda: adapter._take()[0], 2, batch, graph.Exchange(1, None))
    listed = sum(delta for _, delta, _ in found["allocations"])
    print(json.dumps({"listed": listed, "heap": None if taken[0] is None else taken[-1] - taken[0]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
