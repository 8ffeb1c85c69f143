"""Regular expressions that cannot hang."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade._internal.budget import REGEX_SECONDS, BoundedPattern, Budget, CaseBudget
from toolgrade.errors import ConfigurationError, LimitError


@given(st.sampled_from(["a.c", "^ab*$", r"\d+", "a|b", "(?i)AB", "", r"\bab\b"]), st.text("abcAB 12\n", max_size=8))
def test_matches_equal_those_of_re(pattern: str, text: str) -> None:
    """On common patterns and texts, both implementations agree with `re`."""
    bounded = BoundedPattern(pattern)
    assert bounded.search(text) == (re.search(pattern, text) is not None)
    assert bounded.fullmatch(text) == (re.fullmatch(pattern, text) is not None)


def test_a_pattern_that_backtracks_without_end_is_an_error_soon() -> None:
    """What would take Python's own expressions years stops after the time of a case, and names the pattern."""
    slow = BoundedPattern("(a|aa)+$")
    with CaseBudget() as budget:
        with pytest.raises(LimitError, match=r"\(a\|aa\)\+\$.*longer than the 2 s of one case.*of 61 characters"):
            slow.fullmatch("a" * 60 + "b")
        # The limit is that of the case, and not of each search.
        assert budget.seconds <= 0
        with pytest.raises(LimitError):
            slow.fullmatch("a" * 60 + "b")
    assert slow.fullmatch("aaa")
    assert Budget().seconds == REGEX_SECONDS


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "(" * 5_000, "a{1,99999999999999999999}(", "(?P<a>b)(?P<a>c"])
def test_invalid_patterns_are_refused(pattern: str) -> None:
    """The error names the pattern."""
    with pytest.raises(ConfigurationError, match="is not a regular expression"):
        BoundedPattern(pattern)


def test_patterns_that_take_long_to_compile_are_refused() -> None:
    """Compiling cannot be interrupted, so the length with all repetitions has a limit; usual ones are far below."""
    for pattern in ("((a{100}){100}){100}", "(?:a{1000}){1000}", "a{999999}", "a" * 10_001):
        with pytest.raises(ConfigurationError, match=r"at most 10,000 characters, and 100,000 with its repetitions"):
            BoundedPattern(pattern)
    with pytest.raises(ConfigurationError, match="must be text, got 3"):
        BoundedPattern(3)  # type: ignore[arg-type]
    for pattern, text in ((r"\d{4}-\d{2}", "2024-01"), (r"([a-z{]{1,64}\.){0,900}x", "a{b.x"), ("[]{9999999}]+", "9}")):
        assert BoundedPattern(pattern).fullmatch(text)


def test_patterns_can_be_pickled() -> None:
    """They are compiled again in the other process."""
    copy = pickle.loads(pickle.dumps(BoundedPattern("A", ignore_case=True)))  # noqa: S301 - made here
    assert copy == BoundedPattern("A", ignore_case=True)
    assert copy.search("xa")
