"""Encodes one of scikit-image's photographs as JPEG and decodes it again; cuts a text into sub-words and joins them;
brings audio through FLAC and back, and has espeak-ng find its voices; begins a game of Pong; turns an
outline into a mask.

Prints what was proved.
"""

import ctypes
import importlib.metadata
import io

import ale_py
import espeakng_loader
import numpy
import PIL
import sentencepiece
import skimage
import soundfile
from ale_py import roms
from PIL import Image
from pycocotools import mask


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


def speech():
    samples = numpy.arange(-8000, 8000, dtype=numpy.int16)
    encoded = io.BytesIO()
    soundfile.write(encoded, samples, 16000, format="FLAC", subtype="PCM_16")
    encoded.seek(0)
    decoded, rate = soundfile.read(encoded, dtype="int16")
    if rate != 16000 or not numpy.array_equal(decoded, samples):
        raise SystemExit(f"the audio came back as {len(decoded)} samples of {rate} Hz")
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    rate = library.espeak_Initialize(2, 0, espeakng_loader.get_data_path().encode(), 0)
    if rate <= 0:
        raise SystemExit(f"espeak-ng finds no voices in {espeakng_loader.get_data_path()}")
    version = importlib.metadata.version("espeakng-loader")
    return f"soundfile {soundfile.__version__}, espeakng-loader {version}: {rate} Hz"


def game():
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    machine = ale_py.ALEInterface()
    machine.loadROM(str(roms.get_rom_path("pong")))
    actions = machine.getMinimalActionSet()
    if len(actions) != 6 or machine.getScreenGrayscale().shape != (210, 160):
        raise SystemExit(f"Pong has the actions {actions!r}")
    return f"ale-py {ale_py.__version__}: Pong of {len(actions)} actions"


def outline():
    triangle = [[0, 0, 8, 0, 8, 8]]
    found = mask.decode(mask.merge(mask.frPyObjects(triangle, 8, 8)))
    if found.shape != (8, 8) or not 28 <= found.sum() <= 36:
        raise SystemExit(f"half of a square became {found.sum()} of 64 pixels")
    return f"pycocotools {importlib.metadata.version('pycocotools')}: {found.sum()} pixels of a triangle"


print(f"{photograph()}; {subwords()}; {speech()}; {game()}; {outline()}")
