"""The file of a passport: a ZIP archive whose last 64 bytes, its comment, are the SHA-256 of all bytes before them.

So that any byte that was changed on the way is noticed. What was changed on purpose is noticed by computing anew.
"""

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator.domain.words import untrusted

FORMAT = 1
MANIFEST, RECORD, TOLD = "passport.json", "record.jsonl", "told.json"
_MEMBER = re.compile(r"(passport\.json|exp_[0-9a-z]{1,60}/(record\.jsonl|told\.json))")
# Judgements: what a passport may come to when it is unpacked, and one line of it.
MOST_BYTES, MOST_LINE_BYTES = 16 * 2**30, 64 * 2**20
_DIGEST = 64  # hexadecimal digits
_CHUNK = 2**20


class NoPassport(ValueError):  # noqa: N818 - reads as what happened
    """The file is no passport, or not as it was written; the text says why."""


def write(path: Path, members: Iterable[tuple[str, Iterable[bytes]]]) -> None:
    """Write the passport. At ``path`` there is the whole of it, or what was there before.

    Raises:
        OSError: it cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, chunks in members:
                # Always the same time, so that the same content is the same file.
                with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                    for chunk in chunks:
                        member.write(chunk)
            archive.comment = b"0" * _DIGEST
        with part.open("r+b") as file:
            digest = _digest(file)
            file.seek(-_DIGEST, os.SEEK_END)
            file.write(digest)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _digest(file: Any) -> bytes:
    """Of all but the last 64 bytes."""
    left = file.seek(0, os.SEEK_END) - _DIGEST
    file.seek(0)
    found = hashlib.sha256()
    while left > 0 and (chunk := file.read(min(left, _CHUNK))):
        found.update(chunk)
        left -= len(chunk)
    return found.hexdigest().encode()


class Container:
    """A passport that is read; nothing of it is unpacked into a folder.

    Raises:
        NoPassport: it is none, was changed, is of a newer version, or would come to more than ``MOST_BYTES``.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) <= _DIGEST:
                raise NoPassport("it is too short")
            digest = _digest(file)
            if file.read(_DIGEST) != digest:
                raise NoPassport("its SHA-256 is not the one that it ends with: it was cut off, or changed on the way")
        try:
            self._archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise NoPassport(f"it is no archive: {error}") from None
        self._check_members()
        self.manifest: Mapping[str, Any] = self._manifest()

    def close(self) -> None:
        self._archive.close()

    def _check_members(self) -> None:
        names = [one.filename for one in self._archive.infolist()]
        for name in names:
            if not _MEMBER.fullmatch(name):
                raise NoPassport(f"{untrusted.visible(name[:100])!r} is nothing that belongs into it")
        if len(set(names)) < len(names):
            raise NoPassport("it has two members of one name")
        if (size := sum(one.file_size for one in self._archive.infolist())) > MOST_BYTES:
            raise NoPassport(f"it would come to {size} bytes, and at most {MOST_BYTES} are read")

    def _manifest(self) -> Mapping[str, Any]:
        found = self.json(MANIFEST)
        number = found.get("format") if isinstance(found, dict) else None
        if not isinstance(number, int) or not isinstance(found.get("experiments"), list):
            raise NoPassport(f"{MANIFEST} names no format and no experiments")
        if number > FORMAT:
            version = untrusted.visible(str(found.get("tbd_version"))[:60])
            raise NoPassport(
                f"it is of format {number}, of tbd {version}; this tbd reads up to {FORMAT}: take a newer one"
            )
        return dict(found)

    def json(self, name: str) -> Any:
        """The content of a member that is one document.

        Raises:
            NoPassport: it is missing, or no JSON that can be taken.
        """
        try:
            value, _ = untrusted.parse_json(b"".join(self._chunks(name)))  # it is compared, and shown made visible
        except untrusted.Malformed as error:
            raise NoPassport(f"{name} is no JSON: {error}") from None
        return value

    def lines(self, name: str) -> Iterator[Any]:
        """The documents of a member, one a line.

        Raises:
            NoPassport: as ``json``.
        """
        rest = b""
        for chunk in self._chunks(name):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (_entry(name, line) for line in whole)
            if len(rest) > MOST_LINE_BYTES:
                raise NoPassport(f"{name} has a line of more than {MOST_LINE_BYTES} bytes")
        if rest:
            raise NoPassport(f"{name} ends within a line")

    def _chunks(self, name: str) -> Iterator[bytes]:
        """No more than the archive says of the member: what inflates beyond it is refused by ``zipfile``."""
        try:
            with self._archive.open(name) as member:
                while chunk := member.read(_CHUNK):
                    yield chunk
        except KeyError:
            raise NoPassport(f"{name} is missing") from None
        except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError, OSError) as error:
            raise NoPassport(f"{name} cannot be read: {error}") from None


def _entry(name: str, text: bytes) -> Any:
    try:
        value, problems = untrusted.parse_entry(text)
    except untrusted.Malformed as error:
        raise NoPassport(f"{name} is no JSON: {error}") from None
    if problems:
        raise NoPassport(f"{name}: {problems[0].pointer}: {problems[0].message}")
    return value


def encoded(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, sort_keys=True) + "\n").encode()
