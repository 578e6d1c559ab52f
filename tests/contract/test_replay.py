"""Layers that wait: each step takes as long as they were told to, and what is exchanged has their sizes."""

import pytest

from tests.support.strategy_jobs import carried_out, strategy_job
from tests.trainer_process import model_facts

pytestmark = pytest.mark.after_change

# (numbers, seconds of the forward and of the backward pass), the layer next to the input first.
LAYERS = [(1000, 0.002, 0.004), (300_000, 0.004, 0.008), (20, 0.006, 0.02), (5000, 0.002, 0.004)]
WAITED_S = sum(there + back for _, there, back in LAYERS)


@pytest.mark.parametrize(
    ("framework", "strategy"),
    [
        pytest.param(*one, marks=pytest.mark.framework(one[0]), id="-".join(one))
        for one in (("pytorch", "ddp"), ("mxnet", "kvstore-dist-sync"), ("mxnet", "horovod"))
    ],
)
def test_a_step_takes_as_long_as_its_layers_wait_and_exchanges_their_sizes(tmp_path, python_of, framework, strategy):
    job = strategy_job(framework, strategy, nodes=2, max_steps=10, size="full")
    python_of(job["interpreter"]["name"])
    job["model"] = {**model_facts("replay"), "replayed": LAYERS}
    if framework == "pytorch":
        job["plan"]["profile"] = ["layers"]
    attempt = carried_out(job, tmp_path)
    assert attempt.failure() is None, attempt.said
    source = next(process["name"] for process in job["processes"] if process["ranks"])
    steps = [one["duration_s"] for one in attempt.data("interval", source)]
    # Never shorter, however busy the machine is; and a layer that is late does not make the next one late.
    assert WAITED_S <= min(steps) < 3 * WAITED_S
    (built,) = attempt.data("built", source)
    assert built["parameters"] == sum(numbers for numbers, _, _ in LAYERS)
    for layers in attempt.data("layers", source):
        told = [row["parameters_bytes"] for row in layers["rows"] if row["parameters_bytes"]]
        assert told == [4 * numbers for numbers, _, _ in LAYERS]
    assert len(attempt.data("layers", source)) == len(job["plan"].get("profile", ()))
