"""Updates of the linear fit by one rule after another: ``python optimizers.py FRAMEWORK JOB.json RULES.json``.

Prints the losses of each rule's steps, as JSON.
"""

import importlib
import json
import sys

from workers.trainer import protocol


def main(framework, path, rules):
    job = protocol.read_job(path)
    process = protocol.process_of(job)
    module = importlib.import_module("workers.trainer.frameworks.%s.adapter" % framework)
    found = []
    for rule in json.loads(rules):
        job["model"]["rule"] = rule
        adapter, losses = module.Adapter(), []
        adapter.join(job, process)
        adapter.build(job, process, iter)
        for _ in range(job["plan"]["max_steps"]):
            adapter.step()
            adapter.synchronize()
            losses.append(adapter.loss())
        found.append(losses)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
