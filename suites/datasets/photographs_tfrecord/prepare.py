"""Makes the dataset: ``python -m suites.datasets.photographs_tfrecord.prepare --root DIR``."""

import sys

from suites.datasets.photographs import as_records

if __name__ == "__main__":
    sys.exit(as_records.main("tfrecord"))
