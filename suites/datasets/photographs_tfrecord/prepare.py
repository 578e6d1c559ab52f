"""Makes the dataset: ``python -m suites.datasets.photographs_tfrecord.prepare --root DIR``.

The photographs in TensorFlow's files of records, with the keys of its ImageNet.
"""

import os
import sys
import tempfile
from typing import Dict

from suites.datasets import making, record_writing, records
from suites.datasets.photographs import prepare as photographs

VERSION = 1
SHARDS = 4


def write_all(folder: str) -> Dict[str, str]:
    """Write the files of records and their index below ``folder``; return the versions of what encoded the images."""
    with tempfile.TemporaryDirectory(prefix="tbd-photographs-", dir=os.path.dirname(folder)) as scratch:
        versions = photographs.write_all(scratch)
        record_writing.pack("tfrecord", scratch, folder, SHARDS)
    records.write_indexes("tfrecord", folder, folder)
    return versions


if __name__ == "__main__":
    sys.exit(making.main(VERSION, write_all))
