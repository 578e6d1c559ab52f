"""Two networks, trained without the loop: ``python updates.py FRAMEWORK JOB.json`` prints as JSON what they become.

``slopes``: loss and gradients of the first batches; ``losses`` and ``weights`` of ``max_steps`` steps; ``work`` of one.
"""

import importlib
import json
import sys

from tests.support import two_networks
from workers.trainer.base import job as jobs


def main(framework, path):
    job = jobs.read(path)
    adapter = importlib.import_module(f"workers.trainer.frameworks.{framework}.adapter").Adapter()
    adapter.join(job, job.process)
    adapter.build(job, job.process, iter)
    first = adapter.gradients()
    found = {"slopes": [first["loss"], listed(first["gradients"])], "losses": []}
    adapter.build(job, job.process, iter)
    for _ in range(job.plan.max_steps):
        found["work"] = adapter.step()
        adapter.synchronize()
        found["losses"].append(adapter.loss())
    found["weights"] = listed(two_networks.described(list(adapter.weights(0))))
    print(json.dumps(found))


def listed(arrays):
    return {name: array.tolist() for name, array in arrays.items()}


if __name__ == "__main__":
    main(*sys.argv[1:])
