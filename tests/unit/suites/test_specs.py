"""The ready specs of ``suites``: nothing in them is refused on a machine without GPUs."""

from pathlib import Path

import pytest
import yaml

from orchestrator.domain.facts import Facts
from orchestrator.domain.spec import ExperimentSpec, parse_spec
from orchestrator.domain.sweep import check, expand
from orchestrator.services.catalog import load_catalog

FOLDER = Path(__file__).parents[3] / "suites"
FACTS = Facts(load_catalog(), "cpu", (1, 2))


def spec_of(name: str) -> ExperimentSpec:
    return parse_spec(yaml.safe_load((FOLDER / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.yaml")))
def test_a_ready_spec_can_be_carried_out(name: str) -> None:
    check(spec_of(name), FACTS)
    assert expand(spec_of(name), FACTS, [])


def test_the_analysis_profiles_four_frameworks_in_every_way() -> None:
    plans = expand(spec_of("analysis.yaml"), FACTS, [])
    assert {plan.framework for plan in plans} == {"pytorch", "tensorflow", "mxnet", "cntk"}
    assert all(set(plan.profile) == {"memory", "kernels", "layers"} for plan in plans)
