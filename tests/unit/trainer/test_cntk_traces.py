"""What is read from a trace of CNTK's profiler: a scripted one of two steps."""

import json

import pytest

from workers.trainer.frameworks.cntk import trace

# (name, start, end) within a step, in microseconds.
STEP = [
    ("_Minibatch Iteration", 0, 100),
    ("__Forward + Backward", 0, 70),
    ("Convolution7Forward", 4, 14),
    ("Times9Forward", 14, 20),
    ("Times9Backward", 25, 35),
    ("Parameter3Backward", 35, 35),
    ("Convolution7Backward", 35, 65),
    ("__Gradient Aggregation", 70, 85),
    ("__Weight Update", 85, 99),
]
TABLE = [
    ({"name": "conv1", "kind": "Convolution", "parameters_bytes": 40}, ["Convolution7"]),
    ({"name": "fc", "kind": "Times", "parameters_bytes": 8}, ["Times9"]),
]


@pytest.fixture
def spans(tmp_path):
    events = []
    for base in (0, 1000):
        for name, start, end in STEP:
            events.append({"name": name, "ph": "B", "ts": base + start})
            events.append({"name": name, "ph": "E", "ts": base + end})
    path = tmp_path / "detail.json"
    path.write_text(json.dumps(events))
    return trace.read(str(path))


def test_rows_are_operations_by_pass_with_updates_and_exchanges(spans):
    found = trace.kernels(spans, 2, 0.002, 10.0)
    assert {name: (calls, round(total * 1e6)) for name, calls, total in found["rows"]} == {
        "Convolution forward": (2, 20),
        "Times forward": (2, 12),
        "Times backward": (2, 20),
        "Convolution backward": (2, 60),
        "Weight Update": (2, 28),
        "Gradient Aggregation": (2, 30),
    }
    # Waiting for other ranks is no computing.
    assert found["active_s"] == pytest.approx(140e-6)
    assert found["spans"]["items"][0] == [0, 0, pytest.approx(10.000004), pytest.approx(10e-6)]


def test_parts_of_a_step_add_up_to_it_and_layers_to_the_passes(spans):
    found = trace.layers(spans, 2, 0.002, 0.0001, TABLE, ("all gradients", 48))
    parts = {name: round(value * 1e6, 3) for name, value in found["breakdown"].items()}
    assert parts == {
        "input_s": 50,
        "host_to_device_s": 4,
        "forward_s": 16,
        "backward_s": 50,
        "exchange_s": 15,
        "update_s": 14,
    }
    assert [(row["name"], round(row["forward_s"] * 1e6), round(row["backward_s"] * 1e6)) for row in found["rows"]] == [
        ("conv1", 10, 30),
        ("fc", 6, 10),
    ]


def test_the_exchange_of_the_last_step_is_told_from_the_start_of_its_backward_pass(spans):
    found = trace.layers(spans, 2, 0.002, 0.0, TABLE, ("all gradients", 48))
    (exchange,) = found["exchanges"]
    assert (exchange["name"], exchange["bytes"]) == ("all gradients", 48)
    assert (exchange["start_s"], exchange["end_s"]) == (pytest.approx(45e-6), pytest.approx(60e-6))
    assert found["backward_t"] == pytest.approx(1025e-6)
