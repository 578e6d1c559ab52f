"""Memory from what CNTK prints of a network: a short one, printed as CNTK 2.7 does."""

import pytest

from tests.support.allocation_lists import classes_at_peak
from workers.trainer.frameworks import cntk_graph
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


ALONE = cntk_graph.Exchange(1, None)


def played(batch, steps=3, exchange=ALONE):
    network = cntk_graph.read(PRINTED, batch)
    return [
        (MEMORY_CLASSES[index], delta, step)
        for index, delta, step in cntk_graph.allocations(network, [FILTERS], steps, exchange)
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


def test_a_convolution_of_the_input_has_arrays_of_its_own_for_two_passes():
    at_peak, _ = classes_at_peak(played(2))
    # Beside four tables with an integer for each value of one sample.
    assert at_peak["workspace"] == 2 * (FILTERS + 2 * INPUT + 2 * OUTPUT) + 4 * OUTPUT


def test_matrices_are_made_once_and_held():
    sums = [sum(delta for _, delta, _ in played(3, steps=steps)) for steps in (1, 2, 3)]
    assert sums[0] == sums[1] == sums[2]


def test_an_exchange_takes_as_much_as_the_gradients_and_gives_it_back():
    alone, both = played(2), played(2, exchange=cntk_graph.Exchange(2, None))
    assert sum(delta for _, delta, _ in both) == sum(delta for _, delta, _ in alone)
    assert classes_at_peak(both)[0]["workspace"] == classes_at_peak(alone)[0]["workspace"] + FILTERS


def test_blocks_have_weights_to_start_from_and_a_momentum_and_are_exchanged_at_their_ends():
    items = played(2, steps=4, exchange=cntk_graph.Exchange(2, 4))
    at_peak, most = classes_at_peak(items)
    assert at_peak["optimizer_state"] == most["optimizer_state"] == 3 * FILTERS
    assert [step for name, delta, step in items if name == "workspace" and delta < 0] == [4]


def test_what_holds_no_plan_is_refused():
    with pytest.raises(ValueError, match="no plan"):
        cntk_graph.read("Selected CPU as the process wide default device.", 4)
