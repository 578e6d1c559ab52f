"""Encodes one of scikit-image's photographs as JPEG and decodes it again; cuts a text into sub-words and joins them.

Prints what was proved.
"""

import io

import PIL
import sentencepiece
import skimage
from PIL import Image


def photograph():
    original = Image.fromarray(skimage.data.astronaut())
    encoded = io.BytesIO()
    original.save(encoded, "JPEG", quality=90)
    decoded = Image.open(io.BytesIO(encoded.getvalue()))
    decoded.load()
    if decoded.size != original.size:
        raise SystemExit(f"the photograph came back as {decoded.size!r}")
    return f"scikit-image {skimage.__version__}, pillow {PIL.__version__}: a photograph of {decoded.size}"


def subwords():
    texts = ["the lower tower", "a low tow", "the widest power", "a newer flower"] * 4
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, model_type="bpe", vocab_size=40, minloglevel=2
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    numbers = processor.encode(texts[0])
    if processor.decode(numbers) != texts[0]:
        raise SystemExit(f"the text came back as {processor.decode(numbers)!r}")
    return f"sentencepiece {sentencepiece.__version__}: a text of {len(numbers)} sub-words"


print(f"{photograph()}; {subwords()}")
