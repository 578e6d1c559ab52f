"""``tbd exec``: scripts that were not written for it, carried out and watched as they stand.

Each case is a script and what its log must say. They share a beginning; PyTorch's environment carries them out, and the
rates that are checked are held against the script's own clock.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator.analysis.analyse import analyse
from orchestrator.cli.exits import FAILED, INTERRUPTED, REGRESSION, RUN_FAILED, USAGE
from orchestrator.cli.main import main
from tests.integration.node_attempts import a_job
from workers.node import interpreters, port_choice, processes
from workers.node.event_log import EventLog
from workers.node.one_host import carry_out
from workers.node.own import jobs, script
from workers.node.own.script import Command, OwnScript
from workers.trainer import hook

pytestmark = pytest.mark.framework("pytorch")

# Each script in PyTorch takes four core seconds. What proves the walk is always run: work and steps, workers and
# children, phases, a script that hides, one that fails, ranks.
LATER = pytest.mark.after_change
NEEDS_MPIRUN = pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")
# Where much else runs the import of PyTorch alone has taken over a minute.
LONGEST_S = 300.0

# ``own`` writes down what the script itself knows when a step begins: how many there were, their samples, its clock.
BEGINNING = """
import os, sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Linear(64, 4))
data = TensorDataset(torch.randn(50, 8), torch.randn(50, 4))
sgd = torch.optim.SGD(model.parameters(), lr=0.01)
done = samples = 0

def loss_of(batch):
    return ((model(batch[0]) - batch[1]) ** 2).mean()

def own(count, pause=0.004):
    global done, samples
    time.sleep(pause)
    done, samples = done + 1, samples + count
    with open("own.txt", "a") as file:
        file.write("%d %d %r\\n" % (done, samples, time.monotonic()))

def train(step=lambda: sgd.step(), epochs=1000, loader=None, after=lambda: None):
    for epoch in range(epochs):
        for batch in loader or DataLoader(data, batch_size=10, shuffle=True):
            sgd.zero_grad()
            loss_of(batch).backward()
            own(len(batch[0]))
            step()
            after()
"""
ACCUMULATES = """
for epoch in range(1000):
    seen = 0
    for number, batch in enumerate(DataLoader(data, batch_size=8)):
        loss_of(batch).backward()
        seen += len(batch[0])
        if number % 2 or number == 6:
            own(seen)
            sgd.step()
            sgd.zero_grad()
            seen = 0
"""
SMALL_BEFORE_LARGE = """
head = torch.nn.Linear(8, 1)
small = torch.optim.Adam(head.parameters())
def both():
    for _ in range(3):
        head(torch.randn(2, 8)).mean().backward()
        small.step()
    sgd.step()
train(both)
"""
WITHIN_EACH_OTHER = """
class Around(torch.optim.Optimizer):
    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner
    def step(self, closure=None):
        self.inner.step()
around = Around(sgd)
train(around.step)
"""
IN_THE_BACKWARD_PASS = """
each = {one: torch.optim.SGD([one], lr=0.01) for one in model.parameters()}
for one in model.parameters():
    one.register_post_accumulate_grad_hook(lambda one: each[one].step())
for number in range(10000):
    for batch in DataLoader(data, batch_size=50):
        own(50)
        loss_of(batch).backward()
"""
LEAVES_STEPS_OUT = """
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
for number in range(10000):
    for batch in DataLoader(data, batch_size=25):
        sgd.zero_grad()
        loss = loss_of(batch) * (float("inf") if done in (20, 30) else 1.0)
        scaler.scale(loss).backward()
        own(25)
        scaler.step(sgd)
        scaler.update()
"""
EVALUATES = """
other = TensorDataset(torch.randn(30, 8), torch.randn(30, 4))
def between():
    if done % 5:
        return
    begun = time.monotonic()
    model.eval()
    for batch in DataLoader(other, batch_size=10):  # with gradients: it is known by its loader
        time.sleep(0.01)
        loss_of(batch)
    with torch.no_grad():
        for batch in DataLoader(data, batch_size=25):
            time.sleep(0.01)
    model.train()
    with open("evaluations.txt", "a") as file:
        file.write("%d %r\\n" % (done, time.monotonic() - begun))
    torch.save(model.state_dict(), "checkpoint.pt")
train(after=between)
"""
BY_CLOSURES = """
lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=3)
batch = data[:]
def closure():
    lbfgs.zero_grad()
    loss = loss_of(batch)
    loss.backward()
    return loss
for number in range(10000):
    own(1)
    lbfgs.step(closure)
"""
GIVES_TOKENS = """
class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 50
    def __getitem__(self, index):
        return {"labels": torch.ones(4), "input_ids": torch.arange(8)}
for number in range(1000):
    for batch in DataLoader(Texts(), batch_size=10):
        sgd.zero_grad()
        loss_of((batch["input_ids"].float(), batch["labels"])).backward()
        own(8 * len(batch["labels"]))
        sgd.step()
"""
WITH_WORKERS = """
if os.fork() == 0:
    for number in range(300):
        sgd.step()
    os._exit(0)
train(loader=DataLoader(data, batch_size=10, num_workers=1, persistent_workers=True))
"""
GOES_ELSEWHERE = """
os.mkdir("elsewhere")
os.symlink("../own.txt", "elsewhere/own.txt")
os.chdir("elsewhere")
os.environ.clear()
train()
"""
SWALLOWS = """
while True:
    try:
        train()
    except SystemExit:
        pass
"""
HANGS_AT_THE_END = """
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(model)
sgd = torch.optim.SGD(model.parameters(), lr=0.01)
try:
    train()
finally:
    if dist.get_rank() == 0:
        dist.barrier()
    while dist.get_rank() == 1:
        time.sleep(1)
"""
OVER_RANKS = """
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(model)
sgd = torch.optim.SGD(model.parameters(), lr=0.01)
def after():
    if len(sys.argv) > 1 and done == 40 and dist.get_rank() == 1:
        raise ValueError("this rank had enough")
train(after=after)
"""


def carried_out(
    tmp_path: Path, text: str, words: list[str] | None = None, environment: dict[str, str] | None = None, **asked: Any
) -> list[dict[str, Any]]:
    """Run a script, or ``words`` in which PYTHON and SCRIPT stand for what carries it out; its log."""
    python, file = str(interpreters.resolve("pytorch").python), tmp_path / "train.py"
    file.write_text(text)
    known = {"PYTHON": python, "SCRIPT": str(file)}
    command = [known.get(word, word) for word in words or ["PYTHON", "SCRIPT"]]
    wanted = jobs.Asked(**{"seconds": None, "steps": 120, "work": None, "unit": None, "timeout_s": LONGEST_S} | asked)
    facts = {"words": command, "work": wanted.work, "unit": wanted.unit, "commit": None, "dirty_sha256": None}
    job = jobs.job_of(wanted, {"script": "train.py"}, 1, python, facts, "here")
    log = EventLog(tmp_path / "log.jsonl")
    carry_out(job, log, partial(OwnScript, Command(command, tmp_path, {**os.environ, **(environment or {})})))
    return log.slice(0, log.last_seq)


def of(entries: list[dict[str, Any]], kind: str, rank: int | None = None) -> list[dict[str, Any]]:
    return [one["data"] for one in entries if one["kind"] == kind and rank in (None, one["rank"])]


def failure_of(entries: list[dict[str, Any]]) -> dict[str, Any]:
    failure: dict[str, Any] = of(entries, "log_closed")[0]["failure"]
    return failure


def own_account(tmp_path: Path) -> dict[int, tuple[int, float]]:
    """Step -> (samples up to it, when it began by the script's own clock)."""
    lines = [line.split() for line in (tmp_path / "own.txt").read_text().splitlines()]
    return {int(step): (int(samples), float(at)) for step, samples, at in lines}


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        pytest.param("train()", "samples", id="a plain loop", marks=LATER),
        pytest.param(ACCUMULATES, "samples", id="gradients of several batches, and a smaller last one"),
        pytest.param(SMALL_BEFORE_LARGE, "samples", id="a smaller optimiser steps more often", marks=LATER),
        pytest.param(WITHIN_EACH_OTHER, "samples", id="an optimiser within another of as many numbers", marks=LATER),
        pytest.param(
            IN_THE_BACKWARD_PASS, "samples", id="an optimiser for each parameter, in the backward pass", marks=LATER
        ),
        pytest.param(GIVES_TOKENS, "tokens", id="texts", marks=LATER),
        pytest.param(BY_CLOSURES, "steps", id="LBFGS, and no loader", marks=LATER),
        pytest.param(WITH_WORKERS, "samples", id="a loader with workers, and a child that was forked"),
        pytest.param(SWALLOWS, "samples", id="it catches what ends it", marks=LATER),
        pytest.param(
            GOES_ELSEWHERE, "samples", id="it goes to another folder, and forgets its environment", marks=LATER
        ),
        pytest.param("train(epochs=40); os._exit(0)", "samples", id="it ends by itself, at once", marks=LATER),
        pytest.param(
            "import atexit\natexit.register(time.sleep, 99)\ntrain()", "samples", id="it never ends", marks=LATER
        ),
    ],
)
def test_steps_and_work_are_those_that_the_script_counts_itself(
    text: str, unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "_END_S", 0.5)
    entries = carried_out(tmp_path, BEGINNING + text, unit="tokens" if unit == "tokens" else None)
    assert failure_of(entries) is None, failure_of(entries)
    intervals, account = of(entries, "interval"), own_account(tmp_path)
    (job,) = [one["job"] for one in of(entries, "log_opened")]
    assert (job["model"]["work_unit"], job["plan"]["framework"]) == (unit, "pytorch")
    last = intervals[-1]["first_step"] + intervals[-1]["n"] - 1
    assert last >= 120
    counted = sum(one["work"][unit] for one in intervals)
    assert counted == (last if unit == "steps" else account[last][0])
    timed = intervals[1:-1]
    first, end = timed[0]["first_step"], timed[-1]["first_step"] + timed[-1]["n"]
    by_script = account[end][1] - account[first][1]
    assert sum(one["duration_s"] for one in timed) == pytest.approx(by_script, rel=0.05)
    assert of(entries, "loss")
    analysis = analyse({"here": entries})
    assert not analysis.validity.broken, analysis.validity
    assert analysis.measurement("throughput") is not None


@LATER
def test_steps_that_a_scaled_loss_left_out_are_told_and_are_no_steps(tmp_path: Path) -> None:
    entries = carried_out(tmp_path, BEGINNING + LEAVES_STEPS_OUT)
    intervals = of(entries, "interval")
    assert sum(one.get("left_out", 0) for one in intervals) == 2
    last = intervals[-1]["first_step"] + intervals[-1]["n"] - 1
    assert sum(one["work"]["samples"] for one in intervals) == 25 * (last + 2)
    assert max(float(one["value"]) for one in of(entries, "loss")) < 8  # as it is, not as it was scaled


@pytest.mark.after_change
def test_evaluations_and_checkpoints_are_beside_the_steps(tmp_path: Path) -> None:
    entries = carried_out(tmp_path, BEGINNING + EVALUATES)
    assert failure_of(entries) is None
    analysis = analyse({"here": entries})
    assert not analysis.validity.broken, analysis.validity
    phases, last = analysis.summary["phases"], of(entries, "stopped")[0]["step"]
    evaluated = [line.split() for line in (tmp_path / "evaluations.txt").read_text().splitlines()]
    by_script = sum(float(seconds) for step, seconds in evaluated if int(step) < last)
    assert phases["evaluation"] == pytest.approx(by_script, rel=0.05)
    assert phases["checkpoint"] > 0
    timed, account = of(entries, "interval")[1:-1], own_account(tmp_path)
    first, end = timed[0]["first_step"], timed[-1]["first_step"] + timed[-1]["n"]
    whole = sum(one["duration_s"] + sum(one.get("paused_s", {}).values()) for one in timed)
    assert whole == pytest.approx(account[end][1] - account[first][1], rel=0.1)
    assert analysis.measurement("step_time_s") is not None
    assert analysis.measurement("input_ratio") is not None


@pytest.mark.parametrize(
    ("text", "words", "kind", "said"),
    [
        pytest.param(
            "def step(): pass\ntrain(step, epochs=2)",
            None,
            "unsupported",
            "no optimiser of torch.optim stepped",
            marks=LATER,
        ),
        pytest.param("train(epochs=2)", ["PYTHON", "-I", "SCRIPT"], "unsupported", "python -I", marks=LATER),
        pytest.param(
            "train(epochs=2)", ["/usr/bin/env", "-i", "PYTHON", "SCRIPT"], "unsupported", "env -i", marks=LATER
        ),
        ("sys.exit('no such data')", None, "crashed", "no such data"),
        pytest.param(
            "def step(): 1 / (60 - done)\ntrain(lambda: (sgd.step(), step()))",
            None,
            "crashed",
            "ZeroDivisionError",
            marks=LATER,
        ),
        pytest.param(
            "sys.stdout.buffer.write(bytes(range(256)) * 9000)\nos.kill(os.getpid(), 9)",
            None,
            "crashed",
            "signal 9",
            marks=LATER,
        ),
        pytest.param("time.sleep(99)", None, "timed_out", "timeout_s", marks=LATER),
        pytest.param("train(epochs=1)\ntrain(loader=[data[:10]])", None, "unsupported", "--work", marks=LATER),
    ],
)
def test_what_cannot_be_measured_says_why(
    text: str, words: list[str] | None, kind: str, said: str, tmp_path: Path
) -> None:
    entries = carried_out(tmp_path, BEGINNING + text, words, timeout_s=8.0 if kind == "timed_out" else LONGEST_S)
    failure = failure_of(entries)
    assert failure["kind"] == kind, failure
    assert said in failure["message"], failure
    assert analyse({"here": entries}).failure is not None


TORCHRUN = ["PYTHON", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "SCRIPT"]
AS_MPI_SAYS = 'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE exec "$@"'
MPIRUN = ["/usr/bin/env", "mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2", "sh", "-c", AS_MPI_SAYS, "sh"]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(TORCHRUN, id="torchrun"),
        pytest.param([*MPIRUN, "PYTHON", "SCRIPT"], id="mpirun", marks=[LATER, NEEDS_MPIRUN]),
    ],
)
def test_ranks_are_found_whatever_starts_them_and_end_at_the_same_step(words: list[str], tmp_path: Path) -> None:
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port_choice.free_port())}
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    entries = carried_out(tmp_path, BEGINNING + OVER_RANKS, words, where | as_root, steps=60)
    assert failure_of(entries) is None, failure_of(entries)
    plan = of(entries, "log_opened")[0]["job"]["plan"]
    assert (plan["topology"], plan["device"]) == ("1x2", "cpu")
    stopped = [of(entries, "stopped", rank)[0]["step"] for rank in (0, 1)]
    assert stopped[0] == stopped[1] >= 60
    (one, other) = (of(entries, "finished", rank)[0]["weights_sha256"] for rank in (0, 1))
    assert one == other is not None
    assert not analyse({"here": entries}).validity.broken


@LATER
def test_ranks_that_hang_in_their_last_barrier_are_ended_and_what_they_measured_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "_END_S", 0.5)
    words = ["PYTHON", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "SCRIPT"]
    entries = carried_out(tmp_path, BEGINNING + HANGS_AT_THE_END, words, steps=40)
    assert failure_of(entries) is None, failure_of(entries)
    assert analyse({"here": entries}).measurement("throughput") is not None


@LATER
def test_a_rank_that_dies_is_the_one_that_is_named(tmp_path: Path) -> None:
    words = ["PYTHON", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "SCRIPT", "dies"]
    failure = failure_of(carried_out(tmp_path, BEGINNING + OVER_RANKS, words))
    assert (failure["kind"], failure["ranks"]) == ("crashed", [1])


@pytest.mark.after_change
def test_profiles_are_of_steps_after_the_timed_ones_and_know_what_memory_is_for(tmp_path: Path) -> None:
    text = "before = list(sys.path)\nsgd = torch.optim.Adam(model.parameters())\ntrain(lambda: sgd.step(), after=same)"
    same = "def same():\n    assert sys.path == before\n"
    entries = carried_out(tmp_path, BEGINNING + same + text, profile=("kernels", "memory"))
    assert failure_of(entries) is None, failure_of(entries)
    analysis = analyse({"here": entries})
    assert not analysis.validity.broken, analysis.validity
    steps = sum(one["n"] for one in of(entries, "interval"))
    assert of(entries, "stopped")[0]["step"] == of(entries, "finished")[0]["steps"] == steps
    assert len(own_account(tmp_path)) == steps + 3 + 3 + 1
    (memory,), numbers = analysis.profiles.memory, 8 * 64 + 64 + 64 * 4 + 4
    assert memory.classes["weights"].at_peak_bytes == memory.classes["weight_gradients"].max_bytes == 4 * numbers
    assert memory.parts["optimizer_state"].max_bytes == pytest.approx(8 * numbers, abs=16)  # and the steps themselves
    assert memory.classes["feature_maps"].max_bytes >= 4 * 10 * 64
    (table,) = analysis.profiles.kernels
    assert "aten::addmm" in {row.name for row in table.rows}
    # Forward, by the weights and, but for the first layer, by its input; a batch of ten.
    assert analysis.summary["operations"]["flops_per_step"] == 2 * 10 * (2 * (8 * 64 + 64 * 4) + 64 * 4)


SHARDED = """
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
for layer in model:
    fully_shard(layer)
fully_shard(model)
sgd = torch.optim.Adam(model.parameters())
train(lambda: sgd.step())
"""


@LATER
def test_weights_that_ranks_share_are_gathered_to_be_compared_and_their_memory_is_that_of_a_share(
    tmp_path: Path,
) -> None:
    words = ["PYTHON", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "SCRIPT"]
    entries = carried_out(tmp_path, BEGINNING + SHARDED, words, steps=40, profile=("kernels", "memory"))
    assert failure_of(entries) is None, failure_of(entries)
    analysis = analyse({"here": entries})
    assert not analysis.validity.broken, analysis.validity
    (one, other) = (of(entries, "finished", rank)[0]["weights_sha256"] for rank in (0, 1))
    assert one == other is not None
    weights = 4 * (8 * 64 + 64 + 64 * 4 + 4)
    for memory in analysis.profiles.memory:
        assert memory.classes["weights"].at_peak_bytes == weights / 2
        assert memory.parts["optimizer_state"].at_peak_bytes == pytest.approx(weights, abs=32)


@LATER
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train(epochs=15)", "the script ended before it could be made"),
        ("def after(): assert done < 125\ntrain(after=after)", "the script ended while it was being made"),
        ("sys.modules['workers'] = sys\ntrain()", "cannot be imported here"),
    ],
)
def test_a_profile_that_cannot_be_made_says_why_and_what_was_timed_stands(text: str, said: str, tmp_path: Path) -> None:
    entries = carried_out(tmp_path, BEGINNING + text, profile=("kernels",))
    assert failure_of(entries) is None, failure_of(entries)
    analysis = analyse({"here": entries})
    assert analysis.measurement("throughput") is not None
    assert said in analysis.profiles.reasons["kernels"], analysis.profiles.reasons


def test_a_script_finds_its_own_surroundings_as_they_are_without_us(tmp_path: Path) -> None:
    """A ``sitecustomize`` of its own runs, once; ``sys.path`` and what it prints are its own."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("open('ran.txt', 'a').write('once\\n')\n")
    text = """
import json, sys, time
with open("seen.json", "w") as file:
    json.dump([sys.path, sys.modules["sitecustomize"].__file__, sorted(m for m in sys.modules if "torch" in m)], file)
print("as it stands")
try:
    import tbd_hook
except ImportError:
    sys.exit()
tbd_hook.begin(unit="items")
for number in range(200):
    time.sleep(0.002)
    if number == 100:
        with tbd_hook.phase("evaluation"):
            time.sleep(0.05)
    tbd_hook.step(work=3, loss=1 / (number + 1))
"""
    surroundings = {"PYTHONPATH": str(own)}
    entries = []

    def seen() -> Any:
        (tmp_path / "ran.txt").rename(tmp_path / "ran_before.txt")
        assert (tmp_path / "ran_before.txt").read_text() == "once\n"
        return json.loads((tmp_path / "seen.json").read_text())

    (tmp_path / "train.py").write_text(text)
    bare = [sys.executable, str(tmp_path / "train.py")]
    subprocess.run(bare, cwd=tmp_path, env=os.environ | surroundings, check=True)
    without = seen()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(own))
        entries = carried_out(tmp_path, text, [sys.executable, "SCRIPT"], steps=None)
    assert seen() == without
    assert failure_of(entries) is None, failure_of(entries)
    assert "".join(one["text"] for one in of(entries, "output") if one["stream"] == "stdout") == "as it stands\n"
    intervals = of(entries, "interval")
    assert all(one["work"]["items"] == 3 * one["n"] for one in intervals)
    assert sum(one.get("paused_s", {}).get("evaluation", 0.0) for one in intervals) == pytest.approx(0.05, abs=0.02)
    assert not analyse({"here": entries}).validity.broken


WAITS = """
import sys, time
import tbd_hook
tbd_hook.begin(unit="items")
for number in range(100000):
    time.sleep(PAUSE)
    tbd_hook.step(work=1, loss=1 / (number + 1))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script that needs no framework, and a data directory without a server."""
    (tmp_path / "wait.py").write_text(WAITS.replace("PAUSE", "float(sys.argv[1])"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TBD_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("TBD_LOCK_DIR", str(tmp_path / "locks"))
    for name in ("TBD_SERVER", "TBD_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


OLD_TORCH = {
    "torch/__init__.py": "__version__ = '1.13.1'\nfrom torch import optim",
    "torch/optim/__init__.py": "from torch.optim.optimizer import Optimizer",
    "torch/optim/optimizer.py": "class Optimizer:\n    def step(self): pass",
}


def test_a_pytorch_that_does_not_tell_when_an_optimiser_steps_is_named(tmp_path: Path) -> None:
    """What stands for PyTorch 1.13 has its names, and lacks what came with 2.0."""
    for name, text in OLD_TORCH.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    text = "import torch\nfor number in range(9): torch.optim.Optimizer().step()"
    failure = failure_of(carried_out(tmp_path, text, [sys.executable, "SCRIPT"]))
    assert failure["kind"] == "unsupported"
    assert "older than 2.0" in failure["message"]


def test_more_ranks_than_cores_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "_OTHERS_S", 0.1)
    words = ["/usr/bin/env", "RANK=0", "WORLD_SIZE=9999", "PYTHON", "SCRIPT"]
    failure = failure_of(carried_out(tmp_path, WAITS.replace("PAUSE", "0.01"), words))
    assert "9999 ranks train on" in failure["message"]


def test_a_folder_that_is_removed_meanwhile_costs_the_runs_after_it(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = place / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    text = WAITS.replace("PAUSE", "0.005")
    (work / "own.py").write_text("import os, shutil\nshutil.rmtree(os.getcwd())\n" + text)
    assert main([*SHORT, "--", sys.executable, "own.py"]) == RUN_FAILED
    said = capsys.readouterr()
    assert [row["throughput"]["n"] for row in json.loads(said.out)["items"]] == [1]
    assert f"in {work}" in said.err
    assert "run 3 of 3" not in said.err


SHORT = ["exec", "--repeats", "3", "--seconds", "0.7", "--json"]


def test_the_values_of_an_axis_are_cells_of_one_experiment_and_a_slower_one_is_a_regression(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--axis", "pause=0.005,0.01", "--fail-on-regression", "--logs", "logs", "--name", "Waiting 1"]
    assert main([*SHORT, *words, "--", sys.executable, "wait.py", "{pause}"]) == REGRESSION
    rows = json.loads(capsys.readouterr().out)["items"]
    assert [row["axes"]["options"]["pause"] for row in rows] == [0.005, 0.01]
    assert [row["n_runs"] for row in rows] == [3, 3]
    assert rows[0]["throughput"]["value"] > 1.5 * rows[1]["throughput"]["value"]
    assert rows[0]["throughput"]["unit"] == "items/s"
    assert len(list((place / "logs").glob("*.jsonl"))) == 6
    assert main(["results", "waiting-1"]) == 0  # of the data directory, where no server is
    assert "pause=0.01" in capsys.readouterr().out


@pytest.mark.after_change
def test_commits_are_run_from_work_trees_of_their_own_and_the_folder_as_it_is(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (place / ".gitignore").write_text("data\nlocks\n")
    for pause in ("0.005", "0.01"):
        (place / "own.py").write_text(WAITS.replace("PAUSE", pause))
        for order in (["init", "-q"], ["add", "."], ["commit", "-qm", pause]):
            subprocess.run([*git, *order], cwd=place, check=True)
    writes = "import os\nopen(f'checkpoint-{os.getpid()}', 'w').close()\n"  # no code: it comes after the first run
    (place / "own.py").write_text(writes + WAITS.replace("PAUSE", "0.02"))
    words = ["--repeats", "2", "--commits", "HEAD~1,HEAD,.", "--", sys.executable, "own.py"]
    assert main([*SHORT, *words]) == 0
    rows = json.loads(capsys.readouterr().out)["items"]
    assert [row["axes"]["options"]["code"] for row in rows] == ["HEAD~1", "HEAD", "."]
    rates = [row["throughput"]["value"] for row in rows]
    assert rates == sorted(rates, reverse=True)
    scripts = [row["fingerprint"]["subject"]["script"] for row in rows]
    assert len({one["commit"] for one in scripts}) == 2
    assert [row["fingerprint_differs_in"] for row in rows] == [[], [], []]
    assert len(list(place.glob("checkpoint-*"))) == 2
    assert [one["dirty_sha256"] is None for one in scripts] == [True, True, False]
    listed = subprocess.run(["git", "worktree", "list"], cwd=place, capture_output=True, text=True, check=True)
    assert len(listed.stdout.splitlines()) == 1


@LATER
def test_a_try_of_a_series_is_judged_and_the_chain_is_measured_anew(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (place / ".gitignore").write_text("data\nlocks\n")
    for pause in ("0.02", "0.005"):
        (place / "own.py").write_text(WAITS.replace("PAUSE", pause))
        for order in (["init", "-q"], ["add", "."], ["commit", "-qm", pause]):
            subprocess.run([*git, *order], cwd=place, check=True)
    command = ["--", sys.executable, "own.py"]
    assert main([*SHORT, "--series", "tune", "--commits", "HEAD~1,HEAD", *command]) == 0
    assert "try 1 of series tune, at level 2.19% (5 % for all its tries together): kept: +" in capsys.readouterr().err
    assert main([*SHORT, "--series", "tune", "--commits", "HEAD,HEAD~1", *command]) == 0
    assert (
        "try 2 of series tune, at level 0.72% (5 % for all its tries together): not kept: -" in capsys.readouterr().err
    )
    assert main([*SHORT, "--series", "tune", "--claim", *command]) == 0
    slow, fast = json.loads(capsys.readouterr().out)["items"]
    assert fast["throughput"]["value"] > 1.5 * slow["throughput"]["value"]


def test_a_log_has_neither_the_environment_nor_a_token_and_names_no_command_that_others_carry_out(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "gandalf")
    words = ["--repeats", "1", "--steps", "9", "--logs", "logs", "--", sys.executable, "wait.py", "0"]
    assert main(["exec", *words]) == 0
    text = (place / "logs" / "0001.jsonl").read_text()
    assert "gandalf" not in text
    assert '"token"' not in text
    job = a_job() | {"script": {"words": ["/usr/bin/touch", str(place / "touched")]}}
    assert carry_out(job, EventLog(place / "other.jsonl")) is None
    assert not (place / "touched").exists()


def test_a_held_device_is_refused_by_whom(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with jobs.held(jobs.cpu_devices(1)):
        assert main([*SHORT, "--", sys.executable, "wait.py", "0.01"]) == FAILED
    assert f"held by process {os.getpid()}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "it takes a command"),
        (["--", "no-such-command"], "no command 'no-such-command' on PATH"),
        (["--", "./wait.py"], "chmod +x it"),
        (["--axis", "lr=1,2", "--", "python", "train.py"], "COMMAND does not name it; write {lr}"),
        (["--axis", "lr=1,1", "--", "python", "{lr}"], "NAME=V1,V2"),
        (["--axis", "code=1,2", "--", "python", "{code}"], "the name is taken"),
        (["--work", "8", "--", "python"], "Say it with --unit"),
        (["--unit", "images", "--", "python"], "of others say --work"),
        (["--repeats", "0", "--", "python"], "outside 1 to"),
        (["--seconds", "-1", "--", "python"], "not above 0"),
        (["--fail-on-regression", "--", "python"], "give --axis or --commits"),
        (["--profile", "kernels,time", "--", "python"], "profiled for kernels and memory"),
        (["--series", "Tune", "--commits", "A,B", "--", "python"], "small letters"),
        (["--series", "tune", "--repeats", "1", "--", "python"], "judges pairs of runs"),
        (["--series", "tune", "--", "python"], "two cells"),
        (["--claim", "--", "python"], "--claim takes --series"),
        (["--claim", "--series", "tune", "--", "python"], "has kept no edit"),
        (["--commits", "HEAD", "--", "python"], "takes a git repository"),
        (["--nodes", "2", "--", "python"], "goes with --meet HOST:PORT"),
        (["--nodes", "2", "--meet", "here", "--", "python"], "it is HOST:PORT"),
        (["--nodes", "2", "--meet", "here:1", "--", "python"], "export TBD_EXEC_SECRET="),
        (["--nodes", "2", "--meet", "here:1", "--series", "a", "--", "python"], "--series is for one node"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_runs(
    words: list[str], said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["exec", *words]) == USAGE
    assert said in capsys.readouterr().err
    assert not (place / "data").exists()


def test_within_itself_it_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(hook.FOLDER_VARIABLE, str(place))
    assert main([*SHORT, "--", sys.executable, "wait.py", "0.01"]) == USAGE


def test_the_hook_is_copied_and_does_nothing_outside(place: Path) -> None:
    assert main(["exec", "--write-hook"]) == 0
    text = "import tbd_hook as t; t.begin(); t.step(2, loss=1.0); exec('with t.phase(\"x\"): pass'); print(t.METER)"
    done = subprocess.run([sys.executable, "-c", text], cwd=place, capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


@pytest.mark.after_change
def test_an_interrupt_ends_the_script_and_keeps_the_runs_that_had_ended(place: Path) -> None:
    words = ["--repeats", "9", "--seconds", "2", "--", sys.executable, "wait.py", "0.005"]
    command = [sys.executable, "-m", "orchestrator.cli.main", "exec", *words]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with subprocess.Popen(command, cwd=place, env=environment, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        said = next(line for line in running.stderr if "run 2 of 9" in line)
        running.send_signal(signal.SIGINT)
        said += running.stderr.read()
        assert running.wait(30) == INTERRUPTED
    assert "interrupted after 1 runs, which are kept as exp_" in said
    assert processes.descendants([running.pid]) == set()
