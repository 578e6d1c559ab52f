"""E-mail and chats, told by apprise (https://pypi.org/project/apprise, the extra ``notify``): each has its own form of
URL, such as ``mailto://…`` or ``slack://…``. What is told is that of a webhook in words, and nothing is signed."""

import json
import logging
import threading
from collections.abc import Mapping
from typing import Any

from orchestrator.domain.around.webhooks import Answer
from orchestrator.domain.words.untrusted import visible

MISSING = "e-mail and chats are told by apprise, which is not installed: pip install 'tbd-orchestrator[notify]'"
# Services that show something where the server runs, and tell nobody.
_LOCAL = frozenset({"dbus", "glib", "gnome", "kde", "macosx", "qt", "syslog", "windows"})
_LOG = logging.getLogger("apprise")
_LOG.propagate = False  # it names URLs, which are secrets, to whoever listens
LONGEST = 1500  # characters of a message: the shortest limit of a large chat is 2,000


def why_not(url: str) -> str | None:
    """Why nothing can be sent to ``url``, which is not of http, in words; or None."""
    scheme = url.partition("://")[0].casefold()
    try:
        import apprise
    except ImportError:
        return MISSING
    if scheme in _LOCAL:
        return f"{scheme}:// shows it on this server alone"
    if apprise.Apprise.instantiate(url, suppress_exceptions=True) is None:
        return f"apprise knows no {scheme}:// of that form: see https://github.com/caronc/apprise/wiki"
    return None


def send(url: str, body: str) -> Answer:
    """Tell ``url`` in words what ``body`` (``outbox.body_of``) tells; what became of it. Does not raise."""
    try:
        import apprise
    except ImportError:
        return Answer(False, MISSING)
    title, text = words_of(json.loads(body))
    said = _Said()
    _LOG.addHandler(said)
    try:
        target = apprise.Apprise.instantiate(url)
        if target is not None and target.notify(title=title, body=text):
            return Answer(True, "sent")
    except Exception as error:  # a plugin of another's: whatever it does, the next message has its turn
        said.lines.append(type(error).__name__)
    finally:
        _LOG.removeHandler(said)
    return Answer(False, visible(said.lines[0])[:200] if said.lines else "refused")


class _Said(logging.Handler):
    """``lines``: what apprise warns of in the thread that made this."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self.lines.append(record.getMessage())


def words_of(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Title and text of a message."""
    data = payload["data"]
    if payload["type"] != "alerts.changed":
        return "tbd: a test", f"This is how alerts come. {data['webhook']} works."
    alerts, name = data["alerts"], data["schedule"]["name"] or data["schedule"]["id"]
    states = [one["state"] for one in alerts]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return visible(f"tbd: {name}: {counts}"), "\n".join(visible(_line(one)) for one in alerts)[:LONGEST]


def _line(alert: Mapping[str, Any]) -> str:
    others = len(alert["cells"]) - 1
    cells = alert["cells"][0] + (f" and {others} more" if others else "")
    changed = f" Changed: {', '.join(alert['changed'])}." if alert["changed"] else ""
    slower = f" Operators: {', '.join(one['name'] for one in alert['operators'])}." if alert["operators"] else ""
    return f"{alert['state']}: {cells} on {alert['place']} since {alert['since']}: {alert['tried']}.{changed}{slower}"
