"""``tbd compare --fail-on-regression``: a gate passes only where it has seen that nothing is slower."""

from typing import Any

import pytest

from orchestrator.cli.commands.analyse.compare import _gate
from orchestrator.cli.exits import CommandError
from orchestrator.cli.main import main
from orchestrator.cli.spec.sizes import seconds, share
from tests.unit.api.api_rig import Rig

FAST = (100.0, 100.1, 100.2)
SLOW = (50.0, 50.1, 50.2)


def compared(rig: Rig, before: tuple[float, ...], after: tuple[float, ...], **changes: Any) -> Any:
    """REST's comparison of two experiments whose runs had these rates; ``changes`` are those of the second."""
    ids = []
    for rates, changed in ((before, {}), (after, changes)):
        experiment = rig.submit(repeats=max(len(rates), 1), **changed)
        if rates:
            rig.complete_all(experiment["id"], rates)
        ids.append(experiment["id"])
    return rig.get("/compare", baseline=ids[0], candidate=ids[1])


def test_as_fast_passes_and_slower_is_exit_code_3(rig: Rig) -> None:
    assert _gate(compared(rig, FAST, FAST)) == 0
    assert _gate(compared(rig, FAST, SLOW)) == 3


def test_a_cell_that_is_slower_alone_but_not_among_all_passes_and_is_told(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = (rig.submit(repeats=3, per_device_batch_size=list(range(1, 7)))["id"] for _ in range(2))
    for experiment, slowed in ((before, 0), (after, 1)):
        plans = [run.plan for run in rig.store.runs_of(experiment)]
        slower = [0.97 if plan.per_device_batch_size == slowed else 1.0 for plan in plans]
        rig.complete_all(
            experiment, [(99.0 + plan.repetition) * ratio for plan, ratio in zip(plans, slower, strict=True)]
        )
    comparison = rig.get("/compare", baseline=before, candidate=after)
    found = [(item["verdict"], item["p"] < item["p_holm"]) for item in comparison["items"]]
    assert sorted(found)[-1] == ("slower", True)
    assert _gate(comparison) == 0
    assert "slower alone, not among 6 cells" in capsys.readouterr().err
    comparison["items"] = [item | {"p_holm": item["p"]} for item in comparison["items"]]
    assert _gate(comparison) == 3


def test_without_a_cell_in_common_a_gate_does_not_pass(rig: Rig) -> None:
    with pytest.raises(CommandError, match="nothing could be compared: the two have no cell in common") as caught:
        _gate(compared(rig, FAST, FAST, per_device_batch_size=8))
    assert caught.value.code == 1


@pytest.mark.parametrize("after", [(), (50.0,)])
def test_without_runs_enough_for_an_interval_a_gate_does_not_pass(rig: Rig, after: tuple[float, ...]) -> None:
    with pytest.raises(CommandError, match="no cell has an interval") as caught:
        _gate(compared(rig, FAST, after))
    assert caught.value.code == 1


def test_what_a_gate_left_out_is_told(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    comparison = compared(rig, FAST, FAST)
    lonely = comparison | {"unmatched": [{"side": "baseline"}]}
    assert _gate(lonely) == 0
    assert "1 cells were compared; 0 have no interval, 1 are on one side only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run_a run_b --kernels --fail-on-regression", "leave out --kernels"),
        ("run_a run_b --detect 2%", "--detect goes with --interleave"),
        ("run_a --interleave", "it takes A and B"),
        ("run_a run_b --interleave --fail-on-regression", "leave out --fail-on-regression"),
    ],
)
def test_what_goes_ill_together_is_refused(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *words.split()]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("words", "said"), [("--detect 200%", "no share above 0"), ("--budget 0m", "no time above 0")])
def test_shares_and_times_that_are_none_are_refused(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "run_a", "run_b", "--interleave", *words.split()])
    assert said in capsys.readouterr().err


def test_shares_and_times_as_people_write_them() -> None:
    assert [share(text) for text in ("2%", "0.02", ".5%")] == [0.02, 0.02, pytest.approx(0.005)]
    assert [seconds(text) for text in ("90", "20m", "1.5h")] == [90.0, 1200.0, 5400.0]
