"""Options of a strategy among those of a spec (``bucket_mib``): which cells take them, and what their default is."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.analysis.s_sgd.buckets import HOROVOD_THRESHOLD_BYTES, MIB
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.fingerprint import workload_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.expansion.sweep import check, expand
from orchestrator.domain.words.errors import InvalidRequest
from orchestrator.services.facts.catalog import load_catalog
from tests.unit import builders as make
from workers.trainer.frameworks import horovod_gloo

ROOT = Path(__file__).resolve().parents[3]
DECLARED = load_catalog().frameworks


def facts() -> Facts:
    plain = make.catalog()
    pytorch = plain.frameworks["pytorch"]
    ddp = replace(pytorch.strategies["ddp"], options=DECLARED["pytorch"].strategies["ddp"].options)
    strategies = {**pytorch.strategies, "ddp": ddp}
    frameworks = {**plain.frameworks, "pytorch": replace(pytorch, strategies=strategies)}
    return Facts(replace(plain, frameworks=frameworks), "cpu", (1, 2))


def plans(**options: Any) -> list[Plan]:
    return expand(make.spec(repeats=1, strategy="ddp", topology="1x2", options=options), facts(), [])


def test_a_default_that_is_named_leaves_every_key_as_it_was() -> None:
    (without,), (named,), (other,) = plans(), plans(bucket_mib=25), plans(bucket_mib=5)
    assert named.option("bucket_mib") == 25
    assert (named.key, named.cell_key, workload_of(named)) == (without.key, without.cell_key, workload_of(without))
    assert Plan.from_json(named.to_json()).key == without.key
    assert other.cell_key != without.cell_key
    assert [plan.option("bucket_mib") for plan in plans(bucket_mib=[25, 5])] == [25, 5]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"options": {"bucket_mib": 0}}, "option bucket_mib is at least 1, not 0"),
        ({"options": {"bucket_mib": 4097}}, "option bucket_mib is at most 4096, not 4097"),
        ({"options": {"bucket_mib": "25MiB"}}, "option bucket_mib is of type int, not '25MiB'"),
        ({"options": {"bucket_mb": 25}}, "model net has no option bucket_mb: did you mean bucket_mib?"),
        ({"strategy": "auto"}, "the strategy single of pytorch has no option bucket_mib; there is ddp of pytorch"),
        (
            {"strategy": "auto", "topology": ["1x1", "1x2"]},
            "the strategy single of pytorch has no option bucket_mib; there is ddp of pytorch. To leave this cell out: "
            "exclude: [{model: net, framework: pytorch, strategy: auto, topology: 1x1, bucket_mib: 5}]",
        ),
    ],
)
def test_what_no_strategy_of_a_cell_takes_is_refused_and_named(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(make.spec(**{"strategy": "ddp", "options": {"bucket_mib": 5}, **spec}), facts())
    ((pointer, message),) = [(one.pointer, one.message) for one in caught.value.problems]
    assert pointer == f"/options/{next(iter(spec.get('options', {'bucket_mib': 5})))}"
    assert message.startswith(told)


def test_the_declared_defaults_are_those_that_trainers_take() -> None:
    ddp = ROOT / "workers/trainer/frameworks/pytorch/ddp.py"  # read: it imports torch
    (ddp_mib,) = re.findall(r"^BUCKET_MIB = (\d+)$", ddp.read_text(encoding="utf-8"), re.M)
    found = {
        (framework.name, strategy.name): strategy.options["bucket_mib"].default * MIB
        for framework in DECLARED.values()
        for strategy in framework.strategies.values()
        if "bucket_mib" in strategy.options
    }
    horovod = dict.fromkeys([(name, "horovod") for name in ("mxnet", "pytorch", "tensorflow")], HOROVOD_THRESHOLD_BYTES)
    assert found == {("pytorch", "ddp"): int(ddp_mib) * MIB, **horovod}
    assert horovod_gloo.BUCKET_MIB * MIB == HOROVOD_THRESHOLD_BYTES
