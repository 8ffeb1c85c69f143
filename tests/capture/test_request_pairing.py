"""Pairing of requests with executions: what belongs to a scope."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from toolgrade.calls import CallOrigin
from toolgrade.capture.records import CallRecord
from toolgrade.capture.request_pairing import calls_within, is_within


@given(seed=st.integers(0, 10_000))
def test_a_call_is_within_the_scopes_that_list_it(seed: int) -> None:
    """Calls of a program are answered in the scope of the call that runs the program."""
    rng = random.Random(seed)
    root = CallRecord("run", (0, 0), None, CallOrigin.CODE)
    calls = [root]
    for index in range(8):
        scope = rng.choice(calls)
        call = CallRecord("t", (1, index), scope, CallOrigin.MODEL, caller=rng.choice((None, "program")))
        scope.children.append(call)
        calls.append(call)
    for scope in calls:
        listed = calls_within(scope)
        assert [call for call in calls if call is not root and is_within(call, scope)] == [
            call for call in calls if any(call is other for other in listed)
        ]
