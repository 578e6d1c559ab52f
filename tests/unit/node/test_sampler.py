"""Deadlines that do not drift, and counters that become differences."""

import os

from workers.node import processes
from workers.node.telemetry import procfs
from workers.node.telemetry.nvml import Nvml
from workers.node.telemetry.sampler import Counters, Deadlines, Observer
from workers.trainer import protocol


def test_deadlines_are_multiples_of_the_period_whatever_a_sample_takes():
    deadlines = Deadlines(100.0, 0.5)
    assert [deadlines.next(now) for now in (100.0, 100.53, 101.2)] == [100.5, 101.0, 101.5]
    assert deadlines.missed == 0


def test_missed_deadlines_are_skipped_and_counted():
    deadlines = Deadlines(0.0, 1.0)
    assert deadlines.next(0.0) == 1.0
    assert deadlines.next(3.7) == 4.0
    assert deadlines.missed == 2


def test_waking_a_little_early_does_not_repeat_a_deadline():
    deadlines = Deadlines(0.0, 1.0)
    deadlines.next(0.0)
    assert deadlines.next(0.999) == 2.0


def test_a_counter_gives_what_came_since_and_its_first_value_as_asked():
    counters = Counters()
    assert counters.since("a", 10.0) is None
    assert counters.since("b", 10.0, first=10.0) == 10.0
    assert counters.since("a", 12.5) == 2.5


def test_a_counter_that_began_anew_has_grown_by_its_total():
    counters = Counters()
    counters.since("a", 100.0)
    assert counters.since("a", 3.0) == 3.0


def test_a_counter_that_cannot_be_read_is_null_and_keeps_its_place():
    counters = Counters()
    counters.since("a", 100.0)
    assert counters.since("a", None) is None
    assert counters.since("a", 101.0) == 1.0


def observed():
    me = processes.identify(os.getpid())
    observer = Observer("no such token", {"worker0": me}, [], Nvml())
    observer.read()
    return observer.walk() + observer.read()


def test_every_value_is_a_triple_whose_metric_the_protocol_defines():
    values = observed()
    assert {len(value) for value in values} == {3}
    assert {metric for metric, _, _ in values} <= set(protocol.READINGS)
    assert protocol.to_json(values)


def test_each_core_the_host_and_each_process_have_their_values():
    found = {(metric, subject): value for metric, subject, value in observed()}
    for core in os.sched_getaffinity(0):
        assert found["core_active_s", f"core:{core}"] >= 0
    assert found["memory_available_bytes", "host"] > 0
    assert found["memory_bytes", "process:worker0"] == found["memory_bytes", "attempt"] > 0
    assert found["cpu_s", "attempt"] >= 0


def test_ports_of_rdma_adapters_are_counted_in_bytes_with_their_errors(tmp_path):
    ports = tmp_path / "mlx5_0" / "ports"
    for port, counters in {
        "1": {"port_rcv_data": 25, "port_xmit_data": 50, "symbol_error": 2, "link_downed": 1},
        "2": {"port_rcv_data": "N/A (no PMA)"},
    }.items():
        (ports / port / "counters").mkdir(parents=True)
        for name, value in counters.items():
            (ports / port / "counters" / name).write_text(f"{value}\n")
    assert procfs.rdma_ports(str(tmp_path)) == {"mlx5_0:1": (100, 200)}
    assert procfs.rdma_errors(str(tmp_path)) == {"mlx5_0:1": 3}
    assert procfs.rdma_ports(str(tmp_path / "none")) == {}
