"""Reading what ``ncu --csv`` prints: tables in its format, no kernel lost, numbers with thousands separators."""

from pathlib import Path

import pytest

from workers.node.telemetry import ncu

SAMPLES = Path(__file__).resolve().parents[2] / "gpu" / "samples"
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"


def text(name):
    return (SAMPLES / f"ncu_{name}.csv").read_text()


def test_a_row_per_kernel_and_metric_becomes_a_kernel_with_its_metrics():
    kernels = ncu.parse(text("details"))
    assert [kernel.id for kernel in kernels] == [0, 1, 2]
    first = kernels[0]
    assert first.name == "ampere_sgemm_128x64_nn"
    assert first.metrics[FFMA] == 1_073_741_824
    assert first.metrics[ncu.DURATION] == pytest.approx(1205.5e-6)
    assert kernels[1].name.startswith("void at::native::vectorized_elementwise_kernel<4, ")
    assert '"sum"' in kernels[2].name


def test_a_row_per_kernel_has_its_units_in_the_first_row():
    product, addition = ncu.parse(text("raw"))
    assert product.metrics[ncu.DURATION] == pytest.approx(1.43296e-3)
    assert product.metrics["sm__ops_path_tensor_src_bf16_dst_fp32.sum"] == 2.0 * 8192 * 8192 * 8192
    assert addition.metrics[ncu.DURATION] == pytest.approx(4.032e-6)


def test_what_ncu_prints_on_an_h200_of_a_product_of_4096_cubed_is_counted():
    (product,) = ncu.parse(text("h200"))
    assert set(product.metrics) < set(ncu.METRICS)
    assert ncu.operations(product.metrics)["fp32"] == pytest.approx(2 * 4096**3, rel=3e-4)
    assert product.metrics[ncu.DURATION] == pytest.approx(2.695456e-3)


def test_operations_are_counted_by_pipe_a_multiply_add_as_two():
    sgemm, addition, unread = ncu.parse(text("details"))
    assert ncu.operations(sgemm.metrics) == {"fp32": 2 * 1_073_741_824 + 1_048_576, "tensor": None}
    assert ncu.operations(addition.metrics)["fp32"] == 1_048_576
    assert ncu.operations(unread.metrics)["fp32"] is None
    product, _ = ncu.parse(text("raw"))
    assert ncu.operations(product.metrics) == {"fp32": 0.0, "tensor": 2.0 * 8192**3}


@pytest.mark.parametrize("name", ["details", "raw"])
def test_two_launches_of_one_name_are_two_kernels(name):
    """The first kernel again, with the next number: neither is taken for the other, nor added to it."""
    lines = text(name).splitlines()
    first = [line for line in lines if line.startswith('"0"')]
    before = ncu.parse(text(name))
    again = [line.replace('"0"', f'"{len(before)}"', 1) for line in first]
    profiled = next(line for line in lines if line.startswith("==PROF== Profiling"))
    kernels = ncu.parse("\n".join([profiled, *lines, *again]))
    assert len(kernels) == len(before) + 1
    assert (kernels[0].name, kernels[0].metrics) == (kernels[-1].name, kernels[-1].metrics)
    assert [name for name, _ in ncu.rows(kernels)].count(kernels[0].name) == 2


@pytest.mark.parametrize("name", ["details", "raw"])
def test_what_the_program_printed_between_is_passed_over(name):
    lines = text(name).splitlines()
    noisy = "\n".join([*lines[:-1], "loss 6.9, step 3", "", lines[-1]])
    assert ncu.parse(noisy) == ncu.parse(text(name))


def test_a_lost_row_is_noticed_by_the_number_that_is_missing():
    lines = text("raw").splitlines()
    without_first = "\n".join(line for line in lines if not line.startswith('"0"'))
    with pytest.raises(ncu.NcuError, match="gap at kernel 0"):
        ncu.parse(without_first)


def test_a_lost_last_kernel_is_noticed_by_what_ncu_says_it_profiled():
    with pytest.raises(ncu.NcuError, match="profiled 2 kernels, its table has 1"):
        ncu.parse("\n".join(text("raw").splitlines()[:-1]))


def test_a_torn_row_is_an_error():
    with pytest.raises(ncu.NcuError):
        ncu.parse(text("details")[:-40])


@pytest.mark.parametrize("wrong", ["1.234.567", "1,23", "12,3456", "many"])
def test_what_is_no_number_is_refused_rather_than_guessed(wrong):
    with pytest.raises(ncu.NcuError, match="no number"):
        ncu.parse(text("details").replace("1,073,741,824", wrong))


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("", "it is empty"),
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "ERR_NVGPUCTRPERM"),
    ],
)
def test_without_a_table_it_says_what_ncu_said(printed, told):
    with pytest.raises(ncu.NcuError, match=told):
        ncu.parse(printed)


def test_a_program_without_kernels_has_none():
    assert ncu.parse("==PROF== Connected to process 1\n==PROF== Disconnected from process 1\n") == []


def a_tool(folder, printed, status=0):
    """A program that prints ``printed`` whatever it is asked."""
    (folder / "said").write_text(printed)
    tool = folder / "ncu"
    tool.write_text(f"#!/bin/sh\ncat {folder / 'said'}\nexit {status}\n")
    tool.chmod(0o755)
    return str(tool)


def test_counters_of_tensor_pipes_that_a_device_lacks_are_not_asked_for(tmp_path):
    listed = "Device NVIDIA A100\nsm__ops_path_tensor_src_tf32_dst_fp32   Counter   # of math ops\n"
    assert ncu.available(a_tool(tmp_path, listed)) == [
        ncu.DURATION,
        *ncu.FP32_OPERATIONS,
        "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
    ]


def test_where_ncu_cannot_say_what_there_is_all_are_asked_for(tmp_path):
    assert ncu.available(str(tmp_path / "nothing")) == list(ncu.METRICS)


def test_the_command_counts_between_the_profiler_s_marks_into_a_file_of_its_own():
    words = ncu.command("/usr/bin/ncu", "/tmp/log")
    assert words[0] == "/usr/bin/ncu"
    assert words[words.index("--profile-from-start") + 1] == "off"
    assert words[words.index("--log-file") + 1] == "/tmp/log"
    assert ncu.DURATION in words[words.index("--metrics") + 1]
