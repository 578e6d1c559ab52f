"""The service, but its runs are never precise enough to be ended: ``python -m tests.benchmarks.endless_service serve``.

All else is what ``tbd serve`` does, the stopping rule's looks at the data too.
"""

import sys

from orchestrator import app
from orchestrator.services import job


def main() -> int:
    job.HALF_WIDTH_RATIO = 0.0
    return app.main()


if __name__ == "__main__":
    sys.exit(main())
