"""Points that other tools measured, as they are answered."""

from orchestrator.api.views.common import View, fields_of
from orchestrator.domain.around.imported_points import ImportedPoint, ImportedProcess
from orchestrator.services.intake.import_points import Imported


@fields_of(ImportedProcess)
class ImportedProcessView(View):
    """One process of a session: a file. Without a rate it has a ``reason``."""


@fields_of(ImportedPoint, without=("digest",))
class ImportedPointView(View):
    """What one session of another tool found for one of its benchmarks. tbd has measured none of it and grades none:
    neither warm-up nor validity is known. Without a number it has a ``reason``. ``is_imported`` is always true: points
    of tbd's own series have no such key."""

    is_imported: bool = True
    processes: list[ImportedProcessView]


class SkippedFileView(View):
    """A file that tells of no run."""

    file: str
    reason: str


class ImportView(View):
    """What became of an import: ids of points that are new, and of those that were there with the same files."""

    added: list[str]
    already_there: list[str]
    skipped: list[SkippedFileView]


def import_view(done: Imported) -> ImportView:
    return ImportView(
        added=list(done.stored.added),
        already_there=list(done.stored.already_there),
        skipped=[SkippedFileView(file=name, reason=reason) for name, reason in done.skipped],
    )
