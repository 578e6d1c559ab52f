"""The parts of the command line that need no server: specs from files and options, events, locating, imports."""

import argparse
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.commands.measure.rerun import spec_of
from orchestrator.cli.exits import CommandError
from orchestrator.cli.main import COMMANDS, MODULES, main
from orchestrator.cli.printing import output
from orchestrator.cli.printing.tables import print_results
from orchestrator.cli.rest import locate
from orchestrator.cli.rest.client import Client, Event, ServerProblem, parse_events
from orchestrator.cli.rest.searches import Searches
from orchestrator.cli.rest.waiting import line_of, outcome
from orchestrator.cli.spec import spec_options
from orchestrator.cli.spec.spec_file import SpecFile
from orchestrator.domain.asked.spec import parse_spec
from orchestrator.domain.runs.device_time import DeviceTime
from orchestrator.reports.facts_of import time_line
from orchestrator.serve.settings import VARIABLES
from tests.unit import builders

HEAVY = (
    "ray",
    "numpy",
    "scipy",
    "pydantic",
    "yaml",
    "fastapi",
    "sqlalchemy",
    "torch",
    "tensorflow",
    "psutil",
    "asyncio",
)
# It takes 136 on Python 3.11, which is 7 times ``python -c pass``; the bound is 12 times.
MOST_MODULES = 180


def spec_from(*words: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    spec_options.configure(parser)
    return spec_options.spec_from(parser.parse_args(words))


def test_options_replace_fields_of_a_file_and_their_problems_have_no_line_of_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nmodel: sleep\ndata: photographs\nsize: tiny\nper_device_batch_size: 1\n")
    parser = argparse.ArgumentParser()
    spec_options.configure(parser)
    source = spec_options.Source(parser.parse_args([str(path), "--data", "synthetic,absent", "--repeats", "3"]))
    spec = source.spec(lambda: pytest.fail("a file names its framework"))
    assert (spec["name"], spec["data"], spec["repeats"], spec["size"]) == ("mine", ["synthetic", "absent"], 3, "tiny")

    items = [{"pointer": "/data/1", "detail": "none"}, {"pointer": "/size", "detail": "no"}]
    text = str(source.explain(ServerProblem(422, {"errors": items})))
    assert f"{path}: data/1: none" in text
    assert f"{path}:4: size: no" in text


def test_a_spec_that_comes_with_tbd_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert SpecFile("suites/quick.yaml").spec["model"] == "resnet-50"
    assert "comes with tbd" in capsys.readouterr().err
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "quick.yaml").write_text("model: sleep\n")
    assert SpecFile("suites/quick.yaml").spec == {"model": "sleep"}  # one's own goes first
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["quick.yaml", "elsewhere/quick.yaml", "suites/slow.yaml"])
def test_a_file_that_is_not_there_is_refused_with_the_names_of_those_that_come_with_tbd(name: str) -> None:
    with pytest.raises(CommandError, match=r"there is no such file .*suites/quick\.yaml"):
        SpecFile(name)


def test_an_option_that_only_python_takes_for_a_number_is_a_text() -> None:
    spec = spec_from("sleep", "--option", "fault=nan,inf,none", "--option", "rate=1e-3", "--option", "count=1_000")
    assert spec["options"] == {"fault": ["nan", "inf", "none"], "rate": 1e-3, "count": "1_000"}


def test_options_make_the_spec_that_a_file_would() -> None:
    spec = spec_from(
        *("resnet-50", "-f", "pytorch", "-f", "mxnet", "--batch", "4,8", "--topology", "1x1,1x2", "--repeats", "3"),
        *(
            "--size",
            "small",
            "--option",
            "depth=101",
            "--option",
            "compile=true",
            "--label",
            "team=a",
            "--max-steps",
            "9",
        ),
    )
    assert spec == {
        "name": "resnet-50-pytorch-mxnet",
        "model": "resnet-50",
        "framework": ["pytorch", "mxnet"],
        "topology": ["1x1", "1x2"],
        "per_device_batch_size": [4, 8],
        "size": ["small"],
        "options": {"depth": 101, "compile": True},
        "labels": {"team": "a"},
        "repeats": 3,
        "max_steps": 9,
    }
    parse_spec(spec)


def test_profiles_and_a_wanted_precision_can_be_asked_for_without_a_file() -> None:
    words = ("--profile", "memory,kernels", "--profile", "layers", "--precision-target", "0.01")
    spec = parse_spec(spec_from("resnet-50", *words))
    assert spec.profile == ["memory", "kernels", "layers"]
    assert spec.precision_target == 0.01


def test_a_model_alone_is_a_spec() -> None:
    assert parse_spec(spec_from("resnet-50")).per_device_batch_size == [4]


def test_more_than_ten_repeats_raise_the_limit_with_them() -> None:
    spec = spec_from("resnet-50", "--repeats", "20")
    assert "max_repeats" not in spec  # the spec itself says what follows
    assert parse_spec(spec).max_repeats == 30


def test_a_pair_without_a_value_is_a_usage_error() -> None:
    with pytest.raises(CommandError, match="KEY=VALUE"):
        spec_from("resnet-50", "--option", "depth")


def test_an_error_names_the_line_of_the_key(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("name: a\nmodel: net\n\nframework:\n  - pytorch\n  - caffe\noptions: {depth: 7}\n")
    problem = ServerProblem(
        422,
        {
            "errors": [
                {"pointer": "/framework/1", "detail": "no caffe"},
                {"pointer": "/options/depth", "detail": "is 50 or 101"},
                {"pointer": "/per_device_batch_size", "detail": "is missing"},
            ]
        },
    )
    text = str(SpecFile(str(path)).explain(problem))
    assert f"{path}:6: framework/1: no caffe" in text
    assert f"{path}:7: options/depth: is 50 or 101" in text
    assert f"{path}: per_device_batch_size: is missing" in text


def test_a_key_that_stands_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("name: a\nmodel: net\nname: b\n")
    with pytest.raises(CommandError, match=r"s\.yaml:3: name stands on line 1 already"):
        SpecFile(str(path))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", ": the file is empty"),
        ("a: 1\nb: [", ":2:5: expected the node content, but found '<stream end>' (while parsing a flow node)"),
        ("\t- x", ":1:1: found character '\\t' that cannot start any token (while scanning for the next token)"),
        ("a: 2024-13-45", ": month must be in 1..12"),
    ],
)
def test_a_file_that_is_no_yaml_is_a_usage_error_with_the_place_in_it(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(content)
    with pytest.raises(CommandError) as caught:
        SpecFile(str(path))
    assert caught.value.code == 2
    assert str(caught.value) == f"{path}{told}"


def test_a_rerun_has_the_plan_of_the_run_and_nothing_else() -> None:
    plan = builders.plan(options=(("depth", 50),), topology="1x2", strategy="ddp", node_names=("n1",))
    run = {"id": "run_1", "plan": plan.to_json()}
    spec = parse_spec(spec_of(run, None, 1))
    assert spec.repeats == 1
    assert spec.nodes.names == ["n1"]
    assert (spec.strategy, spec.topology, spec.options) == (["ddp"], ["1x2"], {"depth": [50]})
    assert parse_spec(spec_of(run, ["n2"], 1)).nodes.names == ["n2"]


def test_a_rerun_to_convergence_has_the_same_target_and_budget() -> None:
    told = {"mode": "convergence", "target": 0.7, "evaluate_every": 5, "max_epochs": 1.5}
    plan = builders.plan(data="photographs", **told)
    spec = parse_spec(spec_of({"id": "run_1", "plan": plan.to_json()}, None, 1))
    assert {name: getattr(spec, name) for name in told} == told


def test_events_are_parsed_and_half_an_event_is_dropped() -> None:
    lines = [
        b": ping\n",
        b"\n",
        b"event: run\n",
        b"id: 7\n",
        b'data: {"a":\n',
        b"data: 1}\n",
        b"\n",
        b"event: x\n",
        b"data: 1\n",
    ]
    assert list(parse_events(lines)) == [Event("run", "7", {"a": 1})]


@pytest.mark.parametrize("url", ["", "127.0.0.1:8585", "ftp://x", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(CommandError, match="no address of a server"):
        Client(url)


def test_what_has_a_key_is_sent_again_where_the_database_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, answers = [], [503, 503, 201, 503]

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            keys.append(self.headers["Idempotency-Key"])
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(answers[len(keys) - 1])
            self.end_headers()
            self.wfile.write(b"{}")

    monkeypatch.setattr("orchestrator.cli.rest.client.AGAIN_S", 0.01)
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = Client(f"http://127.0.0.1:{server.server_port}")
        assert client.post("/experiments", {}, key="k") == {}
        with pytest.raises(ServerProblem):
            client.post("/experiments", {})
        server.shutdown()
    assert keys == ["k", "k", "k", None]


def test_the_default_data_directory_is_that_of_the_settings() -> None:
    assert VARIABLES["TBD_DATA_DIR"][1] == locate.DEFAULT_DATA_DIR


def test_every_command_has_a_module_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        if name == "serve":
            continue
        with pytest.raises(SystemExit) as caught:
            main([name, "--help"])
        assert caught.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: tbd {name}")


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["shwo"])
    assert caught.value.code == 2
    assert "no command 'shwo'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["ls", "show", "submit", "watch", "cancel", "logs", "results", "compare", "report"])
def test_commands_that_talk_rest_import_little(command: str) -> None:
    code = (
        "import sys, json; from orchestrator.cli import main; from orchestrator.cli.printing import tables;"
        "from orchestrator.cli.rest import client, locate, waiting;"
        "from orchestrator.reports import experiment_report; from orchestrator.reports.tables import comparison;"
        f"import {MODULES[command]}; print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout))
    assert not modules & set(HEAVY)


def test_tbd_ls_as_json_imports_few_modules() -> None:
    code = (
        "import sys; from orchestrator.cli.main import main; main(['ls', '--json']); print(len(sys.modules));"
        "print(sorted(m for m in sys.modules if m.startswith('orchestrator')))"
    )
    environment = {"TBD_SERVER": "http://127.0.0.1:9", "PATH": "", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    count, ours = done.stdout.splitlines()
    assert int(count) < MOST_MODULES
    assert "orchestrator.reports" not in ours


@pytest.mark.parametrize(
    ("summary", "reasons", "told"),
    [
        ({"latency_s": 4e-5, "point_to_point_bytes_per_s": 2**31}, [], "latency 40.0 µs, 2.00 GiB/s"),
        ({"latency_s": 4e-5, "point_to_point_bytes_per_s": 2**31}, ["foreign_load"], "disturbed: foreign_load"),
        ({}, [], "sound"),
    ],
)
def test_a_run_without_a_throughput_is_told_by_what_it_measured(
    summary: dict[str, Any], reasons: list[str], told: str
) -> None:
    validity = {"grade": "disturbed" if reasons else "sound", "reasons": [{"code": code} for code in reasons]}
    run = {"state": "completed", "throughput": None, "summary": summary, "validity": validity}
    assert outcome(run) == told


def test_the_word_of_a_state_is_not_told_twice() -> None:
    run = {"state": "cancelled", "reason": "cancelled: stopped on request", "throughput": None, "indicative": None}
    assert outcome(run) == "cancelled: stopped on request"
    assert outcome(run | {"state": "failed", "reason": "crashed: exit 1"}) == "failed: crashed: exit 1"
    assert outcome(run | {"reason": None}) == "cancelled"


def test_a_number_with_an_exponent_is_a_number_and_no_text(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("precision_target: 1e-2\ntimeout_s: 1E4\nname: e1\nlabels: {k: '1e3'}\n")
    spec = {"precision_target": 0.01, "timeout_s": 10000.0, "name": "e1", "labels": {"k": "1e3"}}
    assert SpecFile(str(path)).spec == spec


def test_a_try_for_the_largest_batch_is_told_by_whether_it_fits() -> None:
    plan = {"model": "net", "framework": "pytorch", "per_device_batch_size": 8, "topology": "1x1", "search": True}
    run = {"id": "run_1", "plan": plan, "state": "completed", "failure": None, "throughput": None, "reason": None}
    assert line_of(run) == "run_1  net pytorch batch 8 1x1: it fits"
    short = {"state": "failed", "failure": {"kind": "out_of_memory"}}
    assert line_of(run | short).endswith(": it does not fit")
    crashed = {"state": "failed", "failure": {"kind": "crashed"}, "reason": "crashed: exit 1"}
    assert line_of(run | crashed).endswith(": failed: crashed: exit 1")


def test_a_search_says_what_it_tries_next_and_how_many_tries_it_may_still_take() -> None:
    def tried(batch: int, kind: str | None = None, **plan: Any) -> dict[str, Any]:
        cell = {"model": "net", "per_device_batch_size": batch, "key": str(batch), "cell_key": str(batch), **plan}
        state = "failed" if kind else "completed"
        return {"plan": {"search": True, **cell}, "state": state, "failure": {"kind": kind} if kind else None}

    waiting = {**tried(8), "state": "running"}
    searches = Searches([waiting, tried(2), tried(1), tried(4, seed=2)])
    assert searches.take(tried(4)) == "next 8, at most 23 tries more"
    assert searches.take(tried(8, "out_of_memory")) == "next 6, at most 2 tries more"
    assert searches.take(tried(6, "out_of_memory")) == "next 5, at most 1 try more"
    assert searches.take(tried(5)) == "5 is the largest that fits"
    assert searches.take(tried(8, seed=2)) == "next 16, at most 22 tries more", "another search"
    assert searches.take(tried(1, "out_of_memory", seed=3)) == "not even a batch of 1 fits into the memory"
    assert str(searches.take(tried(1, "crashed", seed=4))).startswith("the try of a batch of 1 failed")
    assert searches.take(tried(9, search=False)) is None


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("active", "no results yet"),
        ("failed", "no results: the experiment has failed"),
        ("cancelled", "no results: the experiment has been cancelled"),
    ],
)
def test_an_experiment_without_results_says_whether_there_will_be_some(
    state: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_results([], state)
    assert capsys.readouterr().err == told + "\n"


def test_where_the_time_of_devices_went_is_one_line() -> None:
    told = "timed work 40 % of the devices' time: "
    told += "start 95.0 s, build 40.5 s, warm-up 50.0 s, timed 2 min 40 s, end 30.0 s, pause 24.5 s"
    assert time_line(DeviceTime(95.0, 40.5, 50.0, 160.0, 30.0, 24.5)) == told
    assert time_line(DeviceTime()) == ""


def test_small_print_of_several_lines_is_one_line_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    output.print_dim("[1] crashed: broken\nsomewhere\nelse.")
    assert capsys.readouterr().out == "[1] crashed: broken somewhere else.\n"
