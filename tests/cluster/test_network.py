"""The hosts of the bench are what they pretend to be: hosts of their own on links that can be shaped and cut."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.hosts import INFINIBAND, Host
from tests.cluster.network import Network
from tests.support.service import until

pytestmark = pytest.mark.after_change

SINK = """
import socket, sys
listener = socket.create_server(("", int(sys.argv[1])))
print("ready", flush=True)
connection, total = listener.accept()[0], 0
while data := connection.recv(1 << 20):
    total += len(data)
connection.sendall(b"%d" % total)
"""
SOURCE = """
import socket, sys, time
sink = socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)
piece, begun = bytes(1 << 16), time.monotonic()
for _ in range(int(sys.argv[3])):
    sink.sendall(piece)
sink.shutdown(socket.SHUT_WR)
total = int(sink.recv(100))
print(total * 8 / (time.monotonic() - begun))
"""


def rate(source: Host, sink: Host, address: str, pieces: int, port: int) -> float:
    """Bits per second of ``pieces`` x 64 KiB from one host to another."""
    listening = sink.start(sys.executable, "-c", SINK, str(port), environment=dict(os.environ))
    assert listening.stdout is not None
    try:
        assert listening.stdout.readline() == "ready\n"
        return float(source.run(sys.executable, "-c", SOURCE, address, str(port), str(pieces)))
    finally:
        listening.stdout.close()
        sink.signal(listening, signal.SIGKILL)
        listening.wait()


def clock(host: Host) -> float:
    return float(host.run(sys.executable, "-c", "import time; print(time.monotonic())"))


def answers(host: Host, name: str) -> bool:
    """Whether a neighbour with that name is there: connecting to a port where nobody listens is refused at once."""
    script = "import socket, sys; s = socket.socket(); s.settimeout(1); print(s.connect_ex((sys.argv[1], 9)))"
    return host.run(sys.executable, "-c", script, name).strip() == str(111)  # ECONNREFUSED


def test_hosts_have_names_clocks_and_cores_of_their_own(network: Network) -> None:
    one, two = network.hosts["one"], network.hosts["two"]
    assert (one.run("hostname").strip(), two.run("hostname").strip()) == ("one", "two")
    assert clock(two) - clock(one) == pytest.approx(49000, abs=5)
    assert clock(one) - time.monotonic() == pytest.approx(1000, abs=5)
    assert one.run("nproc").strip() == "1"
    assert one.processes() == {}


def test_hosts_share_no_folder_that_is_meant_to_be_their_own(network: Network) -> None:
    one, two = network.hosts["one"], network.hosts["two"]
    for path in (one.here / "mark", Path("/dev/shm/tbd-mark")):
        one.run("touch", str(path))
        assert path.name in one.run("ls", str(path.parent))
        assert path.name not in two.run("ls", str(path.parent))
    assert (one.outside / "mark").exists()
    assert not Path("/dev/shm/tbd-mark").exists()


def test_hosts_reach_each_other_and_nobody_else(network: Network) -> None:
    one = network.hosts["one"]
    assert answers(one, "two")
    assert answers(one, network.hosts["two"].address(INFINIBAND))
    assert not answers(one, "192.0.2.1")
    assert not answers(one, "10.77.0.99")


def test_a_shaped_link_carries_what_it_is_shaped_to(network: Network) -> None:
    one, two = network.hosts["one"], network.hosts["two"]
    with network.shaped(100e6):
        shaped = rate(one, two, two.address(), 80, 5001)
        beside = rate(one, two, two.address(INFINIBAND), 800, 5002)
    free = rate(one, two, two.address(), 800, 5003)
    # TCP's share of an Ethernet frame is 0.95, and the first burst goes for nothing. Busy hosts send less, never more.
    assert 0.5 * 95e6 < shaped < 1.1 * 95e6
    assert free > 3 * shaped
    assert beside > 3 * shaped


def test_a_pulled_cable_cuts_a_host_off_until_it_is_pushed_back(network: Network) -> None:
    one = network.hosts["one"]
    network.pull("two")
    assert not answers(one, "two")
    network.push_back("two")
    assert answers(one, "two")


def test_a_host_without_power_has_no_processes_and_can_be_booted_again(network: Network) -> None:
    two = network.hosts["two"]
    sleeper = two.start("sleep", "1000", environment=dict(os.environ))
    until(lambda: "sleep 1000" in two.processes().values(), 10)
    two.cut_power()
    assert sleeper.wait(5) != 0
    assert not answers(network.hosts["one"], "two")
    network.boot("two")
    assert two.processes() == {}
    assert answers(network.hosts["one"], "two")


def test_two_networks_with_the_same_addresses_do_not_meet(network: Network, tmp_path: Path) -> None:
    other = Network(tmp_path, {"one": (network.hosts["one"].cores, 0), "three": (network.hosts["one"].cores, 0)})
    try:
        other.boot("one")
        assert not answers(other.hosts["one"], "10.77.0.11")
        assert answers(network.hosts["one"], "10.77.0.11")
    finally:
        other.close()
