"""Prose that the ``datasets`` interpreter has installed: documents of paragraphs, in one order, always the same.

Python's own reference, as ``pydoc`` shows it, and the docstrings of the pinned packages, taken from their sources
without importing them. What is code, a table or a list of parameters is left out by rule, not by eye.
"""

import ast
import hashlib
import os
import re
from typing import Dict, Iterator, List, NamedTuple

from suites.datasets import text_layouts

PACKAGES = ("networkx", "numpy", "scipy", "skimage")

# Judgement: shorter ones are labels and fragments.
LEAST_WORDS = 8
# Share of letters and spaces, a judgement: formulae and signatures have less.
LEAST_PLAIN = 0.85

# Documents of a hundred in each split; the rest trains.
SHARES = {"valid": 5, "test": 5}

_MARKUP = (
    (re.compile(r":[a-z:]+:`~?([^`<]+?)(?:\s*<[^>]*>)?`"), r"\1"),
    (re.compile(r"`{1,2}([^`]+)`{1,2}_{0,2}"), r"\1"),
    (re.compile(r"\s*\[[0-9A-Za-z]+\]_?"), ""),
    (re.compile(r"\*{1,2}(\S(?:[^*]*\S)?)\*{1,2}"), r"\1"),
    (re.compile(r"\s+"), " "),
)
_NOT_PROSE = re.compile(r"^\s*(>>>|\.\. |[-=*~+|]{3,}|:[a-z]+ ?\w*:|[-*] |\[|\d+[.)] )|::=|https?://|\\[a-z]+", re.M)


class Document(NamedTuple):
    title: str
    paragraphs: List[str]


def documents() -> List[Document]:
    """Return all documents, by their titles; a paragraph that has been seen before is left out."""
    seen = set()
    found = []
    for document in sorted(_all(), key=lambda document: document.title):
        paragraphs = [text for text in document.paragraphs if not (text in seen or seen.add(text))]
        if paragraphs:
            found.append(Document(document.title, paragraphs))
    return found


def splits(found: List[Document]) -> Dict[str, List[Document]]:
    """Return ``found`` in train, valid and test, each document's place decided by its title. Paragraphs of valid and
    test of which a sentence is in train too are left out."""
    parts = {"train": [], **{name: [] for name in SHARES}}  # type: Dict[str, List[Document]]
    for document in found:
        place = int(hashlib.sha256(document.title.encode("utf-8")).hexdigest(), 16) % 100
        bound = 0
        for name, share in SHARES.items():
            bound += share
            if place < bound:
                parts[name].append(document)
                break
        else:
            parts["train"].append(document)
    trained = {sentence for document in parts["train"] for sentence in _sentences(document.paragraphs)}
    for name in SHARES:
        parts[name] = [one for one in (_without(document, trained) for document in parts[name]) if one.paragraphs]
    return parts


def _without(document, trained):
    kept = [paragraph for paragraph in document.paragraphs if trained.isdisjoint(_sentences([paragraph]))]
    return document._replace(paragraphs=kept)


def _sentences(paragraphs):
    return [sentence for paragraph in paragraphs for sentence in text_layouts.sentences(paragraph)]


def versions() -> Dict[str, str]:
    """Return the versions of what the prose is from."""
    import importlib
    import platform

    packages = {name: importlib.import_module(name).__version__ for name in PACKAGES}
    return dict(packages, python=platform.python_version())


def _all() -> Iterator[Document]:
    from pydoc_data import topics

    for name, text in topics.topics.items():
        yield Document("python " + name, paragraphs(text))
    for package in PACKAGES:
        yield from _of_package(package)


def _of_package(package: str) -> Iterator[Document]:
    import importlib.util

    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit("the package %s, whose documentation is wanted, is not installed" % package)
    folder = os.path.dirname(spec.origin)
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in ("tests", "testing", "_lib", "__pycache__"))
        for name in sorted(name for name in names if name.endswith(".py")):
            path = os.path.join(parent, name)
            title = package + "." + os.path.relpath(path, folder)[: -len(".py")].replace(os.sep, ".")
            yield Document(title, _of_module(path))


def _of_module(path: str) -> List[str]:
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
    return [paragraph for text in texts if text for paragraph in paragraphs(text)]


def paragraphs(text: str) -> List[str]:
    """Return the paragraphs of a text that are prose, each in one line and without mark-up."""
    found = []
    for block in re.split(r"\n\s*\n", text):
        if _NOT_PROSE.search(block):
            continue
        for pattern, replacement in _MARKUP:
            block = pattern.sub(replacement, block)
        if _is_prose(block.strip()):
            found.append(block.strip())
    return found


def _is_prose(text: str) -> bool:
    if not re.match(r"[A-Z\"]", text) or not re.search(r"[.!?:]$", text) or len(text.split()) < LEAST_WORDS:
        return False
    plain = sum(character.isalpha() or character == " " for character in text)
    return plain >= LEAST_PLAIN * len(text)
