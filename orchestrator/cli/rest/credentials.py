"""The token that commands present, and whom they believe to be the server. Never an option: others see those."""

import os
import re
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from orchestrator.cli.exits import CommandError

# The same default as in ``orchestrator.serve.settings``, which the quick commands do not import; a test holds them
# equal.
DEFAULT_FILE = "~/.config/tbd/token"
_TOKEN = re.compile(r"tbd_[0-9a-z]{20}_[0-9a-f]{64}")


def token_for(url: str) -> str | None:
    """The token for the server at ``url``: TBD_TOKEN, else what is in TBD_TOKEN_FILE or in the default file.

    Raises:
        CommandError: it is no token, or its file is missing or open to others, or it would go over a network in clear.
    """
    text, source = _given()
    if text is None:
        return None
    if not _TOKEN.fullmatch(text):  # the text itself is not told: it may be a token with something beside it
        raise CommandError(f"{source} holds no token: they look like tbd_…_…, as tbd token add prints them")
    _check_that_nobody_listens(url)
    return text


def _given() -> tuple[str | None, str]:
    """(the token's text, where it comes from)."""
    if text := os.environ.get("TBD_TOKEN", "").strip():
        return text, "TBD_TOKEN"
    named = os.environ.get("TBD_TOKEN_FILE")
    try:
        path = Path(named or DEFAULT_FILE).expanduser()
    except RuntimeError:  # a user without a home
        return None, ""
    if not named and not path.exists():
        return None, ""
    from orchestrator.domain.words.errors import SettingsError
    from orchestrator.serve.secret_files import read_secret

    try:
        return read_secret(path, "TBD_TOKEN_FILE").strip(), str(path)
    except SettingsError as error:
        raise CommandError(str(error)) from None


def _check_that_nobody_listens(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname in ("127.0.0.1", "::1", "localhost"):
        return
    if os.environ.get("TBD_INSECURE") != "1":
        raise CommandError(
            f"{url} is not encrypted: who listens on the way would have the token. Use https://, or set TBD_INSECURE=1 "
            "where the network is private"
        )


def tls_context() -> ssl.SSLContext:
    """Whom to believe: the authorities of the system and those in TBD_CA_FILE.

    Raises:
        CommandError: TBD_CA_FILE cannot be used.
    """
    context = ssl.create_default_context()
    named = os.environ.get("TBD_CA_FILE")
    if named:
        try:
            context.load_verify_locations(Path(named).expanduser())
        except OSError as error:  # SSLError is one
            raise CommandError(f"TBD_CA_FILE={named} cannot be used: {error.strerror or error}") from None
    return context
