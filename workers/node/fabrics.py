"""The networks of this node: its interfaces, its InfiniBand ports, and which of them is which fabric.

Addresses and link types come from the kernel by ioctl (netdevice(7)), which answers for the network namespace of this
process; speeds from sysfs, where it is mounted. ``TBD_FABRICS`` (``ethernet=eth0,infiniband=ib0``) says what the host
does not, and is recorded as ``declared``.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import struct
from pathlib import Path
from typing import Any, Mapping, Sequence

FABRICS = ("ethernet", "infiniband")

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
            speed = _text(path / "speed") or ""
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
    """Return the ports of InfiniBand adapters: device, port, state, rate_bits_per_s."""
    found = []
    for port in sorted(root.glob("*/ports/*")):
        rate = re.match(r"([0-9.]+) Gb/sec", _text(port / "rate") or "")
        found.append(
            {
                "device": port.parent.parent.name,
                "port": int(port.name),
                "state": (_text(port / "state") or "unknown").split(":")[-1].strip().lower(),
                "rate_bits_per_s": int(float(rate.group(1)) * 1e9) if rate else None,
            }
        )
    return found


def fabrics(
    known: Sequence[Mapping[str, Any]], declared: str | None = None, preferred: str | None = None
) -> dict[str, dict[str, Any]]:
    """Return fabric -> {interface, address, speed_bits_per_s, source} for those that this node has.

    Args:
        known: what ``interfaces`` returns.
        declared: the setting ``TBD_FABRICS``.
        preferred: the interface that a fabric's choice falls on where several would do: that of the default route.

    Raises:
        ValueError: the setting names no fabric, or an interface that is not there or has no IPv4 address.
    """
    by_name = {item["name"]: item for item in known}
    found: dict[str, dict[str, Any]] = {}
    for fabric in FABRICS:
        usable = [item for item in known if item["kind"] == fabric and item["state"] == "up" and item["address"]]
        usable.sort(key=lambda item: (item["name"] != preferred, -(item["speed_bits_per_s"] or 0), item["name"]))
        if usable:
            found[fabric] = _fabric(usable[0], "sysfs" if usable[0]["speed_bits_per_s"] else "kernel")
    for fabric, name in _declared(declared):
        item = by_name.get(name)
        if item is None or not item["address"]:
            there = ", ".join(sorted(item["name"] for item in known if item["address"]))
            raise ValueError(f"TBD_FABRICS: {name} is no interface with an IPv4 address here; there are {there}")
        found[fabric] = _fabric(item, "declared")
    return found


def _fabric(item: Mapping[str, Any], source: str) -> dict[str, Any]:
    return {
        "interface": item["name"],
        "address": item["address"],
        "speed_bits_per_s": item["speed_bits_per_s"],
        "source": source,
    }


def _declared(text: str | None) -> list[tuple[str, str]]:
    found = []
    for part in filter(None, (text or "").replace(" ", "").split(",")):
        fabric, _, name = part.partition("=")
        if fabric not in FABRICS or not name:
            raise ValueError(f"TBD_FABRICS={text}: write ethernet=INTERFACE,infiniband=INTERFACE, one or both")
        found.append((fabric, name))
    return found


def default_interface(routes: Path = Path("/proc/net/route")) -> str | None:
    """Return the interface of the default route, if there is one."""
    for line in (_text(routes) or "").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 1 and fields[1] == "00000000":
            return fields[0]
    return None


def of_this_node() -> dict[str, Any]:
    """Return what the inventory says of networks: interfaces, infiniband_ports, fabrics.

    Raises:
        ValueError: ``TBD_FABRICS`` is wrong.
    """
    known = interfaces()
    return {
        "interfaces": known,
        "infiniband_ports": infiniband_ports(),
        "fabrics": fabrics(known, os.environ.get("TBD_FABRICS"), default_interface()),
    }


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return None
