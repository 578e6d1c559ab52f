"""How a framework lays out a parameter that ``suites.assemble.layers`` describes, there and back."""

import collections
from typing import Dict, Iterable, Mapping, NamedTuple, Optional, Tuple

from suites.assemble.layers import Parameter
from workers.trainer.base.signatures import Array


class Layout(NamedTuple):
    """``blocks``: the order in which equal blocks of rows are taken; ``axes``: then, the order of the axes; None: as it
    is."""

    blocks: Optional[Tuple[int, ...]]
    axes: Optional[Tuple[int, ...]]


AS_IT_IS = Layout(None, None)
TRANSPOSED = Layout(None, (1, 0))


def apply(layout: Layout, value: Array) -> Array:
    """Return the described array ``value`` as the framework has it."""
    import numpy

    if layout.blocks:
        parts = numpy.split(value, len(layout.blocks))
        value = numpy.concatenate([parts[place] for place in layout.blocks])
    return numpy.ascontiguousarray(value.transpose(layout.axes)) if layout.axes else value


def undo(layout: Layout, value: Array) -> Array:
    """The reverse of ``apply``."""
    import numpy

    if layout.axes:
        value = value.transpose(_inverse(layout.axes))
    if layout.blocks:
        parts = numpy.split(value, len(layout.blocks))
        value = numpy.concatenate([parts[place] for place in _inverse(layout.blocks)])
    return value


def described(
    table: Mapping[str, Layout], parameters: Iterable[Parameter], arrays: Iterable[Array]
) -> Dict[str, Array]:
    """Return {name: array as it is described} of a framework's ``arrays`` of ``parameters``, in their order; those that
    are None are left out.

    Args:
        table: {kind of a parameter: its ``Layout``}, where that is not as it is.
    """
    return collections.OrderedDict(
        (one.name, undo(table.get(one.kind, AS_IT_IS), array))
        for one, array in zip(parameters, arrays)
        if array is not None
    )


def _inverse(order):
    return tuple(sorted(range(len(order)), key=order.__getitem__))
