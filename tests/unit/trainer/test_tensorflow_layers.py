"""How TensorFlow's operators are told apart by their names and share the time of a step."""

from collections import namedtuple

import pytest

from workers.trainer.frameworks.tensorflow import kernels as tensorflow_kernels
from workers.trainer.frameworks.tensorflow import layers
from workers.trainer.frameworks.tensorflow.graph import Input, Operator
from workers.trainer.frameworks.tensorflow.scopes import NETWORK, layer_of, part_of

Event = namedtuple("Event", "operator name lane start end own")
CONV, GRADIENT, UPDATE = (
    "layer1.0.conv1/Conv2D",
    "gradient_tape/layer1.0.conv1/Conv2DBackpropFilter",
    "tbd.update/Apply",
)


def event(operator, start, end, own=None, lane="a"):
    return Event(operator, operator.rpartition("/")[2], lane, start, end, end - start if own is None else own)


def operator(name, *inputs, kind=None, size=4, parameters=0):
    """Each of ``inputs``: the name of an operator, or (name, bytes)."""
    given = [(one, 4) if isinstance(one, str) else one for one in inputs]
    return Operator(name, kind or name.rpartition("/")[2], [Input(one, 0, b) for one, b in given], size, parameters)


@pytest.mark.parametrize(
    ("name", "part", "layer"),
    [
        ("conv1/Conv2D", "forward", "conv1"),
        ("gradient_tape/conv1/Conv2DBackpropInput", "backward", "conv1"),
        ("replica_1/conv1/Conv2D", "forward", "conv1"),
        ("gradient_tape/replica_1/conv1/Conv2DBackpropInput", "backward", "conv1"),
        ("replica_1/gradient_tape/conv1/Conv2DBackpropInput", "backward", "conv1"),
        ("tbd.backward/AddN_3", "backward", NETWORK),
        ("replica_1/tbd.update/mul_4", "update", "tbd.update"),
        ("tbd.exchange/HorovodAllreduce_gradient_tape_conv1_Conv2DBackpropFilter_0", "exchange", "tbd.exchange"),
        ("loss/SparseSoftmaxCrossEntropyWithLogits/SparseSoftmaxCrossEntropyWithLogits", "forward", "loss"),
        ("add", "forward", NETWORK),
        ("Identity_1/_42", "forward", NETWORK),
        ("conv1/Conv2D/_42", "forward", "conv1"),
    ],
)
def test_a_name_tells_the_part_and_the_layer(name, part, layer):
    assert part_of(name) == part
    if part in ("forward", "backward"):
        assert layer_of(name) == layer


def attribute(events, whole, graph=(), inputs=(), steps=1, exchanging=False, gpu=False):
    return layers.attribute(events, inputs, whole, steps, [(graph, 1)], exchanging, gpu)


def test_an_instant_is_shared_among_the_operators_that_run_and_the_rest_belongs_to_what_comes_next():
    graph = [operator(CONV, "x"), operator(GRADIENT, CONV), operator(UPDATE, GRADIENT)]
    events = [event(CONV, 2.0, 4.0), event(GRADIENT, 5.0, 9.0), event(UPDATE, 8.0, 10.0, lane="b")]
    found = attribute(events, (0.0, 11.0), graph, inputs=[(0.0, 1.0)])
    assert found["breakdown"] == {
        "input_s": 1.0,
        "forward_s": 3.0,
        "backward_s": 4.5,
        "update_s": 2.5,
        "host_to_device_s": 0.0,
        "exchange_s": 0.0,
    }
    assert found["rows"] == [
        {"name": "layer1.0.conv1", "kind": "Conv2D", "parameters_bytes": 0, "forward_s": 2.0, "backward_s": 3.5}
    ]
    assert found["exchanges"] == []


def test_times_are_per_step_and_rows_are_in_the_order_of_the_model():
    graph = [
        operator("a/Conv2D", "x", parameters=12),
        operator("a/Relu", "a/Conv2D", size=2),
        operator("b/Add", "a/Relu"),
    ]
    events = [
        event("b/Add", 1.0, 2.0),
        event("a/Conv2D", 0.0, 1.0),
        event("a/Conv2D", 2.0, 3.0),
        event("b/Add", 3.0, 4.0),
    ]
    rows = attribute(sorted(events, key=lambda one: one.start), (0.0, 4.0), graph, steps=2)["rows"]
    assert [(row["name"], row["kind"], row["parameters_bytes"], row["forward_s"]) for row in rows] == [
        ("a", "Conv2D", 12, 1.0),
        ("b", "Add", 0, 1.0),
    ]


def test_the_kind_of_a_layer_is_what_works_with_its_input_however_large_its_weights_are():
    graph = [
        operator("lstm/Read", kind="ReadVariableOp", size=64),
        operator("lstm/Join", "lstm/Read", kind="ConcatV2", size=128),
        operator("lstm/Remember", "x", "lstm/Join", kind="BlockLSTM", size=8),
    ]
    (row,) = attribute([event("lstm/Remember", 0.0, 1.0)], (0.0, 1.0), graph)["rows"]
    assert row["kind"] == "BlockLSTM"


# Two gradients that are exchanged together, and then used apart.
TOGETHER = [
    operator("gradient_tape/b/Grad", "x", size=8),
    operator("gradient_tape/a/Grad", "x", size=16),
    operator("tbd.exchange/Concat", ("gradient_tape/b/Grad", 8), ("gradient_tape/a/Grad", 16)),
    operator("tbd.exchange/Reduce", "tbd.exchange/Concat"),
    operator("tbd.update/Apply", "tbd.exchange/Reduce"),
]


def test_operators_of_the_exchange_that_feed_each_other_are_one_and_its_exposed_part_is_told():
    events = [
        event("gradient_tape/b/Grad", 0.0, 1.0),
        event("gradient_tape/a/Grad", 1.0, 3.0),
        event("tbd.exchange/Concat", 2.5, 3.0),
        event("tbd.exchange/Reduce", 3.0, 5.0),
        event("tbd.update/Apply", 6.0, 7.0),
    ]
    found = attribute(events, (0.0, 7.0), TOGETHER, exchanging=True)
    assert found["exchanges"] == [{"name": "0: 2 gradients", "bytes": 24, "start_s": 2.5, "end_s": 5.0}]
    assert found["breakdown"]["exchange_s"] == 2.5
    assert found["exposed_exchange_s"] == 2.0
    assert found["breakdown"]["backward_s"] == 3.0
    assert found["breakdown"]["update_s"] == 2.0


def test_a_gradient_of_two_weights_is_exchanged_for_both():
    graph = [
        operator("gradient_tape/a/Grad", "x", size=8),
        operator("tbd.exchange/Concat", ("gradient_tape/a/Grad", 8), ("gradient_tape/a/Grad", 8)),
    ]
    events = [event("gradient_tape/a/Grad", 0.0, 1.0), event("tbd.exchange/Concat", 1.0, 2.0)]
    (exchange,) = attribute(events, (0.0, 2.0), graph, exchanging=True)["exchanges"]
    assert exchange["bytes"] == 16


def test_an_exchange_that_is_not_recorded_lasts_from_its_gradient_to_its_update_in_every_step():
    graph = [
        operator("gradient_tape/a/Grad", "x", size=16),
        operator("tbd.exchange/HorovodAllreduce", ("gradient_tape/a/Grad", 16)),
        operator("tbd.update/optimised_away", "tbd.exchange/HorovodAllreduce"),
        operator("tbd.update/Apply", "tbd.update/optimised_away"),
    ]
    events = []
    for begin in (0.0, 10.0):
        events += [event("gradient_tape/a/Grad", begin + 1, begin + 3), event("tbd.update/Apply", begin + 6, begin + 8)]
    found = attribute(events, (0.0, 20.0), graph, steps=2, exchanging=True)
    assert found["exchanges"] == [{"name": "0: a", "bytes": 16, "start_s": 2.0, "end_s": 5.0}]
    assert found["breakdown"]["exchange_s"] == 3.0
    assert found["exposed_exchange_s"] == 3.0


def test_gradients_that_are_exchanged_apart_are_counted_once_for_all_ranks_of_a_process():
    graph, events = [], []
    for place, (name, size) in enumerate([("b", 8), ("a", 16)]):
        first, second = f"gradient_tape/{name}/Grad", f"gradient_tape/replica_1/{name}/Grad"
        added, divided = f"tbd.exchange/AddN_{place}", f"tbd.exchange/Mul_{place}"
        graph += [operator(added, (first, size), (second, size)), operator(divided, added)]
        events += [event(first, place, place + 1), event(added, place + 1, place + 2)]
        events += [event(f"{divided}/_3", place + 2, place + 4)]
    found = attribute(sorted(events, key=lambda one: one.start), (0.0, 6.0), graph, exchanging=True)
    assert found["exchanges"] == [
        {"name": "0: b", "bytes": 8, "start_s": 1, "end_s": 4},
        {"name": "1: a", "bytes": 16, "start_s": 2, "end_s": 5},
    ]
    assert found["backward_t"] == 0
    assert found["breakdown"]["exchange_s"] == 4.0


def test_one_rank_exchanges_nothing_whatever_its_graph_says():
    assert attribute([event("tbd.exchange/Concat", 0.0, 1.0)], (0.0, 1.0), TOGETHER)["exchanges"] == []


def test_on_a_gpu_a_copy_to_the_device_is_not_told_apart_and_the_reason_is_given():
    found = attribute([event(CONV, 0.0, 1.0)], (0.0, 1.0), [operator(CONV, "x")], gpu=True)
    assert found["breakdown"]["host_to_device_s"] is None
    assert found["breakdown"]["reasons"]["host_to_device_s"]


Trace = namedtuple("Trace", "operators kernels marks changes whole ahead")


def test_the_table_counts_own_times_and_the_timeline_is_on_the_clock_of_the_process():
    operators = [event("f/Call", 0.0, 4.0, own=1.0), event("a/Conv2D", 1.0, 4.0), event("b/Conv2D", 3.0, 5.0, lane="b")]
    found = tensorflow_kernels.table(Trace(operators, [], [], [], (0.0, 10.0), 100.0), 2, False)
    assert found["rows"] == [["Conv2D", 2, 5.0], ["Call", 1, 1.0]]
    assert found["active_s"] == 5.0
    assert found["elapsed_s"] == 10.0
    assert found["spans"]["lanes"] == ["a", "b"]
    assert found["spans"]["items"] == [[0, 0, 100.0, 4.0], [1, 0, 101.0, 3.0], [1, 1, 103.0, 2.0]]


def test_of_several_gpus_the_active_time_is_the_mean():
    kernels = [[event("a/x", 0.0, 4.0)], [event("a/x", 0.0, 1.0), event("a/x", 0.5, 2.0)]]
    found = tensorflow_kernels.activity(Trace([], kernels, [], [], (0.0, 8.0), 0.0), True)
    assert found == {"active_s": 3.0, "elapsed_s": 8.0, "method": "kernel-union"}


def test_waiting_for_other_ranks_is_no_active_time_of_cpu_devices():
    operators = [event("a/Conv2D", 0.0, 2.0), event("tbd.exchange/CollectiveReduceV2", 1.0, 9.0)]
    found = tensorflow_kernels.activity(Trace(operators, [], [], [], (0.0, 10.0), 0.0), False)
    assert found == {"active_s": 2.0, "elapsed_s": 10.0, "method": "operator-union"}
