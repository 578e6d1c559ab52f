"""The loop of a calibration: load first, then every shape; all ranks alike. No framework, no clock."""

import sys
import types

import pytest

from tests.trainer_process import model_facts, read_job
from workers.trainer.base.failure import TrainerError
from workers.trainer.loops import calibration, session
from workers.trainer.loops.calibration import Calibration, flops, shapes_of

PRODUCT_S = 0.5


class Products:
    library, device = "a library", "a device"

    def __init__(self, now, error=0.0):
        self._now, self._error = now, error
        self.multiplied, self.prepared = 0, []

    def arithmetics(self):
        return ["fp32", "bf16"]

    def prepare(self, arithmetic, m, n, k):
        self.prepared.append((arithmetic, m, n, k))

    def multiply(self):
        self.multiplied += 1
        self._now[0] += PRODUCT_S

    def synchronize(self):
        pass

    def error(self):
        return self._error

    def close(self):
        pass


class Channel:
    """Rank 0's channel where nobody else is; ``stop_after`` turns it says stop."""

    def __init__(self, stop_after=None):
        self.turns, self._stop_after = [], stop_after

    def join(self):
        pass

    def take_clocks(self):
        return []

    def turn(self, step, proposal):
        self.turns.append((step, proposal))
        if self._stop_after is not None and step >= self._stop_after:
            return {"stop": "cancelled"}
        return {"stop": "max_steps"} if proposal is None else {"go": proposal[1], "phase": proposal[0]}


class Adapter:
    def versions(self):
        return {"framework": "x", "version": "1", "libraries": {}}

    def join(self, job, process):
        return 1

    def memory(self):
        return {"peak_bytes": 1, "method": "m"}


@pytest.fixture
def calibrated(monkeypatch):
    """Run a calibration; its events, products and channel."""

    def run(kind="cpu", error=0.0, stop_after=None, **options):
        now = [0.0]
        products = Products(now, error)
        module = types.ModuleType("a_calibration.x")
        module.open_products = lambda job, process: products
        monkeypatch.setitem(sys.modules, "a_calibration", types.ModuleType("a_calibration"))
        monkeypatch.setitem(sys.modules, "a_calibration.x", module)
        monkeypatch.setattr(session.fabric, "used", lambda job, process: {})
        given = {"shapes": "8,4x2x3", "arithmetics": "auto", "load_s": 30.0, "measure_s": 5.0, **options}
        model = {**model_facts("calibration"), "module": "a_calibration"}
        job = read_job("calibration", "x", {"model": model}, device=kind, options=given, max_steps=10)
        events, channel = [], Channel(stop_after)

        def emit(kind, **data):
            events.append((kind, data))

        Calibration(job, job.processes[0], Adapter(), channel, emit, lambda: now[0]).run()
        return [data for name, data in events if name == "calibration"], products, channel

    return run


def test_every_arithmetic_and_shape_is_timed_after_the_load(calibrated):
    rows, products, _ = calibrated()
    assert [(row["arithmetic"], row["shape"]) for row in rows] == [
        ("fp32", [8, 8, 8]),
        ("fp32", [4, 2, 3]),
        ("bf16", [8, 8, 8]),
        ("bf16", [4, 2, 3]),
    ]
    assert all(30.0 <= row["loaded_s"] < 32.0 for row in rows)
    assert [row["flops"] for row in rows[:2]] == [2.0 * 512, 2.0 * 24]
    assert all(row["duration_s"] == [PRODUCT_S] * 10 for row in rows)
    assert products.prepared[0] == ("fp32", 8, 8, 8)


def test_a_gpu_s_repetition_is_so_many_products_that_it_can_be_timed(calibrated, monkeypatch):
    monkeypatch.setitem(calibration.REPETITION_S, "cuda", 4 * PRODUCT_S)
    rows, *_ = calibrated(kind="cuda", measure_s=20.0)
    assert all(row["products"] == 4 and row["duration_s"] == [4 * PRODUCT_S] * 10 for row in rows)
    assert rows[0]["flops"] == 4 * 2.0 * 512


def test_the_load_comes_in_pieces_so_that_a_cancelled_run_ends_soon(calibrated):
    rows, products, channel = calibrated(stop_after=3)
    assert rows == []
    assert products.multiplied < 20
    assert len(channel.turns) == 4


def test_turns_are_counted_without_gaps(calibrated):
    *_, channel = calibrated()
    assert [step for step, _ in channel.turns] == list(range(len(channel.turns)))
    assert channel.turns[-1][1] is None


@pytest.mark.parametrize("error", [0.5, float("nan")])
def test_a_product_that_is_wrong_ends_the_run(calibrated, error):
    with pytest.raises(TrainerError) as caught:
        calibrated(error=error)
    assert caught.value.kind == "crashed"


def test_an_arithmetic_that_the_device_lacks_is_unsupported(calibrated):
    with pytest.raises(TrainerError) as caught:
        calibrated(arithmetics="fp32,tf32")
    assert caught.value.kind == "unsupported"


@pytest.mark.parametrize("text", ["", "8x8", "0", "a", "8,-1x2x3"])
def test_what_is_no_list_of_shapes_is_refused(text):
    job = read_job("calibration", "x", options={"shapes": text})
    with pytest.raises(TrainerError):
        shapes_of(job, "cpu")


def test_operations_are_two_per_multiply_add():
    assert flops((2, 3, 4)) == 48.0
