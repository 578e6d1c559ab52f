"""What an agent reads of its host, on hosts that are made up."""

import os
import struct

import pytest

from workers.node import host_facts


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def config(control, at=0x100):
    """The settings of a PCI bridge with another capability, and behind it an ACS with ``control``."""
    found = bytearray(4096)
    struct.pack_into("<I", found, at, 0x0001 | 0x150 << 20)
    struct.pack_into("<IHH", found, 0x150, 0x000D, 0, control)
    return bytes(found)


BRIDGE = {"sys/bus/pci/devices/0000:00:01.0/class": "0x060400\n"}
SETTINGS = "sys/bus/pci/devices/0000:00:01.0/config"


@pytest.mark.parametrize(
    ("settings", "bridges"),
    [(config(0x1D), 1), (config(0x1), 0), (config(0xC)[:64], None), (b"", None)],
)
def test_bridges_that_redirect_are_counted_and_unknown_where_their_settings_are_closed(tmp_path, settings, bridges):
    write(tmp_path, {**BRIDGE, SETTINGS: settings})
    assert host_facts.of_host(tmp_path)["acs_bridges"] == bridges


def test_settings_that_lead_in_a_circle_end(tmp_path):
    circle = bytearray(config(0))
    struct.pack_into("<I", circle, 0x150, 0x0001 | 0x100 << 20)
    write(tmp_path, {**BRIDGE, SETTINGS: bytes(circle)})
    assert host_facts.of_host(tmp_path)["acs_bridges"] == 0


def test_services_modules_and_devices_are_seen(tmp_path):
    write(
        tmp_path,
        {
            "proc/7/comm": "nv-fabricmanage\n",
            "proc/8/comm": "nv-hostengine\n",
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05\n",
            "sys/module/nvidia_peermem/refcnt": "0",
            "sys/kernel/iommu_groups/0/type": "DMA-FQ\n",
            "sys/class/infiniband/mlx5_0/fw_ver": "1",
            "dev/nvidia-nvswitch0": "",
            "dev/shm/x": "",
        },
    )
    found = host_facts.of_host(tmp_path)
    assert (found["nvswitches"], found["fabric_manager"], found["counter_holders"]) == (1, True, ["nv-hostengine"])
    assert (found["peer_memory"], found["open_kernel_module"], found["iommu"]) == (True, True, ["DMA-FQ"])
    assert (found["infiniband"], found["in_container"], found["acs_bridges"]) == (True, False, 0)


def test_a_host_without_any_of_it_is_no_trouble(tmp_path):
    found = host_facts.of_host(tmp_path)
    assert not any(value for name, value in found.items() if name != "shared_bytes")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_device_that_may_not_be_read_is_named(tmp_path):
    write(tmp_path, {"dev/nvidia0": ""})
    (tmp_path / "dev/nvidia0").chmod(0)
    assert host_facts.of_host(tmp_path)["closed_devices"] == [str(tmp_path / "dev/nvidia0")]
