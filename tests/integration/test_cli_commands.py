"""The real command against a real service."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.analysis.analyse import CODE_VERSION
from orchestrator.serve.data_directory import is_owned
from tests.integration.node_attempts import a_job
from tests.integration.service_rig import ROOT, Tbd, service
from tests.support import perfetto
from tests.support.service import until

SPEC = """\
name: brief
model: sleep
framework: sleep
per_device_batch_size: [1, 2]
size: tiny
repeats: 1
max_repeats: 2
max_steps: 30
options: {step_time_s: 0.01}
labels: {team: cli}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cli")
    (made / "brief.yaml").write_text(SPEC)
    endless = SPEC.replace("max_steps: 30", "min_measure_s: 3600")
    (made / "endless.yaml").write_text(endless.replace("[1, 2]", "1").replace("brief", "endless"))
    (made / "fails.yaml").write_text(SPEC.replace("0.01", "0.01, fault: crash").replace("brief", "fails"))
    return made


@pytest.fixture(scope="module")
def tbd(folder: Path) -> Iterator[Tbd]:
    with service(folder) as url:
        yield Tbd(folder, url)


@pytest.fixture(scope="module")
def done(tbd: Tbd) -> dict[str, Any]:
    """An experiment that has completed."""
    return dict(tbd.json("submit", "brief.yaml", "--wait"))


def test_submit_and_wait_tells_progress_on_stderr_and_the_table_on_stdout(tbd: Tbd) -> None:
    finished = tbd("submit", "brief.yaml", "--wait")
    first, *table = finished.stdout.splitlines()
    assert tbd.json("show", first)["name"] == "brief"
    assert any(line.startswith("model") for line in table[:4]), "below what is the same for all cells"
    assert finished.stderr.count("repetition 1:") == 2
    assert "\x1b" not in finished.stdout + finished.stderr


def test_a_finished_experiment_is_listed_shown_and_reported(tbd: Tbd, done: dict[str, Any], folder: Path) -> None:
    assert done["state"] == "completed"
    listed = tbd.json("ls", "--label", "team=cli")
    assert done["id"] in [item["id"] for item in listed["items"]]
    assert done["id"] in tbd("ls").stdout
    assert "completed" in tbd("show", done["id"]).stdout
    rows = tbd.json("results", done["id"])["items"]
    run = rows[0]["run_ids"][0]
    assert tbd.json("show", run)["id"] == run
    assert "fingerprint" in tbd("show", run).stdout
    told = tbd("show", run, "--measurements").stdout
    assert "loss_last" in told
    assert f"Computed by {CODE_VERSION}" in told
    assert tbd.json("logs", run)["next_cursor"] is None
    tbd("report", done["id"], "-o", "report.md")
    assert (folder / "report.md").read_text().startswith("# brief\n")
    assert tbd("results", "--model", "sleep").stdout


def test_the_catalog_is_listed(tbd: Tbd) -> None:
    assert "resnet-50" in tbd("models").stdout
    assert {item["name"] for item in tbd.json("frameworks")["items"]} >= {"sleep", "pytorch"}
    assert "photographs" in tbd("datasets").stdout


@pytest.mark.after_change
def test_an_experiment_is_called_by_its_name_by_latest_and_by_the_beginning_of_its_id(tbd: Tbd) -> None:
    identifier = tbd("submit", "brief.yaml", "--wait").stdout.split()[0]
    for text in ("brief", "latest", identifier[:-1], identifier[4:]):
        assert tbd.json("show", text)["id"] == identifier
    assert f"latest: {identifier} (brief)" in tbd("results", "latest").stderr
    assert tbd("logs", "latest").stderr.count("run_") == 1
    assert "is how several ids begin" in tbd("show", "run_", code=2).stderr
    for words in (("watch", "latest"), ("report", "brief"), ("compare", "latest", "brief"), ("analyse", "brief")):
        tbd(*words)


def test_results_are_printed_in_any_encoding(tbd: Tbd, done: dict[str, Any]) -> None:
    in_ascii = Tbd(tbd.folder, tbd.environment["TBD_SERVER"])
    in_ascii.environment["PYTHONIOENCODING"] = "ascii"
    table = in_ascii("results", done["id"]).stdout
    assert table.isascii()
    assert "model  framework" in table
    assert in_ascii.json("results", done["id"]) == tbd.json("results", done["id"])


def test_results_are_exported_to_a_file_or_to_stdout(tbd: Tbd, done: dict[str, Any], folder: Path) -> None:
    told = tbd("export", done["id"], "--rows", "runs", "-o", "runs.jsonl").stderr
    lines = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert told == f"export: runs.jsonl ({(folder / 'runs.jsonl').stat().st_size} bytes)\n"
    assert {line["experiment_id"] for line in lines} == {done["id"]}
    assert all(line["throughput_value"] > 0 and line["framework_version"] for line in lines)
    assert {line["state"] for line in lines} == {"completed"}
    assert tbd("export", done["id"]).stdout.count("\n") == 3
    assert "no.csv: " in tbd("export", "-o", "nowhere/no.csv", code=2).stderr
    tbd("export", "--since", "yesterday", "-o", "no.csv", code=2)
    assert not list(folder.glob("no.csv*"))
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        tbd("export", done["id"], "-o", "pipe")
        assert reader.communicate()[0].count("\n") == 3
    assert pipe.is_fifo(), "what is no file is not replaced by one"


def test_a_history_of_milabench_is_imported_once_listed_and_removed(tbd: Tbd, folder: Path) -> None:
    sample = str(ROOT / "tests" / "support" / "milabench" / "rijubigo")
    identifier = tbd("import", "milabench", sample, "--name", "here").stdout.strip()
    again = tbd("import", "milabench", sample, "--name", "here")
    assert (again.stdout, again.stderr) == ("", "0 points were imported, 1 were there already. See: tbd import ls\n")
    assert tbd.json("import", "ls", "--benchmark", "benchio")["items"][0]["id"] == identifier
    assert "items/s" in tbd("import", "ls").stdout
    (folder / "none").mkdir()
    assert "no *.data file" in tbd("import", "milabench", "none", code=2).stderr
    (folder / "bad.data").write_text("{}\n")
    assert "bad.data/1: it is no event" in tbd("import", "milabench", sample, "bad.data", "--name", "x", code=2).stderr
    tbd("rm", identifier)
    assert tbd.json("import", "ls")["items"] == []


def test_a_failed_run_is_exit_code_1_and_says_why(tbd: Tbd) -> None:
    finished = tbd("submit", "fails.yaml", "--wait", code=1)
    assert "crashed" in finished.stderr


def test_a_wrong_spec_is_exit_code_2_and_names_the_line(tbd: Tbd, folder: Path) -> None:
    (folder / "wrong.yaml").write_text(SPEC.replace("framework: sleep", "framework: slep"))
    finished = tbd("submit", "wrong.yaml", code=2)
    assert "wrong.yaml:3: framework" in finished.stderr
    assert finished.stdout == ""


def test_an_unknown_experiment_is_exit_code_2(tbd: Tbd) -> None:
    assert "there is no experiment" in tbd("show", "exp_none", code=2).stderr


def test_one_key_submits_once(tbd: Tbd) -> None:
    first, second = (tbd("submit", "brief.yaml", "--key", "once").stdout for _ in range(2))
    assert first == second
    tbd("watch", first.strip())


def test_ctrl_c_detaches_and_says_how_to_come_back(tbd: Tbd) -> None:
    experiment = tbd("submit", "endless.yaml").stdout.strip()
    watching = tbd.start("watch", experiment)
    time.sleep(2)
    watching.send_signal(signal.SIGINT)
    _, told = watching.communicate(timeout=20)
    assert watching.returncode == 130
    assert f"tbd watch {experiment}" in told
    assert tbd.json("show", experiment)["state"] == "active"
    tbd("cancel", experiment)
    tbd("cancel", experiment)  # safe to repeat
    tbd("watch", experiment, code=1)
    assert tbd.json("show", experiment)["state"] == "cancelled"


def test_who_waits_is_told_why_nothing_runs(tbd: Tbd, folder: Path) -> None:
    (folder / "elsewhere.yaml").write_text(SPEC + "nodes: {names: [not-here]}\n")
    watching = tbd.start("submit", "elsewhere.yaml", "--wait")
    assert watching.stderr is not None
    told = next(line for line in watching.stderr if "among not-here" in line)
    assert "the cluster has" in told
    experiment = tbd.json("ls", "--limit", "1")["items"][0]["id"]
    tbd("cancel", experiment)
    watching.communicate(timeout=20)
    assert watching.returncode == 1


def test_plan_shows_the_runs_and_stores_nothing(tbd: Tbd) -> None:
    before = len(tbd.json("ls", "--limit", "1000")["items"])
    assert tbd.json("plan", "brief.yaml")["n_runs"] == 2
    assert "device-hours" in tbd("plan", "sleep", "-f", "sleep", "--batch", "1,2,4").stdout
    assert len(tbd.json("ls", "--limit", "1000")["items"]) == before


def test_a_run_is_repeated_and_compared_with_itself(tbd: Tbd, done: dict[str, Any]) -> None:
    run = tbd.json("results", done["id"])["items"][0]["run_ids"][0]
    again = tbd.json("rerun", run, "--wait")
    comparison = tbd.json("compare", done["id"], again["id"])
    assert len(comparison["items"]) == 1
    assert comparison["items"][0]["axes"]["per_device_batch_size"] == 1
    assert tbd("compare", done["id"], again["id"]).stdout


def test_the_log_of_a_job_without_the_service_is_imported_once_also_when_it_was_cut_short(
    tbd: Tbd, done: dict[str, Any], folder: Path
) -> None:
    job, log, cut = folder / "job.json", folder / "out.jsonl", folder / "cut.jsonl"
    job.write_text(json.dumps(a_job()))
    carry_out = [sys.executable, "-m", "workers.node", str(job), "--events", str(log)]
    subprocess.run(carry_out, cwd=ROOT, check=True, capture_output=True, timeout=60)
    first, second = (tbd.json("ingest", str(log)) for _ in range(2))
    assert (first["state"], first["id"]) == ("completed", second["id"])
    assert tbd("report", first["experiment_id"]).stdout.startswith("# imported")
    cut.write_bytes(log.read_bytes()[:-30])  # in the middle of log_closed
    torn = tbd.json("ingest", str(cut))
    assert (torn["state"], torn["failure"]["kind"]) == ("failed", "invalid_log")
    cut.write_text(log.read_text().replace('"per_device_batch_size":4', '"per_device_batch_size":"four"'))
    assert "per_device_batch_size" in tbd("ingest", str(cut), code=2).stderr
    cut.write_text(log.read_text().splitlines()[0] + "\nno log\n")
    assert "line 2" in tbd("ingest", str(cut), code=2).stderr


def test_experiments_are_removed_by_how_their_id_begins_by_name_and_as_the_latest(tbd: Tbd, folder: Path) -> None:
    def submitted(name: str) -> str:
        spec = re.sub("^name: .*", f"name: {name}", SPEC, flags=re.MULTILINE)
        (folder / "waiting.yaml").write_text(spec + "nodes: {names: [not-here]}\n")
        return str(tbd.json("submit", "waiting.yaml")["id"])

    kept, first, named, last = (submitted(name) for name in ("kept", "first", "named", "last"))
    refused = tbd("rm", "named", "no-such-experiment", code=2).stderr
    assert "no-such-experiment" in refused
    assert tbd.json("show", named)["id"] == named, "a wrong word removes nothing"
    assert tbd.json("rm", first[:-1], "named", "latest", "latest") == {"removed": [first, named, last]}
    left = {one["id"] for one in tbd.json("ls", "--limit", "1000")["items"]}
    assert kept in left
    assert not left & {first, named, last}
    tbd("rm", kept)


def test_a_node_is_drained_and_resumed(tbd: Tbd) -> None:
    (node,) = tbd.json("nodes")["items"]
    assert tbd.json("nodes", "drain", node["name"])["state"] == "draining"
    assert tbd.json("nodes", "resume", node["name"])["state"] == "available"


def test_doctor_finds_nothing_broken_here(tbd: Tbd) -> None:
    findings = tbd.json("doctor")["items"]
    assert {item["check"] for item in findings} >= {"python", "database", "server", "clock source", "memory"}
    assert all(item["advice"] or item["level"] == "ok" or item["found"] for item in findings)


def test_the_database_is_looked_at_beside_the_server(tbd: Tbd) -> None:
    assert "as this version of tbd" in tbd("db", "check").stdout
    assert tbd.json("db", "upgrade")["revision"] == tbd.json("db", "current")["revision"]


@pytest.mark.after_change
def test_a_backup_that_was_made_beside_the_server_has_what_it_has(tbd: Tbd, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "data" / "tbd.sqlite3"
    tbd("db", "backup", str(file), code=2)  # no such folder
    file.parent.mkdir()
    assert tbd.json("db", "backup", str(file))["bytes"] == file.stat().st_size
    assert file.stat().st_mode & 0o777 == 0o600
    assert "is there already" in tbd("db", "backup", str(file), code=2).stderr
    assert [one.name for one in file.parent.iterdir()] == [file.name]
    experiments = tbd.json("ls")["items"]
    assert Tbd(tmp_path, None).json("ls")["items"] == experiments


def test_without_a_named_server_the_one_that_owns_the_data_directory_is_found(tbd: Tbd, folder: Path) -> None:
    experiments = tbd.json("ls")["items"]
    assert experiments  # of this very server
    assert Tbd(folder, None).json("ls")["items"] == experiments


def test_serve_lists_every_variable(tbd: Tbd) -> None:
    told = tbd("serve", "--help").stdout
    for name in ("TBD_DATABASE_URL", "TBD_DATA_DIR", "TBD_SERVER", "TBD_CPU_DEVICES", "TBD_FENCE_S"):
        assert name in told


def test_run_needs_no_server_and_leaves_none_behind(tmp_path: Path) -> None:
    alone = Tbd(tmp_path, None)
    words = ("run", "sleep", "--size", "tiny", "--batch", "1", "--repeats", "1", "--max-repeats", "1")
    page = json.loads(alone(*words, "--max-steps", "30", "--report", "r.md", "--json").stdout)
    assert len(page["items"]) == 1
    assert (tmp_path / "r.md").is_file()
    experiment = page["items"][0]["experiment_id"]
    assert [one["id"] for one in alone.json("ls")["items"]] == [experiment]
    assert alone.json("results", "latest")["items"] == page["items"]
    assert alone("report", "latest").stdout.strip() == (tmp_path / "r.md").read_text().strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.after_change
def test_who_ends_the_command_without_a_server_cancels_and_it_waits_until_that_is_done(
    folder: Path, tmp_path: Path, number: signal.Signals
) -> None:
    alone = Tbd(tmp_path, None)
    running = alone.start("run", str(folder / "endless.yaml"))
    assert running.stderr is not None
    try:
        experiment = next(line for line in running.stderr if line.startswith("exp_")).partition(":")[0]
        running.send_signal(number)
        _, told = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130, told
    assert f"{experiment} was cancelled" in told
    with service(tmp_path) as url:
        assert Tbd(tmp_path, url).json("show", experiment)["state"] == "cancelled"


@pytest.mark.after_change
def test_the_embedded_server_ends_with_a_command_that_is_killed(folder: Path, tmp_path: Path) -> None:
    running = Tbd(tmp_path, None).start("run", str(folder / "endless.yaml"))
    assert running.stderr is not None
    next(line for line in running.stderr if line.startswith("exp_"))
    running.kill()
    running.communicate(timeout=60)
    until(lambda: not is_owned(tmp_path / "data"), 60)


@pytest.mark.after_change
def test_run_without_a_server_refuses_what_this_machine_could_never_place(tmp_path: Path) -> None:
    told = Tbd(tmp_path, None)("run", "sleep", "-f", "sleep", "--topology", "1x1,1x64", code=2)
    assert "cannot run 1x64" in told.stderr


def test_models_and_datasets_without_a_server_are_those_that_it_would_answer(tbd: Tbd, tmp_path: Path) -> None:
    alone = Tbd(tmp_path, None)
    for command in ("models", "datasets"):
        assert alone.json(command) == tbd.json(command)


@pytest.mark.after_change
def test_a_command_waits_for_a_server_that_is_starting(tmp_path: Path) -> None:
    alone = Tbd(tmp_path, None)
    server = alone.start("serve", "--host", "127.0.0.1", "--port", "0")
    try:
        until(lambda: is_owned(tmp_path / "data"))
        assert alone.json("ls")["items"] == []
        assert "no server" not in alone("plan", "sleep", "--size", "tiny").stderr
        assert "belongs to the server at http://127.0.0.1:" in alone("serve", code=4).stderr
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    assert server.returncode == 0


@pytest.mark.after_change
def test_frameworks_without_a_server_have_the_schema_of_rest(tbd: Tbd, tmp_path: Path) -> None:
    alone = Tbd(tmp_path, None)
    here, served = alone.json("frameworks")["items"], tbd.json("frameworks")["items"]
    assert [item["name"] for item in here] == [item["name"] for item in served]
    assert [set(item) for item in here] == [set(item) for item in served]
    assert [set(item["interpreters"][0]) for item in here] == [set(item["interpreters"][0]) for item in served]
    assert "these are the interpreters of this machine" in alone("frameworks").stderr


@pytest.fixture(scope="module")
def profiled(tbd: Tbd, folder: Path) -> list[str]:
    """Two runs of one cell, profiled in every way; the older one first."""
    options = "{step_time_s: 0.01, parameters: 100000}"
    spec = SPEC.replace("[1, 2]", "2").replace("brief", "profiled").replace("repeats: 1", "repeats: 2")
    spec = spec.replace("max_repeats: 2", "max_repeats: 4").replace("{step_time_s: 0.01}", options)
    (folder / "profiled.yaml").write_text(spec + "profile: [memory, kernels, layers]\n")
    experiment = tbd.json("submit", "profiled.yaml", "--wait")
    assert experiment["state"] == "completed"
    return list(tbd.json("results", experiment["id"])["items"][0]["run_ids"][:2])


def test_a_profiled_run_is_shown_with_its_tables(tbd: Tbd, profiled: list[str]) -> None:
    shown = tbd("show", profiled[0]).stdout
    for text in ("feature maps", "residual", "second.backward", "first.forward", "host to device", "nothing is copied"):
        assert text in shown
    assert "profile_cost_s [memory]" in shown
    memory = tbd.json("show", profiled[0], "--memory")
    assert memory["classes"]["weights"] == {"max_bytes": 400_000, "at_peak_bytes": 400_000}
    assert abs(memory["residual_ratio"]) < 0.05
    kernels = tbd.json("show", profiled[0], "--kernels")
    assert [row["calls"] for row in kernels["items"]] == [3] * 5
    assert "second" in tbd("show", profiled[0], "--layers").stdout


def test_the_timeline_of_a_run_is_written_to_a_file(tbd: Tbd, profiled: list[str], folder: Path) -> None:
    tbd("show", profiled[0], "--trace", "run.json")
    found = perfetto.imported((folder / "run.json").read_text())
    assert not found.errors, found.examples
    assert {one.name for one in found.slices} >= {"step 2", "second.backward", "memory"}


def test_the_kernels_of_two_runs_are_compared(tbd: Tbd, profiled: list[str]) -> None:
    assert "second.backward" in tbd("compare", *profiled).stdout
    changes = tbd.json("compare", *profiled, "--kernels")["items"]
    assert {row["change"] for row in changes} <= {"slower", "faster", "equal"}
    assert all(abs(row["difference_s"]) < 0.01 for row in changes)


def test_stored_logs_analysed_anew_by_the_same_code_say_the_same(tbd: Tbd, profiled: list[str]) -> None:
    answers = tbd.json("analyse", *profiled)["items"]
    assert [answer["differences"] for answer in answers] == [[], []]
    finished = tbd("analyse")
    assert f"{profiled[0]}: the same" in finished.stdout


def test_a_profile_that_no_adapter_makes_is_refused(tbd: Tbd, folder: Path) -> None:
    (folder / "heat.yaml").write_text(SPEC + "profile: [heat]\n")
    assert "profile" in tbd("submit", "heat.yaml", code=2).stderr
