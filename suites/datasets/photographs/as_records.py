"""The photographs in files of records: TensorFlow's, with the keys of its ImageNet, or MXNet's."""

import functools
import os
import tempfile
from typing import Dict

from suites.datasets import making, record_writing, records
from suites.datasets.photographs import prepare as photographs

VERSION = 1
SHARDS = 4


def main(layout: str) -> int:
    """Make the dataset in the folder that the command line names; ``layout``: tfrecord or recordio."""
    return making.main(VERSION, functools.partial(write_all, layout))


def write_all(layout: str, folder: str) -> Dict[str, str]:
    """Write the files of records and their index below ``folder``; return the versions of what encoded the images."""
    with tempfile.TemporaryDirectory(prefix="tbd-photographs-", dir=os.path.dirname(folder)) as scratch:
        versions = photographs.write_all(scratch)
        record_writing.pack(layout, scratch, folder, SHARDS)
    records.write_indexes(layout, folder, folder)
    return versions
