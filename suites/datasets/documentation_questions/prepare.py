"""Makes the dataset: ``python -m suites.datasets.documentation_questions.prepare --root DIR``.

Questions in SQuAD 1.1's layout, made by rule from documentation that is installed with the interpreter. They are gaps:
one to four words are taken out of a sentence, the question is the sentence without them, and the answer lies in the
paragraph. No person asked them, and finding the sentence again is nearly all that they take: they are good for speed
and for overfitting, not for what SQuAD measures.
"""

import json
import os
import random
import re
import sys
from typing import Any, Dict, List, Optional

from suites.datasets import making, text_layouts, text_numbers
from suites.datasets.documentation import prose
from suites.quality import spans

VERSION = 2

# SQuAD's paragraphs have 20 to 650 words, most of them about 120 (Rajpurkar et al., 2016, and its files).
LEAST_WORDS, MOST_WORDS = 40, 400
QUESTIONS = 5
MOST_ANSWER_WORDS = 4
LEAST_SENTENCE_WORDS = 9
GAP = "____"


def write_all(folder: str) -> Dict[str, str]:
    """Write train-v1.1.json and dev-v1.1.json, and their numbers, below ``folder``."""
    parts = prose.splits(prose.documents())
    for name, documents in (("train", parts["train"]), ("dev", parts["valid"] + parts["test"])):
        data = [{"title": one.title, "paragraphs": _paragraphs(one)} for one in documents]
        with open(os.path.join(folder, name + "-v1.1.json"), "w", encoding="utf-8") as file:
            json.dump({"version": "1.1", "data": [one for one in data if one["paragraphs"]]}, file)
    return dict(prose.versions(), **text_numbers.number("squad", folder, folder, (180, 8000)))


def _paragraphs(document: prose.Document) -> List[Dict[str, Any]]:
    """Neighbouring paragraphs become one until it is as long as SQuAD's."""
    found = []
    text = ""
    for paragraph in document.paragraphs:
        text = (text + " " + paragraph).strip()
        if len(text.split()) >= LEAST_WORDS:
            if len(text.split()) <= MOST_WORDS:
                found.append(text)
            text = ""
    asked = [{"context": one, "qas": questions(one, "%s/%d" % (document.title, at))} for at, one in enumerate(found)]
    return [one for one in asked if one["qas"]]


def questions(context: str, name: str) -> List[Dict[str, Any]]:
    """Return up to ``QUESTIONS`` of SQuAD's question objects about ``context``; ``name`` seeds their choice."""
    generator = random.Random(name)
    sentences = [one for one in text_layouts.sentences(context) if len(one.split()) >= LEAST_SENTENCE_WORDS]
    generator.shuffle(sentences)
    asked = [_question(context, sentence, generator) for sentence in sentences[:QUESTIONS]]
    return [dict(one, id="%s/%d" % (name, at)) for at, one in enumerate(asked) if one]


def _question(context: str, sentence: str, generator: random.Random) -> Optional[Dict[str, Any]]:
    words = list(re.finditer(r"[A-Za-z][A-Za-z-]*", sentence))
    if len(words) <= MOST_ANSWER_WORDS:
        return None
    count = generator.randint(1, MOST_ANSWER_WORDS)
    first = generator.randrange(len(words) - count + 1)
    begin, end = words[first].start(), words[first + count - 1].end()
    if not spans.normalised(sentence[begin:end]):
        # An article alone: SQuAD's F1 of it is 0, whatever is answered.
        return None
    return {
        "question": "What is missing here: %s%s%s" % (sentence[:begin], GAP, sentence[end:]),
        "answers": [{"text": sentence[begin:end], "answer_start": context.index(sentence) + begin}],
    }


if __name__ == "__main__":
    sys.exit(making.main(VERSION, write_all))
