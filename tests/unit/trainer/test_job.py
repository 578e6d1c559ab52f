"""What a process makes of its job: types instead of the JSON that travels."""

import json

import pytest

from tests.trainer_process import make_job, read_job
from workers.trainer import protocol
from workers.trainer.base import job as jobs
from workers.trainer.base.failure import TrainerError


def test_a_process_finds_itself_by_the_name_in_its_copy_of_the_job(tmp_path):
    path = tmp_path / "job.json"
    path.write_text(json.dumps({**make_job("sleep", "sleep", ranks=2), "process": "worker-1"}))
    job = jobs.read(str(path))
    assert (job.process.name, job.process.rank, job.process.ranks) == ("worker-1", 1, (1,))
    with pytest.raises(protocol.ProtocolError, match="no process named 'other'"):
        _ = job._replace(own_name="other").process


def test_what_the_plan_chooses_lies_over_what_the_facts_declare():
    model = read_job("sleep", "sleep", options={"step_time_s": 0.5}).model
    assert (model.options["step_time_s"], model.options["fault"]) == (0.5, "none")


def test_the_facts_of_the_size_are_those_of_the_plan():
    job = read_job("resnet_50", "pytorch", size="small")
    assert job.model.size == job.model.facts["sizes"]["small"]


def test_a_strategy_that_says_nothing_has_the_defaults():
    assert read_job("sleep", "sleep").strategy._asdict() == protocol.STRATEGY
    assert read_job("sleep", "sleep", {"strategy": {"step_multiple": 3}}).strategy.step_multiple == 3


def test_processes_know_their_nodes_and_who_is_on_others():
    data = make_job("sleep", "sleep", ranks=3)
    for process, node in zip(data["processes"], "aab", strict=True):
        process["node"] = node
    job = jobs.job_of({**data, "nodes": [protocol.local_node("a"), protocol.local_node("b")]})
    first, _, last = job.processes
    assert [job.node_of(process).name for process in job.processes] == ["a", "a", "b"]
    assert job.leading_ranks == (0, 1, 2)
    assert (job.ranks_on_other_nodes(first), job.ranks_on_other_nodes(last)) == ((2,), (0, 1))


def test_a_job_without_a_port_for_the_framework_has_no_rendezvous():
    with pytest.raises(TrainerError, match="names no port") as refused:
        _ = read_job("sleep", "sleep").rendezvous
    assert refused.value.kind == "setup_failed"


def test_a_job_that_lacks_what_a_process_needs_is_refused_by_its_name():
    data = make_job("sleep", "sleep")
    del data["plan"]["seed"]
    with pytest.raises(protocol.ProtocolError, match="the job lacks 'seed'"):
        jobs.job_of(data)
