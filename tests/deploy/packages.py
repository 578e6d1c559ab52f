"""Debian packages unpacked into a folder of our own: a container engine, without changing what is installed.

Only what the machine lacks is fetched, through its own apt and from its own mirror; nothing is installed, so nobody's
engine is replaced and no daemon is started.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ENGINE = ("docker.io", "iptables", "mmdebstrap", "tini")
# Compose 2 and the builder that it calls, from the release that has them; both are programs of one file.
NEWER = ("docker-compose", "docker-buildx")
NEWER_RELEASE = "trixie"
APT_S = 300.0
_SIMULATED = re.compile(r"^Inst (\S+)", re.MULTILINE)
# Of the classic list and of the newer format: the mirror that this machine uses.
_MIRROR = re.compile(r"^(?:URIs:|deb(?:\s+\[[^\]]*\])?)\s*(https?://\S+)", re.MULTILINE)


class Missing(Exception):  # noqa: N818 - reads as what happened
    """The packages cannot be had."""


def fetch(folder: Path) -> None:
    """Unpack the engine into ``folder``, which must not be there yet.

    Raises:
        Missing: apt cannot be used, or has no such packages.
    """
    half = folder.with_name(folder.name + ".half")
    shutil.rmtree(half, ignore_errors=True)
    (half / "packages").mkdir(parents=True)
    _unpack(half, _missing(ENGINE), {})
    _unpack(half, NEWER, _newer_release(half))
    shutil.rmtree(half / "packages")
    _link(half)
    half.rename(folder)


def _missing(names: Sequence[str]) -> list[str]:
    """The packages of ``names`` and of what they need that are not installed here."""
    found = _apt("install", "--simulate", "--no-install-recommends", *names, check=False)
    if found is None:
        _apt("update")
        found = _apt("install", "--simulate", "--no-install-recommends", *names)
    return _SIMULATED.findall(found or "")


def _unpack(folder: Path, names: Iterable[str], options: Mapping[str, object]) -> None:
    settings = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    names = list(names)
    if names and _apt(*settings, "download", *names, check=False, cwd=folder / "packages") is None:
        _apt(*settings, "update")  # the lists are older than what the mirror has
        _apt(*settings, "download", *names, cwd=folder / "packages")
    for package in sorted((folder / "packages").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
        package.unlink()


def _newer_release(folder: Path) -> dict[str, object]:
    """Options of apt for the newer release, with lists of its own; they are fetched."""
    if (found := mirror()) is None:
        raise Missing("apt has no mirror of Debian")
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True)
    (lists / "sources.list").write_text(f"deb {found} {NEWER_RELEASE} main\n")
    options: dict[str, object] = {
        "Dir::Etc::sourcelist": lists / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": lists,
        "Dir::Cache": lists,
        "APT::Get::List-Cleanup": 0,
    }
    _apt(*[word for name, value in options.items() for word in ("-o", f"{name}={value}")], "update")
    return options


def mirror() -> str | None:
    """The mirror of Debian that this machine's apt uses."""
    sources = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*.*"))]
    texts = [path.read_text() for path in sources if path.suffix in (".list", ".sources") and path.is_file()]
    mirrors = [one for text in texts for one in _MIRROR.findall(text) if "security" not in one]
    return mirrors[0] if mirrors else None


def _apt(*words: str, check: bool = True, cwd: Path | None = None) -> str | None:
    command = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", *words]
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=APT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"apt-get cannot be used: {error}") from None
    if done.returncode == 0:
        return done.stdout
    if check:
        raise Missing(f"apt-get {words[0]}: {done.stderr.strip()[-500:]}")
    return None


def _link(folder: Path) -> None:
    """The names under which the programs are called: Debian's packages make these links when they are installed."""
    names = folder / "bin"
    names.mkdir()
    for name in ("iptables", "ip6tables", "iptables-save"):
        if (folder / "usr/sbin/xtables-nft-multi").exists():
            (names / name).symlink_to("../usr/sbin/xtables-nft-multi")
    for tini in ("usr/bin/tini-static", "usr/bin/tini"):
        if (folder / tini).exists() and not (names / "docker-init").exists():
            (names / "docker-init").symlink_to(f"../{tini}")
    plugins = folder / "config" / "cli-plugins"
    plugins.mkdir(parents=True)
    for plugin in (folder / "usr/libexec/docker/cli-plugins").iterdir():
        (plugins / plugin.name).symlink_to(os.path.relpath(plugin, plugins))


def environment(folder: Path) -> dict[str, str]:
    """What the unpacked programs need in their environment."""
    programs = [folder / part for part in ("bin", "usr/sbin", "usr/bin", "sbin")]
    triplets = sorted((folder / "usr/lib").glob("*-linux-gnu*"))
    libraries = [*triplets, *sorted((folder / "lib").glob("*-linux-gnu*"))]
    plain = {name: text for name, text in os.environ.items() if not name.startswith(("DOCKER_", "COMPOSE_", "TBD_"))}
    found = plain | {
        "PATH": os.pathsep.join([*map(str, programs), "/usr/sbin", "/usr/bin", "/sbin", "/bin"]),
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
        "DOCKER_CONFIG": str(folder / "config"),
        "DOCKER_BUILDKIT": "1",
    }
    extensions = [triplet / "xtables" for triplet in triplets if (triplet / "xtables").is_dir()]
    return found | ({"XTABLES_LIBDIR": str(extensions[0])} if extensions else {})
