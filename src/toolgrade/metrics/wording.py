"""Findings, arithmetic and reasons of an alignment, in words that a person can act on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from toolgrade._internal.json import json_path
from toolgrade._internal.text import code_points_note, join_first, number_text, plural, printable
from toolgrade.matching.alignment import Alignment, Denominator, Pair
from toolgrade.matching.json_compare import ABSENT
from toolgrade.metrics.called_tools import Undone
from toolgrade.result import Finding, FindingKind, display_pair, display_value

MOST_FINDINGS = 20
"""Findings that a reason lists; `MetricResult.findings` holds all of them."""

_MOST_HIDDEN = 5
"""Redacted values that a warning names."""

_ORDER_FINDINGS: Final[dict[str, tuple[FindingKind, str]]] = {
    "after": ("out_of_order", "Out of order"),
    "parallel": ("not_parallel", "Not in parallel"),
}
_FIELD_PATHS = {"wrong_type": "$.type", "wrong_output": "$.output"}
_ARGUMENTS_PATH = "$.input_parameters"
_FIELD_NOUNS = {"input_parameters": "arguments", "output": "output", "type": "type"}


def alignment_findings(
    alignment: Alignment,
    expected: Sequence[str],
    called: Sequence[str],
    undone: Sequence[Undone] = (),
) -> tuple[Finding, ...]:
    """Return what an alignment shows to be wrong: forbidden calls, expected calls in their order, unexpected calls.

    `expected` and `called` are the names of the calls by position. `undone` are calls that were left out
    because they did nothing.
    """
    findings: list[Finding] = []
    for index, rule in alignment.forbidden:
        text = f"Forbidden: {_position_text(called[index], index, 'called')}, by {rule!r}."
        findings.append(Finding("forbidden", text, called[index], called=index))
    for _, of_position in sorted(_findings_by_expected(alignment, expected, called, undone).items()):
        findings += of_position
    forbidden = {index for index, _ in alignment.forbidden}
    for index in alignment.unexpected:
        if index in forbidden:  # one finding is enough
            continue
        note = ", more often than the plan allows" if index in alignment.excess else ""
        text = f"Unexpected: {_position_text(called[index], index, 'called')}{note}."
        findings.append(Finding("unexpected", text, called[index], called=index))
    return tuple(findings)


def _findings_by_expected(
    alignment: Alignment, names: Sequence[str], called: Sequence[str], undone: Sequence[Undone]
) -> dict[int, list[Finding]]:
    """Return the findings about expected calls by their positions."""
    findings: dict[int, list[Finding]] = {}
    unexpected = [called[index] for index in alignment.unexpected]
    for pair in alignment.pairs:
        if pair.differences or pair.not_compared or pair.respelled:
            findings[pair.expected] = _pair_findings(pair, names[pair.expected])
    for pair in alignment.out_of_order:
        name = names[pair.expected]
        findings[pair.expected] = [_order_finding(pair, name), *_pair_findings(pair, name)]
    for finding in missing_findings(alignment.missing, names, undone, called=unexpected):
        findings[finding.expected or 0] = [finding]
    return findings


def missing_findings(
    missing: Sequence[int],
    names: Sequence[str],
    undone: Sequence[Undone],
    title: str = "Missing",
    *,
    called: Sequence[str] = (),
) -> Iterator[Finding]:
    """Yield a finding for each expected call that was not made, or was made and did nothing.

    `called` are the names of unexpected calls, one of which may look like the expected one.
    """
    left = list(undone)
    for index in missing:
        where = f"{title}: {_position_text(names[index], index, 'expected')} was"
        call = next((one for one in left if one.name == names[index]), None)
        if call is None:
            text = f"{where} not called{_note(names[index], called)}."
            yield Finding("missing", text, names[index], expected=index)
        else:
            left.remove(call)
            kind: FindingKind = "failed_call" if call.failed else "missing"
            text = f"{where} called as #{call.called + 1}, which {call.outcome}."
            yield Finding(kind, text, names[index], expected=index, called=call.called if call.failed else None)


def _order_finding(pair: Pair, name: str) -> Finding:
    rule, why = pair.breaks or ("after", "")
    kind, title = _ORDER_FINDINGS[rule]
    detail = f", {why}" if why else ""
    text = f"{title}: {_position_text(name, pair.expected, 'expected')} was called as #{pair.called + 1}{detail}."
    return Finding(kind, text, name, pair.expected, pair.called)


def _pair_findings(pair: Pair, name: str) -> list[Finding]:
    where = f"{printable(name)!r} (expected #{pair.expected + 1}, called #{pair.called + 1})"
    findings: list[Finding] = []
    for kind, keys, expected, called in (*pair.differences, *pair.respelled):
        path = _FIELD_PATHS.get(kind) or json_path(keys, _ARGUMENTS_PATH)
        note = _note(path, _extra_paths(pair)) if called is ABSENT else ""
        text = f"{where}: {_difference_text(kind, path, expected, called)}{note}."
        findings.append(Finding(kind, text, name, pair.expected, pair.called, path, expected, called))
    for part in pair.not_compared:
        if part in pair.redacted:
            text = f"{where}: {printable(f'$.{part}')} is redacted, so it was left out of the comparison."
        else:
            text = f"{where}: not compared, since the recording lacks its {_FIELD_NOUNS[part]}."
        findings.append(Finding("not_compared", text, name, pair.expected, pair.called, f"$.{part}"))
    return findings


def _extra_paths(pair: Pair) -> list[str]:
    return [json_path(one.path, _ARGUMENTS_PATH) for one in pair.differences if one.kind == "extra_argument"]


def _difference_text(kind: FindingKind, path: str, expected: object, called: object) -> str:
    # Reasons are printed and sent to other systems, so no secret may enter them.
    where = printable(path)
    if expected is ABSENT:
        return f"{where} was not expected, called with {display_value(called, path)}"
    if called is ABSENT:
        return f"{where} is missing, expected {display_value(expected, path)}"
    pair = display_pair(expected, called, path)
    note = ": equal by meaning" if kind == "equal_by_meaning" else pair.note
    return f"{where} expected {pair.expected}, called with {pair.called}{note}"


def _note(expected: str, called: Sequence[str]) -> str:
    """Return that a name was called in another turn, or in which code points it differs from one that looks like it."""
    if expected in called:
        return " in it, but in another turn"
    return next(filter(None, [code_points_note(expected, one) for one in called]), "")


def _position_text(name: str, index: int, side: str) -> str:
    return f"{side} #{index + 1} {printable(name)!r}"


def arithmetic(alignment: Alignment, denominator: Denominator, *, exact: bool) -> str:
    """Return the arithmetic of a score, such as `1.5 matched / 2 expected = 0.75`."""
    m, n = alignment.expected_count, alignment.called_count
    if alignment.forbidden:
        return f"{plural(len(alignment.forbidden), 'forbidden call')} = 0"
    if not m or not n:
        return _empty_side_text(m, n, extras=alignment.extras)
    matched = number_text(float(alignment.matched))
    if exact:
        verdict = "the same call by call = 1" if alignment.exact else "not the same call by call = 0"
        return f"{m} expected and {n} called, {verdict} (in order, {matched} matched)"
    total = f"{matched} matched / {_divisor_text(m, n, denominator, len(alignment.excess))}"
    if denominator == "f1":
        total = f"2 x {total}"
    return f"{total} = {number_text(alignment.score(denominator))}"


def _divisor_text(m: int, n: int, denominator: Denominator, excess: int) -> str:
    """Return what the matched weight of m expected and n called tools is divided by; `excess` of m are too many."""
    expected = f"{m} expected{f' ({excess} more often than the plan allows)' if excess else ''}"
    if denominator == "longest":
        return f"{max(m, n)} (the longer of {expected} and {n} called)"
    if denominator == "f1":
        return f"({expected} + {n} called)"
    return expected if denominator == "expected" else f"{n} called"


def _empty_side_text(expected: int, called: int, *, extras: bool | None) -> str:
    if not expected and not called:
        return "nothing was expected and nothing was called = 1"
    if not called:
        return f"{plural(expected, 'call')} expected, none made = 0"
    allowed = f"nothing was expected; the plan allows the {plural(called, 'other call')} = 1"
    return allowed if extras else f"no call expected, {called} made = 0"


def choice_lines(alignment: Alignment) -> list[str]:
    """Return the line of the reason that names the chosen variant; empty if there was no choice."""
    return [f"Best of the alternatives: {', '.join(alignment.choices)}."] if alignment.choices else []


def reason_text(head: str, findings: Sequence[Finding], warnings: Sequence[str]) -> str:
    """Return a reason: the arithmetic, one line for each finding, then the warnings."""
    lines = [head, *(finding.message for finding in findings[:MOST_FINDINGS])]
    if len(findings) > MOST_FINDINGS:
        lines.append(f"And {plural(len(findings) - MOST_FINDINGS, 'further finding')}.")
    lines += [f"Note: {printable(warning).rstrip('.')}." for warning in warnings]
    return "\n".join(lines)


def partial_comparison_warnings(alignment: Alignment, called: Sequence[str]) -> list[str]:
    """Return warnings about calls, with these names by position, that were compared without some of their fields."""
    pairs = [pair for pair in (*alignment.pairs, *alignment.out_of_order) if pair.not_compared]
    warnings: list[str] = []
    if any(len(pair.not_compared) > len(pair.redacted) for pair in pairs):
        warnings.append("some calls were compared without fields that were not recorded")
    hidden = [
        f"$.{part} of {_position_text(called[pair.called], pair.called, 'called')}"
        for pair in pairs
        for part in pair.redacted
    ]
    if hidden:
        listed = join_first(hidden, _MOST_HIDDEN, count_rest=True)
        warnings.append(f"left out of the comparison, since it is redacted: {printable(listed)}")
    return warnings
