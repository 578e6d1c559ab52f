"""The request for a calibration, and the experiment that carries it out: one like any other, of ``calibration``."""

import re
from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator

from orchestrator.domain.asked.spec import TopologyText
from orchestrator.domain.words.spelling import did_you_mean
from orchestrator.services.probe.request import ProbeRequest

ARITHMETICS = ("fp32", "tf32", "bf16", "fp16")
_SHAPE = re.compile(r"[1-9][0-9]*(x[1-9][0-9]*x[1-9][0-9]*)?")
# Beside the measurements: start of the processes, and the last repetition of a slow device.
START_S = 900.0


class CalibrationRequest(ProbeRequest):
    """Which devices are to be calibrated, and how long."""

    model: ClassVar = "calibration"
    options: ClassVar = ("arithmetics", "shapes", "load_s", "measure_s")
    example: ClassVar = "1x1"

    topology: TopologyText = Field(
        default="1x1", description="MxD: M nodes with D devices each. With 1x8 eight devices are under load at once"
    )
    arithmetics: Annotated[str, Field(max_length=100)] = Field(
        default="auto",
        description="fp32, tf32, bf16, fp16 with commas. auto: fp32 on CPU devices, on GPUs all that the device does",
    )
    shapes: Annotated[str, Field(max_length=1000)] = Field(
        default="auto",
        description="of the products, with commas: m x n x k, such as 4096x1024x2048, or one number for a cube. auto: "
        "four that suit the kind of device",
    )
    load_s: Annotated[float, Field(strict=True, ge=0, le=3600)] = Field(
        default=30.0, description="seconds under load before anything is timed: clocks and temperatures settle"
    )
    measure_s: Annotated[float, Field(strict=True, ge=0.01, le=600)] = Field(
        default=2.0, description="seconds that each shape is timed for in each arithmetic"
    )

    @field_validator("arithmetics")
    @classmethod
    def _check_arithmetics(cls, text: str) -> str:
        unknown = [name for name in text.split(",") if name not in ARITHMETICS]
        if text != "auto" and unknown:
            hint = did_you_mean(unknown[0], ARITHMETICS)
            raise ValueError(f"{unknown[0]!r} is none of {', '.join(ARITHMETICS)}{hint}; auto: all of them")
        return text

    @field_validator("shapes")
    @classmethod
    def _check_shapes(cls, text: str) -> str:
        wrong = [part for part in text.split(",") if not _SHAPE.fullmatch(part)]
        if text != "auto" and wrong:
            raise ValueError(f"{wrong[0]!r} is no shape: write 1024,4096x1024x1024, or auto")
        return text

    def spec(self) -> dict[str, Any]:
        """See ``ProbeRequest``."""
        return super().spec() | {
            "framework": "pytorch",
            "timeout_s": self.load_s + 40 * self.measure_s + START_S,
        }
