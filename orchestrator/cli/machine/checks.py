"""What ``tbd doctor`` looks at. Each check is a function that yields findings; none changes anything."""

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from orchestrator.cli.machine import gpu_checks, machine_checks
from orchestrator.cli.machine.findings import Finding
from orchestrator.cli.rest.client import Client
from orchestrator.cli.rest.locate import data_dir, find_server
from orchestrator.domain.words.errors import TbdError
from orchestrator.reports.numbers import memory
from orchestrator.serve.data_directory import server_of

# Judgements: below this much room the first interpreter may not fit; below this much memory ResNet-50 may not.
ROOM_BYTES = 5 * 2**30
MEMORY_BYTES = 4 * 2**30


def all_checks() -> Iterator[Finding]:
    """Every finding. A check that itself fails is a broken finding, not the end."""
    for check in CHECKS:
        try:
            yield from check()
        except Exception as error:  # whatever it is, the other checks are still wanted
            yield Finding(check.__name__.strip("_"), "broken", f"{type(error).__name__}: {error}")


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", "ok", f"{version}, {sys.executable}")


def _git() -> Iterator[Finding]:
    found = shutil.which("git")
    advice = "" if found else "Results will not name the commit: apt-get install git"
    yield Finding("git", "ok" if found else "note", found or "not found", advice)


def _interpreters() -> Iterator[Finding]:
    from workers.node import interpreters, pythons

    known = interpreters.definitions()
    for one in interpreters.all_resolved():
        name = f"interpreter {one.name}"
        built = interpreters.record(one.name)
        definition = known.get(one.name)
        if one.ready:
            version = f"Python {built['python']}, " if built is not None else ""
            yield Finding(name, "ok", f"ready, {version}{one.python}")
        elif definition is None or definition.is_built:
            yield Finding(name, "note", one.reason or "not built")
        else:
            found = pythons.first_of(definition.pythons)
            needed = pythons.how_to_get(definition.pythons, definition.one_python)
            there = f"Python {found[0]} for it is here, {found[1]}" if found else f"it {needed}"
            yield Finding(name, "note", one.reason or "not built", there)


def _cpu_index() -> Iterator[Finding]:
    from workers.node import interpreters
    from workers.node.interpreters import cpu_builds

    builds = cpu_builds.of("pytorch")
    if builds is None or interpreters.definitions()["pytorch"].variant != "cpu":
        return
    asked = "not asked" if builds.cpu_index == cpu_builds.NO_INDEX else f"{builds.cpu_index} is asked first"
    told = f"{asked} ({cpu_builds.INDEX_SETTING}), then pip's indexes; never with CUDA unasked"
    if cpu_builds.is_consented():
        told = f"{asked}, then pip's indexes, with CUDA too ({cpu_builds.CONSENT_SETTING})"
    yield Finding("PyTorch for CPUs", "ok", told)


def _clock() -> Iterator[Finding]:
    path = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    source = path.read_text().strip() if path.is_file() else "unknown"
    slow = source in ("hpet", "acpi_pm", "jiffies")
    advice = "Reading it costs microseconds, which short steps feel: boot with clocksource=tsc" if slow else ""
    yield Finding("clock source", "note" if slow else "ok", source, advice)


def _room() -> Iterator[Finding]:
    from workers.node import space

    for name, path in (("data directory", data_dir()), ("interpreters", _interpreters_dir())):
        existing = next(parent for parent in (path, *path.parents) if parent.exists())
        free, quota = space.free_bytes(existing), space.quota_left(existing)
        level = "ok" if min(free, free if quota.bytes is None else quota.bytes) > ROOM_BYTES else "note"
        advice = "" if level == "ok" else f"An interpreter takes up to {memory(ROOM_BYTES)}: make room"
        limited = f", {memory(quota.bytes)} of it by your quota" if quota.bytes is not None else ""
        limited = f" ({quota.reason})" if quota.reason is not None else limited
        yield Finding(f"disk of {name}", level, f"{memory(free)} free{limited}, {path}", advice)
        if not os.access(existing, os.W_OK):
            variable = "TBD_DATA_DIR" if name == "data directory" else "TBD_INTERPRETERS_DIR"
            yield Finding(f"disk of {name}", "broken", f"{existing} cannot be written to", f"Give another {variable}")


def _interpreters_dir() -> Path:
    from workers.node import interpreters

    return interpreters.base_folder()


def _memory() -> Iterator[Finding]:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    enough = total >= MEMORY_BYTES
    yield Finding("memory", "ok" if enough else "note", memory(total), "" if enough else "Large models will not fit")


def _ray() -> Iterator[Finding]:
    try:
        version = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        yield Finding(
            "Ray", "note", "not installed", "TBD_CLUSTER=local works without it; else: pip install 'ray[default]'"
        )
        return
    from importlib.util import find_spec

    found = find_spec("ray") is not None
    yield Finding("Ray", "ok" if found else "broken", version, "" if found else "It cannot be imported: reinstall it")
    token = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    if token.is_file() and token.stat().st_mode & 0o077:
        yield Finding("Ray token", "note", f"{token} can be read by others", f"chmod 600 {token}")


def _settings() -> Iterator[Finding]:
    from orchestrator.serve.settings import read_settings

    try:
        read_settings()
    except TbdError as error:
        yield Finding("settings", "broken", str(error))
    else:
        given = [name for name in sorted(os.environ) if name.startswith("TBD_")]
        yield Finding("settings", "ok", ", ".join(given) or "all defaults")


def _server() -> Iterator[Finding]:
    path = data_dir()
    owner = server_of(path)
    if owner:
        yield Finding("data directory", "ok", f"{path} belongs to the server at {owner['url']} (pid {owner['pid']})")
    else:
        yield Finding("data directory", "ok", f"{path}: no server owns it")
    url = find_server()
    if url:
        up = Client(url).is_up()
        yield Finding(
            "server",
            "ok" if up else "broken",
            f"{url} {'answers' if up else 'does not answer'}",
            "" if up else "Start it: tbd serve, or correct TBD_SERVER",
        )


def _database() -> Iterator[Finding]:
    from orchestrator.db.upgrade import admin
    from orchestrator.serve.settings import read_settings

    try:
        yield Finding("database", "ok", admin.check(read_settings().database_url))
    except TbdError as error:
        yield Finding("database", "broken", str(error), "tbd serve cannot start before this is mended")


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python,
    _settings,
    _git,
    _memory,
    _room,
    _clock,
    machine_checks.machine,
    gpu_checks.gpus,
    _interpreters,
    _cpu_index,
    _ray,
    _server,
    _database,
)
