"""A POST that is acknowledged durably / a no-op GET of the same process, 16 connections kept open.

The load comes from ``wrk`` (one thread), a process of its own, on loopback. The experiments are for a node that does
not exist: they are stored, and wait.
"""

import re
import subprocess
import tempfile
from pathlib import Path

from bench.ratio import Ratio, in_turn, ratio
from tests.support.service import Service

CONNECTIONS = 16
SECONDS = 4

POST_LUA = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"name":"bench-posts","model":"sleep","framework":"sleep","per_device_batch_size":1,"repeats":1,' ..
  '"max_repeats":1,"nodes":{"names":["nowhere"]}}'
function response(status)
  if status >= 400 then io.stderr:write("status " .. status .. "\\n") end
end
"""


def rate(url: str, script: Path | None = None) -> float:
    """Requests answered per second.

    Raises:
        RuntimeError: an answer was no success.
    """
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", *(["-s", str(script)] if script else []), url]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    if "Non-2xx" in result.stdout or result.stderr:
        raise RuntimeError(f"{url}: {result.stdout}{result.stderr[:500]}")
    found = re.search(r"Requests/sec:\s+([\d.]+)", result.stdout)
    if not found:
        raise RuntimeError(result.stdout)
    return float(found[1])


def measure(service: Service, pairs: int) -> Ratio:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "post.lua"
        script.write_text(POST_LUA)
        posts = f"{service.url}/api/v1/experiments"
        a, b = in_turn(pairs, lambda: rate(posts, script), lambda: rate(f"{service.url}/healthz"))
    return ratio(f"durable POST / no-op GET, {CONNECTIONS} connections", ">= 0.6", a, b)
