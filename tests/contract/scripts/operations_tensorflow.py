"""Print the operations of one sample's forward pass as TensorFlow's statistics count them, see operations_pytorch.py.

A graph is made and nothing is computed: weights are places for numbers, and no numbers.
"""

import importlib
import json
import sys

import numpy
import tensorflow as tf
from tensorflow.python.framework import ops

from suites.assemble import layers
from suites.assemble.tensorflow import regions
from suites.assemble.tensorflow.layers import Layers

SAMPLES = 2
VARIABLE = tf.Variable


def count(module, inputs, size):
    own = importlib.import_module(module + ".tensorflow")
    described = importlib.import_module(module + ".network").layers(size)
    fields = importlib.import_module("suites.inputs." + inputs).fields(size)
    with tf.Graph().as_default() as graph:
        nothing = numpy.zeros((), numpy.float32)
        weights = {name: numpy.broadcast_to(nothing, shape) for name, shape in layers.shapes(described).items()}
        given, targets = ([tensor(one) for one in fields if one.target == target] for target in (False, True))
        own.criterion(own.outputs(Layers(described, weights), size, *given), *targets)
        return sum(operations(graph, operation.node_def) for operation in graph.get_operations()) / SAMPLES


def variable(value, trainable=True, **options):
    """What takes the place of ``tf.Variable``."""
    return tf.compat.v1.placeholder(value.dtype, value.shape) if trainable else VARIABLE(value, trainable, **options)


def tensor(field):
    dtype = tf.int64 if field.kind in ("label", "tokens") else tf.float32
    return tf.compat.v1.placeholder(dtype, (SAMPLES, *field.shape))


def operations(graph, node):
    return int(ops.get_stats_for_node_def(graph, node, "flops").value or 0)


if __name__ == "__main__":
    tf.Variable = variable
    # A copy of a weight's numbers, of which there are none.
    tf.raw_ops.DeepCopy = lambda x: x
    # Its products interpolate: they are no part of the network, and other frameworks do without.
    regions.align = lambda plane, given, side: tf.zeros((given.shape[0], side, side, plane.shape[2]))
    regions.align_levels = lambda planes, given, side, *_: regions.align(planes[0], given, side)
    print(json.dumps([count(*cell) for cell in json.loads(sys.argv[1])]))
