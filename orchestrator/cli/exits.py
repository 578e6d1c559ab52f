"""The exit codes of ``tbd``, and the error that carries one."""

DONE = 0
RUN_FAILED = 1
FAILED = 1  # what was asked for was not done, through no fault of the request: the server failed, or a disk is full
USAGE = 2
REGRESSION = 3
UNREACHABLE = 4
NOT_ALLOWED = 5
INTERRUPTED = 130


class CommandError(Exception):
    """What ends a command. The text says what happened and what to do; ``code`` is the exit code."""

    def __init__(self, text: str, code: int = USAGE) -> None:
        self.code = code
        super().__init__(text)
