"""A training script of a person's own, carried out and watched on this host (``tbd exec``)."""
