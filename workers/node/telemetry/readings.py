"""What a reading may hold: the vocabulary of the sampler, for whoever reads its logs."""

# metric of a reading -> what its value is. A reading's ``values`` are triples [metric, subject, value]; subjects are
# ``host``, ``core:N``, ``process:NAME``, ``attempt`` (all its processes), ``own`` (tbd's and Ray's own processes),
# ``neighbours`` (the processes of other attempts, where they share the node), ``device:ID``, ``interface:NAME`` and
# ``disk``. Quantities that grow (``_s``, ``_bytes`` of traffic, ``_j``) are the
# amount within the reading's window. A value that cannot be read is null.
READINGS = {
    "core_active_s": "active time of one logical core (user, nice, system, irq, softirq; not idle, iowait or steal)",
    "stolen_s": "time the hypervisor gave to others, all cores of the host",
    "cpu_s": "processor time used by the subject",
    "memory_bytes": "resident set of the subject",
    "memory_available_bytes": "memory of the host that can be had without swapping",
    "swap_in_bytes": "read back from swap by the host",
    "sent_bytes": "sent by an interface",
    "received_bytes": "received by an interface",
    "read_bytes": "read from disks by the host",
    "written_bytes": "written to disks by the host",
    "cpu_frequency_hz": "mean current frequency of the host's cores",
    "busy_ratio": "share of time with at least one kernel resident on the device (NVML utilization.gpu)",
    "device_memory_bytes": "memory in use on the device, all processes",
    "foreign_device_processes": "number of compute processes on the device that are not of the attempt",
    "sm_active_ratio": "share of the device's multiprocessors with a warp, mean over the window (GPM)",
    "sm_occupancy_ratio": "resident warps over the most there can be, mean over the window (GPM)",
    "tensor_pipe_ratio": "share of cycles in which any tensor pipe worked, mean over the window (GPM)",
    "dram_active_ratio": "share of the device memory's bandwidth in use, mean over the window (GPM)",
    "fp32_pipe_ratio": "share of cycles in which the FP32 pipes worked, mean over the window (GPM)",
    "pcie_sent_bytes_per_s": "sent by the device over PCIe, mean over the window (GPM)",
    "pcie_received_bytes_per_s": "received by the device over PCIe, mean over the window (GPM)",
    "nvlink_sent_bytes_per_s": "sent by the device over all its NVLinks, mean over the window (GPM)",
    "nvlink_received_bytes_per_s": "received by the device over all its NVLinks, mean over the window (GPM)",
    "uncorrected_ecc_errors": "errors of the device's memory that its code could not correct, since the last value",
    "xid": "code of the last XID error that the driver reported of the device since the last value; 0: none",
    "power_w": "power drawn by the device",
    "energy_j": "energy drawn by the device",
    "temperature_c": "temperature of the device, degrees Celsius",
    "sm_clock_hz": "clock of the device's multiprocessors",
    "memory_clock_hz": "clock of the device's memory",
    "throttle_reasons": "bit mask, nvmlDeviceGetCurrentClocksEventReasons",
}
