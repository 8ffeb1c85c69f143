"""The first problem of a result on one line; shared by every renderer and by pytest.

A line begins with a place: `c2` is the second call that was made, `e2` the second expected call, `turn 3` the third
turn of a conversation. The results are redacted before they get here; the line holds no control characters.

    c2 get_weather: args.city "Paris", expected "London"
    c3 book_flight: not expected
    e2 refund: not called
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from toolgrade._internal.text import shorten
from toolgrade.matching.alignment import Alignment
from toolgrade.matching.json_compare import ABSENT
from toolgrade.matching.value_text import pair_text, value_text
from toolgrade.report.report import CaseResult
from toolgrade.report.text.phrases import WORDS, one_line, result_word
from toolgrade.result import NOTHING_WRONG, Finding, FindingKind, MetricResult, ResultStatus

_MAX_NAME = 60
_MAX_VALUE = 40
_MAX_LINE = 200
_NO_POSITION = float("inf")

_CALL_PHRASES: dict[FindingKind, str] = {
    "missing": "not called",
    "unexpected": "not expected",
    "out_of_order": "out of order",
    "not_parallel": "not in parallel",
    "unknown_tool": "not available",
    "wrong_tool": "not the right tool",
    "wrong_arguments": "wrong arguments",
    "missing_call": "needed, not called",
    "not_judged": "not judged",
    "invalid_schema": "its schema cannot be used",
    "redundant": "redundant call",
    "loop": "loops",
    "over_budget": "over budget",
    "failed_call": "failed",
    "error_text": "answered an error",
    "abandoned": "failed, not tried again",
    "repeated": "failed, tried again unchanged",
    "forbidden": "forbidden",
    "not_approved": "not approved",
    "too_early": "too early",
    "unknown_effect": "unknown whether it changes something",
}
"""Findings about a whole call."""
_PLACE_PHRASES: dict[FindingKind, str] = {
    "missing_argument": "missing",
    "not_compared": "not recorded",
    "schema_violation": "does not fit the schema",
    "forbidden_argument": "has a forbidden value",
}
"""Findings about a place inside a call; all other kinds show both values."""
_SOURCE_PHRASES: dict[FindingKind, str] = {
    "ungrounded": "comes from nowhere",
    "wrong_source": "comes from where it must not",
}
"""Findings about where a value comes from."""
_SUBJECTS: dict[FindingKind, tuple[str, str]] = {
    "over_budget": ("all calls", ""),
    "missing_text": ("the agent", "did not say"),
    "wrong_answer": ("the answer", "does not fit"),
    "ungrounded": ("the answer", ""),
    "not_ended": ("the run", "did not come to its own end"),
    "no_answer": ("the run", "has no answer"),
    "admits_failure": ("the answer", "admits a failure"),
}
"""Findings that are not about one call: what they are about, and their phrase if the expected value follows it."""
_WITHOUT_COST = frozenset[FindingKind]({"not_compared", "not_judged", "unknown_effect", "error_text", *NOTHING_WRONG})


def first_divergence(result: MetricResult) -> Finding | None:
    """Return the finding that comes first in the run; `None` without findings, except those that name nothing wrong.

    A call that a plan forbids comes before all others, since it alone makes the score 0; findings that cost no score,
    such as calls beyond the expected ones where only these are counted, come last. In between, the turn decides, then
    the position of the call that was made. A missing call stands where it should have been made: behind the call that
    was made for the one expected before it. A finding without a position, such as a budget, comes last, and of two at
    the same place the first in the list wins.
    """
    alignment = result.alignment
    forbidden = {called for called, _ in alignment.forbidden} if alignment else set[int]()
    free = _WITHOUT_COST | ({"unexpected"} if alignment and result.score == alignment.score() else set())

    def order(finding: Finding) -> tuple[int, int, float]:
        rank = 0 if finding.kind == "forbidden" and finding.called in forbidden else 1 + (finding.kind in free)
        return rank, finding.turn or 0, _position(finding, alignment)

    return min(_problems(result), key=order, default=None)


def _problems(result: MetricResult) -> list[Finding]:
    """Return the findings without those that name nothing wrong."""
    return [finding for finding in result.findings if finding.kind not in NOTHING_WRONG]


def _position(finding: Finding, alignment: Alignment | None) -> float:
    """Return where a finding stands among the calls that were made."""
    if finding.called is not None:
        return finding.called
    if finding.expected is None:
        return _NO_POSITION
    pairs = sorted((pair.expected, pair.called) for pair in alignment.pairs) if alignment else []
    before = bisect_left(pairs, (finding.expected, -1))
    return pairs[before - 1][1] + 0.5 if before else -0.5


def brief(finding: Finding) -> str:
    """Return a finding in a few words: its place, its tool, and what is wrong, with shortened values."""
    words: list[str] = []
    if finding.turn is not None:
        words.append(f"turn {finding.turn}")
    if finding.called is not None:
        words.append(f"c{finding.called + 1}")
    elif finding.expected is not None:
        words.append(f"e{finding.expected + 1}")
    subject, phrase = _SUBJECTS.get(finding.kind, ("a call", ""))
    words.append(one_line(finding.tool, _MAX_NAME) or subject)
    if phrase:
        value = "" if finding.expected_value is ABSENT else f" {_side(finding.expected_value)}"
        return f"{' '.join(words)}: {phrase}{value}"
    return f"{' '.join(words)}: {_phrase(finding)}"


def _phrase(finding: Finding) -> str:
    if finding.kind in _CALL_PHRASES:
        return _CALL_PHRASES[finding.kind]
    place = (finding.path or "").removeprefix("$").removeprefix(".")
    if place.startswith("input_parameters"):
        place = f"args{place.removeprefix('input_parameters')}"
    expected, called, note = _side(finding.expected_value), _side(finding.called_value), ""
    if finding.expected_value is not ABSENT and finding.called_value is not ABSENT:
        expected, called, note = pair_text(finding.expected_value, finding.called_value, _MAX_VALUE, words=0)
    if finding.kind == "missing_argument" and finding.expected_value is not ABSENT:
        text = f"missing, expected {expected}"
    elif finding.kind in _SOURCE_PHRASES:
        text = f"{called} {_SOURCE_PHRASES[finding.kind]}"
    elif finding.kind == "extra_argument":
        text = f"{called}, not expected"
    else:
        text = _PLACE_PHRASES.get(finding.kind, f"{called}, expected {expected}{note}")
    return f"{one_line(place, _MAX_NAME)} {text}".lstrip()


def _side(value: Any) -> str:  # noqa: ANN401 - a JSON value, a matcher or ABSENT
    return "nothing" if value is ABSENT else shorten(value_text(value, _MAX_VALUE), _MAX_VALUE)


def first_problem(result: MetricResult) -> str:
    """Return the first problem of a result and the number of other findings; without findings, why there is no score.

    Empty if nothing is wrong, or nothing but the score was recorded.
    """
    first = first_divergence(result)
    if first is not None:
        others = len(_problems(result)) - 1
        return shorten(brief(first), _MAX_LINE) + (f" (+{others})" if others else "")
    if result.status is ResultStatus.SCORED:
        return ""
    text = result.reason or result.error or ""
    if result.status is ResultStatus.SKIPPED:
        text = text.split("\n", 1)[0]  # the other lines repeat the warnings, which are listed elsewhere
    return one_line(text.removeprefix("Not measured: "))


def entry_problem(case: CaseResult, result: MetricResult | None) -> str:
    """Return why the run of a case did not end as it must, or else the first problem of its result."""
    if case.wrong_end is not None:
        return one_line(case.wrong_end.why)
    return "" if result is None else first_problem(result)


def case_problem(case: CaseResult) -> str:
    """Return why the run did not end as it must, or where the worst result of a case first goes wrong."""
    worst = min(case.own_results, key=lambda result: WORDS.index(result_word(result)), default=None)
    if worst is None or case.wrong_end is not None:
        return entry_problem(case, worst)
    reason = "" if worst.passed else (worst.reason or "").split("\n", 1)[0]
    return first_problem(worst) or one_line(reason)
