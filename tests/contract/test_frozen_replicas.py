"""Several ranks with weights that are not trained: they agree on what is trained, and leave the rest untouched."""

import pytest

from orchestrator.services.facts.catalog import load_catalog
from suites.assemble import layers
from tests.support.networks import layers_of
from tests.support.strategy_jobs import strategy_job
from tests.trainer_process import run

MODEL, OPTIONS = load_catalog().models["bert-base"], {"task": "finetune", "freeze_encoder": True}
FACTS = MODEL.facts_with(OPTIONS)
SIZE = FACTS["sizes"]["tiny"]

# A digest of each array of each rank of this process, after the build and after the last step.
DIGESTS = """
import hashlib
from workers.trainer.frameworks.{framework}.adapter import Adapter
def told(adapter, when, ranks):
    for index, rank in enumerate(ranks):
        found = [hashlib.sha256(array.tobytes()).hexdigest() for array in adapter.weights(index)]
        print("weights", when, rank, *found, flush=True)
def build(self, job, process, watch, made=Adapter.build):
    answer = made(self, job, process, watch)
    self.tbd_ranks = process.ranks
    told(self, "before", process.ranks)
    return answer
def close(self, ended=Adapter.close):
    told(self, "after", self.tbd_ranks)
    ended(self)
Adapter.build, Adapter.close = build, close
"""


STRATEGIES = [
    ("pytorch", "ddp"),
    ("pytorch", "horovod"),
    ("tensorflow", "mirrored"),
    ("tensorflow", "multi-worker-mirrored"),
    ("tensorflow", "horovod"),
]


def cell(framework, strategy):
    marks = [pytest.mark.framework(framework), pytest.mark.after_change]
    return pytest.param(framework, strategy, marks=marks, id=f"{framework}-{strategy}")


@pytest.mark.parametrize(("framework", "strategy"), [cell(*one) for one in STRATEGIES])
def test_replicas_are_equal_and_what_is_frozen_is_bitwise_as_it_was(python_of, tmp_path, framework, strategy):
    job = strategy_job(framework, strategy, devices=2, max_steps=3, options=OPTIONS)
    job["model"] = FACTS
    planted = DIGESTS.format(framework=framework).splitlines()
    trainers = run(job, tmp_path, python_of(job["interpreter"]["name"]), planted=planted)
    assert [trainer.popen.returncode for trainer in trainers] == [0] * len(trainers), trainers[0].output
    lines = [line.split() for one in trainers for line in one.output.splitlines() if line.startswith("weights ")]
    found = {(when, rank): digests for _, when, rank, *digests in lines}
    before, after = found["before", "0"], found["after", "0"]
    assert sorted(found) == [("after", "0"), ("after", "1"), ("before", "0"), ("before", "1")]
    assert (found["before", "1"], found["after", "1"]) == (before, after)
    replicas = [data["sha256"] for one in trainers for data in one.data("replica")]
    assert len(replicas) == 2
    assert len(set(replicas)) == 1
    described = layers_of(MODEL, SIZE)
    stay = layers.frozen(described, SIZE["frozen"])
    assert len(before) == len(layers.parameters(described))
    changed = sum(one != other for one, other in zip(before, after, strict=True))
    assert changed == len(layers.parameters(described)) - len(stay)
