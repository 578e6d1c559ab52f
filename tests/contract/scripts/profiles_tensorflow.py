"""TensorFlow's profiles of one process of a job, and numbers of the same steps that the profiler has no part in.

``python profiles_tensorflow.py JOB.json PROCESS OUTPUT.json steps``, or ``… gang true|false`` (with that of memory), or
``… memory "[BATCH, …]"``: all in this process, each after the one before was given up.
"""

import gc
import json
import sys
import time

import tensorflow as tf

from workers.trainer.__main__ import SCHEDULERS
from workers.trainer.frameworks.tensorflow.adapter import Adapter

STEPS = 3


def process_of(job, name):
    return next(process for process in job["processes"] if process["name"] == name)


def watch(batches):
    return batches


def passed(steps, step, synchronize):
    """Return the least seconds of so many steps, by the clock."""
    found = []
    for _ in range(steps):
        begun = time.monotonic()
        step()
        synchronize()
        found.append(time.monotonic() - begun)
    return min(found)


def forward_s(adapter):
    """Return the least seconds of the model's forward pass: alone, by the clock, and in a step, by the profiler.

    They are taken in turn: what else runs on the host is in neither, or in both.
    """
    batch, _ = adapter._fetch()
    forward = tf.function(adapter._model.loss)
    forward(batch)
    alone, in_step = [], []
    for _ in range(12):
        alone.append(passed(3, lambda: forward(batch).numpy(), lambda: None))
        in_step.append(adapter.layers(1)["breakdown"]["forward_s"])
    return min(alone), min(in_step)


def steps(job, process):
    adapter = Adapter()
    adapter.join(job, process)
    adapter.build(job, process, watch)
    for _ in range(3):
        adapter.step()
        adapter.synchronize()
    found = {"threads": adapter._mathematics["threads"]}
    before = time.monotonic()
    found["kernels"] = adapter.kernels(STEPS)
    found["between"] = [before, time.monotonic()]
    found["layers"] = adapter.layers(STEPS)
    found["names"] = [variable.name for variable in adapter._model.variables]
    found["forward_s"], found["forward_in_step_s"] = forward_s(adapter)
    adapter.close()
    return found


def started(job, process):
    """Return the adapter, joined, its memory looked at; None where the process has only served the others."""
    job["phase"] = "memory"
    if not process["ranks"]:
        SCHEDULERS[job["plan"]["strategy"]](job)
        return None
    adapter = Adapter()
    adapter.join(job, process)
    return adapter


def memories(job, process, batches):
    """Return the profile of memory for each batch size, and what was left of the ones before."""
    found, left_bytes = [], 0
    for batch in batches:
        job["plan"]["per_device_batch_size"] = batch
        adapter = started(job, process)
        found.append(dict(adapter.memory_profile(job, process, watch), left_bytes=left_bytes))
        adapter.close()
        gc.collect()
        tf.config.experimental.reset_memory_stats("CPU:0")
        left_bytes = tf.config.experimental.get_memory_info("CPU:0")["current"]
    return found


def gang(job, process, with_memory):
    """Return the profile of memory if asked for, and the times of the layers in further steps."""
    adapter = started(job, process)
    if adapter is None:
        return None
    found = {}
    if with_memory:
        found["memory"] = dict(adapter.memory_profile(job, process, watch), left_bytes=0)
    else:
        adapter.build(job, process, watch)
    before = time.monotonic()
    found["layers"] = adapter.layers(STEPS)
    found["between"] = [before, time.monotonic()]
    found["names"] = [variable.name for variable in adapter._model.variables]
    adapter.close()
    return found


def main(job_path, name, target, kind, given="null"):
    with open(job_path) as file:
        job = json.load(file)
    process = process_of(job, name)
    given = [json.loads(given)] if kind != "steps" else []
    found = {"steps": steps, "gang": gang, "memory": memories}[kind](job, process, *given)
    with open(target, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
