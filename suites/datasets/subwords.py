"""Texts become numbers: a vocabulary of sub-words is trained by SentencePiece, and every text is stored as arrays.

This happens once, when a dataset is prepared, in the interpreter ``datasets``: those who train need numpy only
(``suites.datasets.numbered``). Byte-pair encoding, shared by all texts of a dataset (Sennrich et al., "Neural Machine
Translation of Rare Words with Subword Units", 2016); the same text and the same SentencePiece give the same files.
"""

import io
import os
from typing import Any, Dict, Iterable, Iterator, List, Sequence, Tuple

import numpy

from suites.datasets import pieces
from suites.datasets.numbered import BEGIN, END, MASK, PADDING, UNKNOWN, Vocabulary, ends_path, folder_of, path_of

# Judgement: what a vocabulary of few hundred can spend on single characters, and a usual one (SentencePiece's default).
FEW, FEW_COVERED, COVERED = 1000, 0.98, 0.9995
# More text teaches a vocabulary little. SentencePiece would draw a sample; the first sentences are always the same.
MOST_SENTENCES = 2000000


class TooLittleTextError(Exception):
    """SentencePiece makes no vocabulary of that size from the texts."""


def versions() -> Dict[str, str]:
    """Return the versions of what the numbers depend on."""
    import sentencepiece

    return {"sentencepiece": sentencepiece.__version__}


def trained(texts: Iterable[str], size: int) -> Any:
    """Return a SentencePiece processor with ``size`` sub-words.

    Raises:
        TooLittleTextError: there are not so many.
    """
    import sentencepiece

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_first(texts, MOST_SENTENCES),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            character_coverage=FEW_COVERED if size < FEW else COVERED,
            pad_id=PADDING,
            unk_id=UNKNOWN,
            bos_id=BEGIN,
            eos_id=END,
            control_symbols=["[MASK]"],
            shuffle_input_sentence=False,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise TooLittleTextError(
            "SentencePiece makes no vocabulary of %d sub-words from these texts: %s" % (size, error)
        )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    assert processor.piece_to_id("[MASK]") == MASK
    return processor


def _first(texts: Iterable[str], most: int) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number == most:
            return
        yield text


def write_vocabulary(root: str, vocabulary: int, processor: Any) -> None:
    """Write the model beside the arrays, and its sub-words by number for those who have no SentencePiece."""
    folder = folder_of(root, vocabulary)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "vocabulary.model"), "wb") as file:
        file.write(processor.serialized_model_proto())
    pieces.write(root, vocabulary, [processor.id_to_piece(number) for number in range(vocabulary)])


def write_sequences(root: str, vocabulary: Vocabulary, name: str, sequences: Sequence[Sequence[int]]) -> None:
    """Write one array of all tokens, and one of the place where each sequence ends."""
    ends = numpy.cumsum([len(sequence) for sequence in sequences], dtype=numpy.int64)
    tokens = numpy.fromiter(
        (token for sequence in sequences for token in sequence), numpy.int32, int(ends[-1]) if len(ends) else 0
    )
    numpy.save(path_of(root, vocabulary, name), tokens)
    numpy.save(ends_path(root, vocabulary, name), ends)


def placed(processor: Any, text: str) -> Tuple[List[int], List[Tuple[int, int]]]:
    """Return the tokens of ``text``, and for each the (begin, end) of its characters."""
    found = processor.encode(text, return_type="offset_mapping")
    return found["ids"], found["offsets"]
