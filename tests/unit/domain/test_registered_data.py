"""Datasets that were registered on nodes: who may use them, where their runs are placed, and which series they make."""

from dataclasses import replace

import pytest

from orchestrator.domain.asked.catalog import DatasetFacts
from orchestrator.domain.asked.facts import Facts, facts_of
from orchestrator.domain.asked.fingerprint import fingerprint
from orchestrator.domain.asked.placement import Held, NotNow, Placement, offer, place
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.expansion.sweep import check, expand
from orchestrator.domain.words.errors import InvalidRequest
from tests.unit import builders as make

OWN = {
    "name": "my-images",
    "layout": "image-folder",
    "loader": "image_folder",
    "domain": "images",
    "module": "suites.datasets.registered",
    "files": 2,
    "bytes": 10,
    "sha256": "a" * 64,
    "registered": True,
}
OTHER = OWN | {"sha256": "b" * 64}
TEXTS = OWN | {"name": "my-texts", "loader": "running_text"}


def catalog():
    """The builders' one, with a model that trains on images of tbd's own."""
    found = make.catalog()
    shipped = DatasetFacts("photographs", "suites.datasets.photographs", "images", {"loader": "image_folder"})
    net = replace(found.models["net"], datasets=("synthetic", "photographs"))
    return replace(found, models={"net": net}, datasets={"photographs": shipped})


def a_node(name, *datasets):
    return make.node(name, datasets={one["name"]: one for one in datasets})


def plans(facts, **changes):
    spec = make.spec(data="my-images", **changes)
    check(spec, facts)
    return expand(spec, facts, [])


def test_a_spec_may_name_what_a_node_has_registered_and_the_plan_says_which_files():
    facts = facts_of(catalog(), [a_node("n0", OWN), a_node("n1")])
    (first, *_) = plans(facts)
    assert (first.data, first.data_sha256) == ("my-images", "a" * 64)
    assert Plan.from_json(first.to_json()) == first


def test_a_name_that_no_node_has_is_refused():
    with pytest.raises(InvalidRequest, match="there is no data 'my-images'"):
        plans(facts_of(catalog(), [a_node("n0")]))


def test_a_model_takes_what_is_read_as_its_own_data_is():
    facts = facts_of(catalog(), [a_node("n0", OWN, TEXTS)])
    with pytest.raises(InvalidRequest, match=r"data my-texts is not offered for net in pytorch: .*my-images"):
        check(make.spec(data="my-texts"), facts)


def test_a_name_for_different_files_on_different_nodes_is_refused_with_the_nodes():
    facts = facts_of(catalog(), [a_node("n0", OWN), a_node("n1", OTHER)])
    with pytest.raises(
        InvalidRequest, match=r"my-images is not the same files on all nodes \(aaaa.* on n0, bbbb.* on n1"
    ):
        plans(facts)


def test_the_data_stays_what_it_was_when_the_experiment_was_submitted():
    facts = facts_of(catalog(), [a_node("n0", OWN)])
    later = Facts.from_json(catalog(), facts.to_json())
    assert plans(later) == plans(facts)


def test_a_run_goes_where_its_files_are_and_else_says_what_is_missing():
    (plan, *_) = plans(facts_of(catalog(), [a_node("n1", OWN)]))
    found = place(offer(plan.needs, [a_node("n0"), a_node("n1", OWN)]), Held())
    assert isinstance(found, Placement)
    assert found.nodes == ("n1",)
    for nodes in ([a_node("n0")], [a_node("n0", OTHER)]):
        waits = place(offer(plan.needs, nodes), Held())
        assert isinstance(waits, NotNow)
        assert "that have the dataset my-images (aaaaaaaaaaaa…; tbd datasets register)" in waits.reason


def test_two_folders_under_one_name_are_two_series():
    keys = set()
    for facts in (OWN, OTHER):
        (plan, *_) = plans(facts_of(catalog(), [a_node("n0", facts)]))
        keys.add(fingerprint(plan, {})["workload_key"])
    assert len(keys) == 2


def test_plans_and_needs_without_registered_data_are_what_they_were():
    plan = make.plan()
    assert "data_sha256" not in plan.to_json()
    assert "data_sha256" not in fingerprint(plan, {})["workload"]
    assert plan.needs.dataset is None


def test_data_that_each_machine_makes_from_what_it_has_is_a_series_for_each_content():
    plan = make.plan(data="message-catalogues")
    told = [fingerprint(plan, {"data_sha256": digest})["workload_key"] for digest in ("a", "a", "b")]
    assert told[0] == told[1] != told[2]
