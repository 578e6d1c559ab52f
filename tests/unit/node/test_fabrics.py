"""Which interface is which fabric, and the ports given to attempts."""

import socket

import pytest

from workers.node import fabrics, port_choice


def interface(name, kind="ethernet", address="10.0.0.1", speed=None, state="up"):
    return {"name": name, "kind": kind, "state": state, "address": address, "speed_bits_per_s": speed, "virtual": True}


LO = interface("lo", "loopback", "127.0.0.1")


def test_the_fastest_interface_of_a_kind_carries_its_fabric():
    known = [LO, interface("eth0", speed=10**9), interface("eth1", address="10.1.0.1", speed=10**10)]
    known += [interface("ib0", "infiniband", "10.2.0.1"), interface("eth2", state="down", speed=10**11)]
    found = fabrics.fabrics(known)
    assert {name: one["interface"] for name, one in found.items()} == {"ethernet": "eth1", "infiniband": "ib0"}
    assert [found[name]["source"] for name in ("ethernet", "infiniband")] == ["sysfs", "kernel"]


def test_the_interface_of_the_default_route_goes_first():
    known = [interface("eth0"), interface("docker0", speed=10**10)]
    assert fabrics.fabrics(known, preferred="eth0")["ethernet"]["interface"] == "eth0"


def test_what_is_declared_is_believed_and_recorded_as_declared():
    known = [interface("eth0"), interface("veth1", address="10.3.0.1")]
    found = fabrics.fabrics(known, "infiniband=veth1, ethernet=eth0")
    assert found["infiniband"] == {
        "interface": "veth1",
        "address": "10.3.0.1",
        "speed_bits_per_s": None,
        "source": "declared",
    }


@pytest.mark.parametrize("text", ["myrinet=eth0", "ethernet", "ethernet=", "eth0"])
def test_a_declaration_of_no_fabric_is_refused_with_its_form(text):
    with pytest.raises(ValueError, match="write ethernet=INTERFACE"):
        fabrics.fabrics([interface("eth0")], text)


def test_a_declared_interface_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"ib7 is no interface .* there are eth0, lo"):
        fabrics.fabrics([LO, interface("eth0")], "infiniband=ib7")


def test_this_hosts_loopback_is_found_with_its_address():
    (loopback,) = [one for one in fabrics.interfaces() if one["name"] == "lo"]
    assert (loopback["kind"], loopback["address"], loopback["state"]) == ("loopback", "127.0.0.1", "up")


def test_infiniband_ports_are_read_with_state_and_rate(tmp_path):
    port = tmp_path / "mlx5_0" / "ports" / "1"
    port.mkdir(parents=True)
    (port / "rate").write_text("200 Gb/sec (4X HDR)\n")
    (port / "state").write_text("4: ACTIVE\n")
    (only,) = fabrics.infiniband_ports(tmp_path)
    assert only == {"device": "mlx5_0", "port": 1, "state": "active", "rate_bits_per_s": 200 * 10**9}


def test_the_default_route_names_its_interface(tmp_path):
    table = tmp_path / "route"
    table.write_text("Iface\tDestination\tGateway\neth3\t0000010A\t00000000\neth1\t00000000\t0100000A\n")
    assert fabrics.default_interface(table) == "eth1"
    assert fabrics.default_interface(tmp_path / "none") is None


def test_an_attempt_gets_the_same_ports_again_and_no_other_attempt_gets_them():
    ports = port_choice.Ports()
    given = {attempt: ports.of(attempt) for attempt in "abcdef"}
    assert all(ports.of(attempt) == own for attempt, own in given.items())
    flat = [port for own in given.values() for port in own.values()]
    assert len(set(flat)) == len(flat) == 12


def test_a_port_that_somebody_listens_on_is_not_given():
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        assert not port_choice._is_free("", listener.getsockname()[1])


def test_an_address_of_another_machine_is_an_error():
    with pytest.raises(OSError, match="assign"):
        port_choice.free_port(host="192.0.2.1")
