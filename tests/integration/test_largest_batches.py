"""The search for the largest batch on a real service: every model of the suite, in every framework that has it."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.spec.spec_file import SpecFile
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.spec import parse_spec
from orchestrator.domain.expansion.sweep import check, expand
from orchestrator.services.facts.catalog import load_catalog
from tests.integration.service_rig import ROOT, Tbd, environment
from tests.support.service import Service

SPEC: dict[str, Any] = {
    "name": "largest",
    "size": "tiny",
    "device": "cpu",
    "per_device_batch_size": "max",
    "repeats": 1,
    "max_repeats": 2,
    "max_steps": 8,
}


def results_of(service: Service, experiment: str) -> tuple[list[dict[str, Any]], dict[int, dict[str, Any]]]:
    """(whole runs, tries by their batch) of an experiment that has completed, one row of results and no failed run
    but for those that ran out of memory; each run in processes of its own."""
    runs = service.wait(experiment, timeout_s=550, poll_s=0.5)
    failures = [run["failure"] for run in runs if run["failure"]]
    assert [failure for failure in failures if failure["kind"] != "out_of_memory"] == []
    assert failures
    assert service.call("GET", f"/api/v1/experiments/{experiment}")["state"] == "completed"
    assert len({run["attempts"][0]["id"] for run in runs}) == len(runs), "each try in processes of its own"
    tries = {run["plan"]["per_device_batch_size"]: run for run in runs if run["plan"]["search"]}
    return [run for run in runs if not run["plan"]["search"]], tries


def test_the_largest_batch_is_one_that_whole_runs_fit_and_out_of_memory_is_no_failure(tmp_path: Path) -> None:
    """Each sample takes 20 MiB of the 256 that the processes may have, and 4 more with every step: more samples fit in
    the four steps of a try than in the eight of a whole run. Python itself needs some memory, too."""
    spec = {**SPEC, "model": "sleep", "framework": "sleep", "memory_limit_bytes": 256 * 2**20, "repeats": 2}
    spec |= {"options": {"step_time_s": 0.001, "sample_bytes": 20 * 2**20, "kept_bytes": 4 * 2**20}}
    service = Service(tmp_path / "data", **environment(tmp_path)).start()
    try:
        experiment = service.submit(spec)
        watch = Tbd(tmp_path, service.url).start("watch", experiment)
        whole, tries = results_of(service, experiment)
        (row,) = service.all(f"/api/v1/experiments/{experiment}/results")
        largest = row["axes"]["per_device_batch_size"]
        fitted = max(batch for batch, run in tries.items() if run["state"] == "completed")
        _, said = watch.communicate(timeout=60)
        assert f"batch {fitted} 1x1: it fits; " in said
        assert f"batch {fitted + 1} 1x1: it does not fit; " in said
        assert "at most 2 tries more" in said
        assert f"{fitted} is the largest that fits" in said
        assert 2 <= largest < fitted <= 7
        assert tries[fitted + 1]["failure"]["kind"] == "out_of_memory"
        ends = {(run["plan"]["per_device_batch_size"], run["state"]) for run in whole}
        assert ends == {(largest, "completed")} | {(batch, "failed") for batch in range(largest + 1, fitted + 1)}
        assert len(whole) == 2 + fitted - largest, "a batch that does not fit is measured once"
        (note,) = [note for note in row["validity"]["notes"] if note.startswith("max: ")]
        for run in whole:
            assert (run["id"] in note) is (run["state"] == "failed")
    finally:
        service.stop()


# framework, model, task of those that have several -> the memory of the device, MiB. Judgements: so little above what
# the framework itself takes that a search ends in a minute or so.
LIMITS = {
    ("pytorch", "resnet-50", None): 385,
    ("pytorch", "inception-v3", None): 520,
    ("pytorch", "transformer", None): 360,
    ("pytorch", "seq2seq", None): 420,
    ("pytorch", "deep-speech-2", None): 620,
    ("pytorch", "bert-base", None): 380,
    ("pytorch", "bert-base", "finetune"): 380,
    ("pytorch", "bert-large", None): 380,
    ("pytorch", "bert-large", "finetune"): 380,
    ("pytorch", "gpt-2", None): 360,
    ("pytorch", "wgan-gp", None): 730,
    ("pytorch", "a3c", None): 400,
    ("pytorch", "faster-rcnn", None): 480,
    ("pytorch", "mask-rcnn", None): 620,
    ("tensorflow", "resnet-50", None): 620,
    ("tensorflow", "inception-v3", None): 700,
    ("tensorflow", "transformer", None): 450,
    ("tensorflow", "seq2seq", None): 450,
    ("tensorflow", "deep-speech-2", None): 600,
    ("tensorflow", "bert-base", None): 450,
    ("tensorflow", "bert-base", "finetune"): 450,
    ("tensorflow", "bert-large", None): 450,
    ("tensorflow", "bert-large", "finetune"): 450,
    ("tensorflow", "gpt-2", None): 450,
    ("tensorflow", "wgan-gp", None): 2600,
    ("tensorflow", "a3c", None): 480,
    ("tensorflow", "faster-rcnn", None): 620,
    ("tensorflow", "mask-rcnn", None): 960,
    ("mxnet", "resnet-50", None): 640,
    ("mxnet", "inception-v3", None): 700,
    ("mxnet", "transformer", None): 600,
    ("mxnet", "seq2seq", None): 600,
    ("mxnet", "deep-speech-2", None): 600,
    ("mxnet", "a3c", None): 600,
    ("mxnet", "faster-rcnn", None): 800,
    ("cntk", "resnet-50", None): 430,
    ("cntk", "inception-v3", None): 400,
}
# In ``make test-changed``; the others in ``make suite-check``.
QUICK = [("pytorch", "resnet-50", None), ("pytorch", "gpt-2", None), ("mxnet", "transformer", None)]
QUICK += [("cntk", "resnet-50", None)]


# Memory in MiB in which a framework cannot be imported, or not begin to train. They fail at different places.
BEGINS_BEYOND = {
    "pytorch": (64, 120, 150, 180, 210, 225),
    "tensorflow": (64, 130, 200, 280, 360),
    "mxnet": (64, 130, 200, 280, 360),
    "cntk": (64, 100, 130),
}


def cell(framework: str, model: str, task: str | None, limit_mib: int) -> Any:
    own = pytest.mark.after_change if (framework, model, task) in QUICK else pytest.mark.thorough
    marks = [pytest.mark.framework(framework), own]
    name = "-".join(part for part in (framework, model, task) if part)
    return pytest.param(framework, model, {"task": task} if task else {}, limit_mib, id=name, marks=marks)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("framework", "model", "options", "limit_mib"), [cell(*named, limit) for named, limit in LIMITS.items()]
)
def test_a_model_finds_its_largest_batch_in_the_memory_it_may_have(
    framework: str, model: str, options: dict[str, Any], limit_mib: int, tmp_path: Path, python_of: Any
) -> None:
    python_of(framework)
    spec = {**SPEC, "model": model, "framework": framework, "options": options}
    spec["memory_limit_bytes"] = limit_mib * 2**20
    service = Service(tmp_path / "data", **environment(tmp_path)).start()
    try:
        experiment = service.submit(spec)
        whole, tries = results_of(service, experiment)
        (row,) = service.all(f"/api/v1/experiments/{experiment}/results")
        largest = row["axes"]["per_device_batch_size"]
        fitted = max(batch for batch, run in tries.items() if run["state"] == "completed")
        too_large = min(batch for batch, run in tries.items() if run["failure"])
        assert fitted < too_large <= fitted + max(1, fitted // 64)
        assert largest >= 2, "or it is no search"
        # So near to the limit two processes of one batch differ: a whole run may not fit where the try did.
        ends = {run["plan"]["per_device_batch_size"]: run["state"] for run in whole}
        assert ends.pop(largest) == "completed"
        assert set(ends.values()) <= {"failed"}
        assert all(largest < batch <= fitted for batch in ends)
        assert row["throughput"]
    finally:
        service.stop()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "framework",
    [pytest.param(name, marks=[pytest.mark.framework(name), pytest.mark.after_change]) for name in BEGINS_BEYOND],
)
def test_memory_in_which_a_framework_cannot_even_begin_is_too_little_and_it_has_not_crashed(
    framework: str, tmp_path: Path, python_of: Any
) -> None:
    """Its libraries end as they please: by exceptions, by signals, or by words of their own and status 1. How much is
    enough to begin depends on the processor and the number of its cores: where a sample fits, the search goes on."""
    python_of(framework)
    service = Service(tmp_path / "data", **environment(tmp_path)).start()
    try:
        for limit_mib in BEGINS_BEYOND[framework]:
            spec = {**SPEC, "model": "resnet-50", "framework": framework, "memory_limit_bytes": limit_mib * 2**20}
            experiment = service.submit(spec)
            tried = service.wait(experiment)
            failures = [run["failure"] for run in tried if run["failure"]]
            assert {failure["kind"] for failure in failures} == {"out_of_memory"}, (limit_mib, failures)
            if len(tried) == 1:
                (missing,) = service.call("GET", f"/api/v1/experiments/{experiment}/scaling")["missing"]
                assert missing["reason"] == "not even a batch of 1 fits into the memory"
    finally:
        service.stop()


def test_every_cell_of_the_batch_sweep_has_a_search_here() -> None:
    swept = SpecFile(str(ROOT / "suites" / "batch-sweep.yaml")).spec
    spec = parse_spec({**swept, "size": "tiny", "per_device_batch_size": "max", "memory_limit_bytes": 2**30})
    facts = Facts(load_catalog(), "cpu", (1, 1))
    check(spec, facts)
    plans = expand(spec, facts, [])
    assert all(plan.search for plan in plans)
    begun = sorted((plan.framework, plan.model) for plan in plans)
    assert begun == sorted({(framework, model) for framework, model, _ in LIMITS})
