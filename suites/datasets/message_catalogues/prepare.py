"""Makes the dataset: ``python -m suites.datasets.message_catalogues.prepare --root DIR``.

Pairs of sentences, English and Vietnamese, and a list of each language's words, in IWSLT15's layout: from the message
catalogues (gettext's ``.mo`` files) of the Debian packages that are installed, and of those in ``PACKAGES`` that are
not, which apt downloads and nobody installs. Their translators are the packages'; so are the licences. Other packages
make another dataset: its digest is recorded with each run.
"""

import gettext
import glob
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from typing import Dict, List, Set, Tuple

from suites.datasets import making, text_numbers, word_numbers

VERSION = 3

LANGUAGE = "vi"
# Domain of the catalogue -> the package that has it: those with much text that Debian and Ubuntu both have.
PACKAGES = {
    "bash": "bash",
    "bfd": "binutils-common",
    "binutils": "binutils-common",
    "coreutils": "coreutils",
    "dpkg": "dpkg",
    "findutils": "findutils",
    "gettext-tools": "gettext",
    "git": "git",
    "glib20": "libglib2.0-data",
    "shadow": "passwd",
    "tar": "tar",
}
FOLDER = "usr/share/locale/%s/LC_MESSAGES" % LANGUAGE
# Sentences of IWSLT15's: a judgement. Below it are labels; above it pages of help.
LEAST_WORDS, MOST_WORDS = 3, 80
# Judgement: with fewer a vocabulary of 8,000 sub-words has nothing to learn from.
LEAST_PAIRS = 5000
# Judgement: a listed word comes so often in train at least. Were all of them listed, nothing would be unknown there.
LEAST_TIMES = 2
# Pairs of a hundred in the two test sets; IWSLT15's have 1,553 and 1,268 of 133,000.
TESTS = {"tst2012": 3, "tst2013": 3}


def write_all(folder: str) -> Dict[str, str]:
    """Write train, tst2012 and tst2013 in both languages, and their numbers, below ``folder``.

    Raises:
        SystemExit: there are too few catalogues here, and apt brings none; the message says how to get some.
    """
    found = pairs(glob.glob("/" + FOLDER + "/*.mo"))
    trouble = ""
    if any(not os.path.exists("/%s/%s.mo" % (FOLDER, domain)) for domain in PACKAGES):
        with tempfile.TemporaryDirectory(prefix="tbd-catalogues-") as scratch:
            trouble = download(scratch)
            found |= pairs(glob.glob(os.path.join(scratch, FOLDER, "*.mo")))
    if len(found) < LEAST_PAIRS:
        raise SystemExit(
            "the message catalogues here hold %d sentences in English and Vietnamese, and %d are needed. %s"
            "Install the packages %s; where dpkg leaves out /usr/share/locale (see /etc/dpkg/dpkg.cfg.d), allow it"
            % (len(found), LEAST_PAIRS, trouble, ", ".join(sorted(set(PACKAGES.values()))))
        )
    write(folder, sorted(found))
    return text_numbers.number("parallel-text", folder, folder, (180, 8000))


def download(scratch: str) -> str:
    """Have apt bring the packages whose catalogues are not here; unpack them; return what went wrong, or nothing."""
    missing = sorted(
        {package for domain, package in PACKAGES.items() if not os.path.exists("/%s/%s.mo" % (FOLDER, domain))}
    )
    troubles = []
    for package in missing:
        try:
            _said(["apt-get", "download", "-qq", package], scratch)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            troubles.append("%s: %s" % (package, error))
    for path in sorted(glob.glob(os.path.join(scratch, "*.deb"))):
        try:
            _said(["dpkg-deb", "--extract", path, scratch], scratch)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            troubles.append("%s: %s" % (os.path.basename(path), error))
    return "apt brought not all of the packages (%s). " % "; ".join(troubles) if troubles else ""


def _said(command: List[str], folder: str) -> None:
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300
    )
    if done.returncode != 0:
        last = done.stdout.decode("utf-8", "replace").strip().splitlines()
        raise RuntimeError(last[-1] if last else "%s ended with status %d" % (command[0], done.returncode))


def pairs(paths: List[str]) -> Set[Tuple[str, str]]:
    """Return the (English, Vietnamese) sentences of catalogues. One that cannot be read is left out."""
    found = set()
    for path in paths:
        try:
            with open(path, "rb") as file:
                catalogue = gettext.GNUTranslations(file)._catalog  # type: Any
        except (OSError, ValueError, UnicodeError):
            continue
        messages = [(key, value) for key, value in catalogue.items() if isinstance(key, str) and "\4" not in key]
        found |= {(plain(key), plain(value)) for key, value in messages if is_sentence(plain(key), plain(value))}
    return found


_ACCELERATOR = re.compile(r"[_&](?=[A-Za-z])")
_SPACES = re.compile(r"\s+")


def plain(text: str) -> str:
    """Return a message in one line, without the marks of a menu's keys."""
    return _SPACES.sub(" ", _ACCELERATOR.sub("", text) if "_" in text[:2] else text).strip()


def is_sentence(source: str, target: str) -> bool:
    """Whether both are of a sentence's length, and translated at all."""
    counts = [len(text.split()) for text in (source, target)]
    return source != target and min(counts) >= LEAST_WORDS and max(counts) <= MOST_WORDS


def write(folder: str, found: List[Tuple[str, str]]) -> None:
    """Write the files of all splits, and the words of train.

    All translations of one English sentence are in the same, and those of one that differs by its case or by what it
    ends with; from the test sets those are left out whose translation is in train.
    """
    files = {}  # type: Dict[str, List[Tuple[str, str]]]
    for source, target in found:
        files.setdefault(_split_of(_alike(source)), []).append((source, target))
    trained = {_alike(target) for _, target in files.get("train", [])}
    for split in TESTS:
        files[split] = [pair for pair in files.get(split, []) if _alike(pair[1]) not in trained]
    for split, sentences in files.items():
        for language, side in (("en", 0), (LANGUAGE, 1)):
            with open(os.path.join(folder, "%s.%s" % (split, language)), "w", encoding="utf-8") as file:
                file.writelines(pair[side] + "\n" for pair in sentences)
    for language, side in (("en", 0), (LANGUAGE, 1)):
        words = word_numbers.listed([pair[side] for pair in files.get("train", [])], LEAST_TIMES)
        with open(os.path.join(folder, "vocab." + language), "w", encoding="utf-8") as file:
            file.writelines(word + "\n" for word in words)


def _alike(text: str) -> str:
    return text.casefold().strip(" .,:;!?")


def _split_of(source: str) -> str:
    place = int(hashlib.sha256(source.encode("utf-8")).hexdigest(), 16) % 100
    bound = 0
    for name, share in TESTS.items():
        bound += share
        if place < bound:
            return name
    return "train"


if __name__ == "__main__":
    sys.exit(making.main(VERSION, write_all))
