"""What is read from a trace of MXNet: scripted ones, as short as the question."""

import json

import pytest

from workers.trainer.frameworks.mxnet import layers
from workers.trainer.frameworks.mxnet import trace as mxnet_trace
from workers.trainer.frameworks.mxnet.layers import Graph, Node
from workers.trainer.frameworks.mxnet.trace import Operator, Trace


def operator(name, start, end, device="cpu/0"):
    return Operator(name, device, start, end)


def written(folder, events, closed=True):
    path = folder / "trace.json"
    text = json.dumps({"traceEvents": events})
    path.write_text(text if closed else text[:-2])
    return path


EVENTS = [
    {"ph": "M", "pid": 1, "args": {"name": "cpu/0"}},
    {"ph": "b", "name": "task", "cat": "task", "ts": 5},
    {"ph": "B", "name": "FullyConnected", "pid": 1, "tid": 7, "ts": 10},
    {"ph": "E", "name": "FullyConnected", "pid": 1, "tid": 7, "ts": 30},
    {"ph": "C", "name": "Memory: cpu/0", "ts": 11, "args": {"Memory: cpu/0": 100}},
    {"ph": "C", "name": "Memory: cpu/0", "ts": 12, "args": {"Memory: cpu/0": 160}},
    {"ph": "C", "name": "Memory: cpu/0", "ts": 13, "args": {"Memory: cpu/0": 60}},
    {"ph": "e", "name": "task", "cat": "task", "ts": 40},
]


@pytest.mark.parametrize("closed", [True, False])
def test_operators_marks_and_allocations_are_read_also_while_the_file_is_still_written(tmp_path, closed):
    trace = mxnet_trace.read(str(written(tmp_path, EVENTS, closed)))
    assert trace.operators == [operator("FullyConnected", 10, 30)]
    assert trace.tasks == {"task": [(5, 40)]}
    assert mxnet_trace.changes(trace, "cpu/0") == [(11, 100), (12, 60), (13, -100)]


@pytest.mark.parametrize("exchange", ["KVStorePush", "horovod_allreduce"])
def test_the_waiting_of_an_exchange_is_no_active_time_and_counts_once_where_it_overlaps(exchange):
    operators = [operator("dot", 0, 10), operator(exchange, 5, 45), operator(exchange, 10, 50)]
    found = mxnet_trace.kernels(Trace(operators, {"t": [(0, 100)]}, {}), "t", 1, ["cpu/0"], 1.0)
    assert found["active_s"] == pytest.approx(10e-6)
    assert {name: (calls, total) for name, calls, total in found["rows"]} == {
        "dot": (1, pytest.approx(10e-6)),
        exchange: (2, pytest.approx(45e-6)),
    }
    assert found["spans"]["items"][0] == [0, 0, pytest.approx(1.0), pytest.approx(10e-6)]


# Two convolutions that both read a third one's output, and an addition of theirs.
NODES = [
    Node("Convolution", [], 0),
    Node("Convolution", [0], 1),
    Node("Convolution", [0], 2),
    Node("elemwise_add", [1, 2], 3),
]
LAYERS = [{"name": name, "kind": "Conv2D", "parameters_bytes": 4} for name in ("a", "b", "c", "sum")]


def told(names, nodes=NODES):
    operators = [operator(name, 10 * place, 10 * place + 5) for place, name in enumerate(names)]
    return [(part, row) for _, part, row in layers.told_apart(operators, nodes)]


def test_operators_of_one_name_are_the_nodes_that_are_ready_in_turn():
    names = ["Convolution", "Convolution", "Convolution", "elemwise_add"]
    back = ["_backward_add", "_backward_Convolution", "_backward_Convolution", "CopyCPU2CPU", "_backward_Convolution"]
    assert told([*names, *back, "sgd_mom_update"]) == [
        *[("forward", row) for row in (0, 1, 2, 3)],
        *[("backward", row) for row in (3, 2, 1)],
        ("exchange", None),
        ("backward", 0),
        ("update", None),
    ]


def test_the_gradient_of_an_lstms_joined_weights_is_the_lstms():
    """It runs after that of the layer below, under the name of a common concatenation."""
    nodes = [
        Node("Embedding", [], 0),
        Node("Reshape", [], 1),
        Node("_rnn_param_concat", [1], 1),
        Node("RNN", [0, 2], 1),
    ]
    back = ["_backward_RNN", "_backward_Embedding", "_backward_Concat", "_backward_reshape"]
    found = told(["Embedding", "Reshape", "_rnn_param_concat", "RNN", *back], nodes)
    assert found[4:] == [("backward", row) for row in (1, 0, 1, 1)]


def test_what_limits_the_norm_of_the_gradients_is_the_update():
    limit = ["multi_sum_sq", "sqrt", "broadcast_mul", "sgd_mom_update"]
    found = told(["Convolution", "_backward_Convolution", *limit], NODES[:1])
    assert found == [("forward", 0), ("backward", 0), *[("update", None)] * 4]


def test_times_of_layers_are_means_over_the_steps_and_add_up_to_the_passes():
    step = ["Convolution", "Convolution", "Convolution", "elemwise_add", "_backward_add"]
    step += ["_backward_Convolution"] * 3 + ["sgd_mom_update"]
    operators = [
        operator(name, 1000 * number + 10 * place, 1000 * number + 10 * place + 5)
        for number in range(2)
        for place, name in enumerate(step)
    ]
    tasks = {"task": [(0, 2000)], "step": [(0, 900), (1000, 1900)], "input": [(0, 0), (1000, 1000)]}
    found = layers.attribute(Trace(operators, tasks, {}), Graph(NODES, LAYERS), ["cpu/0"], "task", "step", "input")
    assert [row["forward_s"] for row in found["rows"]] == pytest.approx([5e-6] * 4)
    assert [row["backward_s"] for row in found["rows"]] == pytest.approx([5e-6] * 4)
    assert found["breakdown"]["forward_s"] == pytest.approx(20e-6)
    assert found["breakdown"]["update_s"] == pytest.approx(5e-6)
