"""What TensorFlow's models cast to on GPUs, carried out on a CPU device: ``python casts_tensorflow.py JOB RULES``.

Prints, as JSON: ``losses`` of two steps in the job's precision, as a GPU would be given them; ``types`` {operator:
types it computes in} of what multiplies, and of what is to stay in single precision; ``updated``, for each rule a
weight in single precision and one in bfloat16 after some updates by the same gradients.
"""

import collections
import json
import sys

import tensorflow as tf

from suites import modules
from workers.trainer.base import job as jobs
from workers.trainer.base import optimizer as rules
from workers.trainer.frameworks.tensorflow import minimizer, optimizers, single

UPDATES = 5


def trained(job):
    devices = tuple(device._replace(kind="cuda") for device in job.process.devices)
    model = modules.builder_of(job).build(job, job.process._replace(devices=devices))
    (update,) = model.updates
    one, batches = minimizer.Minimizer(update, single.Strategy()), model.batches(0)
    losses = []
    for _ in range(2):
        batch, _ = next(batches)
        one(batch)
        losses += one.losses()
    return losses, types(one.graph(batch))


def types(graph):
    found = collections.defaultdict(set)
    for operator in graph.get_operations():
        if operator.type.startswith(("Conv2D", "MatMul", "BatchMatMul", "Softmax", "SparseSoftmax", "ResourceApply")):
            found[operator.type].add(operator.get_attr("T").name)
        if operator.type.startswith("FusedBatchNorm"):
            found[operator.type].add(operator.get_attr("U").name)
    return {name: sorted(dtypes) for name, dtypes in found.items()}


def updated(rule, dtype):
    weight = tf.Variable(tf.cast([[1.0]], dtype))
    optimizer = optimizers.make(rules.complete(rule), [weight])
    for number in range(UPDATES):
        optimizer.advance()
        optimizer.apply([weight], [tf.cast([[0.5 + 0.25 * number]], dtype)])
    return float(weight.numpy()[0, 0])


if __name__ == "__main__":
    losses, dtypes = trained(jobs.read(sys.argv[1]))
    pairs = [[updated(rule, dtype) for dtype in (tf.float32, tf.bfloat16)] for rule in json.loads(sys.argv[2])]
    print(json.dumps({"losses": losses, "types": dtypes, "updated": pairs}))
