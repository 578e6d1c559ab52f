"""Start a calibration: a calibration is an experiment like any other, of the model ``calibration``."""

from typing import Annotated, Any, Literal

from pydantic import Field

from orchestrator.domain.ports import StoredCalibration
from orchestrator.domain.run import Experiment
from orchestrator.domain.spec import Topology
from orchestrator.services import microbenchmark
from orchestrator.services.context import Context

MODEL = "calibration"
# Beside the measurements: start of the processes, and the last repetition of a slow device.
START_S = 900.0
# Judgements. Beyond these two calibrations of one device differ by more than they usually do: clocks, power, cooling or
# neighbours have changed, or the library has.
CHANGED_RATIO = {"cuda": 0.03, "cpu": 0.10}


class CalibrationRequest(microbenchmark.MicrobenchmarkRequest):
    """Which devices are to be calibrated, and how long. ``topology``: with 1x8 eight devices are under load at once."""

    topology: Topology = "1x1"
    device: Literal["auto", "cuda", "cpu"] = "auto"
    arithmetics: Annotated[str, Field(max_length=100)] = "auto"
    shapes: Annotated[str, Field(max_length=1000)] = "auto"
    load_s: Annotated[float, Field(ge=0, le=3600)] = 30.0
    measure_s: Annotated[float, Field(ge=0.01, le=600)] = 2.0


def start(context: Context, body: Any, *, owner: str, idempotency_key: str | None = None) -> tuple[Experiment, bool]:
    """Store the experiment that carries out the calibration ``body`` describes; (it, whether it is new).

    Raises:
        InvalidRequest: with a JSON pointer to each thing that is wrong. Nothing was stored.
        IdempotencyMismatch: the key was used before with another body.
    """
    described = "a calibration is an object of fields, such as {topology: 1x1}"
    asked = microbenchmark.parse(CalibrationRequest, body, described)
    return microbenchmark.carry_out(context, _spec(asked), owner, idempotency_key)


def _spec(asked: CalibrationRequest) -> dict[str, Any]:
    timed = ("arithmetics", "shapes", "load_s", "measure_s")
    return asked.spec() | {
        "name": f"calibration-{asked.topology}",
        "model": MODEL,
        "options": {name: getattr(asked, name) for name in timed},
        "framework": "pytorch",
        "topology": asked.topology,
        "device": asked.device,
        "timeout_s": asked.load_s + 40 * asked.measure_s + START_S,
    }


def change_ratio(stored: StoredCalibration) -> float | None:
    """How much faster (or, negative, slower) the device was found than by its valid calibration before."""
    before = stored.previous_flops_per_s
    return stored.calibration.flops_per_s / before - 1.0 if before else None


def has_changed(stored: StoredCalibration) -> bool:
    """Whether the change is more than two calibrations of a device usually differ by (``CHANGED_RATIO``)."""
    ratio = change_ratio(stored)
    return ratio is not None and abs(ratio) > CHANGED_RATIO.get(stored.calibration.device_kind, 0.1)
