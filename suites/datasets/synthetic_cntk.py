"""Random arrays as CNTK's values."""

import cntk
import numpy


def batch(images_NHWC, labels_N):
    """Return (images_NCHW, labels_N), both in CNTK's float32."""
    images_NCHW = numpy.ascontiguousarray(images_NHWC.transpose(0, 3, 1, 2))
    return cntk.Value(images_NCHW), cntk.Value(labels_N.astype(numpy.float32))
