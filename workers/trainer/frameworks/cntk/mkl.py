"""Which arrays MKL makes for a convolution of CNTK's, on this processor: MKL itself is asked.

CNTK 2.7 computes convolutions by the functions ``dnn…`` of MKL 2018, in ``libmklml_intel.so``. MKL chooses by the
processor how. For those that it knows it writes code for vector registers, and wants filters, inputs and outputs in
layouts of its own: CNTK then has an array in that layout beside its own one. For others, AMD's among them, it
multiplies matrices in CNTK's own layout: there is no second array, but one to unfold the input into, for each thread.

Sources: CNTK 2.7, Source/Math/ConvolutionEngine.cpp (``MKLConvolutionContext``), MklDnnCommon.h
(``MKLDnnResourceAdapter``); Intel MKL 2018, mkl_dnn.h and mkl_dnn_types.h.
"""

import collections
import ctypes
from typing import Any

from workers.trainer.frameworks import heap

# dnnAlgorithmConvolutionDirect, dnnBorderZeros: mkl_dnn_types.h.
_DIRECT, _ZEROS = 1, 0
# Of dnnResourceType_t.
_INPUT, _OUTPUT, _FILTERS, _INPUT_GRADIENT, _FILTERS_GRADIENT, _OUTPUT_GRADIENT = 0, 1, 2, 4, 5, 7

# A pass: the function that makes its primitive, and what goes through it.
Pass = collections.namedtuple("Pass", "function resources")
FORWARD = Pass("dnnConvolutionCreateForward_F32", (_INPUT, _FILTERS, _OUTPUT))
INPUT_GRADIENT = Pass("dnnConvolutionCreateBackwardData_F32", (_OUTPUT_GRADIENT, _FILTERS, _INPUT_GRADIENT))
FILTERS_GRADIENT = Pass("dnnConvolutionCreateBackwardFilter_F32", (_OUTPUT_GRADIENT, _INPUT, _FILTERS_GRADIENT))

# MKL computes convolutions of images only: width, height, channels, and the samples.
_DIMENSIONS = 4


class Mkl(object):
    """MKL as this process has it: its threads must have been chosen. ``close`` when all is asked."""

    def __init__(self) -> None:
        # CNTK has loaded it; the name is enough.
        self._library = ctypes.CDLL("libmklml_intel.so")
        self._library.mkl_serv_mem_stat.restype = ctypes.c_longlong
        self._library.dnnLayoutGetMemorySize_F32.restype = ctypes.c_size_t
        # Held to the end, as CNTK holds its own: MKL would make the next one in the room of one that was given back.
        self._made: Any = []

    def arrays(self, geometry: Any, batch: int, which: Any) -> int:
        """Return the bytes that MKL holds for a convolution in the pass ``which``, beside what CNTK has.

        That is the primitive itself, which is what it unfolds into or room for the code that MKL writes (up to 23 MB
        with AVX-512, most of it never touched), and layouts of MKL's own.

        Args:
            geometry: a ``graph.Geometry``.
            batch: samples of a step.

        Raises:
            RuntimeError: MKL refuses the convolution.
        """
        if len(geometry.input) + 1 != _DIMENSIONS or geometry.kernel[-1] != geometry.input[-1]:
            return 0
        before = self._allocated()
        primitive, attributes = self._primitive(geometry, batch, which)
        itself = self._allocated() - before
        self._made.append((primitive, attributes))
        layouts = [self._layout(primitive, which, index, geometry, batch) for index in range(len(which.resources))]
        return sum(layouts) + itself

    def close(self) -> None:
        for primitive, attributes in self._made:
            self._library.dnnDelete_F32(primitive)
            self._library.dnnPrimitiveAttributesDestroy_F32(attributes)
        self._made = []

    def _allocated(self):
        """Return what is taken now: of the heap, or as MKL's memory manager tells (mkl_mem_stat), which also has what
        was given back to it: 2.5 times as much for small primitives."""
        taken = heap.in_use_bytes()
        return self._library.mkl_serv_mem_stat(ctypes.byref(ctypes.c_int())) if taken is None else taken

    def _primitive(self, geometry, batch, which):
        primitive, attributes = ctypes.c_void_p(), ctypes.c_void_p()
        _check(self._library.dnnPrimitiveAttributesCreate_F32(ctypes.byref(attributes)))
        shapes = [_sizes(_shape(geometry, batch, resource)) for resource in (_INPUT, _OUTPUT, _FILTERS)]
        # CNTK puts the middle of a kernel on the first pixel, where it fills up with zeros.
        offset = [-((extent - 1) // 2) if fills else 0 for extent, fills in zip(geometry.kernel, geometry.padded)][:2]
        create = getattr(self._library, which.function)
        step = _sizes(geometry.stride[:2])
        offsets = (ctypes.c_int * 2)(*offset)
        dimensions = ctypes.c_size_t(_DIMENSIONS)
        _check(create(ctypes.byref(primitive), attributes, _DIRECT, dimensions, *shapes, step, offsets, _ZEROS))
        return primitive, attributes

    def _layout(self, primitive, which, index, geometry, batch):
        """Return the bytes of the layout that MKL wants; 0 where it is CNTK's own."""
        wanted, given = ctypes.c_void_p(), ctypes.c_void_p()
        resource = which.resources[index]
        shape = _shape(geometry, batch, resource)
        strides = [1]
        for extent in shape[:-1]:
            strides.append(strides[-1] * extent)
        dimensions = ctypes.c_size_t(_DIMENSIONS)
        _check(self._library.dnnLayoutCreateFromPrimitive_F32(ctypes.byref(wanted), primitive, resource))
        _check(self._library.dnnLayoutCreate_F32(ctypes.byref(given), dimensions, _sizes(shape), _sizes(strides)))
        same = self._library.dnnLayoutCompare_F32(given, wanted)
        size = 0 if same else self._library.dnnLayoutGetMemorySize_F32(wanted)
        for layout in (wanted, given):
            self._library.dnnLayoutDelete_F32(layout)
        return size


def _shape(geometry, batch, resource):
    """Return what goes through a primitive as (width, height, channels, samples), filters as (…, inputs, outputs)."""
    if resource in (_INPUT, _INPUT_GRADIENT):
        return geometry.input + (batch,)
    if resource in (_OUTPUT, _OUTPUT_GRADIENT):
        return geometry.output + (batch,)
    return geometry.kernel + (geometry.output[-1],)


def _sizes(values):
    return (ctypes.c_size_t * len(values))(*values)


def _check(error):
    if error:
        raise RuntimeError("MKL cannot tell what it needs for a convolution: error %d" % error)
