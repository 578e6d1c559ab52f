"""A Ray that outlives the services of a test, as its unit keeps it on a host."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.unit_keeper import environment_of
from workers.node.port_choice import free_port

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "ray"


@contextmanager
def ray_apart(folder: Path, **own: str) -> Iterator[dict[str, str]]:
    """Keep a Ray of one node until the block ends; what a service needs in its environment to use it, with ``own``."""
    short, token = tempfile.mkdtemp(prefix="ray-"), folder / "token"  # Ray's sockets lie in it: short paths
    token.write_text(secrets.token_hex(32))
    token.chmod(0o400)
    port = free_port()
    shutil.copy(UNIT / "tbd.env", folder)
    own |= {"TBD_RAY_ADDRESS": f"127.0.0.1:{port}", "RAY_AUTH_TOKEN_PATH": str(token)}
    (folder / "host.env").write_text("".join(f"{name}={text}\n" for name, text in own.items()))
    around = {**os.environ, "PYTHONPATH": str(ROOT), **environment_of((folder / "tbd.env").read_text()), **own}
    words = ["--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=2", f"--temp-dir={short}"]
    words += ["--include-dashboard=false", *around["RAY_START_OPTIONS"].split()]
    ray = subprocess.Popen([sys.executable, "-m", "orchestrator.cluster.ray_node", *words], env=around)
    try:
        # What differs: a Ray that this process has used before has left its token in the environment.
        yield {name: text for name, text in around.items() if os.environ.get(name) != text}
    finally:
        ray.send_signal(signal.SIGTERM)
        ray.wait(60)
        shutil.rmtree(short, ignore_errors=True)
