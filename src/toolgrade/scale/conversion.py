"""Conversion of large files of recorded conversations, one per line: part by part, in several processes.

The workers write the cases of their parts to files of their own, which are joined in the order of the input. Neither
the cases nor the conversations of a file are in memory at the same time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, BinaryIO

from toolgrade.convert import Summary, Unit, line_document, read_conversation
from toolgrade.dataset import Document, problems_of, source_name
from toolgrade.errors import InvalidDataError, Problem
from toolgrade.formats.traces.read import trace_format_of
from toolgrade.results.case_json import encode_model
from toolgrade.scale.detect import LARGE_BYTES
from toolgrade.scale.local_pool import run_jobs
from toolgrade.scale.partition import Part, Stamp, divide_files, part_lines, small_parts
from toolgrade.scale.run import CombinedOutcome, Progress, combine, issue_warnings, quiet, survey
from toolgrade.scale.score_part import MAX_REPORTED, Outcome, collect_warnings
from toolgrade.scale.totals import Totals


class TracesError(Exception):
    """A line holds a trace, whose spans may be on any other line, so the file must be read as a whole."""


@dataclass
class _ConversionOutcome(Outcome):
    """Outcome of a part, with what was read and written."""

    summary: Summary = field(default_factory=Summary)


@dataclass(frozen=True)
class _ConvertPart:
    """Conversion of one part, in any process; the cases go to a file of the folder."""

    path: str
    stamp: Stamp
    unit: Unit
    options: Mapping[str, Any]
    allow_nan: bool
    folder: Path
    prefix: str
    skip_invalid: bool

    def _convert(self, document: Document, outcome: _ConversionOutcome, file: BinaryIO) -> tuple[Problem, ...]:
        """Write the cases of a conversation; return why it cannot be read, if so."""
        if self.options["format"] == "auto" and trace_format_of(document.value) is not None:
            raise TracesError
        try:
            recorded = read_conversation(document, self.options)
            recorded = replace(recorded, place=self.prefix + recorded.place)
            cases = outcome.summary.add(recorded, self.unit)
            file.writelines(encode_model(case) + b"\n" for case in cases)
        except InvalidDataError as error:
            return tuple(map(document.placed, problems_of(error)))
        outcome.totals += Totals(1)
        return ()

    def __call__(self, part: Part) -> _ConversionOutcome:
        outcome = _ConversionOutcome()
        with collect_warnings(outcome), self.target(part).open("wb") as file:
            for number, raw in part_lines(part, self.path):
                if not raw.strip():
                    continue
                document = line_document(raw, number, allow_nan=self.allow_nan)
                problems = document.problems or self._convert(document, outcome, file)
                if problems and self.skip_invalid:
                    outcome.summary.left_out.add(source_name(self.path), 1, problems)
                    outcome.totals += Totals(1)  # a file of which everything was skipped is not empty
                else:
                    outcome.problems += problems
        self.stamp.check(self.path, "changed while it was converted; convert it when no program writes to it")
        outcome.more_problems = max(0, len(outcome.problems) - MAX_REPORTED)
        outcome.problems = outcome.problems[:MAX_REPORTED]
        return outcome

    def target(self, part: Part) -> Path:
        return self.folder / f"{part.number:06}"


def convert_lines(
    path: str,
    target: IO[bytes],
    unit: Unit,
    *,
    allow_nan: bool = False,
    processes: int | None = None,
    progress: Progress | None = None,
    prefix: str = "",
    skip_invalid: bool = False,
    **options: Any,  # noqa: ANN401 - passed on
) -> Summary:
    """Write the cases of a file with a conversation on each line as JSON Lines, and return a summary.

    Args:
        path: The file.
        target: An open file.
        unit: See `toolgrade.convert`.
        allow_nan: See `read_transcripts`.
        processes: Number of processes; by default one per core. The result does not depend on it.
        progress: Called with the number of converted bytes, and of all.
        prefix: Text before the places of conversations, in names and warnings.
        skip_invalid: Leave out lines that cannot be read; `Summary.left_out` counts them.
        **options: `format`, `handoff_names` and `tolerant_arguments`; see `read_transcripts`.

    Raises:
        DataFileError: Lines cannot be read; what was written before must be dropped.
        TracesError: A line holds a trace.
        OSError: A file cannot be read or written.
    """
    stamp = Stamp.of(path)
    workers = min((os.cpu_count() or 1) if processes is None else processes, 1 + stamp.size // LARGE_BYTES)
    parts = survey([path], list(divide_files([path], small_parts(path))), 1)
    combined, summary = CombinedOutcome(), Summary()
    # Beside the target if it has a place: the folder for temporary files may be small.
    beside = str(Path(target.name).parent) if isinstance(target.name, str) else None
    with tempfile.TemporaryDirectory(prefix=".toolgrade-", dir=beside) as folder:
        work = _ConvertPart(path, stamp, unit, options, allow_nan, Path(folder), prefix, skip_invalid)
        with closing(run_jobs(work, parts, workers)) as converting:
            for part, outcome in combine(combined, parts, converting, progress or quiet):
                summary += outcome.summary
                with work.target(part).open("rb") as file:
                    shutil.copyfileobj(file, target)
                work.target(part).unlink()
    combined.check([path], None)
    issue_warnings(combined.texts([path]))
    return summary
