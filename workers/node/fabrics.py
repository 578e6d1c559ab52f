"""The networks of this node: its interfaces, the ports of its RDMA adapters, and which of them is which fabric.

Addresses and link types come from the kernel by ioctl (netdevice(7)), which answers for the network namespace of this
process; speeds and adapters from sysfs, where it is mounted. ``TBD_FABRICS`` (``ethernet=eth0,infiniband=ib0``) says
what the host does not, and is recorded as ``declared``; with adapters, ``infiniband=ib0@mlx5_0+mlx5_3``.
``TBD_NCCL_NET`` names a plugin's network for NCCL (EFA, Slingshot).

A port of an adapter is of InfiniBand or of Ethernet (``link_layer``; then it is RoCE). InfiniBand may have no interface
with an IPv4 address (no IPoIB), and RoCE has that of Ethernet: libraries that speak RDMA use the ``adapters``, and meet
over the ``interface``. There ``by_ip`` is false: what goes over the interface would not be on that fabric.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import struct
from pathlib import Path
from typing import Any, Mapping, Sequence

from workers.node import speed_settings

FABRICS = ("ethernet", "infiniband", "roce")

_NET = Path("/sys/class/net")
_INFINIBAND = Path("/sys/class/infiniband")

# linux/sockios.h and linux/if_arp.h
_SIOCGIFADDR, _SIOCGIFHWADDR, _SIOCGIFFLAGS = 0x8915, 0x8927, 0x8913
_WORKING = 0x1 | 0x40  # IFF_UP, IFF_RUNNING
_KINDS = {1: "ethernet", 32: "infiniband", 772: "loopback"}


def interfaces() -> list[dict[str, Any]]:
    """Return the network interfaces: name, kind, state (up, down), address (IPv4 or null), speed_bits_per_s (null where
    the driver does not say), virtual (no device behind it; null where sysfs does not show this namespace)."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in sorted(socket.if_nameindex(), key=lambda item: item[1]):
            flags = _ask(asked, _SIOCGIFFLAGS, name)
            up = flags is not None and struct.unpack("H", flags[:2])[0] & _WORKING == _WORKING
            family = _ask(asked, _SIOCGIFHWADDR, name)
            address = _ask(asked, _SIOCGIFADDR, name)
            path = _NET / name
            speed = speed_settings.text(path / "speed") or ""
            found.append(
                {
                    "name": name,
                    "kind": _KINDS.get(struct.unpack("H", family[:2])[0], "other") if family else "other",
                    "state": "up" if up else "down",
                    "address": socket.inet_ntoa(address[4:8]) if address else None,
                    "speed_bits_per_s": int(speed) * 10**6 if speed.isdigit() else None,
                    "virtual": not (path / "device").exists() if path.exists() else None,
                }
            )
    return found


def _ask(asked: socket.socket, request: int, name: str) -> bytes | None:
    """Return the part of ``struct ifreq`` behind the name, None where the interface has no answer."""
    try:
        return fcntl.ioctl(asked.fileno(), request, struct.pack("256s", name.encode()[:15]))[16:]
    except OSError:
        return None


def infiniband_ports(root: Path = _INFINIBAND) -> list[dict[str, Any]]:
    """Return the ports of RDMA adapters: device, port, state, rate_bits_per_s, link_layer (infiniband, ethernet or
    unknown) and the network interfaces of the port.

    Source: Documentation/ABI/stable/sysfs-class-infiniband of the Linux kernel.
    """
    found = []
    for port in sorted(root.glob("*/ports/*")):
        rate = re.match(r"([0-9.]+) Gb/sec", speed_settings.text(port / "rate") or "")
        found.append(
            {
                "device": port.parent.parent.name,
                "port": int(port.name),
                "state": (speed_settings.text(port / "state") or "unknown").split(":")[-1].strip().lower(),
                "rate_bits_per_s": int(float(rate.group(1)) * 1e9) if rate else None,
                "link_layer": (speed_settings.text(port / "link_layer") or "unknown").lower(),
                "interfaces": _interfaces_of(port),
            }
        )
    return found


def _interfaces_of(port: Path) -> list[str]:
    """Return the names of a port's network interfaces. The folder beside has those of all ports of the adapter."""
    named = sorted({speed_settings.text(path) or "" for path in port.glob("gid_attrs/ndevs/*")} - {""})
    beside = port.parent.parent / "device" / "net"
    alone = len(list(port.parent.iterdir())) == 1
    return named or (sorted(path.name for path in beside.iterdir()) if alone and beside.is_dir() else [])


def fabrics(
    known: Sequence[Mapping[str, Any]],
    declared: str | None = None,
    preferred: str | None = None,
    ports: Sequence[Mapping[str, Any]] = (),
    net: str | None = None,
) -> dict[str, dict[str, Any]]:
    """Return fabric -> {interface, address, speed_bits_per_s, source} for those that this node has; where adapters of
    RDMA carry it, also adapters (["mlx5_0:1"]) and by_ip.

    Args:
        known: what ``interfaces`` returns.
        declared: the setting ``TBD_FABRICS``.
        preferred: the interface that a fabric's choice falls on where several are as fast: that of the default route.
        ports: what ``infiniband_ports`` returns.
        net: the setting ``TBD_NCCL_NET``, which each fabric then has.

    Raises:
        ValueError: the setting names no fabric, or an interface that is not there or has no IPv4 address.
    """
    by_name = {item["name"]: item for item in known}
    found: dict[str, dict[str, Any]] = {}
    for fabric in ("ethernet", "infiniband"):
        usable = [item for item in known if item["kind"] == fabric and item["state"] == "up" and item["address"]]
        usable.sort(key=lambda item: _rank(item, preferred))
        if usable:
            found[fabric] = _fabric(usable[0], "sysfs" if usable[0]["speed_bits_per_s"] else "kernel")
            if left := [item["name"] for item in usable[1:] if not item["virtual"]]:
                found[fabric]["left"] = left
    _add_adapters(found, by_name, [port for port in ports if port["state"] == "active"])
    for fabric, name, wanted in _declared(declared):
        item = by_name.get(name)
        if item is None or not item["address"]:
            there = ", ".join(sorted(item["name"] for item in known if item["address"]))
            raise ValueError(f"TBD_FABRICS: {name} is no interface with an IPv4 address here; there are {there}")
        adapters = _wanted(wanted, ports) or found.get(fabric, {}).get("adapters")
        found[fabric] = _fabric(item, "declared")
        if adapters:
            found[fabric].update(adapters=adapters, by_ip=fabric != "roce")
    return {fabric: {**one, "net": net} for fabric, one in found.items()} if net else found


def _rank(item: Mapping[str, Any], preferred: str | None) -> tuple[Any, ...]:
    """Sorts the interface of a device before one without (a bridge, a tunnel), and the faster first: the default route
    may go over a slow network for management."""
    is_default = item["name"] == preferred
    return bool(item["virtual"]) and not is_default, -(item["speed_bits_per_s"] or 0), not is_default, item["name"]


def _wanted(names: Sequence[str], ports: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ports of the adapters that the setting names, ``mlx5_0`` or ``mlx5_0:1``."""
    found = []
    for name in names:
        own = [port for port in ports if name in (port["device"], f"{port['device']}:{port['port']}")]
        active = [port for port in own if port["state"] == "active"]
        if not active:
            there = ", ".join(_names([port for port in ports if port["state"] == "active"])) or "none"
            told = "is down" if own else "is no adapter here"
            raise ValueError(f"TBD_FABRICS: {name} {told}; those that are active: {there}")
        found += _names(active)
    return found


def _add_adapters(
    found: dict[str, dict[str, Any]], by_name: Mapping[str, Mapping[str, Any]], ports: Sequence[Mapping[str, Any]]
) -> None:
    """Add to the fabrics what active ports carry. Where the ranks meet is an interface with an address: InfiniBand's
    own, else Ethernet's; of RoCE that of its port."""
    over_ib = [port for port in ports if port["link_layer"] == "infiniband"]
    if over_ib and "infiniband" not in found and "ethernet" in found:
        found["infiniband"] = {**found["ethernet"], **_fastest(over_ib), "source": "sysfs", "by_ip": False}
    elif over_ib and "infiniband" in found:
        found["infiniband"].update(adapters=_fastest(over_ib)["adapters"], by_ip=True)
    with_address = []
    for port in ports:
        items = [by_name[name] for name in port["interfaces"] if name in by_name]
        items = [item for item in items if item["state"] == "up" and item["address"]]
        if port["link_layer"] == "ethernet" and items:
            with_address.append((port, items[0]))
    if with_address:
        carried = _fastest([port for port, _ in with_address])
        item = next(item for port, item in with_address if _names([port])[0] in carried["adapters"])
        found["roce"] = {**_fabric(item, "sysfs"), **carried, "by_ip": False}


def _fastest(ports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the adapters of the highest rate there is, and the rate of one."""
    rate = max(port["rate_bits_per_s"] or 0 for port in ports)
    fastest = [port for port in ports if (port["rate_bits_per_s"] or 0) == rate]
    return {"adapters": _names(fastest), "speed_bits_per_s": rate or None}


def _names(ports: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{port['device']}:{port['port']}" for port in ports]


def _fabric(item: Mapping[str, Any], source: str) -> dict[str, Any]:
    return {
        "interface": item["name"],
        "address": item["address"],
        "speed_bits_per_s": item["speed_bits_per_s"],
        "source": source,
    }


def _declared(text: str | None) -> list[tuple[str, str, list[str]]]:
    """(fabric, interface, adapters) of ``ethernet=eth0,infiniband=ib0@mlx5_0+mlx5_3``."""
    found = []
    for part in filter(None, (text or "").replace(" ", "").split(",")):
        fabric, _, name = part.partition("=")
        name, _, adapters = name.partition("@")
        if fabric not in FABRICS or not name:
            raise ValueError(
                f"TBD_FABRICS={text}: write ethernet=INTERFACE,infiniband=INTERFACE@ADAPTER+ADAPTER,roce=INTERFACE,"
                " one or more"
            )
        found.append((fabric, name, list(filter(None, adapters.split("+")))))
    return found


def default_interface(routes: Path = Path("/proc/net/route")) -> str | None:
    """Return the interface of the default route, if there is one."""
    for line in (speed_settings.text(routes) or "").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 1 and fields[1] == "00000000":
            return fields[0]
    return None


def of_this_node() -> dict[str, Any]:
    """Return what the inventory says of networks: interfaces, infiniband_ports, fabrics.

    Raises:
        ValueError: ``TBD_FABRICS`` is wrong.
    """
    known, ports = interfaces(), infiniband_ports()
    return {
        "interfaces": known,
        "infiniband_ports": ports,
        "fabrics": fabrics(
            known, os.environ.get("TBD_FABRICS"), default_interface(), ports, os.environ.get("TBD_NCCL_NET")
        ),
    }
