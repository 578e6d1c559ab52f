"""How far images that a network makes are from images that it has not seen: the sliced Wasserstein distance.

Images are points, of as many numbers as they have pixels and channels. Along a direction all of them lie on a line,
where the Wasserstein distance of two sets of equal size is the mean distance of their sorted numbers; the sliced one is
its mean over directions. Source: Rabin, Peyré, Delon, Bernot, "Wasserstein Barycenter and Its Application to Texture
Mixing", 2012, with the distance instead of its square; the directions are drawn once, and are the same for everybody.

It tells colours and large shapes, and hardly fine detail; figures compare between images of one size and one dataset.
An inception score or a Frechet distance would need a classifier that was trained on ImageNet, and there is none here.
"""

from typing import Any, Callable, Dict, Mapping, Sequence

from suites.quality import Examples
from workers.trainer.base.signatures import Array

# Judgement: the distance of two runs hardly moves with more.
DIRECTIONS = 128
SEED = 1


def sums(outputs: Sequence[Any], examples: Examples, compute: Callable[..., Any]) -> Dict[str, float]:
    """Return {"n", "distance"}: of ``n`` images, their distance times ``n``.

    The distance is of whole sets, and no sum over batches: ``examples.references`` of the last batch of an evaluation
    (``suites.inputs.noise_and_images.Apart``) has all images, and the noise of the batches before it, whose images are
    made once more. A batch that has none stands for itself.
    """
    import numpy

    apart = examples.references  # type: Any
    if apart is None:
        made, real = outputs[0], examples.targets[0]
    elif len(apart.images):
        earlier = [compute((noise,))[0] for noise in apart.noises]
        made, real = numpy.concatenate(earlier + [outputs[0]]), apart.images
    else:
        return {"n": 0.0, "distance": 0.0}
    return {"n": float(len(real)), "distance": distance(made, real) * len(real)}


def value(sums: Mapping[str, float]) -> float:
    return sums["distance"] / sums["n"]


def distance(made: Array, real: Array) -> float:
    """Return the sliced Wasserstein distance of two arrays of equal shape, whose first axis is that of the images."""
    import numpy

    features = int(numpy.prod(real.shape[1:]))
    directions = numpy.random.RandomState(SEED).standard_normal((features, DIRECTIONS))
    directions /= numpy.sqrt((directions**2).sum(axis=0))
    along = [numpy.sort(one.reshape(len(one), features).astype(float) @ directions, axis=0) for one in (made, real)]
    return float(abs(along[0] - along[1]).mean())
