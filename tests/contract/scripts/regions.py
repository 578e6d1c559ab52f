"""What the operators on regions give for numbers: ``python regions.py FRAMEWORK CALLS.npz FOUND.npz``.

Calls are arrays ``<number>.<operator>.<place>``; those without a dimension are plain numbers. Of ``gradient`` the last
one is by what the bins of ``align`` are multiplied, and the gradient of their sum by the map is given.
"""

import importlib
import sys

import numpy


def pytorch(name, given):
    import torch

    own = importlib.import_module("suites.assemble.pytorch.regions")
    given = _leveled(name, [one.item() if one.ndim == 0 else torch.from_numpy(one) for one in given])
    if name == "gradient":
        given[0].requires_grad_()
        (own.align(*given[:-1]) * given[-1]).sum().backward()
        return (given[0].grad,)
    if name == "align_levels":
        return (own.align_levels(given[:3], *given[3:]),)
    found = getattr(own, name)(*given)
    return found if isinstance(found, tuple) else (found,)


def tensorflow(name, given):
    import tensorflow as tf

    own = importlib.import_module("suites.assemble.tensorflow.regions")
    given = _leveled(name, [one.item() if one.ndim == 0 else tf.constant(one) for one in given])
    if name == "align_levels":
        maps = [tf.transpose(one, (1, 2, 0)) for one in given[:3]]
        return (tf.transpose(own.align_levels(maps, *given[3:]), (0, 3, 1, 2)),)
    if name in ("align", "gradient"):
        # Channels come first in the calls, and last in TensorFlow.
        given[0] = tf.transpose(given[0], (1, 2, 0))
        with tf.GradientTape() as tape:
            tape.watch(given[0])
            found = tf.transpose(own.align(*given[:3]), (0, 3, 1, 2))
            total = tf.reduce_sum(found * given[3]) if name == "gradient" else None
        return (tf.transpose(tape.gradient(total, given[0]), (2, 0, 1)),) if name == "gradient" else (found,)
    found = getattr(own, name)(*given)
    if name == "kept":
        return (found[0][: found[1]],)
    return found if isinstance(found, tuple) else (found,)


def _leveled(name, given):
    """How many boxes are of each level is no tensor."""
    return given[:5] + [tuple(map(int, one)) for one in given[5:]] if name == "proposals" else given


def mxnet(name, given):
    import mxnet as mx

    own = importlib.import_module("suites.assemble.mxnet.regions")
    # Of a batch of one image.
    given = [one.item() if one.ndim == 0 else mx.nd.array(one, dtype="float32").expand_dims(0) for one in given]
    if name in ("align", "gradient"):
        given[0].attach_grad()
        with mx.autograd.record():
            found = own.align(mx.nd, *given[:3])
            total = (found * given[3][0]).sum() if name == "gradient" else found
        total.backward()
        return (given[0].grad[0].asnumpy(),) if name == "gradient" else (found.asnumpy(),)
    if name == "kept":
        boxes, there, most, most_overlap = given
        scores = mx.nd.where(there, -mx.nd.contrib.arange_like(there), there + own.NONE)
        found = own.kept(mx.nd, scores, boxes, boxes.shape[1], most_overlap).asnumpy()[0]
        return (found[found >= 0][:most].astype(int),)
    numbers, there = getattr(own, name)(mx.nd, *given)
    return numbers[0].asnumpy().astype(int), there[0].asnumpy()


def main(framework, calls, found):
    with numpy.load(calls) as arrays:
        keys = sorted(arrays.files, key=lambda key: (int(key.split(".")[0]), int(key.split(".")[2])))
        given = {}
        for key in keys:
            given.setdefault(tuple(key.split(".")[:2]), []).append(arrays[key])
    made = {}
    for (number, name), values in given.items():
        for place, array in enumerate(globals()[framework](name, values)):
            made[f"{number}.{place}"] = numpy.asarray(array)
    numpy.savez(found, **made)


if __name__ == "__main__":
    main(*sys.argv[1:])
