"""What stdout and stderr can take: any encoding, and streams that are closed.

What an encoding has no sign for is written in ASCII, never refused: a table must not end in a traceback because a
terminal has no ``±``. Data for scripts (``output.print_json``) is escaped instead, so that nothing of it is lost.
"""

import codecs
import os
import re
import sys
from typing import Any

from orchestrator.domain.words.untrusted import visible

HANDLER = "tbd-plain"
# Chosen by a person (PYTHONIOENCODING=ascii:replace): theirs. The others end in an error or hide the sign.
_CHOSEN = ("replace", "ignore", "xmlcharrefreplace", "namereplace")

# What tbd itself prints beyond ASCII. One sign for one sign where that can be read: tables stay aligned.
_PLAIN = {
    "±": "+-",
    "≈": "~",
    "→": "->",
    "µ": "u",
    "…": "...",
    "–": "-",  # noqa: RUF001 - the sign that is meant
    "─": "-",
    "×": "x",  # noqa: RUF001 - the sign that is meant
    "█": "#",
    "░": ".",
    "●": "*",
    "○": "o",
    "■": "+",
    "□": "@",
    "▲": "^",
    "△": "v",
    "◆": "%",
    "◇": "&",
    "│": "|",
    "┤": "|",
    "└": "+",
    "━": "=",
    "┊": ":",
    "≥": ">=",
    "≤": "<=",
    "’": "'",  # noqa: RUF001 - the sign that is meant
    "“": '"',
    "”": '"',
}


def prepare() -> None:
    """Make stdout and stderr take every text. A stream that was closed before the start takes it to nowhere."""
    codecs.register_error(HANDLER, _in_plain_signs)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
            continue
        if hasattr(stream, "reconfigure") and stream.errors not in _CHOSEN:
            stream.reconfigure(errors=HANDLER)
        if stream.isatty():
            setattr(sys, name, Terminal(stream))


class Terminal:
    """A stream to a person's screen. Names come from logs that anybody may have written: of what they hold only
    colours reach the screen, other control characters are shown as escapes."""

    def __init__(self, stream: Any) -> None:
        self.inner = stream

    def write(self, text: str) -> int:
        """Write ``text``; how long it was."""
        self.inner.write(shown(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def redraw(text: str) -> None:
    """Put ``text`` in the place of the last line of stderr, which is a screen."""
    stream = sys.stderr.inner if isinstance(sys.stderr, Terminal) else sys.stderr
    stream.write("\r\x1b[K" + shown(text))


def shown(text: str) -> str:
    """``text`` as it may go to a screen."""
    return _CONTROL.sub(lambda found: found[1] or visible(found[0]), text.replace("\r\n", "\n"))


_CONTROL = re.compile(r"(\x1b\[[0-9;]*m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def abandon_stdout() -> None:
    """Write no more to stdout: its reader has gone, or its disk is full. The interpreter flushes it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_plain_signs(error: UnicodeError) -> tuple[str, int]:
    """An error handler of ``codecs``: (what to write instead, where to go on)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = "".join(_plain(sign) for sign in error.object[error.start : error.end])
    return text, error.end


def _plain(sign: str) -> str:
    if sign in _PLAIN:
        return _PLAIN[sign]
    import unicodedata

    letters = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    return letters or "?"
