"""Memory by class, kernels and layers from the events of a log, and what the profiling phases have cost."""

import pytest

from orchestrator.analysis.analyse import analyse
from orchestrator.analysis.profile import kernels, layers, memory
from orchestrator.analysis.run import utilization
from orchestrator.domain.value.measurement import Analysis
from orchestrator.domain.value.profile import Share, merged
from orchestrator.services.facts.catalog import load_catalog
from tests.unit.analysis.logs import NODE, STEP_S, a_job, a_log, closed, durations
from workers.trainer import protocol

KINDS = load_catalog().kernel_kinds
# class, bytes, step: two layers' weights, their maps, gradients as the maps go, momenta that stay.
ALLOCATIONS = [
    ("weights", 100, 0),
    ("weights", 300, 0),
    ("input", 50, 1),
    ("feature_maps", 1000, 1),
    ("workspace", 700, 1),
    ("workspace", -700, 1),
    ("feature_maps", 500, 1),
    ("weight_gradients", 300, 1),
    ("feature_maps", -500, 1),
    ("weight_gradients", 100, 1),
    ("feature_maps", -1000, 1),
    ("optimizer_state", 400, 1),
    ("feature_maps", 1000, 2),
    ("workspace", 200, 2),
    ("other", 10, 2),
]
SUM_AT_PEAK = 400 + 1000 + 200 + 400 + 400 + 50 + 10


def allocation_events(rank=0, items=ALLOCATIONS, peak_bytes=2600, parts=2, **last):
    names = list(protocol.MEMORY_CLASSES)
    numbered = [[names.index(name), size, step] for name, size, step in items]
    size = -(-len(numbered) // parts)
    chunks = [numbered[start : start + size] for start in range(0, len(numbered), size)]
    events = []
    for chunk in chunks:
        data = {"method": "followed", "classes": names, "items": chunk, "last": chunk is chunks[-1]}
        if data["last"]:
            data |= {"steps": 3, "peak_bytes": peak_bytes, "peak_method": "allocator", "outside_bytes": None, **last}
        events.append(("allocations", rank, data))
    return events


def kernel_event(rank=0, rows=(("aten::addmm", 6, 0.3), ("aten::relu", 3, 0.1)), steps=3):
    rows = [list(row) for row in rows]
    data = {"steps": steps, "elapsed_s": 1.5 * STEP_S * steps, "active_s": 0.5, "method": "profiler", "rows": rows}
    return "kernels", rank, data


BREAKDOWN = {
    "input_s": 0.01,
    "host_to_device_s": None,
    "forward_s": 0.1,
    "backward_s": 0.2,
    "exchange_s": 0.0,
    "update_s": 0.05,
    "reasons": {"host_to_device_s": "nothing is copied"},
}


def layer_event(rank=0, breakdown=BREAKDOWN, **changes):
    row = {"name": "stem.0", "kind": "Conv2d", "parameters_bytes": 400, "forward_s": 0.1, "backward_s": 0.2}
    data = {"steps": 2, "elapsed_s": 4 * STEP_S, "method": "hooks", "serialised": False}
    bucket = {"name": "bucket 0", "bytes": 400, "start_s": 0.1, "end_s": 0.15}
    return "layers", rank, {**data, "breakdown": breakdown, "rows": [row], "exchanges": [bucket], **changes}


def cost(profile, elapsed_s, rank=0):
    return "profiled", rank, {"profile": profile, "steps": 3, "elapsed_s": elapsed_s}


def a_profiled_log(*events, ranks=1, profile=("memory", "kernels", "layers"), **changes):
    """A log of a run that went well, with ``events`` before its end."""
    job = a_job(ranks)
    job["plan"] |= {"profile": list(profile), "framework": "pytorch"}
    entries = a_log(ranks=ranks, job=job, **changes)[:-1]
    t = entries[-1]["t"] + 1.0
    added = [{"t": t, "wall": 1e9 + t, "kind": kind, "rank": rank, "data": data} for kind, rank, data in events]
    return closed([*entries, *added])


def analysed(*events, **changes) -> Analysis:
    return analyse({NODE: a_profiled_log(*events, **changes)}, KINDS)


def test_shares_at_the_peak_and_the_residual_are_the_measured_peak():
    (profile,) = analysed(*allocation_events()).profiles.memory
    assert sum(share.at_peak_bytes for share in profile.classes.values()) == SUM_AT_PEAK
    assert SUM_AT_PEAK + profile.residual_bytes == profile.peak_bytes == 2600
    assert profile.classes["weights"] == Share(400, 400)
    # Both were largest when the whole was not: in the first step, before there were momenta.
    assert profile.classes["workspace"] == Share(700, 200)
    assert profile.classes["feature_maps"] == Share(1500, 1000)
    assert profile.classes["weight_gradients"] == Share(400, 400)


def test_the_papers_dynamic_class_is_optimiser_state_input_and_whatever_else_is_allocated():
    (profile,) = analysed(*allocation_events()).profiles.memory
    assert profile.parts == {
        "optimizer_state": Share(400, 400),
        "input": Share(50, 50),
        "other": Share(10, 10),
    }
    assert profile.classes["dynamic"] == Share(460, 460)


def test_nothing_is_scaled_to_the_peak_that_was_measured():
    small, large = (analysed(*allocation_events(peak_bytes=peak)).profiles.memory[0] for peak in (2000, 9000))
    assert small.classes == large.classes
    assert (large.residual_bytes - small.residual_bytes, small.residual_bytes < 0) == (7000, True)


def test_the_residual_is_a_measurement_of_the_worst_rank():
    events = [*allocation_events(0, peak_bytes=2500), *allocation_events(1, peak_bytes=5000)]
    analysis = analysed(*events, ranks=2)
    assert [profile.rank for profile in analysis.profiles.memory] == [0, 1]
    found = analysis.measurement("memory_residual_ratio")
    assert found.value == analysis.profiles.memory[1].residual_ratio
    assert found.scope == "worst of 2 ranks"


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        (allocation_events()[:1], "breaks off"),
        (allocation_events(items=[("weights", 4, 0), ("weights", -8, 1)]), "more of weights is freed"),
        (allocation_events(peak_bytes=0), "measured peak of 0"),
        ([("allocations", 0, {"classes": ["x"], "items": [[0, 1, 0]], "last": True, "method": "m"})], "class 'x'"),
        ([], "the processes have reported none"),
    ],
)
def test_a_list_of_allocations_that_cannot_be_gives_a_reason_and_leaves_the_run_valid(events, reason):
    analysis = analysed(*events)
    assert analysis.validity.sound
    assert not analysis.profiles.memory
    assert reason in analysis.profiles.reasons["memory"]


def test_where_the_peak_counts_from_a_later_step_the_search_for_algorithms_is_in_no_class():
    """The first step's workspace is larger than all that follows, and is given back in it."""
    searched = [("weights", 400, 0), ("workspace", 9000, 1), ("workspace", -9000, 1), ("feature_maps", 300, 2)]
    told = {"peak_bytes": 700, "peak_from_step": 2}
    (profile,) = analysed(*allocation_events(items=searched, **told)).profiles.memory
    assert {name: share.at_peak_bytes for name, share in profile.classes.items() if share.at_peak_bytes} == {
        "weights": 400,
        "feature_maps": 300,
    }
    assert (profile.classes["workspace"].max_bytes, profile.residual_bytes) == (0, 0)


def test_a_profile_that_the_agent_gave_up_says_why():
    failure = {"kind": "out_of_memory", "message": "asked for too much", "ranks": [0]}
    analysis = analysed(("profile_failed", None, {"profile": "memory", "failure": failure}))
    assert analysis.profiles.reasons["memory"] == f"{NODE}: out_of_memory: asked for too much"
    assert analysis.validity.sound


def test_a_run_that_asked_for_no_profile_has_none_and_needs_no_reason():
    analysis = analysed(profile=())
    assert not analysis.profiles
    assert analysis.measurement("profile_cost_s") is None


def test_kernels_are_ordered_by_time_with_their_shares():
    (table,) = analysed(kernel_event(rows=[("aten::relu", 3, 0.1), ("aten::addmm", 6, 0.3)])).profiles.kernels
    assert [(row.name, row.kind, row.calls, row.share_ratio) for row in table.rows] == [
        ("aten::addmm", "matrix product", 6, pytest.approx(0.75)),
        ("aten::relu", "element-wise", 3, pytest.approx(0.25)),
    ]
    assert {row.reason for row in table.rows} == {kernels.NO_COUNTERS_ON_CPU}


def test_tables_of_several_ranks_are_added_up():
    events = [kernel_event(0), kernel_event(1, rows=[("aten::addmm", 6, 0.5)])]
    rows = merged(analysed(*events, ranks=2).profiles.kernels)
    assert [(row.name, row.calls, row.total_s) for row in rows] == [
        ("aten::addmm", 12, pytest.approx(0.8)),
        ("aten::relu", 3, pytest.approx(0.1)),
    ]
    assert sum(row.share_ratio for row in rows) == pytest.approx(1.0)


def test_the_difference_of_two_tables_is_in_seconds_per_step_and_rank():
    before = analysed(kernel_event(0), kernel_event(1), ranks=2).profiles.kernels
    after = analysed(kernel_event(rows=[("aten::addmm", 2, 0.5), ("aten::copy_", 1, 0.01)], steps=1)).profiles.kernels
    found = {one.name: (one.change, one.difference_s) for one in kernels.difference(before, after)}
    assert found == {
        "aten::addmm": ("slower", pytest.approx(0.4)),
        "aten::relu": ("vanished", pytest.approx(-0.1 / 3)),
        "aten::copy_": ("appeared", pytest.approx(0.01)),
    }
    assert {one.change for one in kernels.difference(before, before)} == {"equal"}


def test_tables_five_and_six_are_the_longest_kernels_below_the_average_utilisation():
    known = [("a", 4.0, 0.9), ("b", 3.0, 0.2), ("c", 2.0, 0.4), ("d", 1.0, None), ("e", 1.0, 0.8)]
    rows = [kernels.Kernel(name, "other", 1, total_s, 0.0, ratio) for name, total_s, ratio in known]
    average, below = kernels.longest_below_average(rows)
    assert average == pytest.approx((3.6 + 0.6 + 0.8 + 0.8) / 10)
    assert [row.name for row in below] == ["b", "c"]
    assert kernels.longest_below_average([row for row in rows if row.name == "d"]) == (None, [])


def test_a_table_without_kernels_is_none_and_says_why():
    found = analysed(kernel_event(rows=[])).profiles
    assert (found.kernels, found.reasons["kernels"]) == ((), "rank 0: " + utilization.NOTHING_RECORDED)


def test_the_utilisation_of_a_kernel_is_what_hardware_has_counted_of_it():
    data = kernel_event(rows=[("gemm", 1, 0.3), ("relu", 1, 0.1), ("bias", 1, 0.1)])[2]
    table = kernels.table_of(0, data, KINDS, "pytorch", True, {"gemm": 0.5, "relu": None})
    found = {row.name: (row.fp32_utilization_ratio, row.reason) for row in table.rows}
    assert found == {"gemm": (0.5, None), "relu": (None, kernels.NOT_COUNTED), "bias": (None, kernels.NOT_COUNTED)}


NAMES = [
    ("pytorch", False, "aten::mkldnn_convolution", "convolution"),
    ("pytorch", False, "aten::convolution_backward", "convolution"),
    ("pytorch", False, "aten::addmm", "matrix product"),
    ("pytorch", False, "aten::mm", "matrix product"),
    ("pytorch", False, "aten::mkldnn_rnn_layer", "matrix product"),
    ("pytorch", False, "aten::native_batch_norm_backward", "normalisation"),
    ("pytorch", False, "aten::clamp_min_", "element-wise"),
    ("pytorch", False, "aten::threshold_backward", "element-wise"),
    ("pytorch", False, "aten::_foreach_add_", "element-wise"),
    ("pytorch", False, "aten::add_", "element-wise"),
    ("pytorch", False, "aten::copy_", "memory"),
    ("pytorch", False, "aten::embedding_dense_backward", "memory"),
    ("pytorch", False, "aten::max_pool2d_with_indices", "other"),
    ("pytorch", False, "gloo:all_reduce", "communication"),
    ("pytorch", True, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
    ("pytorch", True, "Memcpy HtoD (Pinned -> Device)", "memory"),
    ("pytorch", True, "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nhwc_tilesize128x64x8", "convolution"),
    ("pytorch", True, "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>", "normalisation"),
    ("pytorch", True, "sm90_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8", "matrix product"),
    ("pytorch", True, "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add>", "element-wise"),
    ("pytorch", True, "void at::native::(anonymous namespace)::max_pool_forward_nchw<float>", "other"),
    ("tensorflow", False, "Conv2DBackpropFilter", "convolution"),
    ("tensorflow", False, "_FusedConv2D", "convolution"),
    ("tensorflow", False, "FusedBatchNormGradV3", "normalisation"),
    ("tensorflow", False, "MatMul", "matrix product"),
    ("tensorflow", False, "AddV2", "element-wise"),
    ("tensorflow", False, "ReluGrad", "element-wise"),
    ("tensorflow", False, "ResourceApplyKerasMomentum", "element-wise"),
    ("tensorflow", False, "CollectiveReduceV2", "communication"),
    ("tensorflow", False, "Transpose", "memory"),
    ("tensorflow", False, "MaxPoolGrad", "other"),
    ("mxnet", False, "Convolution", "convolution"),
    ("mxnet", False, "_backward_Convolution", "convolution"),
    ("mxnet", False, "_backward_BatchNorm", "normalisation"),
    ("mxnet", False, "FullyConnected", "matrix product"),
    ("mxnet", False, "Activation", "element-wise"),
    ("mxnet", False, "sgd_mom_update", "element-wise"),
    ("mxnet", False, "CopyCPU2CPU", "memory"),
    ("mxnet", False, "KVStorePush", "communication"),
    ("mxnet", False, "horovod_allreduce", "communication"),
    ("mxnet", False, "RNN", "matrix product"),
    ("mxnet", False, "_backward_RNN", "matrix product"),
    ("mxnet", False, "_rnn_param_concat", "memory"),
    ("mxnet", False, "_backward_Pooling", "other"),
    ("cntk", False, "Convolution", "convolution"),
    ("cntk", False, "BatchNormalization", "normalisation"),
    ("cntk", False, "Times", "matrix product"),
    ("cntk", False, "RectifiedLinear", "element-wise"),
    ("cntk", False, "Pooling", "other"),
    ("sleep", False, "first.forward", "other"),
]


@pytest.mark.parametrize(("framework", "gpu", "name", "kind"), NAMES)
def test_a_kernel_is_of_the_kind_that_its_name_says(framework, gpu, name, kind):
    assert kernels.kind_of(KINDS, framework, name, gpu) == kind


def test_the_breakdown_is_the_mean_over_ranks_and_says_what_it_cannot_tell():
    second = {**BREAKDOWN, "forward_s": 0.3}
    analysis = analysed(layer_event(0), layer_event(1, second), ranks=2)
    assert analysis.measurement("step_forward_s").value == pytest.approx(0.2)
    missing = analysis.measurement("step_host_to_device_s")
    assert (missing.value, missing.reason) == (None, "nothing is copied")
    assert set(layers.BREAKDOWN_METRICS) == set(protocol.BREAKDOWN)
    assert analysis.profiles.layers[0].rows[0].name == "stem.0"
    assert analysis.profiles.layers[0].exchanges[0].end_s == 0.15


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (layer_event(breakdown={**BREAKDOWN, "update_s": None}), "says nothing of update_s"),
        (layer_event(breakdown={**BREAKDOWN, "forward_s": -1.0}), "time of -1"),
        (layer_event(exchanges=[{"name": "b", "bytes": 4, "start_s": 2.0, "end_s": 1.0}]), "ends before it begins"),
        (layer_event(rows=[{"name": "stem.0"}]), "kind"),
    ],
)
def test_times_that_cannot_be_give_a_reason(event, reason):
    analysis = analysed(event)
    assert analysis.validity.sound
    assert reason in analysis.profiles.reasons["layers"]


def test_the_cost_of_each_profile_is_that_of_the_slowest_rank():
    events = [cost("kernels", 2.0), cost("kernels", 3.0, 1), cost("memory", 8.0), cost("memory", 7.0, 1)]
    analysis = analysed(*events, ranks=2)
    found = {one.subject: one.value for one in analysis.measurements if one.metric == "profile_cost_s"}
    assert found == {None: 11.0, "kernels": 3.0, "memory": 8.0}


def test_the_activity_of_a_run_has_its_cost_where_the_log_tells_it():
    told = {"active_s": 0.9, "elapsed_s": 1.0, "steps": 3, "method": "operator-union", "cost_s": 1.25}
    analysis = analysed(("activity", 0, told), profile=())
    found = {one.subject: one.value for one in analysis.measurements if one.metric == "profile_cost_s"}
    assert found == {None: 1.25, "activity": 1.25}


def test_the_slowdown_compares_profiled_steps_with_timed_ones():
    analysis = analysed(kernel_event(), layer_event(), timed=durations(deviation=0.001))
    found = {one.subject: one.value for one in analysis.measurements if one.metric == "profile_slowdown_ratio"}
    assert found == {
        "kernels": pytest.approx(1.5, rel=0.01),
        "layers": pytest.approx(2.0, rel=0.01),
        None: pytest.approx(2.0, rel=0.01),
    }


def test_profiles_do_not_touch_what_was_timed():
    plain, profiled = analysed(profile=()), analysed(kernel_event(), layer_event(), *allocation_events())
    for metric in ("throughput", "step_time_s", "peak_memory_bytes"):
        assert plain.measurement(metric) == profiled.measurement(metric)


def test_every_class_of_the_trainers_has_its_place_in_the_papers():
    assert set(memory._PAPER) == set(protocol.MEMORY_CLASSES)
