"""The embedded Ray: one head on this host, apart from the server, found again by the next server of the directory.

Owns its processes and the record of them. All are in one session, begun by ``ray start``: that is how they are found
and ended, by pid and start time and never by ``ray stop``, which would end other people's. Its address is a loopback
one, and as some of Ray's ports listen on all interfaces all the same, it asks for a token that lies in the directory
(mode 0600). A watchdog ends it when no server has used it for a while.
"""

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from orchestrator.cluster.ray_node import CORE_PROGRAMS, program
from orchestrator.cluster.ray_watchdog import LOCK, RECORD
from orchestrator.cluster.records import (
    LONGEST_SOCKET_PATH,
    end_process,
    end_session,
    in_session,
    package_path,
    read_record,
    short_folder,
    tail,
    write_record,
)
from orchestrator.domain.words.errors import ClusterUnavailable
from workers.node import background, processes
from workers.node.processes import ProcessId

# Loopback, but not 127.0.0.1: Ray replaces that by the address of the default route, where all the network could reach
# it, and where it would break when that address changes.
HOST = "127.0.0.2"
START_TIMEOUT_S = 90.0
LOCK_TIMEOUT_S = 30.0
# Nothing of weight goes through Ray: it carries calls of a few kilobytes.
OBJECT_STORE_BYTES = 80_000_000
_LONGEST_IN_TEMP_DIR = "/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store.0"


class EmbeddedRay:
    """Args: directory: its own folder. idle_exit_s: seconds without a server after which it ends itself."""

    def __init__(self, directory: Path, idle_exit_s: float) -> None:
        self._directory = directory.absolute()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._idle_exit_s = idle_exit_s
        self._record = self._directory / RECORD
        self._log = self._directory / "start.log"
        self._lock: int | None = None
        self._children: list[subprocess.Popen[bytes]] = []
        self._is_new = False
        # What was last written or read: the directory may be gone when Ray is to end.
        self._last: dict[str, Any] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What a client of this Ray needs in its environment *before* it imports Ray."""
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self._directory / "token")}

    def ensure(self) -> str:
        """The address of the living Ray, ``host:port``; starts one where none lives.

        Raises:
            ClusterUnavailable: it does not start; the message ends with what it said.
        """
        self._hold()
        record = self._last = read_record(self._record)
        if record is not None and record.get("address") and all(map(processes.alive, _ids(record["core"]))):
            self._keep_watched(record)
            return str(record["address"])
        if record is not None:  # half started, or half dead
            self._end(record)
        return self._start()

    def alive(self) -> bool:
        """Whether its core processes live."""
        record = read_record(self._record)
        return record is not None and bool(record.get("core")) and all(map(processes.alive, _ids(record["core"])))

    def stop_what_was_started(self) -> None:
        """End a Ray that this object has started; let go of one that was found, where attempts may run."""
        if self._is_new:
            self.stop()
        else:
            self.release()

    def release(self) -> None:
        """Let go: the watchdog's time begins."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def stop(self) -> None:
        """End all its processes.

        Raises:
            ClusterUnavailable: the kernel would not end them.
        """
        record = read_record(self._record) or self._last
        if record is not None:
            self._end(record)
        self.release()

    def _hold(self) -> None:
        if self._lock is not None:
            return
        lock = os.open(self._directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while True:  # only a watchdog that is ending Ray holds it alone
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                self._lock = lock
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(lock)
                    raise ClusterUnavailable(f"the embedded Ray of {self._directory} does not end") from None
            time.sleep(0.1)

    def _start(self) -> str:
        self._is_new = True
        self._make_token()
        temp_dir = self._temp_dir()
        shutil.rmtree(temp_dir, ignore_errors=True)  # of a Ray that is dead; its logs were for until now
        starter = self._launch(self._command(temp_dir), self._log, {"RAY_START_HOOK": f"{__package__}.ray_hook.trim"})
        session = processes.identify(starter.pid) or ProcessId(starter.pid, 0)
        record: dict[str, Any] = {"session": list(session), "temp_dir": str(temp_dir)}
        try:
            self._write(record)
            self._keep_watched(record)
            status = starter.wait(START_TIMEOUT_S)
            if status != 0:
                raise ClusterUnavailable(f"the embedded Ray did not start (status {status}): {tail(self._log)}")
            record["address"] = (temp_dir / "ray_current_cluster").read_text(encoding="utf-8").strip()
        except (subprocess.TimeoutExpired, OSError) as error:
            self._end(record)
            raise ClusterUnavailable(f"the embedded Ray did not start: {error}: {tail(self._log)}") from error
        except BaseException:  # SIGTERM and Ctrl-C too: nobody else knows yet that there is something to stop
            self._end(record)
            raise
        background.session_steps_back(session.pid)  # processes of an attempt begin sessions of their own
        record["core"] = [list(process) for process in in_session(session) if program(process.pid) in CORE_PROGRAMS]
        self._write(record)
        return str(record["address"])

    def _command(self, temp_dir: Path) -> list[str]:
        options = {
            "port": _free_port(),
            "node-ip-address": HOST,
            "include-dashboard": "false",
            "dashboard-agent-listen-port": 0,
            "include-log-monitor": "false",
            "object-store-memory": OBJECT_STORE_BYTES,
            "temp-dir": temp_dir,
        }
        arguments = [f"--{name}={value}" for name, value in options.items()]
        return [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--disable-usage-stats", *arguments]

    def _launch(self, command: list[str], log: Path, added: dict[str, str]) -> "subprocess.Popen[bytes]":
        """Start a process in a session of its own, which lives on without us."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment |= self.environment | added
        environment |= {
            "PYTHONPATH": package_path(os.environ.get("PYTHONPATH")),
            "RAY_USAGE_STATS_ENABLED": "0",
            # What Ray measures of itself would only disturb what is measured here.
            "RAY_enable_metrics_collection": "0",
            "RAY_metrics_report_interval_ms": "600000",
            "REPORTER_UPDATE_INTERVAL_MS": "600000",
            "RAY_task_events_report_interval_ms": "0",
            "RAY_event_stats": "0",
            # An idle worker wakes a hundred times a second: none is kept, because agents are started once and stay.
            "RAY_prestart_worker_first_driver": "0",
            "RAY_num_workers_soft_limit": "0",
            # It ends Ray's workers, thus agents, where memory is short: what a training may well bring about.
            "RAY_memory_monitor_refresh_ms": "0",
            "RAY_process_group_cleanup_enabled": "1",
            # Ray gives its workers a niceness of 15, and what an agent starts would inherit it: whatever else the host
            # does would then go before the training that is measured.
            "RAY_worker_niceness": "0",
        }
        with log.open("wb") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=self._directory,
                start_new_session=True,
            )
        self._children.append(child)
        return child

    def _keep_watched(self, record: dict[str, Any]) -> None:
        """Start a watchdog unless one lives."""
        if "watchdog" in record and processes.alive(ProcessId(*record["watchdog"])):
            return
        pid, start_ticks = record["session"]
        options = {
            "directory": self._directory,
            "session": pid,
            "start-ticks": start_ticks,
            "idle-exit-s": self._idle_exit_s,
        }
        command = [sys.executable, "-m", f"{__package__}.ray_watchdog", *(f"--{k}={v}" for k, v in options.items())]
        child = self._launch(command, self._directory / "watchdog.log", {})
        record["watchdog"] = list(processes.identify(child.pid) or ProcessId(child.pid, 0))
        self._write(record)

    def _write(self, record: dict[str, Any]) -> None:
        self._last = record
        write_record(self._record, record)

    def _end(self, record: dict[str, Any]) -> None:
        if not end_session(ProcessId(*record["session"])):
            raise ClusterUnavailable(f"processes of the embedded Ray of {self._directory} do not end")
        if "watchdog" in record:  # last: it would finish what this process could not, were it killed here
            end_process(ProcessId(*record["watchdog"]), patience_s=1.0)
        for child in self._children:
            child.poll()  # reap
        self._last = None
        self._record.unlink(missing_ok=True)

    def _make_token(self) -> None:
        path = self._directory / "token"
        if not path.exists():
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(file, secrets.token_hex(32).encode())
            os.close(file)

    def _temp_dir(self) -> Path:
        folder = self._directory / "ray"
        return short_folder(folder, LONGEST_SOCKET_PATH - len(_LONGEST_IN_TEMP_DIR) - len("/r")) / "r"


def _ids(pairs: list[list[int]]) -> list[ProcessId]:
    return [ProcessId(*pair) for pair in pairs]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
