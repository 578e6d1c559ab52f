"""Who is on this host: the attempt's processes, tbd's own with Ray's, and all others, which are foreign.

tbd's own are known by what they were started as, never by a word somewhere in a command line: the service, its agents,
its command line; Ray's programs, whoever started them, but not what others compute in Ray's workers; and of PostgreSQL
the processes that serve the service's database, where the service runs on this host and was told of it.
"""

from __future__ import annotations

import os
import re
from typing import Callable, Mapping, NamedTuple, Sequence
from urllib.parse import unquote, urlsplit

from workers.node import processes
from workers.node.processes import ProcessId

# Looking at all processes of a large host takes tens of milliseconds. One that was found foreign twice is looked at
# again at every so many censuses: it may have become another program.
AGAIN = 6

_RAY_PROGRAMS = (b"raylet", b"gcs_server")
# Ray's workers bear as their title what they do: nothing, or the agent, or a service of Ray's own.
_RAY_TITLES = re.compile(rb"ray::(IDLE|AgentActor|DashboardAgent|DashboardHead|RuntimeEnvAgent)\b|ray-dashboard-")
_RAY_SCRIPTS = re.compile(rb"/ray/(_private|dashboard|autoscaler|scripts|util/client)/|^ray\.|/bin/ray$")
_OWN_MODULES = re.compile(rb"(workers\.node|orchestrator)(\.|$)")
_OWN_SCRIPTS = re.compile(rb"(^|/)(tbd|deploy/demo\.py|workers/node/before_exec\.py)$")
_SERVICE = re.compile(rb"orchestrator\.app|(^|/)tbd\0(.*\0)?serve\0")
_PYTHON = re.compile(rb"(^|/)(python|pypy)[0-9.]*$")
# "postgres: 15/main: user database 127.0.0.1(4711) idle"; the cluster's name is there where it has one.
_BACKEND = re.compile(rb"postgres: (?:\S+: )?(\S+) (\S+) ")


class Database(NamedTuple):
    """A PostgreSQL database as its processes' titles name it; ``user`` is None where the service does not say."""

    user: bytes | None
    name: bytes


def is_own(line: bytes) -> bool:
    """Whether a process with the command line ``line`` (as in /proc/PID/cmdline) is tbd's own or Ray's."""
    words = line.split(b"\0")
    if os.path.basename(words[0]) in _RAY_PROGRAMS or _RAY_TITLES.match(words[0]):
        return True
    if _OWN_SCRIPTS.search(words[0]):
        return True
    return bool(_PYTHON.search(words[0])) and _runs_own(words[1:])


def _runs_own(arguments: Sequence[bytes]) -> bool:
    """Whether Python, called so, runs a program of ours or of Ray's."""
    for index, word in enumerate(arguments):
        if word == b"-m":
            module = b"".join(arguments[index + 1 : index + 2])
            return bool(_OWN_MODULES.match(module) or _RAY_SCRIPTS.search(module))
        if word == b"-c":
            return False
        if not word.startswith(b"-"):
            return bool(_OWN_SCRIPTS.search(word) or _RAY_SCRIPTS.search(word))
    return False


def database_of(environment: Mapping[bytes, bytes]) -> Database | None:
    """Return the PostgreSQL database that a service with this environment uses; None where it uses none."""
    url = urlsplit(environment.get(b"TBD_DATABASE_URL", b"").decode("utf-8", "replace"))
    if not url.scheme.startswith("postgres"):
        return None
    user = unquote(url.username).encode() if url.username else environment.get(b"PGUSER")
    name = unquote(url.path.lstrip("/")).encode() or environment.get(b"PGDATABASE") or user
    return Database(user, name) if name else None


def serves(line: bytes, databases: Sequence[Database]) -> bool:
    """Whether a process with the command line ``line`` is PostgreSQL's and serves one of ``databases``."""
    found = _BACKEND.match(line)
    return found is not None and any(
        wanted.name == found.group(2) and wanted.user in (None, found.group(1)) for wanted in databases
    )


class Counted(NamedTuple):
    """The attempt's processes that bear its token, tbd's own, and those of attempts that share the node."""

    members: set[ProcessId]
    own: set[ProcessId]
    neighbours: set[ProcessId]


class Census:
    """Counts again and again; remembers who was foreign.

    Args:
        token: the attempt's token.
        node: this node's name in the job; None where there are no others.
        is_neighbours: whether a token is that of another attempt that shares the node with this one; None: none does.
    """

    def __init__(self, token: str, node: str | None = None, is_neighbours: Callable[[str], bool] | None = None) -> None:
        self._token = token
        self._is_neighbours = is_neighbours or (lambda token: False)
        self._node = node
        self._round = 0
        self._times_foreign: dict[int, int] = {}

    def take(self) -> Counted:
        """Return who is there; whoever is in none of the sets is foreign."""
        self._round += 1
        living = processes.pids()
        self._times_foreign = {pid: self._times_foreign.get(pid, 0) for pid in living}
        members, neighbours, lines = set(), set(), {}
        for pid in filter(self._is_to_be_seen, living):
            token = processes.token_of(pid, self._node) if pid != os.getpid() else None
            if token == self._token:
                members.add(pid)
            elif token is not None and self._is_neighbours(token):
                neighbours.add(pid)
            else:
                lines[pid] = _command_line(pid)
        own = {pid for pid, line in lines.items() if pid == os.getpid() or is_own(line)}
        databases = [database for pid in own if _SERVICE.search(lines[pid]) for database in _databases(pid)]
        own |= {pid for pid, line in lines.items() if databases and serves(line, databases)}
        for pid in lines:
            self._times_foreign[pid] = 0 if pid in own else self._times_foreign[pid] + 1
        return Counted(_identified(members), _identified(own), _identified(neighbours))

    def _is_to_be_seen(self, pid: int) -> bool:
        return self._times_foreign[pid] < 2 or (pid + self._round) % AGAIN == 0


def _command_line(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read(4096)
    except OSError:
        return b""


def _databases(pid: int) -> list[Database]:
    pairs = (pair.partition(b"=") for pair in processes.environment(pid))
    database = database_of({name: value for name, _, value in pairs})
    return [database] if database else []


def _identified(pids: set[int]) -> set[ProcessId]:
    return {process for process in map(processes.identify, pids) if process is not None}
