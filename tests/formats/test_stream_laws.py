"""The law of streams: every call that a list of events begins is read, or a warning counts it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade.errors import InvalidDataError
from toolgrade.formats import read
from vendor_streams import VENDORS, Call, check_streams, random_streams


@pytest.mark.parametrize("name", VENDORS)
@given(chance=st.randoms())
def test_calls_that_a_list_of_streams_begins_are_read_or_counted(name: str, chance: random.Random) -> None:
    """Each call with a name is read once; each call without its beginning is counted in a warning, or an error."""
    events, is_whole = random_streams(name, chance)
    check_streams(name, events, is_whole=is_whole)


@pytest.mark.parametrize("name", VENDORS)
def test_several_streams_are_a_warning_with_their_number(name: str) -> None:
    """Two whole streams in one list give all their calls with all their arguments."""
    first = VENDORS[name]([Call(0, '{"a": 1}', 0), Call(1, '{"b": 2}', 1)], 0, with_ids=True)
    second = VENDORS[name]([Call(2, '{"c": 3}', 0)], 1, with_ids=True)
    run = read([event.plain for event in (*first, *second)]).run

    assert [call.arguments for call in run.calls] == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert run.warnings == ["$: holds 2 streams; each was read as one response, in the order of their starts"]


def test_pieces_after_the_end_of_a_stream_are_not_those_of_its_calls() -> None:
    """Without ids, arguments that come after the reason to stop belong to a call whose beginning is missing."""
    first = VENDORS["openai-chat"]([Call(0, "", 0), Call(1, '{"b": 2}', 1)], 0, with_ids=False)
    torn = VENDORS["openai-chat"]([Call(2, '{"c": 3}', 0)], 1, with_ids=False)[2:]

    with pytest.raises(InvalidDataError, match="a call needs the name of its tool"):
        read([event.plain for event in (*first, *torn)])
