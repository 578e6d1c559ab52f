"""Makes the dataset: ``python -m suites.datasets.documentation.prepare --root DIR``.

Plain text as language models are trained on it, a paragraph a line and an empty line after each document, from the
documentation that is installed with the interpreter; and the same as numbers of sub-words.
"""

import os
import sys
from typing import Dict

from suites.datasets import making, text_numbers
from suites.datasets.documentation import prose

VERSION = 2


def write_all(folder: str) -> Dict[str, str]:
    """Write train.txt, valid.txt and test.txt, and their numbers, below ``folder``."""
    for split, documents in prose.splits(prose.documents()).items():
        with open(os.path.join(folder, split + ".txt"), "w", encoding="utf-8") as file:
            for document in documents:
                file.write("\n".join(document.paragraphs) + "\n\n")
    return dict(prose.versions(), **text_numbers.number("text", folder, folder, (180, 8000)))


if __name__ == "__main__":
    sys.exit(making.main(VERSION, write_all))
