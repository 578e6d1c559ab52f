"""A container engine of our own: Debian's dockerd and Compose 2, started by hand and ended without a trace.

It takes root. The daemon lives in a mount and a pid namespace of its own, which take its containers and mounts with
them. It changes no firewall by itself (``--iptables=false``): two rules of ours let its containers reach the network,
and are removed by what they say. What it costs to make lies in ``~/.cache/tbd/deploy`` and is kept: the unpacked
packages, and the engine's data with base images and layers. One engine at a time.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.cluster.hosts import children
from tests.deploy import packages

HERE = Path(__file__).resolve().parent
CACHE = Path("~/.cache/tbd/deploy").expanduser()
START_S = 60.0
STOP_S = 60.0
BASE_S = 600.0
OTHERS_S = 900.0
# Addresses of containers: a part of RFC 1918 that few use.
ADDRESSES = "10.213.0.0/16"
_POOLS = ["--bip", "10.213.0.1/24", "--default-address-pool", "base=10.213.64.0/18,size=24"]
_RULES = [
    ["-t", "nat", "-A", "POSTROUTING", "-s", ADDRESSES, "!", "-d", ADDRESSES, "-j", "MASQUERADE"],
    ["-I", "FORWARD", "-s", ADDRESSES, "-j", "ACCEPT"],
    ["-I", "FORWARD", "-d", ADDRESSES, "-j", "ACCEPT"],
]
_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
_CGROUPS = Path("/sys/fs/cgroup")
# What the bases hold; the user of PostgreSQL has the number that it has in the official image.
_BASE_PACKAGES = "ca-certificates,git,python3,python3-venv,python3-pip,postgresql"
_BASE_HOOKS = [
    "--essential-hook=mkdir -p $1/etc/postgresql-common",
    "--essential-hook=echo create_main_cluster=false >$1/etc/postgresql-common/createcluster.conf",
    "--customize-hook=rm -f $1/usr/lib/python3*/EXTERNALLY-MANAGED",
    "--customize-hook=ln -s /usr/bin/python3 $1/usr/local/bin/python && ln -s /usr/bin/pip3 $1/usr/local/bin/pip",
    "--customize-hook=chroot $1 usermod -u 999 postgres && chroot $1 groupmod -g 999 postgres",
    "--customize-hook=cp /etc/ssl/certs/ca-certificates.crt $1/etc/ssl/certs/ca-certificates.crt",
]


class NoEngine(Exception):  # noqa: N818 - reads as what happened
    """A container engine cannot be had here; the message says why."""


class Engine:
    """A running engine. ``environment`` is what ``docker`` needs in its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.environment = packages.environment(folder / "engine")
        self.before = traces(self.environment)
        self._place = Path(tempfile.mkdtemp(prefix="tbd-engine-", dir="/tmp"))
        self.environment["DOCKER_HOST"] = f"unix://{self._place}/socket"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the daemon, with nothing of an earlier one but its images.

        Raises:
            NoEngine: it does not come up.
        """
        root = self._folder / "root"
        for left in ("containers", "network", "volumes"):
            shutil.rmtree(root / left, ignore_errors=True)
        _FORWARD.write_text("1")
        for rule in _RULES:
            self._iptables(rule)
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--mount-proc"]
        command += ["--kill-child", "dockerd", "--data-root", str(root), "--exec-root", str(self._place / "exec")]
        command += [
            "--pidfile",
            str(self._place / "pid"),
            "--host",
            self.environment["DOCKER_HOST"],
            "--iptables=false",
        ]
        with open(self._place / "log", "wb") as log:
            environment = {**self.environment, "DOCKER_RAMDISK": ""}
            self._process = subprocess.Popen([*command, *_POOLS], env=environment, stdout=log, stderr=log)
        deadline = time.monotonic() + START_S
        while self._try("version", "--format", "{{.Server.Version}}") is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NoEngine("dockerd does not start: " + " | ".join(self.log().splitlines()[-3:]))
            time.sleep(0.3)

    def log(self) -> str:
        return (self._place / "log").read_text(errors="replace")

    def docker(self, *words: str, timeout_s: float = 120.0, cwd: Path | None = None, **more: str) -> str:
        """What ``docker`` prints.

        Raises:
            RuntimeError: it fails; the message ends with what it said.
        """
        done = self.tried(*words, timeout_s=timeout_s, cwd=cwd, **more)
        if done.returncode:
            raise RuntimeError(
                f"docker {' '.join(words)}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-6000:]}"
            )
        return done.stdout

    def tried(
        self, *words: str, timeout_s: float = 120.0, cwd: Path | None = None, **more: str
    ) -> "subprocess.CompletedProcess[str]":
        """``docker``, run to its end; ``more`` goes into its environment."""
        environment = {**self.environment, **more}
        return subprocess.run(
            ["docker", *words], env=environment, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def kill(self, container: str) -> None:
        """End the first process of a container from outside, as a failure would: ``docker kill`` is an order, after
        which nothing restarts it."""
        pid = self.docker("inspect", "--format", "{{.State.Pid}}", container).strip()
        inside = ["nsenter", "--target", str(self._daemon()), "--pid", "--mount", "kill", "-KILL", pid]
        subprocess.run(inside, check=True, timeout=20)

    def stop(self) -> None:
        """End the daemon and everything of it but the cache."""
        if self._process is not None and self._process.poll() is None:
            for pid in children(self._process.pid):
                os.kill(pid, signal.SIGTERM)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for rule in _RULES:
            with contextlib.suppress(NoEngine):
                self._iptables(["-D" if word in ("-A", "-I") else word for word in rule])
        for link in links() - self.before["links"]:
            subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)
        _FORWARD.write_text(*self.before["forward"])
        for group in sorted(map(Path, cgroups() - self.before["cgroups"]), key=lambda path: -len(path.parts)):
            with contextlib.suppress(OSError):
                group.rmdir()
        shutil.rmtree(self._place, ignore_errors=True)

    def make_bases(self) -> None:
        """The images that stand for the official ones, unless the cache has them."""
        names = ("tbd-test-python", "tbd-test-postgres")
        if all(self._try("image", "inspect", name) is not None for name in names):
            return
        archive = self._place / "debian.tar"
        release, mirror = _release(), _mirror()
        include = ["--variant=minbase", f"--include={_BASE_PACKAGES}", *_BASE_HOOKS]
        command = ["mmdebstrap", "--quiet", *include, release, str(archive), mirror]
        environment = {name: text for name, text in self.environment.items() if name != "LD_LIBRARY_PATH"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BASE_S, check=False)
        if done.returncode:
            raise NoEngine(f"the base image cannot be made: {done.stderr.strip()[-500:]}")
        self.docker("import", str(archive), "tbd-test-debian", timeout_s=BASE_S)
        archive.unlink()
        for name in names:
            target = name.rpartition("-")[2]
            self.docker("build", "--quiet", "--tag", name, "--target", target, str(HERE / "bases"), timeout_s=BASE_S)

    def _daemon(self) -> int:
        assert self._process is not None
        (pid,) = children(self._process.pid)
        return pid

    def _try(self, *words: str) -> str | None:
        done = self.tried(*words)
        return None if done.returncode else done.stdout

    def _iptables(self, rule: Sequence[str]) -> None:
        done = subprocess.run(
            ["iptables", "--wait", *rule], env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NoEngine(f"iptables {' '.join(rule)}: {done.stderr.strip()}")


@contextlib.contextmanager
def engine() -> Iterator[Engine]:
    """A running engine with its bases, for the block.

    Raises:
        NoEngine: there can be none here.
    """
    if os.geteuid():
        raise NoEngine("a container engine of one's own takes root")
    folder = CACHE / _key()
    CACHE.mkdir(parents=True, exist_ok=True)
    with _alone(CACHE / "lock"):
        for old in CACHE.iterdir():  # made by another version of this page: large, and of no use
            if old.is_dir() and old != folder:
                shutil.rmtree(old, ignore_errors=True)
        try:
            if not (folder / "engine").exists():
                folder.mkdir(exist_ok=True)
                packages.fetch(folder / "engine")
        except (packages.Missing, subprocess.CalledProcessError, OSError) as error:
            raise NoEngine(str(error)) from error
        made = Engine(folder)
        try:
            made.start()
            made.make_bases()
            yield made
        finally:
            made.stop()


def links() -> set[str]:
    """The network interfaces of engines."""
    return {name for name in os.listdir("/sys/class/net") if name.startswith(("docker", "br-", "veth"))}


def cgroups() -> set[str]:
    """The control groups of engines."""
    tops = [*_CGROUPS.glob("docker"), *_CGROUPS.glob("*/docker")]
    return {str(path) for top in tops for path in [top, *(one for one in top.rglob("*") if one.is_dir())]}


def traces(environment: Mapping[str, str]) -> dict[str, set[str]]:
    """What an engine could leave behind on this machine, by kind: to be compared before and after."""
    saved = subprocess.run(["iptables-save"], env=dict(environment), capture_output=True, text=True, check=True).stdout
    return {
        "links": links(),
        "cgroups": cgroups(),
        "forward": {_FORWARD.read_text()},
        "rules": {line for line in saved.splitlines() if line.startswith("-A")},
        "folders": {str(path) for path in Path("/tmp").glob("tbd-engine-*")},
        "mounts": {line for line in Path("/proc/mounts").read_text().splitlines() if str(CACHE) in line},
    }


def _key() -> str:
    """Changes with what is kept: packages, bases and the release of this machine."""
    made_of = [packages.ENGINE, packages.NEWER, packages.NEWER_RELEASE, _BASE_PACKAGES, _BASE_HOOKS]
    files = [*sorted(HERE.glob("bases/*")), Path("/etc/os-release")]
    return hashlib.sha256(b"".join([repr(made_of).encode(), *(path.read_bytes() for path in files)])).hexdigest()[:12]


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    with open(path, "w") as lock:
        deadline = time.monotonic() + OTHERS_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise NoEngine("another test has the container engine") from None
                time.sleep(1)
        yield


def _release() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip('"')
    raise NoEngine("this machine's release of Debian has no name")


def _mirror() -> str:
    mirror = packages.mirror()
    if mirror is None:
        raise NoEngine("apt has no mirror of Debian")
    return mirror
