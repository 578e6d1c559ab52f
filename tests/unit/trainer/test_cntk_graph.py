"""Memory from what CNTK prints of a network: a short one, printed as CNTK 2.7 does."""

import pytest

from tests.support.allocation_lists import classes_at_peak
from workers.trainer.frameworks.cntk import graph
from workers.trainer.protocol import MEMORY_CLASSES

PRINTED = """\
Validating network. 6 nodes to process in pass 1.

Validating --> Parameter3 = LearnableParameter() :  -> [3 x 3 x 2 x 4]
Validating --> Input5 = InputValue() :  -> [8 x 8 x 2 x __noSequenceAxis1]
Validating --> Convolution7 = Convolution (Parameter3, Input5) : [3 x 3 x 2 x 4], [8 x 8 x 2 x __noSequenceAxis1] -> \
[8 x 8 x 4 x __noSequenceAxis1]
Validating --> ReLU8 = RectifiedLinear (Convolution7) : [8 x 8 x 4 x __noSequenceAxis1] -> \
[8 x 8 x 4 x __noSequenceAxis1]
Validating --> Constant6 = LearnableParameter() :  -> []

Convolution7: using GEMM convolution engine for geometry: Input: 8 x 8 x 2, Output: 8 x 8 x 4, Kernel: 3 x 3 x 2, \
Map: 1 x 1 x 4, Stride: 1 x 1 x 1, Sharing: (1, 1, 1), AutoPad: (1, 1, 0), LowerPad: 0 x 0 x 0, UpperPad: 0 x 0 x 0.

Memory Sharing: Out of 6 matrices, 3 are shared as 1, and 3 are not shared.

Here are the ones that share memory:
    { Convolution7 : [8 x 8 x 4 x __noSequenceAxis1]
      Parameter3 : [3 x 3 x 2 x 4] (gradient)
      ReLU8 : [8 x 8 x 4 x __noSequenceAxis1] (gradient) }

Here are the ones that don't share memory:
    {Input5 : [8 x 8 x 2 x __noSequenceAxis1]}
    {Parameter3 : [3 x 3 x 2 x 4]}
    {Constant6 : []}
    {ReLU8 : [8 x 8 x 4 x __noSequenceAxis1]}
    {Convolution7 : [8 x 8 x 4 x __noSequenceAxis1] (gradient)}
"""
FILTERS, INPUT, OUTPUT = 4 * 72, 4 * 128, 4 * 256


ARRAYS = {"Convolution7": (1000, 30)}
ALONE = graph.Exchange(1, None)


def played(batch, steps=3, exchange=ALONE):
    network = graph.read(PRINTED, batch)
    return [
        (MEMORY_CLASSES[index], delta, step)
        for index, delta, step in graph.allocations(network, [FILTERS], steps, exchange, ARRAYS)
    ]


@pytest.mark.parametrize("batch", [1, 5])
def test_a_gradient_in_a_matrix_of_feature_maps_counts_as_a_gradient_in_its_time(batch):
    at_peak, most = classes_at_peak(played(batch))
    for name in ("weights", "weight_gradients", "optimizer_state"):
        assert at_peak[name] == most[name] == FILTERS, name
    assert most["feature_maps"] == 2 * batch * OUTPUT
    assert at_peak["input"] == batch * INPUT
    # One matrix holds the gradient of the convolution's output, another what its gradient leaves of a feature map.
    assert at_peak["other"] == 4 + batch * OUTPUT + (batch * OUTPUT - FILTERS)


def test_what_the_library_holds_for_a_convolution_is_there_from_its_passes_on():
    items = [(delta, step) for name, delta, step in played(2) if name == "workspace"]
    # Four tables with an integer for each value of one sample, what MKL has told, and a copy of the filters' gradient.
    assert items == [(4 * OUTPUT, 1), (1000, 1), (30 + FILTERS, 1)]


def test_what_a_convolution_goes_over_is_read_from_its_geometry():
    network = graph.read(PRINTED, 2)
    expected = graph.Geometry((8, 8, 2), (8, 8, 4), (3, 3, 2), (1, 1, 1), (True, True, False))
    assert network.geometries == {"Convolution7": expected}
    assert not graph.gives_gradient(network, "Convolution7")


def test_a_convolution_that_is_not_described_is_an_error():
    without = "\n".join(line for line in PRINTED.splitlines() if "engine" not in line)
    with pytest.raises(ValueError, match="convolutions"):
        graph.read(without, 2)


SHARED = """\
Validating --> Parameter3 = LearnableParameter() :  -> [3 x 3 x 2 x 2]
Validating --> Input5 = InputValue() :  -> [8 x 8 x 2 x *]
Validating --> ReLU6 = RectifiedLinear (Input5) : [8 x 8 x 2 x *] -> [8 x 8 x 2 x *]
Validating --> Convolution7 = Convolution (Parameter3, ReLU6) : [3 x 3 x 2 x 2], [8 x 8 x 2 x *] -> [8 x 8 x 2 x *]
Convolution7: using GEMM convolution engine for geometry: Input: 8 x 8 x 2, Output: 8 x 8 x 2, Kernel: 3 x 3 x 2, \
Map: 1 x 1 x 2, Stride: 1 x 1 x 1, Sharing: (1, 1, 1), AutoPad: (1, 1, 0), LowerPad: 0 x 0 x 0, UpperPad: 0 x 0 x 0.
%sMemory Sharing: Out of 6 matrices, 3 are shared as 1, and 3 are not shared.
"""
LATER = "Validating --> Plus8 = Plus (Convolution7, ReLU6) : [8 x 8 x 2 x *], [8 x 8 x 2 x *] -> [8 x 8 x 2 x *]\n"


@pytest.mark.parametrize(("later", "copied"), [("", 4 * 36), (LATER, 3 * INPUT)])
def test_a_gradient_that_a_convolution_adds_to_is_copied(later, copied):
    network = graph.read(SHARED % later, 3)
    items = graph.allocations(network, [], 2, ALONE, {})
    workspace = sum(delta for index, delta, _ in items if MEMORY_CLASSES[index] == "workspace")
    assert workspace == 4 * INPUT + copied


def test_matrices_are_made_once_and_held():
    sums = [sum(delta for _, delta, _ in played(3, steps=steps)) for steps in (1, 2, 3)]
    assert sums[0] == sums[1] == sums[2]


def test_an_exchange_takes_as_much_as_the_gradients_and_gives_it_back():
    alone, both = played(2), played(2, exchange=graph.Exchange(2, None))
    assert sum(delta for _, delta, _ in both) == sum(delta for _, delta, _ in alone)
    assert classes_at_peak(both)[0]["workspace"] == classes_at_peak(alone)[0]["workspace"] + FILTERS


def test_blocks_have_weights_to_start_from_and_a_momentum_and_are_exchanged_at_their_ends():
    items = played(2, steps=4, exchange=graph.Exchange(2, 4))
    at_peak, most = classes_at_peak(items)
    assert at_peak["optimizer_state"] == most["optimizer_state"] == 3 * FILTERS
    assert [step for name, delta, step in items if name == "workspace" and delta < 0] == [4]


def test_what_holds_no_plan_is_refused():
    with pytest.raises(ValueError, match="no plan"):
        graph.read("Selected CPU as the process wide default device.", 4)
