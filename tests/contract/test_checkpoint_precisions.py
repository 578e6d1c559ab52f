"""A training in 16 bits goes on from its checkpoint and ends as it would have: with the factor of a scaled loss too.

``amp-fp16`` is offered on GPUs alone; on a CPU device it serves to test the scaling of the loss.
"""

import numpy
import pytest

from tests.contract.test_checkpoints import ADAM, begun, ended, job_of, weights
from tests.contract.test_convergence import apart
from workers.trainer.base.processor import lacks_bfloat16

EVERY, MOST = 4, 8
FIRST_SCALE = 2.0**16

__all__ = ["apart"]  # a fixture


def cell(framework, precision):
    marks = [pytest.mark.framework(framework), pytest.mark.after_change]
    return pytest.param(framework, precision, id=f"{framework}, {precision}", marks=marks)


CELLS = [cell(*pair) for pair in ((f, p) for f in ("pytorch", "tensorflow") for p in ("bf16", "amp-bf16", "amp-fp16"))]


@pytest.mark.parametrize(("framework", "precision"), CELLS)
def test_a_training_in_16_bits_goes_on_from_its_checkpoint(python_of, apart, tmp_path, framework, precision):
    if (framework, precision) == ("tensorflow", "amp-bf16") and lacks_bfloat16():
        pytest.skip(lacks_bfloat16())
    told = {"optimizer": ADAM, "framework": framework, "precision": precision}
    told |= {"max_steps": MOST, "evaluate_every": EVERY}
    first, second = (
        ended(begun(job_of(apart, tmp_path / "kept", name, **told), tmp_path, python_of(framework)))
        for name in ("first", "second")
    )
    assert [one["step"] for one in second.data("resumed")] == [EVERY]
    assert second.data("resumed")[0]["attempt_id"] == "first"
    assert weights(second) == weights(first)
    assert [one["sums"] for one in second.data("evaluation")] == [one["sums"] for one in first.data("evaluation")]
    (kept,) = (tmp_path / "kept").glob("*.npz")
    with numpy.load(kept, allow_pickle=False) as arrays:
        factors = [float(arrays[name].flat[0]) for name in ("scaler/0", "scaler/0/0") if name in arrays.files]
    # It had been halved before the checkpoint: begun anew it would overflow again, and leave an update out.
    assert factors == ([FIRST_SCALE / 2] if precision == "amp-fp16" else [])
