"""A project: a training script of somebody's own as a model, by a table ``[command]`` in its facts.

The service reads of it what it has to know; a node's agent carries it out as it stands on the node's own disk. This is
what both hold it to.
"""

import re
from typing import Any, List, Mapping, Sequence

NAME = re.compile(r"{([A-Za-z_][A-Za-z0-9_]*)}")
# What a plan says beside the model's options, and a word may have too.
BUILT_IN = ("devices", "per_device_batch_size", "seed")
COMMIT = re.compile("[0-9a-f]{40}")
_TEXTS = ("folder", "commit", "environment", "unit")
_KEYS = ("words", "work") + _TEXTS


def names_in(words: Sequence[str]) -> List[str]:
    """Return the names that ``words`` have in braces, each once, in order."""
    found = [name for word in words for name in NAME.findall(word)]
    return list(dict.fromkeys(found))


def check(table: Any, options: Any) -> None:
    """Hold a table ``[command]`` to what it may be, beside the model's table of ``options``.

    Raises:
        ValueError: it is something else; the message says what.
    """
    if not isinstance(table, Mapping) or not set(table) <= set(_KEYS):
        raise ValueError("it is a table of %s, and has nothing else" % ", ".join(_KEYS))
    if not isinstance(options, Mapping) or not all(isinstance(one, Mapping) for one in options.values()):
        raise ValueError("options are tables beside it, each [options.NAME]")
    words = table.get("words")
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
        raise ValueError('words is a list of words such as ["python", "train.py"]: no shell reads them')
    for name in _TEXTS:
        if name in table and not (isinstance(table[name], str) and table[name]):
            raise ValueError("%s is a text that is not empty, not %r" % (name, table[name]))
    if "commit" in table and not COMMIT.fullmatch(table["commit"]):
        raise ValueError("commit is 40 digits of a hash, which stand for one code only, not %r" % table["commit"])
    work = table.get("work", 1)
    if isinstance(work, bool) or not isinstance(work, (int, float)) or not work > 0:
        raise ValueError("work, what one step of one rank does, is above 0, not %r" % work)
    if "work" in table and "unit" not in table:
        raise ValueError("work wants its unit beside it")
    _check_names(words, options)


def _check_names(words, options):
    taken = sorted(set(options) & set(BUILT_IN))
    if taken:
        raise ValueError("{%s} is what the plan says: call the option otherwise" % taken[0])
    named = names_in(words)
    unknown = [name for name in named if name not in options and name not in BUILT_IN]
    if unknown:
        raise ValueError("{%s} is no option of the model, and none of %s" % (unknown[0], ", ".join(BUILT_IN)))
    silent = [name for name in options if name not in named]
    if silent:
        raise ValueError("no word has the option {%s}, so that it would change nothing" % silent[0])


def filled(words: Sequence[str], values: Mapping[str, Any]) -> List[str]:
    """Return ``words`` with the values of the names that they have in braces: each stays within its word.

    Raises:
        ValueError: a value has a NUL in it, or would make its word an option of the command.
    """
    found = []
    for word in words:
        text = NAME.sub(lambda match: _text(values[match.group(1)]), word)
        if "\0" in text:
            raise ValueError("a value of %s has a byte in it that no word can have" % word)
        if text.startswith("-") and not word.startswith("-"):
            raise ValueError("the value %r of %s would be an option of the command" % (text, word))
        found.append(text)
    return found


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)
