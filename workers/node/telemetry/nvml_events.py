"""XID errors: what the driver reports of a device beyond the answers to questions. Called by ``nvml`` only.

Owns the set of events that is listened to. The driver tells each event once, of any device in the set.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections import deque
from typing import Any, Mapping

# nvml.h: nvmlEventTypeXidCriticalError, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_TIMEOUT
_XID = 8
_NOT_SUPPORTED = 3
_TIMEOUT = 10

# What is kept for whoever asks seldom; a GPU that tells of more within a minute is told of often enough.
_MOST_KEPT = 256


class Events:
    """Listens to the devices of ``handles`` (by UUID) until ``close``. What happened before is not told.

    Args:
        nvml: the driver's module, initialised.
    """

    def __init__(self, nvml: Any, handles: Mapping[str, Any]) -> None:
        self._nvml = nvml
        # An older nvidia-ml-py has the first version only, or none.
        self._wait: Any = getattr(nvml, "nvmlEventSetWait_v2", None) or getattr(nvml, "nvmlEventSetWait", None)
        self._set: Any = None
        self._uuids: dict[int, str] = {}  # by the handle's address, which is all that an event names
        self._last: dict[str, int] = {}
        # All that was heard: {"device", "xid", "at"}, the last in seconds since the epoch, as of when it was heard.
        self._heard: deque[dict[str, Any]] = deque(maxlen=_MOST_KEPT)
        if self._wait is None:
            return
        try:
            self._set = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return
        for uuid, handle in handles.items():
            try:
                nvml.nvmlDeviceRegisterEvents(handle, _XID, self._set)
            except nvml.NVMLError:  # an instance of MIG, or a device without them
                continue
            self._uuids[_address(handle)] = uuid

    def last_xid(self, uuid: str) -> int:
        """Return the code of the last XID error of the device since the last call; 0 where there was none.

        Raises:
            NVMLError: the driver tells of none.
        """
        if uuid not in self._uuids.values():
            raise self._nvml.NVMLError(_NOT_SUPPORTED)
        self._hear()
        return self._last.pop(uuid, 0)

    def heard(self) -> list[dict[str, Any]]:
        """Return the XID errors since the beginning, oldest first: ``device``, ``xid``, and ``at``, when it was heard
        of, in seconds since the epoch."""
        if self._uuids:
            with contextlib.suppress(self._nvml.NVMLError):  # a GPU that has fallen off the bus may end the set
                self._hear()
        return list(self._heard)

    def _hear(self) -> None:
        while True:
            try:
                event = self._wait(self._set, 0)
            except self._nvml.NVMLError as error:
                if getattr(error, "value", None) == _TIMEOUT:
                    return
                raise
            uuid = self._uuids.get(_address(event.device))
            if uuid is not None:
                self._last[uuid] = int(event.eventData)
                self._heard.append({"device": uuid, "xid": int(event.eventData), "at": time.time()})

    def close(self) -> None:
        """Listen no more."""
        if self._set is not None:
            self._nvml.nvmlEventSetFree(self._set)
            self._set = None


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
