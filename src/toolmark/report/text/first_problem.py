"""Where does a result first go wrong, in one line? For the terminal, Markdown, JUnit and pytest alike.

A line begins with a place: `c2` is the second call that was made, `e2` the second that was expected, `turn 3` the third
turn of a conversation. Nothing in it is a secret, and no terminal obeys it.

    c2 get_weather: args.city "Paris", expected "London"
    c3 book_flight: not expected
    e2 refund: not called
"""

from __future__ import annotations

from bisect import bisect_left

from toolmark._internal.text import number_text, printable, shorten
from toolmark.matching.alignment import Alignment
from toolmark.matching.json_compare import ABSENT
from toolmark.redact import DEFAULT, Redactor
from toolmark.report.report import CaseResult
from toolmark.result import Finding, FindingKind, MetricResult, ResultStatus, display_value

_NAME = 60
_VALUE = 40
_LINE = 200
_LONGEST = 300
_NOWHERE = float("inf")

_OF_CALLS: dict[FindingKind, str] = {
    "missing": "not called",
    "unexpected": "not expected",
    "out_of_order": "out of order",
    "not_parallel": "not in parallel",
    "unknown_tool": "not available",
    "wrong_tool": "not the right tool",
    "wrong_arguments": "wrong arguments",
    "missing_call": "needed, not called",
    "not_judged": "not judged",
    "invalid_schema": "a schema that cannot be used",
    "redundant": "called again for nothing",
    "loop": "loops",
    "over_budget": "over budget",
    "failed_call": "failed",
    "abandoned": "failed, not tried again",
    "repeated": "failed, tried again unchanged",
    "forbidden": "forbidden",
    "not_approved": "not approved",
    "too_early": "too early",
    "unknown_effect": "nobody knows whether it changes something",
}
"""What is said of a whole call."""
_OF_PLACES: dict[FindingKind, str] = {
    "missing_argument": "missing",
    "not_compared": "not recorded",
    "schema_violation": "does not fit the schema",
    "forbidden_argument": "has a forbidden value",
}
"""What is said of a place within a call; of all others, what stands there."""
_COST_NOTHING = frozenset[FindingKind]({"not_compared", "not_judged", "unknown_effect"})


def first_divergence(result: MetricResult) -> Finding | None:
    """Return the finding that comes first in the run; `None` where nothing was found.

    A call that a plan forbids comes before all others, since it alone makes the score 0; what costs nothing comes last.
    Between them it is the turn that decides, then the position of the call that was made. A missing call stands where
    it should have been made: behind the call that was made for the one expected before it. What has no position, such
    as a budget, comes last, and of two at the same place the one that was found first.
    """
    if not result.findings:
        return None
    places = _Places(result.alignment)
    return min(result.findings, key=lambda finding: (places.rank(finding), finding.turn or 0, places.of(finding)))


class _Places:
    """Where findings stand among the calls that were made."""

    def __init__(self, alignment: Alignment | None) -> None:
        pairs = sorted((pair.expected, pair.called) for pair in alignment.pairs) if alignment else []
        self._expected = [expected for expected, _ in pairs]
        self._called = [called for _, called in pairs]
        self._forbidden = {called for called, _ in alignment.forbidden} if alignment else set[int]()

    def rank(self, finding: Finding) -> int:
        if finding.kind == "forbidden" and finding.called in self._forbidden:
            return 0
        return 2 if finding.kind in _COST_NOTHING else 1

    def of(self, finding: Finding) -> float:
        if finding.called is not None:
            return finding.called
        if finding.expected is None:
            return _NOWHERE
        before = bisect_left(self._expected, finding.expected)
        return self._called[before - 1] + 0.5 if before else -0.5


def brief(finding: Finding, redactor: Redactor = DEFAULT) -> str:
    """Return a finding in a few words: its place, its tool, and what is wrong there, values shortened."""
    subject = shorten(printable(finding.tool), _NAME) or ("all calls" if finding.kind == "over_budget" else "a call")
    return f"{' '.join([*_where(finding), subject])}: {_what(finding, redactor)}"


def _where(finding: Finding) -> list[str]:
    """Return the words for the position; a call that was not made has only the one where it was expected."""
    turn = [] if finding.turn is None else [f"turn {finding.turn + 1}"]
    if finding.called is not None:
        return [*turn, f"c{finding.called + 1}"]
    return turn if finding.expected is None else [*turn, f"e{finding.expected + 1}"]


def _what(finding: Finding, redactor: Redactor) -> str:
    if finding.kind in _OF_CALLS:
        return _OF_CALLS[finding.kind]
    place = shorten(printable(_argument(finding.path or "")), _NAME)
    expected = _told(finding.expected_value, finding.path, redactor)
    called = _told(finding.called_value, finding.path, redactor)
    if finding.kind == "missing_argument" and finding.expected_value is not ABSENT:
        text = f"missing, expected {expected}"
    elif finding.kind == "extra_argument":
        text = f"{called}, not expected"
    else:
        text = _OF_PLACES.get(finding.kind, f"{called}, expected {expected}")
    return f"{place} {text}".lstrip()


def _argument(path: str) -> str:
    """Return a JSON path within a call as people say it: `args.city`, `args["a b"]`, `output`."""
    place = path.removeprefix("$").removeprefix(".")
    return f"args{place.removeprefix('input_parameters')}" if place.startswith("input_parameters") else place


def _told(value: object, path: str | None, redactor: Redactor) -> str:
    return "nothing" if value is ABSENT else shorten(display_value(value, path, redactor, _VALUE), _VALUE)


def words(text: str, limit: int = _LONGEST, redactor: Redactor = DEFAULT) -> str:
    """Return a text that came from elsewhere, such as an error, on one line, without secrets and shortened."""
    return shorten(printable(str(redactor(text))), limit)


def first_problem(result: MetricResult, redactor: Redactor = DEFAULT) -> str:
    """Return where a result first goes wrong, and how many other findings there are; else why there is no score.

    Empty where nothing is wrong, or nothing more is known of it than the score.
    """
    first = first_divergence(result)
    if first is not None:
        others = len(result.findings) - 1
        return shorten(brief(first, redactor), _LINE) + (f" (+{others})" if others else "")
    if result.status is ResultStatus.SCORED:
        return ""
    text = result.reason or result.error or ""
    if result.status is ResultStatus.SKIPPED:
        text = text.split("\n", 1)[0]  # its notes stand elsewhere, with all warnings
    return words(text.removeprefix("Not measured: "), redactor=redactor)


def failure_line(case: CaseResult, result: MetricResult, redactor: Redactor = DEFAULT) -> str:
    """Return one line that tells where a case first goes wrong by a metric; where nothing was found, with its score.

    Example: `late-parcel  tool_correctness  e2 refund: not called`.
    """
    problem = first_problem(result, redactor) or ("" if result.score is None else f"score {number_text(result.score)}")
    return "  ".join(filter(None, [shorten(printable(case.label), _NAME), printable(result.metric), problem]))
