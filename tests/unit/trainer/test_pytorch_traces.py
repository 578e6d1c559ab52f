"""What is made of PyTorch's traces, with scripted ones: of a GPU and of two ranks, which no test needs a device for."""

import collections

import pytest

from workers.trainer.frameworks.pytorch import attribution, kernels
from workers.trainer.frameworks.pytorch.trace import Event, Trace, device_kind

Layer = collections.namedtuple("Layer", "name kind parameters_bytes")
LAYERS = [Layer("(network)", "Net", 0), Layer("conv", "Conv2d", 400), Layer("fc", "Linear", 80)]


class Script:
    """Events in the order they are told, with the one they are nested in."""

    def __init__(self):
        self.events = []

    def add(self, kind, name, start, end, parent=None, lane="thread 1", sequence=-1, elements=0, launched=0.0):
        position = None if parent is None else self.events.index(parent)
        event = Event(name, kind, lane, start, end, end - start, sequence, elements, position, launched)
        self.events.append(event)
        return event

    def trace(self, end, cuda=False):
        order = sorted(range(len(self.events)), key=lambda one: (self.events[one].start, -self.events[one].end))
        places = {old: new for new, old in enumerate(order)}
        events = [self.events[old] for old in order]
        events = [e if e.parent is None else e._replace(parent=places[e.parent]) for e in events]
        return Trace(events, (0.0, end), 100.0, cuda)


def forward(script):
    """A forward pass from 10 to 60 with two layers, a function of the network itself, and a loss."""
    part = script.add("mark", "tbd.part:forward", 10, 60)
    network = script.add("mark", "tbd.layer:0", 12, 50, part)
    conv = script.add("mark", "tbd.layer:1", 14, 30, network)
    script.add("operator", "aten::conv2d", 15, 29, conv, sequence=7, launched=40.0)
    script.add("operator", "aten::empty", 16, 17, conv)
    script.add("operator", "aten::mean", 31, 33, network, sequence=8, launched=3.0)
    fc = script.add("mark", "tbd.layer:2", 34, 48, network)
    # Makes no node of the backward graph: it carries the number of the next that does.
    script.add("operator", "aten::t", 35, 36, fc, sequence=9)
    script.add("operator", "aten::addmm", 37, 47, fc, sequence=9, launched=20.0)
    script.add("operator", "aten::nll_loss", 51, 58, part, sequence=10, launched=1.0)


def backward(script, lane):
    """A backward pass from 60 to 110; three microseconds of it start an exchange."""
    part = script.add("mark", "tbd.part:backward", 60, 110)
    nested = part if lane == "thread 1" else None
    for sequence, start, end, launched in ((10, 61, 63, 2.0), (9, 64, 70, 30.0), (8, 71, 73, 4.0), (7, 74, 90, 90.0)):
        node = script.add("node", "autograd::engine::evaluate_function: X", start, end, nested, lane, sequence)
        script.add("operator", "aten::something_backward", start, end, node, lane, launched=launched)
    last = script.add(
        "node", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 91, 96, nested, lane
    )
    call = script.add("communication", "c10d::allreduce_", 92, 95, last, lane, launched=1.0)
    script.add("other", "record_param_comms", 93, 94, call, lane, launched=50.0)


def rows(script, end=120.0, cuda=False, **options):
    found = attribution.attribute(script.trace(end, cuda), 1, LAYERS, **options)
    times = {row["name"]: (row["forward_s"] * 1e6, row["backward_s"] * 1e6) for row in found["rows"]}
    return found, times


def test_on_cpu_devices_a_layer_has_the_time_that_passed_in_it_and_in_the_nodes_of_its_operators():
    script = Script()
    forward(script)
    backward(script, "thread 1")
    found, times = rows(script)
    assert list(times) == ["conv", "(network)", "fc", "(loss)"]
    assert times["conv"] == pytest.approx((16, 17 + 6 - 3))
    assert times["(network)"] == pytest.approx((38 - 16 - 14, 3))
    assert times["fc"] == pytest.approx((14, 7))
    assert times["(loss)"] == pytest.approx((12, 3))
    parts = found["breakdown"]
    assert sum(forward_us for forward_us, _ in times.values()) == pytest.approx(parts["forward_s"] * 1e6)
    assert parts["backward_s"] == pytest.approx(50e-6)
    assert found["exchanges"] == []


def test_on_a_gpu_a_layer_has_the_time_of_the_kernels_that_its_operators_and_their_nodes_started():
    script = Script()
    forward(script)
    backward(script, "thread 2")
    _, times = rows(script, cuda=True)
    assert times["conv"] == pytest.approx((40, 90))
    assert times["(network)"] == pytest.approx((3, 4))
    assert times["fc"] == pytest.approx((20, 30))
    assert times["(loss)"] == pytest.approx((1, 2))


def test_what_comes_after_the_last_gradient_is_the_exposed_exchange():
    script = Script()
    forward(script)
    backward(script, "thread 1")
    script.add("communication", "gloo:all_reduce", 70, 80, lane="thread 3", elements=100)
    script.add("communication", "gloo:all_reduce", 95, 108, lane="thread 3", elements=20)
    found, _ = rows(script)
    assert found["breakdown"]["backward_s"] == pytest.approx(36e-6)
    assert found["exposed_exchange_s"] == pytest.approx(14e-6)
    assert found["breakdown"]["exchange_s"] == pytest.approx(23e-6)
    # Where these times stand on the process's own clock.
    assert found["backward_t"] == pytest.approx(100.000060, abs=1e-9)
    assert found["exchanges"] == [
        {"name": "bucket 0", "bytes": 400, "start_s": pytest.approx(10e-6), "end_s": pytest.approx(20e-6)},
        {"name": "bucket 1", "bytes": 80, "start_s": pytest.approx(35e-6), "end_s": pytest.approx(48e-6)},
    ]
    in_16_bits, _ = rows(script, gradient_bytes=2)
    assert [one["bytes"] for one in in_16_bits["exchanges"]] == [200, 40]


def test_where_the_profiler_sees_no_exchange_the_wait_in_the_update_is_the_exposed_one():
    script = Script()
    forward(script)
    backward(script, "thread 1")
    script.add("mark", "tbd.part:update", 110, 150)
    script.add("mark", "tbd.part:wait", 112, 142)
    found, _ = rows(script, unseen="on a thread of its own")
    assert found["exposed_exchange_s"] == pytest.approx(30e-6)
    assert found["breakdown"]["update_s"] == pytest.approx(10e-6)
    assert found["breakdown"]["exchange_s"] is None
    assert found["breakdown"]["reasons"] == {"exchange_s": "on a thread of its own"}


def exchange_on_a_gpu(script):
    forward(script)
    backward(script, "thread 2")
    script.add("communication", "nccl:all_reduce", 92, 93, lane="thread 2", elements=120)
    script.add("kernel", "sm90_xmma_fprop", 20, 100, lane="stream 7")
    script.add("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 95, 115, lane="stream 20")


def test_on_a_gpu_the_exposed_exchange_is_when_nothing_else_runs():
    script = Script()
    exchange_on_a_gpu(script)
    found, _ = rows(script, cuda=True)
    assert found["exposed_exchange_s"] == pytest.approx(15e-6)
    assert found["breakdown"]["exchange_s"] == pytest.approx(20e-6)
    (one,) = found["exchanges"]
    assert one == {"name": "bucket 0", "bytes": 480, "start_s": pytest.approx(35e-6), "end_s": pytest.approx(55e-6)}


def test_exchanges_whose_sizes_are_not_recorded_are_not_told():
    script = Script()
    exchange_on_a_gpu(script)
    script.add("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 116, 118, lane="stream 20")
    assert rows(script, cuda=True)[0]["exchanges"] == []


def test_an_exchange_that_the_profiler_does_not_see_is_null_with_the_reason():
    script = Script()
    forward(script)
    backward(script, "thread 1")
    found, _ = rows(script, unseen="another library's thread")
    assert found["breakdown"]["exchange_s"] is None
    assert found["breakdown"]["reasons"] == {"exchange_s": "another library's thread"}


def test_the_table_of_a_gpu_counts_kernels_and_copies_and_no_operators():
    script = Script()
    exchange_on_a_gpu(script)
    script.add("kernel", "Memcpy HtoD (Pageable -> Device)", 2, 6, lane="stream 7")
    script.add("kernel", "sm90_xmma_fprop", 104, 124, lane="stream 7")
    table = kernels.table(script.trace(120.0, cuda=True), 1)
    assert [(name, calls) for name, calls, _ in table["rows"]] == [
        ("sm90_xmma_fprop", 2),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1),
        ("Memcpy HtoD (Pageable -> Device)", 1),
    ]
    # From 2 to 6 and from 20 to the end of the steps, without the gap between.
    assert table["active_s"] == pytest.approx(104e-6)
    assert table["elapsed_s"] == pytest.approx(120e-6)
    assert table["spans"]["lanes"] == ["stream 7", "stream 20"]
    assert table["spans"]["items"][0] == [0, 0, pytest.approx(100.000002), pytest.approx(4e-6)]


def test_waiting_for_other_ranks_is_no_active_time_of_a_cpu_device():
    script = Script()
    script.add("operator", "aten::add", 10, 30)
    script.add("communication", "gloo:all_reduce", 20, 90, lane="thread 3")
    table = kernels.table(script.trace(100.0), 1)
    assert table["active_s"] == pytest.approx(20e-6)
    assert [row[0] for row in table["rows"]] == ["gloo:all_reduce", "aten::add"]


@pytest.mark.parametrize(
    ("name", "activity", "annotation", "kind"),
    [
        ("sm90_xmma_fprop", "kernel", False, "kernel"),
        ("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", False, "kernel"),
        ("tbd.part:forward", "gpu_user_annotation", True, "other"),
        ("nccl:all_reduce", "gpu_user_annotation", True, "other"),
        ("sm90_xmma_fprop", None, False, "kernel"),
        ("tbd.part:forward", None, False, "other"),
        ("nccl:all_reduce", None, True, "other"),
    ],
)
def test_annotations_on_a_gpu_s_timeline_are_no_work_in_any_version(name, activity, annotation, kind):
    assert device_kind(name, activity, annotation) == kind
