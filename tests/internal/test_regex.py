"""Regular expressions that cannot hang."""

from __future__ import annotations

import pickle
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolmark._internal.regex import SECONDS, BoundedPattern
from toolmark.errors import ConfigurationError, ToolmarkError


@given(st.sampled_from(["a.c", "^ab*$", r"\d+", "a|b", "(?i)AB", "", r"\bab\b"]), st.text("abcAB 12\n", max_size=8))
def test_matches_equal_those_of_re(pattern: str, text: str) -> None:
    """On common patterns and texts, both implementations agree with `re`."""
    bounded = BoundedPattern(pattern)
    assert bounded.search(text) == (re.search(pattern, text) is not None)
    assert bounded.fullmatch(text) == (re.fullmatch(pattern, text) is not None)


def test_a_pattern_that_backtracks_without_end_is_an_error_soon() -> None:
    """What would take Python's own expressions years stops after the time allowed, and names the pattern."""
    begun = time.monotonic()
    with pytest.raises(ToolmarkError, match=r"\(a\|aa\)\+\$.*took longer than 2 s on a text of 61 characters"):
        BoundedPattern("(a|aa)+$").fullmatch("a" * 60 + "b")
    assert time.monotonic() - begun < 10 * SECONDS


@pytest.mark.parametrize("pattern", ["(", "[a", "*", 3])
def test_invalid_patterns_are_refused(pattern: str) -> None:
    """The error names the pattern."""
    with pytest.raises(ConfigurationError, match="is not a regular expression"):
        BoundedPattern(pattern)


def test_patterns_can_be_pickled() -> None:
    """They are compiled again in the other process."""
    copy = pickle.loads(pickle.dumps(BoundedPattern("A", ignore_case=True)))  # noqa: S301 - made here
    assert copy == BoundedPattern("A", ignore_case=True)
    assert copy.search("xa")
