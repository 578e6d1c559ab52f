"""Train on one batch again and again: ``python overfit.py JOB.json CASE.npz STEPS``, see ../test_overfitting.py.

Prints the loss before each step and after the last, as JSON.
"""

import importlib
import json
import sys

from workers.trainer import job as jobs


def main(path, case, steps):
    job = jobs.read(path)._replace(given=case)
    adapter = importlib.import_module(f"workers.trainer.frameworks.{job.plan.framework}.adapter").Adapter()
    adapter.join(job, job.process)
    adapter.build(job, job.process, iter)
    losses = []
    for _ in range(int(steps) + 1):
        adapter.step()
        adapter.synchronize()
        losses.append(adapter.loss())
    print(json.dumps(losses))


if __name__ == "__main__":
    main(*sys.argv[1:])
