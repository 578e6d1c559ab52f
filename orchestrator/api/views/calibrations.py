"""What calibrations found, as it is answered."""

from orchestrator.api.views.common import Time, View, fields_of
from orchestrator.domain.runs.stored import StoredCalibration


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
