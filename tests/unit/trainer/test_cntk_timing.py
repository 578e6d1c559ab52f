"""Reading the times of nodes that CNTK prints."""

import pytest

from workers.trainer.frameworks.cntk import timing

PRINTED = """\
Selected CPU as the process wide default device.
Convolution6                   forward avg 0.000298s, backward avg 0.000364s (fwd# 2|bwd# 2)
LoopNode                       forward avg 0.001000s, backward avg 0.000000s (fwd# 3|bwd# 0)

something else 0.5s
"""


def test_the_times_of_all_nodes_add_up_each_as_often_as_it_was_computed():
    assert timing.total(PRINTED) == pytest.approx(2 * (0.000298 + 0.000364) + 3 * 0.001)
    assert timing.total("") == 0
