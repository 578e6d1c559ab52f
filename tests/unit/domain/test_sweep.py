"""From spec to plans: the grid, what auto means, what is refused, and when an experiment is over."""

from dataclasses import replace

import pytest

from orchestrator.domain.asked.facts import Facts, facts_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.expansion.sweep import check, check_for_any_machine, expand, left_out, place_in_sweep, spec_of
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.words.errors import InvalidRequest
from tests.unit import builders as make
from tests.unit.builders import is_over


def refusals(spec: ExperimentSpec, facts: Facts | None = None) -> list[tuple[str, str]]:
    with pytest.raises(InvalidRequest) as caught:
        check(spec, facts or make.facts())
    return [(problem.pointer, problem.message) for problem in caught.value.problems]


def completed(plan: Plan, *reasons: object) -> Run:
    return make.run(f"run_{plan.key}", RunState.COMPLETED, plan=plan, analysis=make.analysis(*reasons))


def test_the_grid_is_the_product_of_all_axes_and_options_times_repeats() -> None:
    spec = make.spec(framework=["pytorch", "tensorflow"], per_device_batch_size=[4, 8], options={"depth": [50, 101]})
    plans = expand(spec, make.facts(), [])
    assert len(plans) == 2 * 2 * 2 * 3
    assert len({plan.key for plan in plans}) == len(plans)
    assert len({plan.cell_key for plan in plans}) == 8


def test_excluded_cells_are_left_out() -> None:
    spec = make.spec(per_device_batch_size=[4, 8], seed=[1, 2], exclude=[{"per_device_batch_size": 8, "seed": 2}])
    assert len(expand(spec, make.facts(), [])) == 3 * 3


def test_auto_is_resolved_in_the_plan() -> None:
    (plan,) = expand(make.spec(repeats=1), make.facts(device="cuda"), [])
    assert (plan.device, plan.strategy, plan.interpreter, plan.fabric) == ("cuda", "single", "pytorch", None)
    assert dict(plan.options) == {"depth": 50, "rate": 0.1}
    (wide,) = expand(make.spec(repeats=1, topology="2x2"), make.facts(), [])
    assert (wide.strategy, wide.fabric, wide.global_batch_size) == ("ddp", "ethernet", 16)


def test_a_global_batch_is_divided_over_the_devices() -> None:
    spec = make.spec(repeats=1, topology=["1x1", "1x2"], per_device_batch_size=None, global_batch_size=8)
    assert {str(plan.topology): plan.per_device_batch_size for plan in expand(spec, make.facts(), [])} == {
        "1x1": 8,
        "1x2": 4,
    }


def test_powers_of_two_go_up_to_the_whole_pool() -> None:
    spec = make.spec(repeats=1, topology="powers-of-two")
    plans = expand(spec, make.facts(pool=(4, 6)), [])
    in_order = sorted(plans, key=lambda plan: place_in_sweep(spec, plan))
    assert [str(plan.topology) for plan in in_order] == ["1x1", "1x2", "1x4", "2x6", "4x6"]


def test_a_pool_of_unequal_nodes_is_what_most_of_its_devices_can_take_part_in() -> None:
    def pool(*counts: int) -> tuple[int, int]:
        return facts_of(make.catalog(), [make.node(f"n{i}", count) for i, count in enumerate(counts)]).pool

    assert pool(8, 8, 4) == (2, 8)
    assert pool(8, 4, 4, 4) == (4, 4)
    assert pool(2, 1) == (1, 2)
    assert pool() == (0, 0)


def test_a_batch_that_does_not_divide_leaves_out_its_cell_and_not_the_sweep() -> None:
    spec = make.spec(topology=["1x1", "1x2", "1x3"], per_device_batch_size=None, global_batch_size=[8, 9], repeats=1)
    check(spec, make.facts())
    plans = expand(spec, make.facts(), [])
    assert sorted((str(plan.topology), plan.global_batch_size) for plan in plans) == [
        ("1x1", 8),
        ("1x1", 9),
        ("1x2", 8),
        ("1x3", 9),
    ]
    reasons = [one.reason for one in left_out(spec, make.facts())]
    assert reasons == [
        "9 is not divisible by the 2 devices of 1x2",
        "8 is not divisible by the 3 devices of 1x3",
    ]
    assert left_out(make.spec(), make.facts()) == []


def test_gpu_models_are_an_axis() -> None:
    spec = make.spec(nodes={"gpu_model": ["H100", "H200"]}, per_device_batch_size=[4, 8], repeats=1)
    spec = replaced(spec, exclude=[{"gpu_model": "H200", "per_device_batch_size": 8}])
    plans = expand(spec, make.facts("cuda"), [])
    assert {(plan.gpu_model, plan.per_device_batch_size) for plan in plans} == {("H100", 4), ("H100", 8), ("H200", 4)}
    assert len({plan.cell_key for plan in plans}) == 3
    assert expand(spec_of(plans[0], "again"), make.facts(), [])[0].gpu_model == plans[0].gpu_model
    ((pointer, _),) = twice("nodes", {"gpu_model": ["H100", "H100"]})
    assert pointer == "/nodes/gpu_model"


def twice(field: str, value: object) -> list[tuple[str, str]]:
    with pytest.raises(InvalidRequest) as caught:
        make.spec(**{field: value})
    return [(problem.pointer, problem.message) for problem in caught.value.problems]


def test_nothing_is_missing_when_all_repeats_completed_or_failed() -> None:
    spec = make.spec(repeats=2)
    first, second = expand(spec, make.facts(), [])
    failure = Failure(FailureKind.CRASHED, "it crashed")
    runs = [completed(first), make.run("run_2", RunState.FAILED, plan=second, failure=failure)]
    assert expand(spec, make.facts(), runs) == []
    assert is_over(spec, make.facts(), runs)


def test_a_run_in_progress_counts_and_keeps_the_experiment_open() -> None:
    spec = make.spec(repeats=1)
    (plan,) = expand(spec, make.facts(), [])
    running = make.run("run_1", RunState.RUNNING, plan=plan)
    assert expand(spec, make.facts(), [running]) == []
    assert not is_over(spec, make.facts(), [running])


def test_cells_that_no_framework_can_do_are_refused_with_the_line_to_leave_them_out() -> None:
    spec = make.spec(framework=["pytorch", "tensorflow"], topology=["1x1", "1x2"])
    ((pointer, message),) = refusals(spec)
    assert pointer == "/topology"
    assert "exclude: [{model: net, framework: tensorflow, topology: 1x2}]" in message
    check(replaced(spec, exclude=[{"model": "net", "framework": "tensorflow", "topology": "1x2"}]), make.facts())


def test_cells_that_are_refused_for_the_same_thing_are_refused_in_one_line() -> None:
    spec = make.spec(framework=["pytorch", "tensorflow"], topology="1x2", per_device_batch_size=[4, 8, 16])
    assert len(refusals(spec)) == 1


def test_a_profile_that_an_adapter_cannot_make_with_a_strategy_is_refused_for_that_strategy_only() -> None:
    spec = make.spec(strategy=["single", "ddp"], profile=["kernels", "layers"])
    ((pointer, message),) = refusals(spec)
    assert pointer == "/profile"
    assert "pytorch with the strategy ddp makes no profile of layers" in message
    assert "exclude: [{model: net, framework: pytorch, strategy: ddp}]" in message
    rest = replaced(spec, exclude=[{"model": "net", "framework": "pytorch", "strategy": "ddp"}])
    check(rest, make.facts())
    assert [plan.profile for plan in expand(rest, make.facts(), [])] == [("kernels", "layers")] * rest.repeats


def test_a_profile_that_an_adapter_cannot_make_on_a_kind_of_device_is_refused_there_only() -> None:
    spec = make.spec(profile=["kernels", "layers"])
    check(spec, make.facts())
    ((pointer, message),) = refusals(spec, make.facts("cuda"))
    assert pointer == "/profile"
    assert "pytorch makes no profile of kernels on cuda devices" in message
    check(make.spec(profile=["layers"]), make.facts("cuda"))


def replaced(spec: ExperimentSpec, **changes: object) -> ExperimentSpec:
    return make.spec(**(spec.to_json() | changes))


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"model": "unheard-of"}, "/model"),
        ({"framework": "mxnet"}, "/framework"),
        ({"framework": "sleep"}, "/framework"),
        ({"data": "imagenet"}, "/data"),
        ({"size": "tiny"}, "/size"),
        ({"precision": "amp-bf16"}, "/precision"),
        ({"precision": "tf32"}, "/precision"),
        ({"precision": "bf16", "strategy": "ddp", "topology": "1x2"}, "/precision"),
        ({"framework": "tensorflow", "device": "cuda"}, "/device"),
        ({"strategy": "mirrored"}, "/strategy"),
        ({"strategy": "ddp", "topology": "9x1"}, "/topology"),
        ({"profile": ["memory"]}, "/profile"),
        ({"profile": ["kernels"], "framework": "tensorflow"}, "/profile"),
        ({"interpreter": "pytorch-nightly"}, "/interpreter"),
        ({"options": {"width": 2}}, "/options/width"),
        ({"options": {"depth": 34}}, "/options/depth"),
        ({"options": {"rate": 2}}, "/options/rate"),
        ({"options": {"depth": "fifty"}}, "/options/depth"),
        ({"exclude": [{"colour": "red"}]}, "/exclude/0/colour"),
        ({"exclude": [{"model": "net"}]}, "/exclude"),
        ({"topology": "1x3", "per_device_batch_size": None, "global_batch_size": 4}, "/global_batch_size"),
        ({"seed": list(range(1000)), "repeats": 30, "max_repeats": 30}, ""),
    ],
)
def test_what_cannot_be_carried_out_is_refused_with_a_pointer(change: dict[str, object], pointer: str) -> None:
    assert [found for found, _ in refusals(make.spec(**change))] == [pointer]


def test_an_exclude_is_advised_only_where_cells_are_left() -> None:
    ((_, alone),) = refusals(make.spec(framework="sleep"))
    assert alone == "model net is not there for sleep, only for pytorch, tensorflow"
    ((_, beside),) = refusals(make.spec(framework=["pytorch", "sleep"]))
    assert beside == f"{alone}. To leave this cell out: exclude: [{{model: net, framework: sleep}}]"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "ent"}, "there is no model 'ent': did you mean net? There are net"),
        ({"model": "zzz"}, "there is no model 'zzz'; there are net"),
        ({"data": "sinthetic"}, "there is no data 'sinthetic': did you mean synthetic? There are own, synthetic"),
        ({"options": {"dept": 50}}, "model net has no option dept: did you mean depth? It has depth, rate"),
        ({"exclude": [{"frameworks": "pytorch"}]}, "frameworks is no axis of this sweep: did you mean framework?"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_one_that_was_meant(change: dict[str, object], told: str) -> None:
    assert [text for _, text in refusals(make.spec(**change))] == [told]


def test_cells_whose_environment_no_gpu_can_carry_are_refused_with_the_reason() -> None:
    old = make.node("a", 1, "cuda", interpreters_unfit={"pytorch": "its CUDA needs NVIDIA's driver 525"})
    with pytest.raises(InvalidRequest, match=r"no node can run pytorch on GPUs: .* driver 525"):
        check(make.spec(), facts_of(make.catalog(), [old]))
    known = facts_of(make.catalog(), [old, make.node("b", 1, "cuda")])
    check(make.spec(), known)
    assert Facts.from_json(make.catalog(), facts_of(make.catalog(), [old]).to_json()).unfit == old.unfit


def test_without_a_cluster_only_what_no_machine_can_do_is_refused() -> None:
    catalog = make.catalog()
    check_for_any_machine(make.spec(framework="tensorflow"), catalog)  # on CPU devices only
    check_for_any_machine(make.spec(topology="4x8", strategy="ddp"), catalog)
    with pytest.raises(InvalidRequest, match="is not there for sleep"):
        check_for_any_machine(make.spec(framework="sleep"), catalog)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("placement", "same-devices"),
    ],
)
def test_a_field_whose_meaning_is_not_built_yet_is_refused_not_ignored(field: str, value: object) -> None:
    ((pointer, message),) = refusals(make.spec(**{field: value}))
    assert pointer == f"/{field}"
    assert "not built yet" in message


def test_gpus_are_preferred_where_any_node_has_one() -> None:
    nodes = [make.node("a", 2), make.node("b", 4, kind="cuda")]
    found, on_cores = facts_of(make.catalog(), nodes), facts_of(make.catalog(), nodes[:1])
    assert (found.device, found.pool, found.fabrics) == ("cuda", (1, 4), ("ethernet",))
    assert (on_cores.device, on_cores.pool, on_cores.fabrics) == ("cpu", (1, 2), ("ethernet",))
    assert found.nodes == ((("a cuda", 4),),)
    for one in (found, on_cores):
        assert Facts.from_json(one.catalog, one.to_json()) == one


def test_powers_of_two_of_each_model_of_gpu_go_up_to_its_own_pool() -> None:
    pool = (4, 8)
    nodes = (*[(("NVIDIA H100", 8),)] * 4, *[(("NVIDIA H200", 4),)] * 2)
    facts = Facts(make.catalog(), "cuda", pool, None, nodes)
    spec = make.spec(topology="powers-of-two", nodes={"gpu_model": ["h100", "H200"]}, repeats=1)
    reached: dict[str | None, set[str]] = {}
    for plan in expand(spec, facts, []):
        reached.setdefault(plan.gpu_model, set()).add(str(plan.topology))
    assert reached == {"h100": {"1x1", "1x2", "1x4", "1x8", "2x8", "4x8"}, "H200": {"1x1", "1x2", "1x4", "2x4"}}
    listed = make.spec(topology=["4x8", "powers-of-two"], nodes={"gpu_model": "H200"}, repeats=1)
    assert "4x8" in {str(plan.topology) for plan in expand(listed, facts, [])}  # whoever names it wants it


def test_a_gpu_that_others_use_makes_nobody_train_on_cpu_devices_unasked() -> None:
    nodes = [make.node("a", 2, gpus_withheld={"GPU-0": "GPU 0: process 4711 computes on it"})]
    assert facts_of(make.catalog(), nodes).device == "cuda"


def test_the_spec_of_a_plan_expands_to_that_plan() -> None:
    spec = make.spec(repeats=1, seed=7, size="small", options={"depth": 101}, nodes={"names": ["a"]})
    (plan,) = expand(spec, make.facts(), [])
    assert expand(spec_of(plan, "again"), make.facts(device="cuda"), []) == [plan]


def test_a_plan_keeps_its_identity_through_json() -> None:
    plan = make.plan(options=(("depth", 50), ("rate", 0.1)))
    assert Plan.from_json(plan.to_json()) == plan
    assert Plan.from_json(plan.to_json()).key == plan.key
    assert replace(plan, seed=2).key != plan.key
    assert plan.repeated(2).cell_key == plan.cell_key
