"""Trains a network of the suite, or the published one with the same weights, for some steps; prints its speed as JSON.

``python -m bench.published_loop ours|published KIT NAME JOB``, in the interpreter of the job's framework, with the
published package on its path: ``bench.published_KIT`` makes its network NAME. See ``bench.published``.
"""

import importlib
import json
import sys
import time

from workers.trainer.base import job as jobs


def main(side, kit, name, path):
    job = jobs.read(path)
    ours = importlib.import_module("bench.published_loop_" + job.plan.framework)
    theirs = importlib.import_module("bench.published_" + kit) if side == "published" else None
    model = ours.built(job)
    # What trains by a loop of its own has one; of all others the network is trained by the suite's losses.
    loss, train = theirs.loop(name, model, job) if hasattr(theirs, "loop") else ours.loop(name, model, job, theirs)
    with open(path) as file:
        plan = json.load(file)["plan"]
    (dropped_loss,), operations = ours.counted(lambda: train(1))
    told = {"loss": loss, "dropped_loss": dropped_loss, "operations": operations}
    train(plan["warm_up_steps"] - 1)
    begun = time.monotonic()
    train(plan["steps"])
    elapsed_s = time.monotonic() - begun
    samples = plan["steps"] * job.plan.per_device_batch_size
    print(json.dumps(dict(told, samples_per_s=samples / elapsed_s)))


if __name__ == "__main__":
    main(*sys.argv[1:])
