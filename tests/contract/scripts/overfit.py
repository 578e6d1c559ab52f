"""Train on one batch again and again, and evaluate: ``python overfit.py JOB.json CASE.npz STEPS``, see
../test_overfitting.py.

Prints {losses (before each step and after the last), quality (by the model's own metric)} as JSON. It is evaluated by
what the job's dataset keeps apart, where the job has one, else by the batch itself.
"""

import importlib
import json
import sys

import numpy

from suites import modules, quality
from suites.assemble import parts
from workers.trainer.base import job as jobs


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
    metric = quality.module_of(job.model.facts["quality"]["metric"])
    totals = {}
    for examples in modules.input_of(job).evaluation(job, job.model.size) if job.dataset else [of_case(job, case)]:
        outputs, _ = adapter.evaluate(examples.inputs + examples.targets)
        for name, amount in metric.sums(outputs, examples, adapter.outputs).items():
            totals[name] = totals.get(name, 0.0) + amount
    print(json.dumps({"losses": losses, "quality": metric.value(totals)}))


def of_case(job, case):
    with numpy.load(case) as arrays:
        found = tuple(arrays["batch." + field.name] for field in parts.fields_of(job))
    given = parts.given_count(job)
    return quality.Examples(found[:given], found[given:])


if __name__ == "__main__":
    main(*sys.argv[1:])
