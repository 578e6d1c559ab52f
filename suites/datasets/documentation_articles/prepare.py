"""Makes the dataset: ``python -m suites.datasets.documentation_articles.prepare --root DIR``.

Documentation that is installed with the interpreter in the layout that Wikipedia is commonly read in: files of
``<doc>`` elements, as WikiExtractor writes them. A document is an article, its name the title.
"""

import os
import sys
from typing import Dict
from xml.sax.saxutils import quoteattr

from suites.datasets import making, text_numbers
from suites.datasets.documentation import prose

VERSION = 2

# Judgement: WikiExtractor fills files of 1 MB; these are smaller, so that there are several.
FILE_CHARACTERS = 250000


def write_all(folder: str) -> Dict[str, str]:
    """Write train/AA/wiki_00 and so on, the same for valid and test, and their numbers, below ``folder``."""
    for split, documents in prose.splits(prose.documents()).items():
        os.makedirs(os.path.join(folder, split, "AA"))
        articles = []
        for number, document in enumerate(documents):
            title = document.title
            head = "<doc id=%s url=%s title=%s>" % tuple(map(quoteattr, (str(number), "", title)))
            articles.append("%s\n%s\n\n%s\n</doc>\n" % (head, title, "\n".join(document.paragraphs)))
        for number, text in enumerate(_parted(articles)):
            with open(os.path.join(folder, split, "AA", "wiki_%02d" % number), "w", encoding="utf-8") as file:
                file.write(text)
    return dict(prose.versions(), **text_numbers.number("wikipedia", folder, folder, (180, 8000)))


def _parted(articles):
    text = ""
    for article in articles:
        text += article
        if len(text) >= FILE_CHARACTERS:
            yield text
            text = ""
    if text:
        yield text


if __name__ == "__main__":
    sys.exit(making.main(VERSION, write_all))
