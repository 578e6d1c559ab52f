"""What netbenches and calibrations found, as it is answered."""

from orchestrator.api.views.common import Time, View, fields_of
from orchestrator.domain.runs.stored import StoredCalibration, StoredTransfer


@fields_of(StoredTransfer)
class ExchangeView(View):
    """How long messages of one size took. ``bytes``: of the message, or of one rank's vector; durations are one way
    (half of a round trip), or one all-reduce, push to servers or pull from them, of the slowest rank;
    ``algorithm_bytes_per_s`` is bytes over the median, ``bus_bytes_per_s`` for an all-reduce 2 (n - 1) / n times as
    much. ``valid``: whether the run was."""

    created_at: Time


@fields_of(StoredCalibration)
class CalibrationView(View):
    """What a device did at best. ``flops_per_s``: of the median repetition of the best ``shape`` (m, n, k);
    ``rates``: of every shape; ``devices``: how many were under load at once; ``previous_flops_per_s``: of the valid
    calibration before, and by ``change_ratio`` it was faster now (slower: negative); ``changed``: by more than two
    calibrations of a device usually differ. ``valid``: whether the run was."""

    created_at: Time
    shape: list[int]
    change_ratio: float | None
    changed: bool
