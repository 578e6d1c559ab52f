"""What devices can do at best: by their vendor's data sheet, and as calibrated. Only types and names live here;
``orchestrator.services.facts.catalog`` reads the facts (``suites/device_peaks.toml``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# precision of a plan -> the arithmetic of its matrix products, as peaks are listed.
ARITHMETIC: Mapping[str, str] = {"fp32": "fp32", "tf32": "tf32", "bf16": "bf16", "amp-fp16": "fp16", "amp-bf16": "bf16"}


@dataclass(frozen=True)
class DataSheet:
    """A vendor's word: dense operations a second by arithmetic (fp32, tf32, bf16, fp16), at boost clock.

    ``fp32_per_clock`` is what all cores together do in a cycle: two (a multiply-add) each.
    """

    names: tuple[str, ...]
    flops_per_s: Mapping[str, float]
    fp32_per_clock: int
    boost_clock_hz: float
    source: str

    def to_json(self, arithmetic: str) -> dict[str, Any] | None:
        """The peak of one ``arithmetic``; None where the sheet has none."""
        peak = self.flops_per_s.get(arithmetic)
        return None if peak is None else {"flops_per_s": peak, "source": self.source}


def data_sheet(sheets: Sequence[DataSheet], device_name: str) -> DataSheet | None:
    """The sheet of the device that the driver calls ``device_name``, if there is one."""
    wanted = _plain(device_name)
    return next((sheet for sheet in sheets if wanted in map(_plain, sheet.names)), None)


def _plain(name: str) -> str:
    return name.casefold().removeprefix("nvidia").strip()
