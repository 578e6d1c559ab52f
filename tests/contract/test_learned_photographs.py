"""Networks that are assembled from layers learn a handful of real photographs by heart, in every framework.

Parity says that they are the same network, at single points; this says that the network learns: gradients, update and
loss go together over many steps, and labels belong to their images.
"""

import pytest

from orchestrator.services.facts.catalog import load_catalog
from tests.support.networks import way_id
from tests.trainer_process import dataset_facts, make_job, run

CATALOG = load_catalog()
NETWORKS = [("resnet-50", {"depth": 152}), ("inception-v3", {"auxiliary_head": True})]
# All of them in each batch, one of each class.
IMAGES, STEPS = 4, 40
# Judgements: a rate at which so few images are learned within the steps, and what "learned" is: guessing among the ten
# classes of the size tiny is a loss of 2.3 (with the auxiliary head 3.2).
OPTIMIZER = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9}
LEARNED = 0.1
# A photograph is shown whole each time, and not cut at random.
WHOLE = [
    "from suites.datasets.image_folder import listing",
    "listing.cut = lambda draw, width, height: listing.Cut(0, 0, width, height, False)",
]


def cell(framework, name, options):
    marks = [pytest.mark.framework(framework), pytest.mark.after_change]
    return pytest.param(framework, name, options, marks=marks, id=way_id(CATALOG.models[name], options, framework))


@pytest.fixture(scope="module")
def handful(photographs, tmp_path_factory):
    """A dataset of the first photograph of each of the first classes."""
    root = tmp_path_factory.mktemp("handful")
    for kind in sorted((photographs / "train").iterdir())[:IMAGES]:
        own = root / "train" / kind.name
        own.mkdir(parents=True)
        first = min(kind.iterdir())
        (own / first.name).symlink_to(first)
    assert len(list(root.glob("train/*/*"))) == IMAGES
    return root


@pytest.mark.parametrize(
    ("framework", "name", "options"),
    [cell(framework, *network) for network in NETWORKS for framework in CATALOG.models[network[0]].frameworks],
)
def test_a_handful_of_photographs_is_learned_by_heart(python_of, handful, tmp_path, framework, name, options):
    model = CATALOG.models[name]
    job = make_job(
        model.module.rpartition(".")[2],
        framework,
        dataset=dataset_facts("photographs", handful),
        per_device_batch_size=IMAGES,
        max_steps=STEPS,
        options=options,
    )
    job["model"] = model.facts_with(options) | {"optimizer": OPTIMIZER}
    (trainer,) = run(job, tmp_path, python_of(framework), planted=WHOLE)
    assert trainer.popen.returncode == 0, trainer.output
    losses = [loss["value"] for loss in trainer.data("loss")]
    assert losses[0] > 10 * LEARNED
    assert max(losses[-5:]) < LEARNED
