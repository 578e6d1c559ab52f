"""What a check of ``tbd doctor`` has found."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """``level``: ok; note (works, but mind it); broken. ``advice`` says what to do."""

    check: str
    level: str
    found: str
    advice: str = ""
