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


def test_the_faster_of_two_devices_goes_before_the_default_route_and_the_other_is_told():
    known = [
        {**interface("eth0", speed=10**9), "virtual": False},
        {**interface("eth1", speed=10**11), "virtual": False},
    ]
    found = fabrics.fabrics(known, preferred="eth0")["ethernet"]
    assert (found["interface"], found["left"]) == ("eth1", ["eth0"])


def test_adapters_and_a_plugins_network_can_be_named():
    known = [interface("ib0", "infiniband")]
    port = {"port": 1, "link_layer": "infiniband", "interfaces": ["ib0"], "rate_bits_per_s": 4 * 10**11}
    ports = [{**port, "device": f"mlx5_{index}", "state": "down" if index == 2 else "active"} for index in range(4)]
    found = fabrics.fabrics(known, "infiniband=ib0@mlx5_0+mlx5_3:1", None, ports, "AWS Libfabric")["infiniband"]
    assert (found["adapters"], found["net"], found["by_ip"]) == (["mlx5_0:1", "mlx5_3:1"], "AWS Libfabric", True)
    for name, told in (("mlx5_9", "is no adapter here"), ("mlx5_2", "is down")):
        with pytest.raises(ValueError, match=f"{name} {told}; those that are active: mlx5_0:1, mlx5_1:1, mlx5_3:1"):
            fabrics.fabrics(known, f"infiniband=ib0@mlx5_0+{name}", None, ports)


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
    told = {"device": "mlx5_0", "port": 1, "state": "active", "rate_bits_per_s": 200 * 10**9}
    assert only == {**told, "link_layer": "unknown", "interfaces": []}


def adapter(root, name, link, rate=200, net=(), ndevs=(), state="4: ACTIVE", port=1):
    """An adapter's port as the kernel shows it below /sys/class/infiniband."""
    folder = root / name / "ports" / str(port)
    (folder / "gid_attrs" / "ndevs").mkdir(parents=True)
    for index, one in enumerate(ndevs):
        (folder / "gid_attrs" / "ndevs" / str(index)).write_text(one + "\n")
    for one in net:
        (root / name / "device" / "net" / one).mkdir(parents=True)
    for file, text in (("link_layer", link), ("rate", f"{rate} Gb/sec (4X HDR)"), ("state", state)):
        (folder / file).write_text(text + "\n")


def test_infiniband_without_an_address_is_met_over_ethernet(tmp_path):
    adapter(tmp_path, "mlx5_0", "InfiniBand", 400)
    adapter(tmp_path, "mlx5_1", "InfiniBand", 400)
    adapter(tmp_path, "mlx5_2", "InfiniBand", 100)
    adapter(tmp_path, "mlx5_3", "InfiniBand", 400, state="1: DOWN")
    known = [interface("eth0", speed=10**9), interface("ib0", "infiniband", address=None)]
    found = fabrics.fabrics(known, ports=fabrics.infiniband_ports(tmp_path))
    assert found["infiniband"] == {
        "interface": "eth0",
        "address": "10.0.0.1",
        "speed_bits_per_s": 400 * 10**9,
        "source": "sysfs",
        "adapters": ["mlx5_0:1", "mlx5_1:1"],
        "by_ip": False,
    }
    assert found["ethernet"] == {
        "interface": "eth0",
        "address": "10.0.0.1",
        "speed_bits_per_s": 10**9,
        "source": "sysfs",
    }
    assert "roce" not in found


def test_infiniband_with_an_address_keeps_it_and_names_its_adapters(tmp_path):
    adapter(tmp_path, "mlx5_0", "InfiniBand", net=["ib0"])
    known = [interface("eth0"), interface("ib0", "infiniband", "10.2.0.1")]
    found = fabrics.fabrics(known, ports=fabrics.infiniband_ports(tmp_path))["infiniband"]
    assert (found["interface"], found["adapters"], found["by_ip"]) == ("ib0", ["mlx5_0:1"], True)


def test_an_adapter_of_ethernet_is_roce_over_the_interface_of_its_port(tmp_path):
    """The management network is the default route, and stays the fabric ethernet."""
    adapter(tmp_path, "mlx5_0", "Ethernet", 25, ndevs=["eth1"])
    adapter(tmp_path, "mlx5_1", "Ethernet", 200, ndevs=["eth2", "eth2"])
    adapter(tmp_path, "mlx5_2", "Ethernet", 200, net=["eth3"])
    known = [interface("eth0"), *(interface(f"eth{n}", address=f"10.{n}.0.1") for n in (1, 2, 3))]
    found = fabrics.fabrics(known, preferred="eth0", ports=fabrics.infiniband_ports(tmp_path))
    assert found["ethernet"]["interface"] == "eth0"
    assert (found["roce"]["interface"], found["roce"]["address"]) == ("eth2", "10.2.0.1")
    assert (found["roce"]["adapters"], found["roce"]["by_ip"]) == (["mlx5_1:1", "mlx5_2:1"], False)
    assert "infiniband" not in found


def test_an_adapter_of_ethernet_without_an_address_is_no_fabric(tmp_path):
    adapter(tmp_path, "mlx5_0", "Ethernet", net=["eth1"])
    known = [interface("eth0"), interface("eth1", address=None)]
    assert set(fabrics.fabrics(known, ports=fabrics.infiniband_ports(tmp_path))) == {"ethernet"}


def test_of_an_adapter_with_two_ports_a_folder_of_interfaces_tells_nothing(tmp_path):
    adapter(tmp_path, "mlx4_0", "Ethernet", net=["eth1", "eth2"], port=1)
    adapter(tmp_path, "mlx4_0", "Ethernet", ndevs=["eth2"], port=2)
    assert [port["interfaces"] for port in fabrics.infiniband_ports(tmp_path)] == [[], ["eth2"]]


def test_a_declared_interface_is_where_the_ranks_meet_and_the_adapters_stay(tmp_path):
    adapter(tmp_path, "mlx5_0", "InfiniBand")
    known = [interface("eth0"), interface("eth1", address="10.1.0.1")]
    found = fabrics.fabrics(known, "infiniband=eth1,ethernet=eth0", ports=fabrics.infiniband_ports(tmp_path))
    assert (found["infiniband"]["interface"], found["infiniband"]["adapters"]) == ("eth1", ["mlx5_0:1"])


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
