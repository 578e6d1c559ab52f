"""GPM's counters through NVML's choke point, against scripted answers."""

import types

import pytest

from tests.unit.node.test_nvml import NO_PERMISSION, NOT_SUPPORTED, UNKNOWN, FakeNvml
from workers.node.telemetry.gpm import COUNTERS
from workers.node.telemetry.nvml import Nvml

FP32, TENSOR = 12, 5


class FakeGpm(FakeNvml):
    """Counters that run with the clock: the fp32 pipe works half of it; ``codes`` are return codes by metric."""

    NVML_ERROR_NOT_SUPPORTED = NOT_SUPPORTED
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self, codes=None, supported=1, **more):
        super().__init__(**more)
        self.codes, self.supported = codes or {}, supported
        self.now = 0.0
        self.freed = 0
        self.windows = []

    def c_nvmlGpmMetricsGet_t(self):  # noqa: N802 (pynvml's name)
        metrics = [types.SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(len(COUNTERS))]
        return types.SimpleNamespace(version=0, numMetrics=0, sample1=None, sample2=None, metrics=metrics)

    def answers(self):
        return {
            **super().answers(),
            "nvmlGpmQueryDeviceSupport": lambda handle: types.SimpleNamespace(isSupportedDevice=self.supported),
            "nvmlGpmSampleAlloc": lambda: types.SimpleNamespace(t=None),
            "nvmlGpmSampleGet": lambda handle, sample: setattr(sample, "t", self.now),
            "nvmlGpmSampleFree": lambda sample: setattr(self, "freed", self.freed + 1),
            "nvmlGpmMetricsGet": self.metrics_get,
        }

    def metrics_get(self, asked):
        self.windows.append(round(asked.sample2.t - asked.sample1.t, 6))
        for metric in asked.metrics[: asked.numMetrics]:
            metric.nvmlReturn = self.codes.get(metric.metricId, 0)
            metric.value = {FP32: 50.0, TENSOR: 0.5}.get(metric.metricId, 80.0)


def read(fake, times, period_s=0.5):
    nvml = Nvml(fake, clock=lambda: fake.now)
    found = []
    for _ in range(times):
        found.append({metric: value for metric, value in nvml.read("GPU-a").items() if metric in COUNTERS})
        fake.now += period_s
    return nvml, found


def test_the_counters_are_ratios_after_the_first_two_figures():
    fake = FakeGpm()
    nvml, found = read(fake, 5)
    nothing = dict.fromkeys(COUNTERS)
    # the first call takes a sample, the next two give the figures that are dropped
    assert found[:3] == [nothing] * 3
    assert found[3]["fp32_pipe_ratio"] == 0.5
    assert found[3]["tensor_pipe_ratio"] == pytest.approx(0.005)
    assert found[4]["sm_active_ratio"] == 0.8
    assert fake.windows == [0.5] * 4
    assert nvml.availability["GPU-a"]["fp32_pipe_ratio"] == "ok"


def test_samples_lie_100_ms_apart_or_more():
    fake = FakeGpm()
    _, found = read(fake, 12, period_s=0.04)
    assert min(fake.windows) >= 0.1
    assert found[-1] == dict.fromkeys(COUNTERS) or found[-1]["fp32_pipe_ratio"] == 0.5


@pytest.mark.parametrize(
    ("code", "told"), [(NOT_SUPPORTED, "unsupported"), (13, "unsupported"), (NO_PERMISSION, "no_permission")]
)
def test_what_the_driver_refuses_as_a_whole_is_told_apart_and_not_asked_for_again(code, told):
    fake = FakeGpm(errors={"nvmlGpmSampleGet": code})
    nvml, found = read(fake, 4)
    assert found == [dict.fromkeys(COUNTERS)] * 4
    assert {nvml.availability["GPU-a"][metric] for metric in COUNTERS} == {told}
    assert fake.calls.count("nvmlGpmSampleGet") == 1


def test_a_device_without_the_counters_is_unsupported():
    nvml, _ = read(FakeGpm(supported=0), 2)
    assert {nvml.availability["GPU-a"][metric] for metric in COUNTERS} == {"unsupported"}


def test_a_driver_module_without_the_functions_is_unsupported():
    nvml = Nvml(FakeNvml())
    assert nvml.read("GPU-a")["power_w"] == 350.5
    assert nvml.availability["GPU-a"]["fp32_pipe_ratio"] == "unsupported"


@pytest.mark.parametrize(("code", "told"), [(NOT_SUPPORTED, "unsupported"), (NO_PERMISSION, "no_permission")])
def test_every_metric_has_a_return_code_of_its_own(code, told):
    nvml, found = read(FakeGpm(codes={TENSOR: code}), 5)
    assert found[-1]["fp32_pipe_ratio"] == 0.5
    assert found[-1]["tensor_pipe_ratio"] is None
    assert nvml.availability["GPU-a"]["tensor_pipe_ratio"] == told
    assert nvml.availability["GPU-a"]["fp32_pipe_ratio"] == "ok"


def test_a_passing_error_loses_a_reading_only():
    fake = FakeGpm()
    nvml, _ = read(fake, 4)
    fake.errors = {"nvmlGpmMetricsGet": UNKNOWN}
    assert nvml.read("GPU-a")["fp32_pipe_ratio"] is None
    fake.errors = {}
    fake.now += 0.5
    assert nvml.read("GPU-a")["fp32_pipe_ratio"] == 0.5


def test_samples_are_given_back_at_the_end():
    fake = FakeGpm()
    nvml, _ = read(fake, 3)
    nvml.close()
    assert fake.freed == 2


@pytest.mark.parametrize(
    ("held", "wanted"), [((100, 50), 150), ((), 0), ((100, None), None)], ids=["two", "none", "not-told"]
)
def test_the_memory_of_all_processes_is_what_the_driver_tells_of_each(held, wanted):
    class WithMemory(FakeNvml):
        def answers(self):
            shown = [types.SimpleNamespace(pid=7 + index, usedGpuMemory=amount) for index, amount in enumerate(held)]
            return {**super().answers(), "nvmlDeviceGetComputeRunningProcesses": lambda handle: shown}

    nvml = Nvml(WithMemory())
    assert nvml.processes_memory("GPU-a") == wanted
    assert nvml.processes_memory("GPU-z") is None
