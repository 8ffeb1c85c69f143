"""`toolgrade approve`."""

from __future__ import annotations

import difflib
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from toolgrade._internal.model import set_fields
from toolgrade._internal.text import plural, printable
from toolgrade._pytest.approval import approve as approved
from toolgrade._pytest.approval import approve_conversation
from toolgrade.cases import AnyCase, ConversationalTestCase
from toolgrade.cli.help import command
from toolgrade.cli.inputs import read_input
from toolgrade.cli.io import exit_on_error, has_bad_lines, stop
from toolgrade.cli.options import OutputPath, allow_nan_option, reject_option, source_argument
from toolgrade.dataset import Golden, read_goldens, write_cases
from toolgrade.errors import InvalidDataError, MissingFieldError
from toolgrade.inputs import Reading, as_conversation, join_runs
from toolgrade.redact import DEFAULT
from toolgrade.verdict import run_end

if TYPE_CHECKING:
    from toolgrade.evaluation.files import GoldenSet

_COLOURS = {"+": "green", "-": "red"}


@command("toolgrade approve runs.jsonl --out goldens.jsonl")
@source_argument
@click.option("--out", "target", required=True, type=OutputPath(), metavar="FILE", help="File of the goldens.")
@click.option(
    "--update",
    is_flag=True,
    help="Change only the goldens that the cases belong to, by id, name or input, and add the others. Matchers of "
    "expected calls that still match stay.",
)
@click.option("--yes", is_flag=True, help="Change an existing file as shown.")
@reject_option
@allow_nan_option
def approve(*, file: str, target: str, update: bool, yes: bool, reject_bad_lines: bool, allow_nan: bool) -> None:
    """Turn recorded cases or runs into goldens that expect the calls they made.

    FILE is a file that `toolgrade score` reads; its expectations are ignored. A conversation, also one of several runs,
    becomes a golden with turns, each of which expects its calls. Equal runs become one golden. Secrets are
    removed, and match any value later. A run that waits for a person must do so later, too; a golden that --update
    changes keeps how its run must end. A case is left out, with the reason, if its run did not end well, if it lacks
    its input or its calls, if arguments of a call are broken or were not recorded, or if another case has the same id,
    or the same input without an id, and other calls.

    The difference of an existing file is shown, and the file is changed only with --yes.

    Exit code 0 if every case became a golden, 1 if some were left out, 2 if the command line or FILE is wrong, if no
    golden is left, or if --yes is needed; nothing is written then.
    """
    with exit_on_error(file, "nothing was written") as caught:
        how = Reading(unit="any", allow_nan=allow_nan)
        cases = join_runs(read_input(file, how, reject_bad_lines=reject_bad_lines))
    from toolgrade.evaluation.files import GoldenSet  # noqa: PLC0415 - not loaded for --help

    with exit_on_error(target, "nothing was written"):
        old = _goldens_in(target, allow_nan=allow_nan)
        drafts = list(_drafts(cases, GoldenSet(old, printable(target), None) if update else None))
    drafts = _without_conflicts(drafts)
    if not drafts:
        stop("no case can be approved; nothing was written")
    goldens = old.copy() if update else []
    for draft in drafts:
        if draft.place is None:
            goldens.append(draft.golden)
        else:
            goldens[draft.place] = draft.golden
    _write(target, old, goldens, yes=yes)
    sys.exit(int(has_bad_lines(caught) or sum(draft.cases for draft in drafts) < len(cases)))


_DESCRIPTIVE = {"id", "available_tools", "tags", "metadata"}
"""Fields of a golden that expect nothing."""


class _Draft(NamedTuple):
    """A golden of a case; `place` is that of the golden it updates, and `cases` the number of equal cases."""

    label: str
    golden: Golden
    place: int | None = None
    cases: int = 1

    @property
    def identity(self) -> tuple[str, object]:
        """What no two goldens share."""
        if self.place is not None:
            return "golden", self.place
        return ("id", self.golden.id) if self.golden.id else ("input", _text_of(self.golden))


def _text_of(golden: Golden) -> str:
    """Return all that the user says."""
    from toolgrade.evaluation.files import texts_of  # noqa: PLC0415 - not loaded for --help

    return "\n".join(texts_of(golden))


def _goldens_in(target: str, *, allow_nan: bool) -> list[Golden]:
    """Return the goldens of the file to write; none if it does not exist, or is a device or empty."""
    path = Path(target)
    return read_goldens(target, allow_nan=allow_nan) if path.is_file() and path.stat().st_size else []


def _drafts(cases: Sequence[AnyCase], goldens: GoldenSet | None) -> Iterator[_Draft]:
    """Yield the draft of each case that can be approved; print notes on it, and why others are left out."""
    for index, case in enumerate(cases, 1):
        label = printable(case.id or case.name or f"#{index}")
        try:
            draft, notes = _draft(label, case, goldens)
        except (InvalidDataError, MissingFieldError) as error:
            _leave_out(label, str(error))
            continue
        for note in notes:
            click.echo(f"note on {label}: {printable(note)}", err=True)
        yield draft


def _leave_out(label: str, reason: str) -> None:
    click.echo(f"left out {label}: {printable(reason)}", err=True)


def _draft(label: str, case: AnyCase, goldens: GoldenSet | None) -> tuple[_Draft, list[str]]:
    """Return the golden that expects the calls of a case, without secrets, and notes on it."""
    run = getattr(case, "run", None)
    if run is not None and run.dialogue:
        case = as_conversation(case)
    place = None if goldens is None else goldens.join(case).golden
    old = None if goldens is None or place is None else goldens.goldens[place]
    if isinstance(case, ConversationalTestCase):
        golden, notes = approve_conversation(case, DEFAULT, old)
        return _Draft(label, golden, place), notes
    if not isinstance(case.input, str):
        raise MissingFieldError("the input of the case must be text, which a golden needs")
    if old is not None:
        expected, notes = approved(case, DEFAULT, old.expected_tools)
        return _Draft(label, old.model_copy(update={"expected_tools": expected}), place), notes
    expected, notes = approved(case, DEFAULT)
    fields = {
        name: getattr(case, name) for name in ("id", "available_tools", "tags", "metadata") if getattr(case, name)
    }
    if run_end(case)[0] == "interrupted":
        fields["ends"] = "interrupted"
    golden = DEFAULT.model(Golden(input=case.input, **fields))
    return _Draft(label, golden.model_copy(update={"expected_tools": expected})), notes


def _without_conflicts(drafts: Sequence[_Draft]) -> list[_Draft]:
    """Merge drafts of equal content. Print and leave out all drafts of one golden whose contents differ.

    Drafts are of one golden if they have the same id, or without one the same text of the user.
    """
    groups: dict[tuple[int | None, str, str], list[_Draft]] = {}
    for draft in drafts:
        golden = draft.golden
        fields = {name: value for name, value in set_fields(golden).items() if name not in _DESCRIPTIVE}
        content = Golden(**fields).to_json()
        groups.setdefault((draft.place, _text_of(golden), content), []).append(draft)
    groups_of: defaultdict[object, set[int]] = defaultdict(set)
    for number, group in enumerate(groups.values()):
        for draft in group:
            groups_of[draft.identity].add(number)
    consistent: list[_Draft] = []
    for group in groups.values():
        conflicts = max(len(groups_of[draft.identity]) for draft in group)
        if conflicts == 1:
            consistent.append(group[0]._replace(cases=len(group)))
            continue
        for draft in group:
            _leave_out(
                draft.label, f"cases with the same id or input made {conflicts} different lists of calls; approve one"
            )
    return consistent


def _write(target: str, old: Sequence[Golden], goldens: Sequence[Golden], *, yes: bool) -> None:
    """Write the goldens; if the file has other goldens, show the difference, and write only with `--yes`."""
    name = printable(target)
    if old == goldens:
        click.echo(f"{name} has these goldens already; nothing was written", err=True)
        return
    if old:
        for line in _difference(old, goldens):
            click.secho(printable(line), fg=_COLOURS.get(line[0]), err=True)
        if not yes:
            stop(f"{name} would change as shown; pass --yes to change it, or name another file. Nothing was written")
    with exit_on_error(target, action="write"):
        write_cases(target, goldens)
    click.echo(f"{plural(len(goldens), 'golden')} written to {name}", err=True)


def _difference(old: Sequence[Golden], new: Sequence[Golden]) -> Iterator[str]:
    """Yield the lines of a unified difference, golden by golden."""
    before, after = ({golden.id or _text_of(golden): golden for golden in goldens} for goldens in (old, new))
    for key in {**before, **after}:
        left, right = (
            DEFAULT.model(goldens[key]).to_json(indent=2).splitlines() if key in goldens else []
            for goldens in (before, after)
        )
        yield from difflib.unified_diff(left, right, f"{key} (now)", f"{key} (approved)", lineterm="")
