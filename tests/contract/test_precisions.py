"""Precisions other than fp32: they take effect, and train to what single precision trains to, within their own bounds.

The bounds are judgements: bfloat16 has 8 significant bits, so numbers differ by 0.4 % each, float16 has 11.
"""

import pytest

from tests.trainer_process import make_job, run
from workers.trainer.protocol import EXIT_STATUS

pytestmark = pytest.mark.depends_on(
    "workers/trainer/frameworks/pytorch",
    "workers/trainer/loop.py",
    "suites/assemble/pytorch.py",
    "suites/models/resnet_50",
    "suites/models/lstm_classifier",
    "workers/interpreters/pytorch",
)
# precision -> (how far the first loss may be from that of fp32, and the last of six), relative.
BOUNDS = {"bf16": (0.02, 0.1), "amp-bf16": (0.02, 0.1), "amp-fp16": (0.004, 0.05)}

# On CPU devices oneDNN has no LSTM in float16; there its convolutions serve to test the scaling of the loss.
CELLS = [(model, precision) for model in ("resnet_50", "lstm_classifier") for precision in BOUNDS]
CELLS.remove(("lstm_classifier", "amp-fp16"))


@pytest.fixture(scope="module")
def trained(python_of, tmp_path_factory):
    """A function: (model, precision) -> the trainer of one run, carried out once."""
    trainers = {}

    def train(model, precision, **plan):
        if (model, precision) not in trainers:
            job = make_job(model, "pytorch", precision=precision, **plan)
            (trainers[model, precision],) = run(job, tmp_path_factory.mktemp(precision), python_of("pytorch"))
        return trainers[model, precision]

    return train


def losses(trainer):
    assert trainer.popen.returncode == 0, trainer.output
    return [loss["value"] for loss in trainer.data("loss")]


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize(("model", "precision"), CELLS)
def test_a_precision_changes_the_losses_and_by_little(trained, model, precision):
    exact, found = losses(trained(model, "fp32")), losses(trained(model, precision))
    first, last = BOUNDS[precision]
    assert found[0] == pytest.approx(exact[0], rel=first)
    assert found[-1] == pytest.approx(exact[-1], rel=last)
    assert found != exact


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize(
    ("precision", "told"),
    [
        ("fp32", {}),
        ("bf16", {"weights": "bfloat16"}),
        ("amp-bf16", {"autocast": "bfloat16"}),
        ("amp-fp16", {"autocast": "float16", "loss_scaling": "dynamic, torch.amp.GradScaler"}),
    ],
)
def test_what_is_in_force_is_recorded(trained, precision, told):
    mathematics = trained("resnet_50", precision).data("built")[0]["mathematics"]
    assert (mathematics["precision"], mathematics["tf32"]) == (precision, False)
    assert {name: mathematics[name] for name in ("weights", "autocast", "loss_scaling") if name in mathematics} == told


@pytest.mark.framework("pytorch")
def test_tf32_is_refused_on_cpu_devices(trained):
    trainer = trained("resnet_50", "tf32")
    assert trainer.popen.returncode == EXIT_STATUS["unsupported"], trainer.output
    assert "tf32 on a cpu device" in trainer.data("error")[0]["message"]
