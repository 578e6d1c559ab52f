"""Which GPUs a node offers: what the agent may see, what the operator wants, and what others use."""

import pytest

from tests.unit.node.test_nvml import FakeNvml
from workers.node.gpu_choice import Offer, chosen
from workers.node.telemetry.nvml import Gpu, Nvml, Use


def gpus(*names):
    names = names or ("H100",) * 4
    return [Gpu(f"GPU-{number}{number}aa-bb", name, None, None, str(number)) for number, name in enumerate(names)]


def indices(**environment):
    return [gpu.number for gpu in chosen(gpus(), environment).gpus]


def test_all_are_offered_where_nothing_is_said():
    assert indices() == ["0", "1", "2", "3"]
    assert chosen(gpus(), {}).left_out is None


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        ("2,3", ["2", "3"]),
        ("3,1", ["3", "1"]),
        ("", []),
        ("-1", []),
        ("0,9,1", ["0"]),
        ("GPU-22,GPU-00aa", ["2", "0"]),
        ("GPU-", []),
        ("1,1", ["1"]),
    ],
)
def test_what_cuda_would_see_is_what_the_agent_sees(visible, found):
    assert indices(CUDA_VISIBLE_DEVICES=visible) == found


def test_a_number_among_different_models_names_none_unless_cuda_counts_along_the_bus():
    mixed = gpus("H100", "A100")
    assert chosen(mixed, {"CUDA_VISIBLE_DEVICES": "1"}).gpus == []
    assert chosen(mixed, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}).gpus == mixed[1:]
    assert chosen(mixed, {"CUDA_VISIBLE_DEVICES": "GPU-11"}).gpus == mixed[1:]


def test_the_operator_names_them_by_index_or_uuid_within_what_is_visible():
    assert indices(TBD_GPUS="0,2") == ["0", "2"]
    assert indices(TBD_GPUS="GPU-33aa") == ["3"]
    assert indices(TBD_GPUS="0,2", CUDA_VISIBLE_DEVICES="2,3") == ["2"]
    assert indices(TBD_GPUS="idle") == ["0", "1", "2", "3"]


def test_what_was_not_chosen_is_named_with_the_setting():
    left_out = chosen(gpus(), {"TBD_GPUS": "0", "CUDA_VISIBLE_DEVICES": "0,1"}).left_out
    assert left_out == "GPU 1, 2, 3 left out: CUDA_VISIBLE_DEVICES=0,1, TBD_GPUS=0"


@pytest.mark.parametrize("wrong", ["7", "GPU-9", "0,,1", "first", "GPU-"])
def test_a_gpu_that_there_is_not_is_refused_by_name_with_those_that_there_are(wrong):
    with pytest.raises(ValueError, match=r"TBD_GPUS=.*there are: 0 \(GPU-00aa-bb\), 1"):
        indices(TBD_GPUS=wrong)


def test_parts_of_a_host_have_different_gpus():
    assert indices(TBD_GPU_SHARE="1/2") == ["0", "1"]
    assert indices(TBD_GPU_SHARE="2/2") == ["2", "3"]
    assert indices(TBD_GPU_SHARE="2/3") == ["1"]
    assert indices(TBD_GPU_SHARE="1/8") == []
    for wrong in ("3/2", "0/2", "half"):
        with pytest.raises(ValueError, match="TBD_GPU_SHARE"):
            indices(TBD_GPU_SHARE=wrong)


class Used(Nvml):
    """A driver that says of its two devices what a test says."""

    def __init__(self):
        super().__init__(FakeNvml(uuids=("GPU-a", "GPU-b")))
        self.uses = {}

    def use(self, uuid):
        return self.uses.get(uuid, Use(False, [], 0, 0.0))


def offered(offer):
    return [device["id"] for device in offer.devices()]


def test_a_gpu_that_others_compute_on_is_withheld_until_they_are_gone():
    nvml = Used()
    nvml.uses["GPU-a"] = Use(False, [4711], 10**9, 0.9)
    offer = Offer(nvml, {})
    assert offered(offer) == ["GPU-b"]
    assert offer.withheld == {"GPU-a": "GPU 0: process 4711 computes on it"}
    nvml.uses.clear()
    offer.look()
    assert offered(offer) == ["GPU-a", "GPU-b"]
    assert offer.withheld == {}


def test_what_is_listed_once_more_after_its_end_withholds_nothing():
    nvml = Used()
    offer = Offer(nvml, {})
    for pid, found in ((1, ["GPU-a", "GPU-b"]), (2, ["GPU-a", "GPU-b"]), (2, ["GPU-b"])):
        nvml.uses["GPU-a"] = Use(False, [pid], None, None)
        offer.look()
        assert offered(offer) == found


@pytest.mark.parametrize(
    ("use", "why"),
    [(Use(False, None, 0, 0.5), "50% busy"), (Use(False, [], 30 * 10**9, 0.0), "30.0 GB of its memory are in use")],
)
def test_idle_devices_only_are_those_that_show_no_use_even_where_the_driver_lists_nobody(use, why):
    nvml = Used()
    nvml.uses["GPU-a"] = use
    assert offered(Offer(nvml, {})) == ["GPU-a", "GPU-b"]
    careful = Offer(nvml, {"TBD_GPUS": "idle"})
    assert offered(careful) == ["GPU-b"]
    assert why in careful.withheld["GPU-a"]
