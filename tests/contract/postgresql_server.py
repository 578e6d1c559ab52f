"""A PostgreSQL server of our own from Debian's package, on a free port in a temporary folder."""

import os
import pwd
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from workers.node.port_choice import free_port


@dataclass
class PostgresqlServer:
    """A server in a temporary folder. It refuses to run as root, so root runs it as another user."""

    binaries: Path
    folder: Path
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = None
    as_user: dict[str, Any] = field(default_factory=dict)

    def create(self) -> None:
        if os.geteuid() == 0:
            user = _other_user()
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        initdb = [self.binaries / "initdb", "-D", self.folder / "data", "-A", "trust", "-U", "tbd", "-E", "UTF8", "-N"]
        subprocess.run(
            initdb, check=True, capture_output=True, cwd=self.folder, env=self._environment(), **self.as_user
        )
        self.port = free_port()

    def start(self) -> None:
        # fsync off: no test takes the power away, and the tests of SIGKILL kill clients.
        options = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "", "fsync": "off"}
        command = [str(self.binaries / "postgres"), "-D", str(self.folder / "data")]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        with open(self.folder.parent / f"{self.folder.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=self._environment(), stdout=log, stderr=log, **self.as_user
            )
        self._wait_until_ready()

    def stop(self) -> None:
        """End it at once, connections and all."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
            self.process.wait(timeout=30)
            self.process = None

    def url(self, database: str) -> str:
        return f"postgresql://tbd@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload]

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert self.process is not None
                assert self.process.poll() is None, "the server ended by itself"
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.05)


def _other_user() -> pwd.struct_passwd:
    names = {user.pw_name: user for user in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def installed() -> Path | None:
    """Debian keeps the server's programs off PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("postgres")
    if found:
        return found[-1].parent
    return Path(on_path).parent if on_path else None
