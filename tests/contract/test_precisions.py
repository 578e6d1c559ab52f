"""Precisions other than fp32: they take effect, and give the losses of single precision within their own bounds.

The second loss is that after an update: it holds the gradients, and that they were scaled down again. What comes after
it is no measure, for a small network at a high rate drives small differences apart. The bounds are judgements: bfloat16
has 8 significant bits, so that a number may be off by 0.4 %, and float16 has 11.
"""

import pytest

from tests.support.strategy_jobs import strategy_job
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
# precision -> how far the first two losses may be from those of fp32, relative. (0.5 and 0.05 % were seen.)
BOUNDS = {"bf16": 0.03, "amp-bf16": 0.03, "amp-fp16": 0.004}

# On CPU devices oneDNN has no LSTM in float16; there its convolutions serve to test the scaling of the loss.
CELLS = [(model, precision) for model in ("resnet_50", "lstm_classifier") for precision in BOUNDS]
CELLS.remove(("lstm_classifier", "amp-fp16"))


@pytest.fixture(scope="module")
def trained(python_of, tmp_path_factory):
    """A function: (model, precision) -> the trainer of one run, carried out once."""
    trainers = {}

    def train(model, precision):
        if (model, precision) not in trainers:
            job = make_job(model, "pytorch", precision=precision, max_steps=3)
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
    assert found[:2] == pytest.approx(exact[:2], rel=BOUNDS[precision])
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


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("precision", BOUNDS)
def test_two_ranks_end_with_equal_weights(python_of, tmp_path, precision):
    job = strategy_job("pytorch", "ddp", nodes=1, devices=2, precision=precision, max_steps=3)
    trainers = run(job, tmp_path, python_of("pytorch"))
    replicas = [trainer.data("replica")[0] for trainer in trainers]
    assert len({replica["sha256"] for replica in replicas}) == 1, [trainer.output for trainer in trainers]
