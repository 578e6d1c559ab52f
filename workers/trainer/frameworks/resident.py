"""The resident set of this process, as the kernel counts it: now, and at its highest. Source: proc(5)."""


def now_bytes() -> int:
    return _status("VmRSS")


def peak_bytes() -> int:
    return _status("VmHWM")


def forget_peak() -> bool:
    """Let the peak begin anew at what is resident now; return whether the kernel did so."""
    try:
        # Documented in proc(5): 5 resets the peak resident set to what is resident now.
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return False
    return True


class Rise(object):
    """How far the peak resident set rises from now on."""

    def __init__(self) -> None:
        forget_peak()
        self._before = now_bytes()
        self._rise = 0

    def stop(self) -> None:
        """Read what would go on growing while a record is looked through."""
        self._rise = peak_bytes() - self._before

    def beyond(self, counted_bytes: int) -> int:
        """Return what of the rise an allocator has not counted: code, threads, libraries' own memory, a profiler's."""
        return max(0, self._rise - counted_bytes)


class WhileTraining(object):
    """The peak resident set while training, over what was resident before the build."""

    def __init__(self) -> None:
        self._before = now_bytes()
        self._most = None
        self.method = None

    def begin(self) -> None:
        """Forget the peak of the build, in which the initial weights were there besides, as arrays that numpy owns."""
        when = "while training" if forget_peak() else "while building and training"
        self.method = "peak resident set %s (VmHWM) over that before the build" % when

    def look(self) -> None:
        """Read what would go on growing while a record is looked through."""
        self._most = peak_bytes()

    def peak_bytes(self) -> int:
        return self._most - self._before


def _status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key + ":"))
