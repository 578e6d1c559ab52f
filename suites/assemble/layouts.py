"""How a framework lays out a parameter that ``suites.assemble.layers`` describes, there and back."""

import collections

# ``blocks``: the order in which equal blocks of rows are taken; ``axes``: then, the order of the axes; None: as it is.
Layout = collections.namedtuple("Layout", "blocks axes")

AS_IT_IS = Layout(None, None)
TRANSPOSED = Layout(None, (1, 0))


def apply(layout, value):
    """Return the described array ``value`` as the framework has it."""
    import numpy

    if layout.blocks:
        parts = numpy.split(value, len(layout.blocks))
        value = numpy.concatenate([parts[place] for place in layout.blocks])
    return numpy.ascontiguousarray(value.transpose(layout.axes)) if layout.axes else value


def undo(layout, value):
    """The reverse of ``apply``."""
    import numpy

    if layout.axes:
        value = value.transpose(_inverse(layout.axes))
    if layout.blocks:
        parts = numpy.split(value, len(layout.blocks))
        value = numpy.concatenate([parts[place] for place in _inverse(layout.blocks)])
    return value


def described(table, parameters, arrays):
    """Return {name: array as it is described} of a framework's ``arrays`` of ``parameters``, in their order.

    Args:
        table: {kind of a parameter: its ``Layout``}, where that is not as it is.
    """
    return collections.OrderedDict(
        (one.name, undo(table.get(one.kind, AS_IT_IS), array)) for one, array in zip(parameters, arrays)
    )


def _inverse(order):
    return tuple(sorted(range(len(order)), key=order.__getitem__))
