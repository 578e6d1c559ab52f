"""Where a step's time went: input, copy, forward, backward, exchange, update; and each layer's part of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.value.profile import UNTOLD_EXPOSURE, GradientExchange, Layer, LayerTimes
from workers.trainer import protocol

# Part of the breakdown -> its metric.
BREAKDOWN_METRICS = {
    "input_s": "step_input_s",
    "host_to_device_s": "step_host_to_device_s",
    "forward_s": "step_forward_s",
    "backward_s": "step_backward_s",
    "exchange_s": "step_exchange_s",
    "update_s": "step_update_s",
}


def times_of(rank: int, data: Mapping[str, Any]) -> LayerTimes:
    """Return the times of ``rank`` from the data of its ``layers`` event.

    Raises:
        ValueError: a time is negative, or a part of the breakdown is neither there nor explained.
    """
    breakdown = {part: _seconds(data["breakdown"].get(part)) for part in protocol.BREAKDOWN}
    reasons = {str(part): str(why) for part, why in (data["breakdown"].get("reasons") or {}).items()}
    unexplained = [part for part, value in breakdown.items() if value is None and not reasons.get(part)]
    exposed_s = _seconds(data.get("exposed_exchange_s"))
    if exposed_s is None:  # logs from before trainers told it have neither
        reasons.setdefault("exposed_exchange_s", UNTOLD_EXPOSURE)
    if unexplained:
        raise ValueError(f"the breakdown says nothing of {', '.join(unexplained)}, and not why")
    return LayerTimes(
        rank=rank,
        method=str(data["method"]),
        steps=int(data["steps"]),
        elapsed_s=protocol.number(data["elapsed_s"]),
        serialised=bool(data["serialised"]),
        breakdown=breakdown,
        reasons=reasons,
        rows=tuple(_layer(row) for row in data["rows"]),
        exchanges=tuple(_exchange(item) for item in data["exchanges"]),
        exposed_exchange_s=exposed_s,
    )


def _layer(row: Mapping[str, Any]) -> Layer:
    return Layer(
        name=str(row["name"]),
        kind=str(row["kind"]),
        parameters_bytes=int(row["parameters_bytes"]),
        forward_s=_seconds(row["forward_s"]),
        backward_s=_seconds(row["backward_s"]),
    )


def _exchange(item: Mapping[str, Any]) -> GradientExchange:
    start_s, end_s = protocol.number(item["start_s"]), protocol.number(item["end_s"])
    if end_s < start_s:
        raise ValueError(f"the exchange of {item['name']} ends before it begins")
    return GradientExchange(str(item["name"]), int(item["bytes"]), start_s, end_s)


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    seconds: float = protocol.number(value)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"a time of {seconds} s")
    return seconds


def measurements(times: Sequence[LayerTimes]) -> list[Measurement]:
    """Return the breakdown of a step, the mean over the ranks; what one rank cannot tell is not told."""
    return [_part(times, part, metric) for part, metric in BREAKDOWN_METRICS.items()] if times else []


def _part(times: Sequence[LayerTimes], part: str, metric: str) -> Measurement:
    values = [one.breakdown[part] for one in times]
    known = [value for value in values if value is not None]
    reason = next((one.reasons[part] for one in times if one.breakdown[part] is None), None)
    serialised = ", layers kept from overlapping" if any(one.serialised for one in times) else ""
    return Measurement(
        metric=metric,
        value=sum(known) / len(known) if reason is None else None,
        unit="s",
        method=times[0].method + serialised,
        scope=f"per step, of {times[0].steps} profiled steps after the timed phase; mean of {len(times)} ranks",
        reason=reason,
    )
