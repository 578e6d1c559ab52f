"""What stdout and stderr can take: any encoding, and streams that are closed.

What an encoding has no sign for is written in ASCII, never refused: a table must not end in a traceback because a
terminal has no ``±``. Data for scripts (``output.print_json``) is escaped instead, so that nothing of it is lost.
"""

import codecs
import os
import sys

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
        elif hasattr(stream, "reconfigure") and stream.errors not in _CHOSEN:
            stream.reconfigure(errors=HANDLER)


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
