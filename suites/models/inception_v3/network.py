"""Inception-v3 as data, with the auxiliary head where a size has it. Names are those of torchvision's ``inception_v3``.

Source of the architecture: Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2015, sections
3, 4 and 6, in the form that TensorFlow's slim gave it and torchvision took over (its ``models/inception.py`` has these
names and this order of branches): every convolution is followed by a normalisation with epsilon 1e-3 and a ReLU; a
padding counts in an average, as it does there.

Weights begin as torchvision's: normal with a deviation of 0.1 (which it cuts off at 20 deviations), in the auxiliary
head of 0.01 and 0.001.
"""

from typing import List, NamedTuple, Optional, Tuple, Union

from suites.assemble.initial import normal, over_inputs
from suites.assemble.layers import Convolution, Dropout, Layer, Linear, Normalization, Pooling
from workers.trainer.base.signatures import Size

# Of the auxiliary loss beside the main one: torchvision's references/classification/train.py.
AUXILIARY_WEIGHT = 0.4

# The module before which the auxiliary head reads.
AFTER_AUXILIARY = "Mixed_7a"

_EPSILON = 1e-3
_INITIAL = normal(0.1)
_HALVING = "3 x 3 with a stride of 2, without padding"


class Unit(NamedTuple):
    """A convolution, its normalisation, and a ReLU."""

    name: str
    conv: Convolution
    bn: Normalization


class Branch(NamedTuple):
    """A pooling where there is one, then ``units`` one after the other, then the units of ``ends`` side by side."""

    pool: Optional[Pooling]
    units: Tuple[Unit, ...]
    ends: Tuple[Unit, ...]


class Inception(NamedTuple):
    """Branches of the same maps. The channels of what they give follow each other, and so do those of their ends."""

    name: str
    branches: Tuple[Branch, ...]


class Auxiliary(NamedTuple):
    """The classifier of the last maps of 17 x 17. Before ``fc`` stands the mean over the map."""

    pool: Pooling
    units: Tuple[Unit, ...]
    fc: Linear


class _Place(NamedTuple):
    """Where a module stands: the channels and the side of the maps that it reads."""

    name: str
    inputs: int
    pixels: int
    narrowing: int


def stem(size: Size) -> List[Union[Unit, Pooling]]:
    """Return what stands before the first module of a size (a table of ``[sizes]``), in order."""
    one, two, three, four, five = (channels // size["narrowing"] for channels in (32, 32, 64, 80, 192))
    found = [_unit("Conv2d_1a_3x3", 3, one, _HALVING, size["image_pixels"])]  # type: List[Union[Unit, Pooling]]
    pixels = found[0].conv.pixels - 2
    found.append(_unit("Conv2d_2a_3x3", one, two, 3, pixels, padding=0))
    found += [_unit("Conv2d_2b_3x3", two, three, 3, pixels), Pooling("maxpool1", 3, 2)]
    pixels = found[-1].pixels(pixels)
    found.append(_unit("Conv2d_3b_1x1", three, four, 1, pixels))
    return found + [_unit("Conv2d_4a_3x3", four, five, 3, pixels - 2, padding=0), Pooling("maxpool2", 3, 2)]


def modules(size: Size) -> List[Inception]:
    """Return the modules of a size, in order: of each kind as many of torchvision's as the size says."""
    before, pool = stem(size)[-2:]
    place = _Place("", before.conv.outputs, pool.pixels(before.conv.pixels), size["narrowing"])
    planned = [
        ("Mixed_5" + letter, _of_35, pooled) for letter, pooled in zip("bcd"[: size["modules_35"]], (32, 64, 64))
    ]
    planned.append(("Mixed_6a", _to_17, None))
    inner = zip("bcde"[: size["modules_17"]], (128, 160, 160, 192))
    planned += [("Mixed_6" + letter, _of_17, channels) for letter, channels in inner]
    planned.append(("Mixed_7a", _to_8, None))
    planned += [("Mixed_7" + letter, _of_8, None) for letter in "bc"[: size["modules_8"]]]
    found = []
    for name, kind, channels in planned:
        module = kind(place._replace(name=name), channels)
        found.append(module)
        place = place._replace(inputs=outputs(module, place.inputs), pixels=module.branches[0].units[-1].conv.pixels)
    return found


def outputs(module: Inception, inputs: int) -> int:
    """Return the channels of what a module gives, which reads ``inputs``."""
    total = 0
    for branch in module.branches:
        last = branch.ends or branch.units[-1:]
        total += sum(unit.conv.outputs for unit in last) if last else inputs
    return total


def _of_35(place, pooled):
    """Figure 5 of the paper, at 35 x 35; the kernel of 5 x 5 of the branch with two convolutions is kept."""
    return _module(
        place,
        _branch(place, ("branch1x1", 64, 1)),
        _branch(place, ("branch5x5_1", 48, 1), ("branch5x5_2", 64, 5)),
        _branch(place, ("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)),
        _averaged(place, pooled),
    )


def _to_17(place, _):
    """Figure 10: convolutions and a pooling halve the map side by side."""
    return _module(
        place,
        _branch(place, ("branch3x3", 384, _HALVING)),
        _branch(place, ("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, _HALVING)),
        _pooled(place),
    )


def _of_17(place, inner):
    """Figure 6: kernels of 7 x 7 as 1 x 7 and 7 x 1."""
    across, down = (1, 7), (7, 1)
    return _module(
        place,
        _branch(place, ("branch1x1", 192, 1)),
        _branch(place, ("branch7x7_1", inner, 1), ("branch7x7_2", inner, across), ("branch7x7_3", 192, down)),
        _branch(
            place,
            ("branch7x7dbl_1", inner, 1),
            ("branch7x7dbl_2", inner, down),
            ("branch7x7dbl_3", inner, across),
            ("branch7x7dbl_4", inner, down),
            ("branch7x7dbl_5", 192, across),
        ),
        _averaged(place, 192),
    )


def _to_8(place, _):
    """As ``_to_17``, with one of the convolutions behind a kernel of 7 x 7 in two parts."""
    return _module(
        place,
        _branch(place, ("branch3x3_1", 192, 1), ("branch3x3_2", 320, _HALVING)),
        _branch(
            place,
            ("branch7x7x3_1", 192, 1),
            ("branch7x7x3_2", 192, (1, 7)),
            ("branch7x7x3_3", 192, (7, 1)),
            ("branch7x7x3_4", 192, _HALVING),
        ),
        _pooled(place),
    )


def _of_8(place, _):
    """Figure 7: the last convolutions of two branches are 1 x 3 and 3 x 1 side by side."""

    def ends(name):
        return (name + "a", 384, (1, 3)), (name + "b", 384, (3, 1))

    return _module(
        place,
        _branch(place, ("branch1x1", 320, 1)),
        _branch(place, ("branch3x3_1", 384, 1), ends=ends("branch3x3_2")),
        _branch(place, ("branch3x3dbl_1", 448, 1), ("branch3x3dbl_2", 384, 3), ends=ends("branch3x3dbl_3")),
        _averaged(place, 192),
    )


def auxiliary(size: Size) -> Optional[Auxiliary]:
    """Return the auxiliary head of a size; None where it has none."""
    if not size["auxiliary_head"]:
        return None
    at = modules(size)[-1 - size["modules_8"]].branches[0].units[0].conv
    pool, narrowing = Pooling("AuxLogits.pool", 5, 3, average=True), size["narrowing"]
    pixels, channels, features = pool.pixels(at.pixels), 128 // narrowing, 768 // narrowing
    first = _unit("AuxLogits.conv0", at.inputs, channels, 1, pixels)
    kernel = size["auxiliary_kernel"]
    second = _unit("AuxLogits.conv1", channels, features, kernel, 1 + pixels - kernel, padding=0, initial=normal(0.01))
    fc = Linear("AuxLogits.fc", features, size["classes"], normal(0.001), over_inputs(features))
    return Auxiliary(pool, (first, second), fc)


def head(size: Size) -> Tuple[Dropout, Linear]:
    """Return what drops parts of the mean over the last maps, and the classifier."""
    features = outputs(modules(size)[-1], 0)
    return Dropout("dropout", size["dropout"]), Linear("fc", features, size["classes"], _INITIAL, over_inputs(features))


def layers(size: Size) -> List[Layer]:
    """Return all layers of a size, in the order of the forward pass; the auxiliary head comes last."""
    found = _flat(stem(size))
    for module in modules(size):
        for branch in module.branches:
            found += _flat([branch.pool] if branch.pool else []) + _flat(branch.units + branch.ends)
    found += head(size)
    extra = auxiliary(size)
    return found + ([extra.pool] + _flat(extra.units) + [extra.fc] if extra else [])


def last(part: Union[Unit, Pooling]) -> str:
    """Return the last part of a name: what it is called within its module."""
    return part.name.rpartition(".")[2]


def chains(module: Inception) -> List[Tuple[List[str], List[str]]]:
    """Return, of each branch, what it is called within the module: what follows each other, and the ends of it."""
    found = []
    for branch in module.branches:
        chain = ((branch.pool,) if branch.pool else ()) + branch.units
        found.append(([last(part) for part in chain], [last(part) for part in branch.ends]))
    return found


def _flat(parts):
    return [layer for part in parts for layer in (part[1:] if isinstance(part, Unit) else [part])]


def _module(place, *branches):
    return Inception(place.name, branches)


def _branch(place, *wanted, ends=()):
    """Return the ``Branch`` of units (last name, channels, kernel)."""
    units = _chain(place, place.inputs, wanted)
    sides = [_chain(place, units[-1].conv.outputs, [end]) for end in ends]
    return Branch(None, units, sum(sides, ()))


def _averaged(place, channels):
    pool = Pooling(place.name + ".pool", 3, 1, padding=1, average=True)
    return Branch(pool, _chain(place, place.inputs, [("branch_pool", channels, 1)]), ())


def _pooled(place):
    return Branch(Pooling(place.name + ".pool", 3, 2), (), ())


def _chain(place, inputs, wanted):
    found = []
    for last, channels, kernel in wanted:
        outputs_of_it = channels // place.narrowing
        found.append(_unit("%s.%s" % (place.name, last), inputs, outputs_of_it, kernel, place.pixels))
        inputs = outputs_of_it
    return tuple(found)


def _unit(name, inputs, channels, kernel, pixels, padding=None, initial=_INITIAL):
    """Return the ``Unit`` of a kernel that leaves the map of ``pixels`` as it is, or halves it."""
    stride = 1
    if kernel is _HALVING:
        kernel, stride, padding, pixels = 3, 2, 0, Pooling(name, 3, 2).pixels(pixels)
    if padding is None:
        padding = tuple(side // 2 for side in kernel) if isinstance(kernel, tuple) else kernel // 2
    conv = Convolution(name + ".conv", inputs, channels, kernel, pixels, initial, stride=stride, padding=padding)
    return Unit(name, conv, Normalization(name + ".bn", channels, pixels, epsilon=_EPSILON))
