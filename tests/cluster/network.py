"""The switch between hosts, its cables and how fast they are."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.hosts import ETHERNET, INFINIBAND, Fabric, Host, children

FABRICS = (ETHERNET, INFINIBAND)
# tbf sends in bursts, and needs larger ones the faster it is: 64 KiB at 100 Mbit/s, in proportion above 400 Mbit/s.
_LEAST_BURST_BYTES = 65536
_BURST_S = 1.3e-3


class Network:
    """A switch with a bridge for each fabric, in a namespace of its own, and the hosts that are plugged into it.

    Args:
        folder: for what the hosts keep; see ``Host``.
        hosts: name -> (cores, how many seconds its monotonic clock is ahead).
        fabrics: what connects them.
    """

    def __init__(
        self, folder: Path, hosts: Mapping[str, tuple[Sequence[int], int]], fabrics: Sequence[Fabric] = FABRICS
    ) -> None:
        self.hosts = {
            name: Host(name, number, folder, cores, ahead)
            for number, (name, (cores, ahead)) in enumerate(hosts.items())
        }
        self.fabrics = tuple(fabrics)
        self._plugs: dict[tuple[str, str], str] = {}
        self._made = 0
        self._switch = subprocess.Popen(
            [
                "setpriv",
                "--pdeathsig",
                "KILL",
                "unshare",
                "--net",
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                "echo && exec sleep inf",
            ],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._switch.stdout is not None
        self._switch.stdout.readline()
        (self._switch_pid,) = children(self._switch.pid)
        for fabric in self.fabrics:
            bridge = f"br{fabric.number}"
            self._at_switch(
                "link", "add", bridge, "mtu", str(fabric.mtu), "type", "bridge", "stp_state", "0", "forward_delay", "0"
            )
            self._at_switch("link", "set", bridge, "up")

    def boot(self, *names: str) -> None:
        """Start the named hosts, or all of them, and plug them in."""
        known = {host.name: host.address() for host in self.hosts.values()}
        for name in names or self.hosts:
            self.hosts[name].boot(known)
            for fabric in self.fabrics:
                self._plug(self.hosts[name], fabric)

    def close(self) -> None:
        """End all hosts and the switch."""
        for host in self.hosts.values():
            host.cut_power()
        self._switch.kill()
        self._switch.wait()
        assert self._switch.stdout is not None
        self._switch.stdout.close()

    def pull(self, name: str) -> None:
        """Pull all cables of a host out of the switch."""
        self._set_cables(name, "down")

    def push_back(self, name: str) -> None:
        self._set_cables(name, "up")

    @contextmanager
    def shaped(self, bits_per_s: float, fabric: Fabric = ETHERNET) -> Iterator[None]:
        """Let no host send faster than that over ``fabric`` within the block."""
        burst = max(_LEAST_BURST_BYTES, int(bits_per_s / 8 * _BURST_S))
        shape = ["tbf", "rate", f"{int(bits_per_s)}bit", "burst", str(burst), "latency", "50ms"]
        for host in self.hosts.values():
            _run(
                "nsenter",
                "--target",
                str(host.pid),
                "--net",
                "tc",
                "qdisc",
                "replace",
                "dev",
                fabric.interface,
                "root",
                *shape,
            )
        try:
            yield
        finally:
            for host in self.hosts.values():
                _run(
                    "nsenter", "--target", str(host.pid), "--net", "tc", "qdisc", "del", "dev", fabric.interface, "root"
                )

    def _plug(self, host: Host, fabric: Fabric) -> None:
        self._made += 1
        plug = self._plugs[host.name, fabric.interface] = f"p{self._made}"
        mtu = str(fabric.mtu)
        # A host that is booted again has the same card: its neighbours remember the address of it.
        card = f"02:77:00:00:{fabric.number:02x}:{host.number:02x}"
        ends = [
            "netns",
            str(host.pid),
            "type",
            "veth",
            "peer",
            "name",
            plug,
            "mtu",
            mtu,
            "netns",
            str(self._switch_pid),
        ]
        _run("ip", "link", "add", fabric.interface, "address", card, "mtu", mtu, *ends)
        self._at_switch("link", "set", plug, "master", f"br{fabric.number}", "up")
        at_host = ["nsenter", "--target", str(host.pid), "--net", "ip"]
        _run(*at_host, "address", "add", f"{host.address(fabric)}/24", "dev", fabric.interface)
        _run(*at_host, "link", "set", fabric.interface, "up")

    def _set_cables(self, name: str, state: str) -> None:
        for fabric in self.fabrics:
            self._at_switch("link", "set", self._plugs[name, fabric.interface], state)

    def _at_switch(self, *words: str) -> None:
        _run("nsenter", "--target", str(self._switch_pid), "--net", "ip", *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
