"""Findings and reasons: an alignment put into words that a person can act on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolmark._internal.json import json_path
from toolmark._internal.text import number_text, plural, printable
from toolmark.matching.alignment import Alignment, Denominator, Pair
from toolmark.matching.json_compare import ABSENT, Difference
from toolmark.result import Finding, FindingKind, display_value

MOST_FINDINGS = 20
"""Findings that a reason spells out; the rest are counted, and all are in `findings`."""

_PARTS = {"input_parameters": "arguments", "output": "output", "type": "type"}


def findings_of(alignment: Alignment, expected: Sequence[str], called: Sequence[str]) -> tuple[Finding, ...]:
    """Return everything that an alignment shows to be wrong, in the order of the expected calls, then of the called.

    Args:
        alignment: The alignment.
        expected: Names of the expected calls.
        called: Names of the called tools.
    """
    placed: list[tuple[int, Finding]] = []
    for pair in alignment.pairs:
        placed.extend((pair.expected, finding) for finding in _of_pair(pair, expected[pair.expected]))
    for pair in alignment.out_of_order:
        name = expected[pair.expected]
        placed.append((pair.expected, _displaced(pair, name)))
        placed.extend((pair.expected, finding) for finding in _of_pair(pair, name))
    for index in alignment.missing:
        text = f"Missing: {_one(expected[index], index, 'expected')} was not called."
        placed.append((index, Finding("missing", text, expected[index], expected=index)))
    placed.sort(key=lambda entry: entry[0])
    unexpected = (
        Finding("unexpected", f"Unexpected: {_one(called[index], index, 'called')}.", called[index], called=index)
        for index in alignment.unexpected
    )
    forbidden = (
        Finding(
            "forbidden", f"Forbidden: {_one(called[index], index, 'called')}, by {text!r}.", called[index], called=index
        )
        for index, text in alignment.forbidden
    )
    return (*forbidden, *(finding for _, finding in placed), *unexpected)


def _displaced(pair: Pair, name: str) -> Finding:
    rule, why = pair.breaks or ("after", "")
    kind: FindingKind = "not_parallel" if rule == "parallel" else "out_of_order"
    title = "Not in parallel" if rule == "parallel" else "Out of order"
    told = f", {why}" if why else ""
    text = f"{title}: {_one(name, pair.expected, 'expected')} was called as #{pair.called + 1}{told}."
    return Finding(kind, text, name, pair.expected, pair.called)


def _of_pair(pair: Pair, name: str) -> Iterator[Finding]:
    where = f"{printable(name)!r} (expected #{pair.expected + 1}, called #{pair.called + 1})"
    for difference in pair.differences:
        path = _path(difference)
        yield Finding(
            difference.kind,
            f"{where}: {_sentence(difference, path)}.",
            name,
            pair.expected,
            pair.called,
            path,
            difference.expected,
            difference.called,
        )
    for part in pair.not_compared:
        if part in pair.redacted:
            text = f"{where}: {printable(f'$.{part}')} is redacted, so it was left out of the comparison."
        else:
            text = f"{where}: the recording did not keep its {_PARTS[part]}, so they were left out of the comparison."
        yield Finding("not_compared", text, name, pair.expected, pair.called, f"$.{part}")


def _path(difference: Difference) -> str:
    if difference.kind == "wrong_type":
        return "$.type"
    if difference.kind == "wrong_output":
        return "$.output"
    return json_path(("input_parameters", *difference.path))


def _sentence(difference: Difference, path: str) -> str:
    # Reasons are made to be shown and sent on, so no secret enters them.
    expected = "nothing" if difference.expected is ABSENT else display_value(difference.expected, path)
    called = "nothing" if difference.called is ABSENT else display_value(difference.called, path)
    if difference.kind == "missing_argument":
        return f"{printable(path)} is missing, expected {expected}"
    if difference.kind == "extra_argument":
        return f"{printable(path)} was not expected, called with {called}"
    return f"{printable(path)} expected {expected}, called with {called}"


def _one(name: str, index: int, side: str) -> str:
    return f"{side} #{index + 1} {printable(name)!r}"


def arithmetic(alignment: Alignment, denominator: Denominator, *, exact: bool) -> str:
    """Return the sum that gave the score, such as `1.5 matched / 2 expected = 0.75`."""
    m, n = alignment.expected_count, alignment.called_count
    if alignment.forbidden:
        return f"{plural(len(alignment.forbidden), 'forbidden call')} = 0"
    if not m and n and alignment.extras:
        return f"nothing was expected and {plural(n, 'other call')} made, which may be = 1"
    if not m and not n:
        return "nothing was expected and nothing was called = 1"
    if not n:
        return f"{plural(m, 'call')} expected, none made = 0"
    if not m:
        return f"no call expected, {n} made = 0"
    matched = number_text(float(alignment.matched))
    if exact:
        verdict = "the same call by call = 1" if alignment.exact else "not the same call by call = 0"
        return f"{m} expected and {n} called, {verdict} (in order, {matched} matched)"
    score = number_text(alignment.score(denominator))
    if denominator == "f1":
        return f"2 x {matched} matched / ({m} expected + {n} called) = {score}"
    divisor = {
        "expected": f"{m} expected",
        "called": f"{n} called",
        "longest": f"{max(m, n)} (the longer of {m} expected and {n} called)",
    }[denominator]
    return f"{matched} matched / {divisor} = {score}"


def reason_of(head: str, findings: Sequence[Finding], notes: Sequence[str]) -> str:
    """Return the reason: a line for the arithmetic, then one for each finding, then what makes the score less sure."""
    lines = [finding.message for finding in findings[:MOST_FINDINGS]]
    if len(findings) > MOST_FINDINGS:
        lines.append(f"And {plural(len(findings) - MOST_FINDINGS, 'further finding')}.")
    return "\n".join([head, *lines, *(f"Note: {printable(note).rstrip('.')}." for note in notes)])
