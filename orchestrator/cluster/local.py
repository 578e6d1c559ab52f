"""The cluster without Ray: agents as processes of this host, behind Unix sockets.

Owns the life of those processes. Each is in a session of its own and outlives the server, however that ends; the next
server of the directory finds it by its record (pid, start time, socket) and goes on with it.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from orchestrator.cluster.agents import AgentCluster, AgentError, AgentUnreachable, Handle, Keeper, close_all
from orchestrator.cluster.node_names import own_name
from orchestrator.cluster.records import (
    LONGEST_SOCKET_PATH,
    end_process,
    package_path,
    read_record,
    short_folder,
    tail,
    write_record,
)
from orchestrator.domain.asked.placement import Placement
from orchestrator.domain.words.errors import ClusterUnavailable, SettingsError
from workers.node import background, processes
from workers.node.processes import ProcessId
from workers.node.server import AgentClient, AgentRefusedError, AgentUnreachableError

START_TIMEOUT_S = 15.0
# An agent ends its attempts before it goes; that takes its processes' time to obey SIGTERM and a margin.
END_PATIENCE_S = 20.0


class SocketHandle:
    """The way to an agent behind a Unix socket."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def call(self, method: str, patience_s: float, /, **arguments: Any) -> Any:
        try:
            return getattr(AgentClient(self._path, patience_s), method)(**arguments)
        except AgentUnreachableError as error:
            raise AgentUnreachable(str(error)) from error
        except AgentRefusedError as error:
            raise AgentError(str(error)) from error

    def later(self, method: str, patience_s: float, /, **arguments: Any) -> "Future[Any]":
        future: Future[Any] = Future()

        def carry_out() -> None:
            try:
                future.set_result(self.call(method, patience_s, **arguments))
            except Exception as error:  # belongs to whoever waits
                future.set_exception(error)

        threading.Thread(target=carry_out, name=f"tbd-{method}", daemon=True).start()
        return future


class AgentProcess:
    """The agent of one node as a process: found by its record, or started.

    Args:
        directory: the node's own folder.
        name: the node's name.
        fence_s, idle_exit_s: see ``workers.node.server``.
        cores: the logical cores of a node that is a part of this host; empty: the node is all of it.
        share: which part, ``1/2``: of the GPUs too.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        fence_s: float,
        idle_exit_s: float,
        cores: Sequence[int] = (),
        share: str = "1/1",
    ) -> None:
        self._directory = directory.absolute()
        self._name = name
        self._fence_s = fence_s
        self._idle_exit_s = idle_exit_s
        self._cores = cores
        self._share = share
        self._record = self._directory / "agent.json"
        self._log = self._directory / "agent.log"
        self._child: subprocess.Popen[bytes] | None = None

    def connect(self) -> Handle:
        """The way to the living agent; starts one where none lives.

        Raises:
            AgentUnreachable: it could not be started.
        """
        process, path = self._recorded()
        if process is None or not processes.alive(process):
            path = self._start()
        return SocketHandle(path)

    def _recorded(self) -> tuple[ProcessId | None, Path]:
        record = read_record(self._record)
        if record is None:
            return None, Path()
        return ProcessId(record["pid"], record["start_ticks"]), Path(record["socket"])

    def _start(self) -> Path:
        self._end_child()  # a predecessor of ours whose record is lost would never be found again
        path = self._socket_path()
        try:
            path.unlink(missing_ok=True)
            self._child = self._spawn(path)
            self._write_record(self._child, path)
            self._await(self._child, path)
            background.session_steps_back(self._child.pid)  # processes of an attempt begin sessions of their own
        except BaseException as error:
            self._end_child()  # nobody could find it: the next try would start another one beside it
            if isinstance(error, OSError):  # the directory was taken away, or its disk is full
                raise AgentUnreachable(f"its agent cannot be started: {error}") from error
            raise
        return path

    def _spawn(self, path: Path) -> "subprocess.Popen[bytes]":
        self._directory.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "PYTHONPATH": package_path(os.environ.get("PYTHONPATH"))}
        if self._cores:  # parts of one host reach each other without leaving it
            environment.setdefault("TBD_FABRICS", "ethernet=lo")
            environment["TBD_GPU_SHARE"] = self._share
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command(path),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self._directory,
                start_new_session=True,
            )

    def _write_record(self, child: "subprocess.Popen[bytes]", path: Path) -> None:
        process = processes.identify(child.pid) or ProcessId(child.pid, 0)
        write_record(
            self._record,
            {"pid": process.pid, "start_ticks": process.start_ticks, "socket": str(path), "node": self._name},
        )

    def _end_child(self) -> None:
        """End an agent that this object started, where it still lives."""
        child, self._child = self._child, None
        if child is None or child.poll() is not None:
            return
        process = processes.identify(child.pid)
        if process is not None:
            end_process(process, END_PATIENCE_S)
        child.wait()

    def _command(self, path: Path) -> list[str]:
        options = {
            "--directory": self._directory / "attempts",
            "--socket": path,
            "--node": self._name,
            "--fence-s": self._fence_s,
            "--idle-exit-s": self._idle_exit_s,
        }
        pinned = ["taskset", "--cpu-list", ",".join(map(str, self._cores))] if self._cores else []
        return [
            *pinned,
            sys.executable,
            "-m",
            "workers.node",
            "serve",
            *(str(part) for pair in options.items() for part in pair),
        ]

    def _socket_path(self) -> Path:
        try:
            return short_folder(self._directory, LONGEST_SOCKET_PATH - len("/agent.sock")) / "agent.sock"
        except OSError as error:
            raise AgentUnreachable(str(error)) from error

    def _await(self, child: "subprocess.Popen[bytes]", path: Path) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if child.poll() is not None:
                raise AgentUnreachable(f"its agent ended with status {child.returncode}: {tail(self._log, 5)}")
            if path.exists():
                return
            time.sleep(0.01)
        raise AgentUnreachable(f"its agent made no socket within {START_TIMEOUT_S:g} s: {tail(self._log, 5)}")

    def end_what_was_started(self) -> None:
        """End the agent where this object has started it: one that was found may have attempts."""
        if self._child is not None:
            self.end()

    def end(self) -> None:
        """End the agent, and with it its attempts.

        Raises:
            ClusterUnavailable: the kernel would not end it.
        """
        process, path = self._recorded()
        if process is not None and not end_process(process, END_PATIENCE_S):
            raise ClusterUnavailable(f"the agent of node {self._name}, pid {process.pid}, does not end")
        self._end_child()
        self._record.unlink(missing_ok=True)
        if process is not None:
            path.unlink(missing_ok=True)


class LocalCluster(AgentCluster):
    """``nodes`` agents on this host. See ``orchestrator.domain.ports.Cluster``.

    Args:
        directory: what belongs to this cluster lies here, a folder per node.
        fence_s: seconds without contact after which an agent ends its attempts.
        idle_exit_s: seconds without a server after which an agent ends itself.
        nodes: how many; the host's cores and GPUs are divided evenly among them, to try a plan for several machines on
            one.

    Raises:
        SettingsError: there are fewer cores than nodes; this host cannot be called as it should be.
    """

    def __init__(self, directory: Path, fence_s: float, idle_exit_s: float, nodes: int = 1) -> None:
        super().__init__()
        host = own_name()
        names = [host if number == 1 else f"{host}-{number}" for number in range(1, nodes + 1)]
        self._agents = {
            name: AgentProcess(Path(directory) / "nodes" / name, name, fence_s, idle_exit_s, cores, f"{number}/{nodes}")
            for number, (name, cores) in enumerate(zip(names, _shares(nodes), strict=True), start=1)
        }
        self._known = {name: Keeper(name, agent.connect, fence_s) for name, agent in self._agents.items()}
        try:
            for keeper in self._known.values():
                keeper.settle(START_TIMEOUT_S)
        except (SystemExit, KeyboardInterrupt):  # an orderly stop that comes early: nobody else can order it yet
            self.close()
            for agent in self._agents.values():
                agent.end_what_was_started()
            raise

    def _keepers(self) -> Mapping[str, Keeper]:
        return self._known

    def hold(self, attempt_id: str, placement: Placement) -> Placement:
        """Nobody else places anything on this host."""
        return placement

    def holds(self) -> Collection[str]:
        """Nothing is held."""
        return ()

    def let_go(self, over: Collection[str]) -> None:
        """Nothing is held."""

    def close(self) -> None:
        close_all(self._known.values())

    def _end(self) -> None:
        self.close()
        for agent in self._agents.values():
            agent.end()


def _shares(nodes: int) -> list[list[int]]:
    """The cores of each node: none where there is one, which takes what it finds."""
    if nodes == 1:
        return [[]]
    cores = sorted(os.sched_getaffinity(0))
    size = len(cores) // nodes
    if size == 0:
        raise SettingsError(f"TBD_LOCAL_NODES={nodes}: this host has {len(cores)} cores, and each node needs one")
    return [cores[index * size : (index + 1) * size] for index in range(nodes)]
