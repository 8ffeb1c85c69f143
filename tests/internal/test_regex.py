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
def test_it_finds_what_pythons_own_expressions_find(pattern: str, text: str) -> None:
    """On patterns and texts of everyday, both ways of matching agree with `re`."""
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
def test_what_is_no_expression_is_refused(pattern: str) -> None:
    """The error names the pattern."""
    with pytest.raises(ConfigurationError, match="is not a regular expression"):
        BoundedPattern(pattern)


def test_it_crosses_process_boundaries() -> None:
    """It is compiled anew there."""
    copy = pickle.loads(pickle.dumps(BoundedPattern("A", ignore_case=True)))  # noqa: S301 - made here
    assert copy == BoundedPattern("A", ignore_case=True)
    assert copy.search("xa")
