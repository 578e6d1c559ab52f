"""Where the time of an attempt went, by the clock of the node that its first rank was on."""

from collections.abc import Sequence

from orchestrator.analysis.log.events import NodeLog


def device_time(logs: Sequence[NodeLog]) -> dict[str, float] | None:
    """Seconds by part, as ``orchestrator.domain.runs.device_time.DeviceTime`` names them, without the pause; None where
    the logs do not tell of timed steps, from the opening to the close."""
    for log in logs:
        timed = [item for item in log.intervals if item.rank == 0 and item.phase == "timed"]
        met, built = log.first_t.get("joined"), log.first_t.get("built")
        if not timed or met is None or built is None or "log_closed" not in log.first_t:
            continue
        timed_s = sum(item.duration_s for item in timed)
        found = {
            "start_s": met - log.opened_t,
            "build_s": built - met,
            "warmup_s": timed[0].start_t - built,
            "timed_s": timed_s,
            "end_s": log.first_t["log_closed"] - timed[0].start_t - timed_s,
        }
        return {name: max(0.0, seconds) for name, seconds in found.items()}
    return None
