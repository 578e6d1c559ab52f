"""Certificates for tests, made by openssl: each signs itself, and is for the names of loopback."""

import subprocess
from pathlib import Path

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def certificate(folder: Path, name: str, password: str | None = None) -> tuple[Path, Path]:
    """(``name``.pem, ``name``.key) in ``folder``, good for a day; the key is encrypted where there is a password."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "1"]
    command += ["-subj", f"/CN={name}", "-addext", NAMES, "-keyout", str(key), "-out", str(cert)]
    command += ["-passout", f"pass:{password}"] if password else ["-nodes"]
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o600)
    return cert, key
