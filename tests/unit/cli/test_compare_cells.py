"""``tbd compare EXPERIMENT --by AXIS``, and the comparison below a table of results."""

import json
import re
from typing import Any

import pytest

from orchestrator.cli.commands.analyse import compare
from orchestrator.cli.main import main
from orchestrator.cli.rest.client import ServerProblem
from orchestrator.cli.rest.waiting import print_results_of
from orchestrator.reports.tables.comparison import p_text, pair_lines
from tests.unit.api.api_rig import Rig
from tests.unit.api.test_comparisons_rest import BOTH, NOISE, OTHER, measured

FAST = {"pytorch": [100 * one for one in NOISE], "tensorflow": [130 * one for one in OTHER]}
EQUAL = {"pytorch": [100 * one for one in NOISE], "tensorflow": [100 * one for one in OTHER]}


class RigClient:
    """Talks to the application of a rig as the commands' client does."""

    def __init__(self, rig: Rig) -> None:
        self.http = rig.http

    def get(self, path: str, **parameters: Any) -> Any:
        given = {name: value for name, value in parameters.items() if value is not None}
        answer = self.http.get(f"/api/v1{path}", params=given or None)
        if answer.status_code != 200:
            raise ServerProblem(answer.status_code, answer.json())
        return answer.json()

    def pages(self, path: str, limit: int | None = None, **parameters: Any) -> Any:
        """The first page: enough for these tests."""
        return self.get(path, limit=limit, **parameters)


@pytest.fixture
def client(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> RigClient:
    made = RigClient(rig)
    monkeypatch.setattr(compare, "look", lambda: made)
    monkeypatch.delenv("COLUMNS", raising=False)
    return made


def test_the_frameworks_of_an_experiment_are_compared(
    rig: Rig, client: RigClient, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = measured(rig, FAST, per_device_batch_size=[1, 2])
    assert main(["compare", experiment, "--by", "framework"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "by framework"
    assert re.fullmatch(r"batch +comparison +p +blocks", out[1])
    assert re.fullmatch(r" +1 +tensorflow 1.3 x pytorch \(1.2\d to 1.3\d\) +< 0.001 +6", out[3])
    assert out[5].startswith("paired by block, Student's t on logarithms, Holm over 2 pairs")


def test_without_by_it_is_the_framework_and_the_other_axes_are_named(
    rig: Rig, client: RigClient, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = measured(rig, FAST, per_device_batch_size=[1, 2])
    assert main(["compare", experiment]) == 0
    assert "by framework; there is also --by per_device_batch_size" in capsys.readouterr().err
    assert main(["compare", experiment, "--by", "batch", "--baseline", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["axis"], found["baseline"]) == ("per_device_batch_size", "batch 2")


def test_what_cannot_be_compared_is_a_usage_error(
    rig: Rig, client: RigClient, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", rig.submit()["id"]]) == 2
    assert "no axis has several values" in capsys.readouterr().err
    several = rig.submit(framework=BOTH)["id"]
    assert main(["compare", several, "--by", "colour"]) == 2
    assert "axis: there is no axis 'colour'; several values have: framework" in capsys.readouterr().err
    assert main(["compare", several, "--by", "framework", "--baseline", "caffe"]) == 2
    assert "there are: pytorch, tensorflow" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["exp_a", "exp_b", "--by", "framework"], "--by compares the cells of one experiment with each other"),
        (["exp_a", "exp_b", "--baseline", "pytorch"], "--baseline compares the cells of one experiment"),
        (["exp_a", "--fail-on-regression"], "--fail-on-regression takes two things to compare"),
        (["run_a", "--kernels"], "--kernels takes two things to compare"),
    ],
)
def test_options_of_the_two_kinds_of_comparison_are_not_mixed(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *words]) == 2
    assert why in capsys.readouterr().err


def test_below_the_results_stands_the_comparison_of_the_frameworks(
    rig: Rig, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    print_results_of(client, measured(rig, FAST, per_device_batch_size=[1, 2]))
    out = capsys.readouterr().out
    assert re.search(r"^batch 1: tensorflow 1.3 x pytorch \(1.2\d to 1.3\d\)$", out, re.MULTILINE)
    assert re.search(r"^batch 2: tensorflow 1.3 x pytorch \(1.2\d to 1.3\d\)$", out, re.MULTILINE)
    print_results_of(client, measured(rig, {"pytorch": NOISE}))
    assert "paired" not in capsys.readouterr().out


def test_a_pair_that_cannot_be_told_shows_its_interval_and_what_would_tell(rig: Rig) -> None:
    (line,) = pair_lines(rig.get(f"/experiments/{measured(rig, EQUAL)}/comparisons"))
    pattern = r"tensorflow [\d.]+ x pytorch \([\d.]+ to [\d.]+\): cannot tell below [\d.]+ %; \d+ more runs would tell"
    assert re.match(pattern, line)


@pytest.mark.parametrize("columns", [30, 60])
def test_on_a_narrow_terminal_the_comparison_is_wrapped(
    rig: Rig, client: Any, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = measured(rig, EQUAL, per_device_batch_size=[1, 2])
    monkeypatch.setenv("COLUMNS", str(columns))
    print_results_of(client, experiment)
    assert main(["compare", experiment, "--by", "framework"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= columns


def test_a_probability_is_never_written_as_nought() -> None:
    assert [p_text(p) for p in (0.0, 0.0004, 0.0213, 1.0)] == ["< 0.001", "< 0.001", "0.021", "1.0"]
