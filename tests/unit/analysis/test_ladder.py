"""The utilisation ladder against arithmetic by hand: operations, peaks, active time, per rank and for the run."""

import pytest

from orchestrator.analysis.analyse import analyse
from orchestrator.analysis.run.executed_operations import by_kernel, plain
from orchestrator.analysis.run.ladder import model_flops_per_sample
from orchestrator.analysis.run.utilization import NOTHING_RECORDED
from orchestrator.services.facts.catalog import load_catalog
from tests.unit.analysis.logs import BATCH, NODE, STEP_S, a_job, a_log, quiet

GPU = {"id": "GPU-a", "kind": "cuda", "name": "NVIDIA H200", "cores": [], "memory_bytes": None}
FORWARD, FIRST = 1e9, 1e8
PER_STEP = BATCH * (3 * FORWARD - FIRST)
ACTIVE_S, STEPS = 0.9, 3  # as ``a_log`` writes its activity


def job(ranks=1, device=None, sheet=None, calibrated=None, **sizes):
    made = a_job(ranks, device)
    facts = {"flops_per_sample": FORWARD, "input_gradient_flops_per_sample": FIRST, **sizes}
    made["model"] = {**made["model"], "sizes": {"full": facts}}
    made["plan"] = {**made["plan"], "size": "full", "precision": "fp32", "per_device_batch_size": BATCH}
    made["peaks"] = [
        {
            "node": NODE,
            "device": process["devices"][0]["id"],
            "arithmetic": "fp32",
            "data_sheet": sheet and {"flops_per_s": sheet, "source": "a data sheet"},
            "calibrated": calibrated and {"flops_per_s": calibrated, "run_id": "run-0", "at": 1.0},
        }
        for process in made["processes"]
    ]
    return made


def analysed(made, ranks=1, readings=None, **log):
    return analyse({NODE: a_log(ranks=ranks, job=made, readings=readings or quiet(), **log)})


def value(analysis, metric, subject=None):
    (found,) = [m for m in analysis.measurements if m.metric == metric and m.subject == subject]
    return found.value


def reason(analysis, metric):
    (found,) = [m for m in analysis.measurements if m.metric == metric and m.subject is None]
    assert found.value is None
    return found.reason


def test_a_training_step_is_three_forward_passes_less_the_input_s_gradient():
    assert model_flops_per_sample(job()) == 3 * FORWARD - FIRST


def test_resnet_50_s_facts_give_what_its_convolutions_give():
    facts = load_catalog().models["resnet-50"].facts
    first = 2 * 64 * 3 * 7 * 7 * 112 * 112
    made = {"model": facts, "plan": {"size": "full"}}
    assert model_flops_per_sample(made) == 3 * 8178368512 - first


def test_where_the_facts_state_a_step_s_operations_these_count():
    assert model_flops_per_sample(job(step_flops_per_sample=5e10)) == 5e10


def test_mfu_is_the_model_s_rate_over_each_peak():
    found = analysed(job(device=GPU, sheet=1e12, calibrated=5e11))
    rate = value(found, "model_flops_per_s")
    assert rate == pytest.approx(PER_STEP / STEP_S, rel=0.01)
    assert value(found, "mfu_data_sheet_ratio") == pytest.approx(rate / 1e12)
    assert value(found, "mfu_calibrated_ratio") == pytest.approx(rate / 5e11)


def test_eq_2_analytic_is_the_operations_of_the_profiled_steps_over_peak_and_active_time():
    found = analysed(job(device=GPU, sheet=1e12))
    assert value(found, "fp32_utilization_ratio") == pytest.approx(PER_STEP * STEPS / (1e12 * ACTIVE_S))
    assert found.measurement("fp32_utilization_ratio").method.startswith("analytic")
    # The profiled steps took a second in all: their kernels are held against timed ones.
    assert value(found, "profiled_utilization_ratio") == pytest.approx(ACTIVE_S / (STEPS * STEP_S), rel=0.01)


def test_a_cpu_device_is_held_against_its_calibrated_peak_only():
    found = analysed(job(sheet=None, calibrated=1e11))
    assert value(found, "fp32_utilization_ratio") == pytest.approx(PER_STEP * STEPS / (1e11 * ACTIVE_S))
    assert "calibrated" in found.measurement("fp32_utilization_ratio").method
    assert "no data sheet" in reason(found, "mfu_data_sheet_ratio")
    assert "no such counter" in reason(found, "fp32_pipe_ratio")


def test_without_a_calibration_the_reason_says_how_to_get_one():
    found = analysed(job())
    assert "tbd calibrate" in reason(found, "mfu_calibrated_ratio")
    assert "tbd calibrate" in reason(found, "fp32_utilization_ratio")


def test_without_a_count_of_operations_nothing_is_made_up():
    found = analysed(job(flops_per_sample=0, calibrated=1e11))
    assert "count of operations" in reason(found, "mfu_calibrated_ratio")
    assert "count of operations" in reason(found, "fp32_utilization_ratio")


def test_every_rank_has_rungs_of_its_own_beside_the_run_s():
    found = analysed(job(ranks=2, calibrated=1e11), ranks=2)
    whole = value(found, "mfu_calibrated_ratio")
    assert whole == pytest.approx(2 * PER_STEP / STEP_S / 2e11, rel=0.01)
    assert value(found, "mfu_calibrated_ratio", "rank:0") == pytest.approx(whole)
    # rank 1 took 0.9 of the time for the same work
    assert value(found, "mfu_calibrated_ratio", "rank:1") == pytest.approx(whole / 0.9)
    assert value(found, "compute_utilization_ratio", "rank:1") == pytest.approx(ACTIVE_S)
    assert value(found, "fp32_utilization_ratio", "rank:1") == pytest.approx(PER_STEP * STEPS / (1e11 * ACTIVE_S))


def test_a_process_that_drives_two_devices_is_held_against_both_peaks():
    made = job(calibrated=1e11)
    other = {**made["processes"][0]["devices"][0], "id": "cpu:2-3"}
    made["world_size"] = 2
    made["processes"][0].update(ranks=[0, 1], local_ranks=[0, 1])
    made["processes"][0]["devices"].append(other)
    made["peaks"].append({**made["peaks"][0], "device": "cpu:2-3"})
    entries = a_log(job=made, readings=quiet())
    for entry in entries:
        if entry["kind"] == "joined":
            entry["data"]["world_size"] = 2
    found = analyse({NODE: entries})
    assert value(found, "mfu_calibrated_ratio") == pytest.approx(2 * PER_STEP / STEP_S / 2e11, rel=0.01)


def test_an_invalid_run_has_no_rates():
    found = analysed(job(ranks=2, calibrated=1e11), ranks=2, weights=["one", "another"])
    assert not found.validity.sound
    assert not [m for m in found.measurements if m.metric.startswith("mfu")]


def gpm(**values):
    return quiet(values={(metric, "device:GPU-a"): level for metric, level in values.items()})


def test_the_pipes_are_means_of_what_the_driver_counted():
    found = analysed(job(device=GPU), readings=gpm(sm_active_ratio=0.9, fp32_pipe_ratio=0.5, tensor_pipe_ratio=0.01))
    assert value(found, "sm_active_ratio") == pytest.approx(0.9)
    assert value(found, "fp32_pipe_ratio") == pytest.approx(0.5)
    assert value(found, "tensor_pipe_ratio") == pytest.approx(0.01)


@pytest.mark.parametrize("status", ["unsupported", "no_permission"])
def test_a_pipe_that_cannot_be_read_says_which_of_the_two_it_is(status):
    entries = a_log(job=job(device=GPU), readings=gpm(fp32_pipe_ratio=None))
    for entry in entries:
        if entry["kind"] == "reading":
            entry["data"]["nvml"] = {"GPU-a": {"fp32_pipe_ratio": status, "power_w": "ok"}}
    assert status in reason(analyse({NODE: entries}), "fp32_pipe_ratio")


def counted(kernels, ranks=1):
    entries = a_log(ranks=ranks, job=job(ranks=ranks, device=GPU, sheet=1e12), readings=quiet())
    closing = entries.pop()
    entries.append({**closing, "kind": "counters", "data": {"tool": "ncu", "steps": 1, "kernels": kernels}})
    closing["seq"] += 1
    closing["data"]["entries"] += 1
    return analyse({NODE: [*entries, closing]}).measurement("fp32_utilization_ratio")


FADD, FMUL, FFMA = (f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum" for name in ("fadd", "fmul", "ffma"))


def test_where_hardware_has_counted_eq_2_is_of_executed_operations():
    tensor = "sm__ops_path_tensor_src_tf32_dst_fp32.sum"
    found = counted(
        [["sgemm", {FADD: 1e9, FMUL: 2e9, FFMA: 5e9}], ["other", {FADD: 1e9, FMUL: 0, FFMA: 0, tensor: 4e9}]]
    )
    assert found.value == pytest.approx((1e9 + 2e9 + 1e10 + 1e9 + 4e9) * STEPS / (1e12 * ACTIVE_S))
    assert found.method.startswith("counters")


def test_kernels_that_could_not_be_counted_are_told_of():
    found = counted([["sgemm", {FADD: 0, FMUL: 0, FFMA: 1e9}], ["other", {FADD: None, FMUL: None, FFMA: None}]])
    assert "1 of 2 kernels" in found.method


def test_a_kernel_s_utilisation_is_over_the_peak_and_its_own_time():
    time = "gpu__time_duration.sum"
    launch = {FADD: 0, FMUL: 0, FFMA: 5e8, time: 2e-3}
    events = [{"kernels": [["a", launch], ["a", launch], ["b", {**launch, FFMA: None}], ["c", {**launch, time: None}]]}]
    assert by_kernel(events, "abcd", 1e12) == {"a": pytest.approx(0.5), "b": None, "c": None, "d": None}


# As NVIDIA's demangler writes a name (ncu), and as the C++ run-time does (the frameworks' profilers).
NAMES = [
    ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
    (
        "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, "
        "std::array<char *, (unsigned long)3>>(int, T2, T3)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
        "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
    ),
    (
        "void cudnn::bn_fw_tr_1C11_singleread<float, (int)512, (bool)1, (int)-1>(cudnnTensorStruct, const T1 *)",
        "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, -1>(cudnnTensorStruct, float const*)",
    ),
    (
        "void f<(int)4, at::native::<unnamed>::gelu(at::Base &)::[lambda() (instance 1)]::operator ()() const::"
        "[lambda(float) (instance 2)]>(int, T2)",
        "void f<4, at::native::(anonymous namespace)::gelu(at::Base&)::{lambda()#1}::operator()() const::"
        "{lambda(float)#2}>(int, at::native::(anonymous namespace)::gelu(at::Base&)::{lambda()#1}::operator()() const::"
        "{lambda(float)#2})",
    ),
]


@pytest.mark.parametrize(("counter_s", "profiler_s"), NAMES)
def test_a_kernel_is_known_again_however_its_name_is_written(counter_s, profiler_s):
    assert plain(counter_s) == plain(profiler_s)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("void f<4, float>(int)", "void f<8, float>(int)"),
        ("void f<4, float>(int)", "void f<4, double>(int)"),
        ("void f<g::{lambda()#1}>(int)", "void f<g::{lambda()#2}>(int)"),
    ],
)
def test_kernels_that_differ_stay_apart(one, other):
    assert plain(one) != plain(other)


def profiled_job(**more):
    made = job(device=GPU, sheet=1e12, **more)
    made["plan"]["profile"] = ["kernels"]
    return made


TABLE = {"steps": 5, "elapsed_s": 2.0, "active_s": 1.5, "method": "kineto kernels", "rows": [["f", 5, 1.0]]}


def with_events(made, *events, ranks=1):
    entries = a_log(ranks=ranks, job=made, readings=quiet())
    closing = entries.pop()
    for kind, rank, data in events:
        entries.append({**closing, "seq": len(entries) + 1, "kind": kind, "rank": rank, "data": data})
    entries.append({**closing, "seq": len(entries) + 1, "data": {**closing["data"], "entries": len(entries) + 1}})
    return analyse({NODE: entries})


def reasons_of(analysis):
    return {row.name: (row.fp32_utilization_ratio, row.reason) for row in analysis.profiles.kernels[0].rows}


def test_active_time_is_that_of_the_kernel_timeline_where_there_is_one():
    found = with_events(profiled_job(), ("kernels", 0, TABLE))
    assert value(found, "profiled_utilization_ratio") == pytest.approx(1.5 / (5 * STEP_S), rel=0.01)
    assert value(found, "fp32_utilization_ratio") == pytest.approx(PER_STEP * 5 / (1e12 * 1.5))
    on_cpu = job(calibrated=1e11)
    on_cpu["plan"]["profile"] = ["kernels"]
    assert value(with_events(on_cpu, ("kernels", 0, TABLE)), "compute_utilization_ratio") == pytest.approx(0.75)


def test_kernels_of_the_table_get_the_utilisation_that_was_counted():
    launch = ["f", {FADD: 0, FMUL: 0, FFMA: 5e8, "gpu__time_duration.sum": 2e-3}]
    table = {**TABLE, "rows": [["void f(int)", 5, 1.0], ["g", 5, 0.5]]}
    counters = {"tool": "ncu", "steps": 1, "kernels": [launch]}
    found = reasons_of(with_events(profiled_job(), ("kernels", 0, table), ("counters", None, counters)))
    assert found["void f(int)"] == (pytest.approx(0.5), None)
    assert found["g"] == (None, "the hardware counters tell nothing of this kernel")


def test_kernels_that_were_not_counted_say_why():
    table = ("kernels", 0, TABLE)
    assert "PATH" in reasons_of(with_events(profiled_job(), table))["f"][1]
    failure = {"kind": "unsupported", "message": "==ERROR== ERR_NVGPUCTRPERM"}
    failed = ("profile_failed", None, {"profile": "counters", "failure": failure})
    assert "ERR_NVGPUCTRPERM" in reasons_of(with_events(profiled_job(), table, failed))["f"][1]
    assert "one rank only" in reasons_of(with_events(profiled_job(ranks=2), table, ranks=2))["f"][1]
    broken = {"tool": "ncu", "steps": 1, "kernels": [["f", {FADD: "x", FMUL: 0, FFMA: 0}]]}
    found = with_events(profiled_job(), table, ("counters", None, broken))
    assert found.validity.sound
    assert reasons_of(found)["f"][0] is None


def test_eq_1_of_each_rank_s_gpu_and_eq_3_of_each_rank_s_cores():
    made = job(ranks=2, device=GPU)
    made["processes"][1]["devices"] = [{**GPU, "id": "GPU-b"}]
    levels = {("busy_ratio", "device:GPU-a"): 0.9, ("busy_ratio", "device:GPU-b"): 0.5}
    found = analysed(made, ranks=2, readings=quiet(values=levels))
    assert value(found, "compute_utilization_ratio") == pytest.approx(0.7)
    assert value(found, "compute_utilization_ratio", "rank:0") == pytest.approx(0.9)
    assert value(found, "compute_utilization_ratio", "rank:1") == pytest.approx(0.5)
    assert not [m for m in found.measurements if m.metric == "cpu_utilization_ratio" and m.subject]


def test_a_profiler_that_saw_nothing_gives_a_reason_and_no_zero():
    made = job(sheet=1e12)
    log = a_log(job=made, readings=quiet())
    for entry in log:
        if entry["kind"] == "activity":
            entry["data"]["active_s"] = None
    found = analyse({NODE: log})
    for metric in ("compute_utilization_ratio", "fp32_utilization_ratio"):
        assert reason(found, metric) == NOTHING_RECORDED
