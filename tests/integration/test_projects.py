"""Projects on a real service: the command of a model folder in git is carried out, and what it may not is refused."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.exits import REGRESSION, USAGE
from tests.integration.service_rig import Tbd, environment
from tests.support.service import Service
from workers.node import interpreters

SCRIPT = """
import os, sys, time
import tbd_hook

pause, unit = float(sys.argv[1]), sys.argv[2]
assert not any(name.startswith("TBD_SUITE") for name in os.environ)
tbd_hook.begin(unit=unit)
for number in range(100000):
    time.sleep(pause)
    tbd_hook.step(work=10, loss=1.0)
"""
# As many processes as the first word says, each a rank.
RANKS = """
for rank in $(seq 0 $(($1 - 1))); do
    RANK=$rank WORLD_SIZE=$1 "$2" train.py "$3" tokens &
done
wait
"""
# Two ranks by torchrun, which lies in PyTorch's environment.
OVER_RANKS = """
import sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
sgd = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(10000, 8))
for (batch,) in torch.utils.data.DataLoader(data, batch_size=5):
    model(batch).square().mean().backward()
    time.sleep(float(sys.argv[1]))
    sgd.step()
"""
PAUSE = '[options.pause]\ntype = "float"\ndefault = 0.004\n[options.name]\ntype = "str"\ndefault = "tokens"\n'
VALUES = '"{pause}", "{name}"]\nunit = "tokens"\n'
ALONE = f'words = ["{sys.executable}", "train.py", {VALUES}'
GONE = "0" * 40
# project -> what its [command] is, and how its run fails; None: it ends well.
PROJECTS: dict[str, tuple[str, str | None]] = {
    "alone": (ALONE, None),
    "ranks": (f'words = ["sh", "ranks.sh", "{{devices}}", "{sys.executable}", {VALUES}', None),
    "found": (ALONE.replace(sys.executable, "python") + f'environment = "{sys.prefix}"\n', None),
    "no_unit": (ALONE.replace('unit = "tokens"', ""), "have tokens, and the project declares steps"),
    "no_such_folder": (ALONE + 'folder = "/nowhere/here"\n', "there is no folder /nowhere/here on this node"),
    "no_such_prefix": (ALONE + 'environment = "/nowhere"\n', "there is no folder /nowhere/bin"),
    "no_such_command": (ALONE.replace(sys.executable, "trains-nothing"), "there is no command trains-nothing"),
    "no_such_commit": (ALONE + f'commit = "{GONE}"\n', f"commit {GONE} of"),
    "no_step": ('words = ["sh", "-c", "exit 3", "{pause}{name}"]\n', "ended with status 3 before it trained a step"),
}  # fmt: skip


def specification(name: str, **more: Any) -> dict[str, Any]:
    asked = {"model": name.replace("_", "-"), "framework": "own-script", "data": "own", "per_device_batch_size": 1}
    return {"name": "mine", **asked, "repeats": 1, "max_measure_s": 0.6, "timeout_s": 120, **more}


TORCHRUN = """
name = "torchrun"
[command]
words = ["torchrun", "--standalone", "--nproc-per-node={{devices}}", "train.py", "{{pause}}"]
environment = "{prefix}"
unit = "samples"
[options.pause]
type = "float"
default = 0.02
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Path]]:
    folder = tmp_path_factory.mktemp("projects")
    suite = folder / "suite"
    for name, (command, _) in PROJECTS.items():
        (suite / name).mkdir(parents=True)
        (suite / name / "train.py").write_text(SCRIPT)
        (suite / name / "ranks.sh").write_text(RANKS)
        facts = f'name = "{name.replace("_", "-")}"\n[command]\n{command}{PAUSE}'
        (suite / name / "model.toml").write_text(facts)
    python = interpreters.resolve("pytorch").python
    (suite / "torchrun").mkdir()
    (suite / "torchrun" / "train.py").write_text(OVER_RANKS)
    (suite / "torchrun" / "model.toml").write_text(TORCHRUN.format(prefix=python and Path(python).parents[1]))
    subprocess.run(["git", "init", "-q", str(suite)], check=True)
    (suite / ".gitignore").write_text("__pycache__\n")
    committed(suite, "as it is")
    service = Service(folder / "data", **environment(folder, TBD_SUITE_PATH=str(suite), TBD_CPU_DEVICES="2")).start()
    yield service, suite
    service.stop()


def test_options_of_a_project_are_cells_and_its_code_is_the_subject(served: tuple[Service, Path]) -> None:
    service, suite = served
    clean = {"commit": committed(suite, "nothing else"), "dirty_sha256": None}
    experiment = service.submit(specification("alone", options={"pause": [0.004, 0.012]}))
    assert {run["state"] for run in service.wait(experiment)} == {"completed"}
    rows = service.all(f"/api/v1/experiments/{experiment}/results")
    rates = [row["throughput"]["value"] for row in rows]
    assert rows[0]["throughput"]["unit"] == "tokens/s"
    assert 1.2 * rates[1] < rates[0] < 10 / 0.004
    assert [row["fingerprint"]["subject"]["script"] for row in rows] == [clean, clean]
    assert rows[0]["fingerprint"]["subject"]["suite"] == clean


@pytest.mark.after_change
def test_a_commit_that_makes_a_project_slower_is_told_side_by_side(
    served: tuple[Service, Path], tmp_path: Path
) -> None:
    service, suite = served
    experiment = service.submit(specification("alone", repeats=2, max_repeats=2, max_measure_s=0.4))
    service.wait(experiment)
    script = suite / "alone" / "train.py"
    old = committed(suite, "as it was")
    script.write_text(SCRIPT.replace("time.sleep(pause)", "time.sleep(2 * pause)"))
    new = committed(suite, "a second wait")
    script.write_text(SCRIPT)
    committed(suite, "as it was again")
    asked = ["--interleave", "--of", experiment, "--detect", "10%", "--budget", "2m"]
    told = Tbd(tmp_path, service.url)("compare", old, new, *asked, "--format", "md", code=REGRESSION).stdout
    assert "| slower |" in told
    assert f"| {old} | {new} | -" in told


@pytest.mark.after_change
def test_the_first_slower_commit_is_found_among_others(served: tuple[Service, Path], tmp_path: Path) -> None:
    service, suite = served
    experiment = service.submit(specification("alone", repeats=2, max_repeats=2, max_measure_s=0.4))
    service.wait(experiment)
    script, slow = suite / "alone" / "train.py", SCRIPT.replace("time.sleep(pause)", "time.sleep(2 * pause)")
    commits = []
    for number, text in enumerate((SCRIPT, SCRIPT, slow, slow)):
        script.write_text(f"{text}# {number}\n")
        commits.append(committed(suite, f"number {number}"))
    script.write_text(SCRIPT)
    committed(suite, "as it was again")
    tbd = Tbd(tmp_path, service.url)
    asked = ["--of", experiment, "--repository", str(suite), "--budget", "2m"]
    said, _ = tbd.start("bisect", commits[0], commits[3], *asked).communicate(timeout=600)
    assert f"the first slower one: {commits[2]} number 2" in said
    assert "does not come after" in tbd("bisect", commits[3], commits[0], *asked, code=USAGE).stderr
    assert "is no commit" in tbd("bisect", "nowhere", commits[0], *asked, code=USAGE).stderr


def committed(suite: Path, message: str) -> str:
    """Commit the suite as it is; the commit."""
    git = ["git", "-C", str(suite), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", message], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def test_each_rank_of_a_project_is_followed_and_has_to_be_one_of_the_plan(served: tuple[Service, Path]) -> None:
    service, _ = served
    experiment = service.submit(specification("ranks", topology="1x2", options={"pause": 0.05}))
    (run,) = service.wait(experiment)
    assert run["state"] == "completed", run["failure"]
    (row,) = service.all(f"/api/v1/experiments/{experiment}/results")
    assert 10 / 0.05 < row["throughput"]["value"] < 2 * 10 / 0.05
    (run,) = service.wait(service.submit(specification("alone", topology="1x2")))
    assert "trains with 1 ranks, and the plan has 2 devices" in run["failure"]["message"]


@pytest.mark.after_change
@pytest.mark.framework("pytorch")
def test_the_ranks_of_torchrun_are_those_of_the_plan(served: tuple[Service, Path]) -> None:
    service, _ = served
    (run,) = service.wait(service.submit(specification("torchrun", topology="1x2")))
    assert run["state"] == "completed", run["failure"]
    experiment = run["experiment_id"]
    (row,) = service.all(f"/api/v1/experiments/{experiment}/results")
    assert row["throughput"]["unit"] == "samples/s"
    assert 0 < row["throughput"]["value"] < 2 * 5 / 0.02


@pytest.mark.after_change
def test_what_cannot_be_carried_out_says_why(served: tuple[Service, Path]) -> None:
    service, _ = served
    asked = {name: service.submit(specification(name)) for name, (_, said) in PROJECTS.items() if name != "ranks"}
    for name, experiment in asked.items():
        (run,) = service.wait(experiment)
        said = PROJECTS[name][1]
        assert (run["failure"] or {}).get("message", "").find(said or "") >= 0, (name, run["failure"])
        assert (run["state"] == "completed") == (said is None), (name, run["failure"])
    (run,) = service.wait(service.submit(specification("alone", options={"name": "--eval"})))
    assert "would be an option of the command" in run["failure"]["message"]


def test_no_spec_says_a_command_and_no_list_has_one(served: tuple[Service, Path]) -> None:
    service, _ = served
    models = service.call("GET", "/api/v1/models")["items"]
    (alone,) = (model for model in models if model["name"] == "alone")
    assert "train.py" not in str(alone)
    assert sorted(one["name"] for one in alone["options"]) == ["name", "pause"]
