"""Random arrays as MXNet's arrays, on the host."""

import mxnet as mx


def batch(images_NHWC, labels_N):
    """Return (images_NCHW, labels_N)."""
    return mx.nd.array(images_NHWC.transpose(0, 3, 1, 2), dtype="float32"), mx.nd.array(labels_N, dtype="int32")
