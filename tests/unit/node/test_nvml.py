"""NVML behind its choke point, against scripted answers."""

import types

from workers.node.telemetry.fields import OFTEN
from workers.node.telemetry.gpm import COUNTERS
from workers.node.telemetry.nvml import Nvml


class FakeNvmlError(Exception):
    def __init__(self, value):
        super().__init__(f"code {value}")
        self.value = value


NOT_SUPPORTED, NO_PERMISSION, UNKNOWN = 3, 4, 999


class FakeNvml:
    """What pynvml would say; ``errors`` maps a function's name to the code it fails with."""

    NVMLError = FakeNvmlError
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2

    def __init__(self, uuids=("GPU-a",), errors=None):
        self.uuids = uuids
        self.errors = errors or {}
        self.calls = []

    def __getattr__(self, name):
        if not name.startswith("nvml") or name not in self.answers():
            raise AttributeError(name)

        def call(*arguments):
            self.calls.append(name)
            if name in self.errors:
                raise FakeNvmlError(self.errors[name])
            return self.answers()[name](*arguments)

        return call

    def answers(self):
        return {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: b"570.1",
            "nvmlDeviceGetCount": lambda: len(self.uuids),
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetUUID": lambda handle: self.uuids[handle],
            "nvmlDeviceGetName": lambda handle: "NVIDIA H200",
            "nvmlDeviceGetMemoryInfo": lambda handle: types.SimpleNamespace(total=1000, used=250),
            "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 700_000,
            "nvmlDeviceGetUtilizationRates": lambda handle: types.SimpleNamespace(gpu=80),
            "nvmlDeviceGetPowerUsage": lambda handle: 350_500,
            "nvmlDeviceGetTotalEnergyConsumption": lambda handle: 12_000,
            "nvmlDeviceGetTemperature": lambda handle, sensor: 61,
            "nvmlDeviceGetClockInfo": lambda handle, kind: 1980 if kind == self.NVML_CLOCK_SM else 3201,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 4,
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: [
                types.SimpleNamespace(pid=7),
                types.SimpleNamespace(pid=8),
            ],
        }


def test_a_host_without_the_package_has_no_gpus_and_says_why(monkeypatch):
    monkeypatch.setattr("workers.node.telemetry.nvml._driver", lambda: None)
    nvml = Nvml()
    assert nvml.gpus() == []
    assert "nvidia-ml-py" in nvml.reason
    nvml.close()


def test_a_host_without_a_driver_has_no_gpus_and_says_why():
    nvml = Nvml(FakeNvml(errors={"nvmlInit": 9}))
    assert nvml.gpus() == []
    assert "code 9" in nvml.reason
    assert nvml.read("GPU-a") == {}
    nvml.close()


def test_a_driver_without_devices_says_so():
    assert Nvml(FakeNvml(uuids=())).reason == "the NVIDIA driver shows no device"


def test_gpus_are_known_by_uuid_with_si_units():
    nvml = Nvml(FakeNvml(uuids=("GPU-a", "GPU-b")))
    assert [gpu.id for gpu in nvml.gpus()] == ["GPU-a", "GPU-b"]
    gpu = nvml.gpus()[0]
    assert (gpu.name, gpu.memory_bytes, gpu.power_limit_w) == ("NVIDIA H200", 1000, 700.0)
    assert nvml.driver_version == "570.1"
    assert nvml.reason is None


def test_readings_are_in_the_units_of_the_protocol():
    assert Nvml(FakeNvml()).read("GPU-a") == {
        "busy_ratio": 0.8,
        "device_memory_bytes": 250,
        "power_w": 350.5,
        "energy_j": 12.0,
        "temperature_c": 61,
        "sm_clock_hz": 1980e6,
        "memory_clock_hz": 3201e6,
        "throttle_reasons": 4,
        **dict.fromkeys((*COUNTERS, *OFTEN)),
    }


def test_an_unsupported_metric_is_null_is_noted_once_and_not_asked_for_again():
    fake = FakeNvml(errors={"nvmlDeviceGetTotalEnergyConsumption": NOT_SUPPORTED})
    nvml = Nvml(fake)
    for _ in range(3):
        assert nvml.read("GPU-a")["energy_j"] is None
    assert fake.calls.count("nvmlDeviceGetTotalEnergyConsumption") == 1
    assert nvml.availability["GPU-a"]["energy_j"] == "unsupported"
    assert nvml.availability["GPU-a"]["power_w"] == "ok"


def test_a_metric_without_permission_is_noted_as_such():
    nvml = Nvml(FakeNvml(errors={"nvmlDeviceGetPowerUsage": NO_PERMISSION}))
    nvml.read("GPU-a")
    assert nvml.availability["GPU-a"]["power_w"] == "no_permission"


def test_a_passing_error_loses_one_reading_only():
    fake = FakeNvml(errors={"nvmlDeviceGetPowerUsage": UNKNOWN})
    nvml = Nvml(fake)
    assert nvml.read("GPU-a")["power_w"] is None
    fake.errors = {}
    assert nvml.read("GPU-a")["power_w"] == 350.5


def test_foreign_processes_are_those_that_are_not_ours():
    nvml = Nvml(FakeNvml())
    assert nvml.foreign_processes("GPU-a", {7}) == 1
    assert nvml.foreign_processes("GPU-z", {7}) is None
