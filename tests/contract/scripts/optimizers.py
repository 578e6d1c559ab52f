"""Updates of the linear fit by one rule after another: ``python optimizers.py FRAMEWORK JOB.json RULES.json``.

Prints the losses of each rule's steps, as JSON.
"""

import importlib
import json
import sys

from workers.trainer.base import job as jobs


def main(framework, path, rules):
    job = jobs.read(path)
    module = importlib.import_module("workers.trainer.frameworks.%s.adapter" % framework)
    found = []
    for rule in json.loads(rules):
        updated = job._replace(model=job.model._replace(facts=dict(job.model.facts, rule=rule)))
        adapter, losses = module.Adapter(), []
        adapter.join(updated, job.process)
        adapter.build(updated, job.process, iter)
        for _ in range(job.plan.max_steps):
            adapter.step()
            adapter.synchronize()
            losses.append(adapter.loss())
        found.append(losses)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
