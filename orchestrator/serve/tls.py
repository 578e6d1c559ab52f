"""TLS by certificate files. What is wrong with them is said before anything else starts."""

import ssl

from orchestrator.domain.words.errors import SettingsError
from orchestrator.serve.secret_files import NOT_EVERYBODY, read_secret
from orchestrator.serve.settings import Settings


def context_of(settings: Settings) -> ssl.SSLContext | None:
    """What to serve https with; None where no files are named.

    Raises:
        SettingsError: one of the two is missing, cannot be used or read, or they do not belong together.
    """
    cert, key = settings.tls_cert, settings.tls_key
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise SettingsError("TBD_TLS_CERT and TBD_TLS_KEY are given together or not at all")
    read_secret(cert, "TBD_TLS_CERT", closed_to=0)
    read_secret(key, "TBD_TLS_KEY", closed_to=NOT_EVERYBODY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except ssl.SSLError as error:
        raise SettingsError(_told(error, f"{cert} and {key}")) from None
    return context


def _no_password() -> str:
    """OpenSSL would ask at the terminal; a service has none."""
    raise SettingsError("TBD_TLS_KEY is encrypted: nobody is there to type its password. openssl pkey removes it")


def _told(error: ssl.SSLError, files: str) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"TBD_TLS_KEY is not the key of TBD_TLS_CERT ({files})"
    return f"TBD_TLS_CERT, TBD_TLS_KEY: {files} cannot be used: {error.reason or error}"
