"""Ranks that train on without exchanging anything are fast, end well, and get no figure."""

import pytest

from tests.replays.replay import analysed
from tests.support.strategy_jobs import ROOT, carried_out, strategy_job


def a_python_that_does_not_exchange(python, folder):
    """Return a program that stands for the interpreter ``python`` and runs the trainer without its exchange."""
    program = folder / "python"
    program.write_text(
        "#!/bin/sh\nshift 2  # -m workers.trainer\n"
        f'PYTHONPATH="$PYTHONPATH:{ROOT}" exec {python} -m tests.support.no_exchange "$@"\n'
    )
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(("pytorch", "ddp"), marks=pytest.mark.framework("pytorch"), id="pytorch-ddp"),
        pytest.param(("tensorflow", "mirrored"), marks=pytest.mark.framework("tensorflow"), id="tensorflow-mirrored"),
    ],
)
@pytest.mark.after_change
def test_a_run_whose_ranks_did_not_exchange_is_invalid_and_says_so(strategy, python_of, tmp_path):
    job = strategy_job(*strategy, devices=2, max_steps=4)
    job["interpreter"]["python"] = a_python_that_does_not_exchange(python_of(job["interpreter"]["name"]), tmp_path)
    attempt = carried_out(job, tmp_path / "attempt")
    assert attempt.popen.returncode == 0, attempt.said
    analysis = analysed(attempt.entries())
    assert analysis.failure is None
    (reason,) = [reason for reason in analysis.validity.reasons if reason.code == "replicas_differ"]
    assert "2 different sets of weights on 2 ranks" in reason.text
    assert analysis.measurement("throughput") is None
