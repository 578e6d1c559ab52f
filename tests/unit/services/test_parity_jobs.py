"""Which models ``tbd parity`` compares, and the jobs that it makes."""

import pytest

from orchestrator.domain.words.errors import InvalidRequest
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.probe import parity
from workers.trainer import protocol
from workers.trainer.base.job import job_of

CATALOG = load_catalog()
MODEL = CATALOG.models["resnet-50"]


def test_a_misspelt_name_is_answered_with_what_was_meant() -> None:
    with pytest.raises(InvalidRequest, match="did you mean resnet-50"):
        parity.model_of(CATALOG, "resnet50")
    with pytest.raises(InvalidRequest, match="did you mean tensorflow"):
        parity.frameworks_of(MODEL, ["tensorflo"])
    with pytest.raises(InvalidRequest, match="did you mean tiny"):
        parity.size_of(MODEL, "tin")
    with pytest.raises(InvalidRequest, match="has the options depth, not dept: did you mean depth"):
        parity.size_of(MODEL, "tiny", {"dept": 50})
    with pytest.raises(InvalidRequest, match="is one of 50, 101, 152, not 18"):
        parity.size_of(MODEL, "tiny", {"depth": 18})


def test_a_name_like_nothing_is_answered_with_what_there_is() -> None:
    with pytest.raises(InvalidRequest, match=r"there are .*resnet-50"):
        parity.model_of(CATALOG, "qqq")


def test_a_model_that_builds_itself_cannot_be_compared() -> None:
    with pytest.raises(InvalidRequest, match="not made from described layers"):
        parity.model_of(CATALOG, "sleep")


def test_all_frameworks_of_a_model_are_compared_where_none_is_named() -> None:
    assert parity.frameworks_of(MODEL, []) == list(MODEL.frameworks)
    assert parity.frameworks_of(MODEL, ["mxnet"]) == ["mxnet"]


def test_a_job_has_the_facts_of_its_options() -> None:
    size = parity.size_of(MODEL, "tiny", {"depth": 152})
    job = job_of(protocol.check_job(parity.job(MODEL, "pytorch", size, 4, 1, [0], {"depth": 152})))
    assert job.model.size["blocks"] == [1, 2, 3, 1]
    assert job.model.options == {"depth": 152}


def test_a_job_follows_the_protocol_and_drops_nothing_at_random() -> None:
    size = {**MODEL.sizes["tiny"], "dropout": 0.5, "auxiliary_dropout": 0.7}
    job = parity.job(MODEL, "mxnet", size, 4, 1, [0, 1])
    assert job_of(protocol.check_job(job)).model.size == {**size, "dropout": 0.0, "auxiliary_dropout": 0.0}
    assert job["model"]["sizes"][job["plan"]["size"]] == size | {"dropout": 0.0, "auxiliary_dropout": 0.0}
    assert parity.exactly(job)["plan"]["precision"] == "fp64"
    assert job["plan"]["precision"] == "fp32"
