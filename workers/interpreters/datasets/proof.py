"""Encodes one of scikit-image's photographs as JPEG and decodes it again. Prints what was proved."""

import io

import PIL
import skimage
from PIL import Image


def main():
    photograph = Image.fromarray(skimage.data.astronaut())
    encoded = io.BytesIO()
    photograph.save(encoded, "JPEG", quality=90)
    decoded = Image.open(io.BytesIO(encoded.getvalue()))
    decoded.load()
    if decoded.size != photograph.size:
        raise SystemExit(f"the photograph came back as {decoded.size!r}")
    print(f"scikit-image {skimage.__version__}, pillow {PIL.__version__}: a photograph of {decoded.size}")


main()
