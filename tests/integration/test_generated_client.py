"""A client that a public tool makes of the OpenAPI description, as docs/use/commands.md tells."""

import os
import re
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.integration.service_rig import ROOT, Tbd, service

PAGE = (ROOT / "docs" / "use" / "commands.md").read_text(encoding="utf-8")
LOG = ROOT / "tests" / "replays" / "logs" / "steady_pytorch.jsonl"
# Files go both ways, though the generator knows none of their types.
FILES = f"""
from tbd_client.api.results import export_results
from tbd_client.api.runs import ingest_log
from tbd_client.types import File

with open({str(LOG)!r}, "rb") as log:
    print(ingest_log.sync(client=client, body=File(log)).state.value)
print(export_results.sync(client=client)[:13])
"""


def block(language: str, word: str) -> str:
    """The block of the page in ``language`` that has ``word``."""
    return next(text for text in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if word in text)


# Ten seconds of a core.
@pytest.mark.after_change
def test_a_generated_client_submits_waits_and_reads_results(tmp_path: Path) -> None:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def run(*command: str, **more: str) -> str:
        ended = subprocess.run(
            command, cwd=tmp_path, env=environment | more, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    (tmp_path / "client.yaml").write_text(block("yaml", "content_type_overrides"))
    generate = next(line for line in block("sh", "openapi-python-client").splitlines() if " generate " in line)
    with service(tmp_path) as url:
        # The generator waits 5 s for it, which is long enough only once it was made.
        urllib.request.urlopen(url + "/openapi.json", timeout=60).close()
        run(*shlex.split(generate.replace("http://127.0.0.1:8585", url)), "--fail-on-warning")
        token = Tbd(tmp_path, url).json("token", "add", "ada", "--scope", "submit")["token"]
        script = block("python", "tbd_client") + FILES
        package = {"PYTHONPATH": str(tmp_path / "tbd-client")}
        told = run(sys.executable, "-c", script, TBD_SERVER=url, TBD_TOKEN=token, **package).splitlines()
    cells = [line.split()[:2] for line in told[:-2]]
    assert cells == [["sleep", "1"], ["sleep", "2"]]
    assert all("samples" in line for line in told[:-2])
    assert told[-2:] == ["completed", "experiment_id"]
