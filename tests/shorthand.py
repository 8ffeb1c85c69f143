"""Recorded calls in a few letters: `look(1):error=full@2` is a call of `look` with n=1 that failed, in step 2.

`align` aligns two lists of calls and unpacks the result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from toolgrade import Execution, TaskSuccessMetric, ToolCall
from toolgrade.matching.alignment import Alignment, CallItem
from toolgrade.matching.engine import align_list

_FORM = re.compile(r"(?P<name>\w+)(?:\((?P<n>\w*)\))?(?::(?P<status>\w+))?(?:=(?P<error>\w+))?(?:@(?P<step>\d+))?")


def calls_only(**options: Any) -> TaskSuccessMetric:
    """Return the metric of calls alone, with JSON values compared and nothing guessed."""
    exact: dict[str, Any] = {"guess_effects": False, "compare": "exact"}
    return TaskSuccessMetric(calls_only=True, **{**exact, "read_weight": 0.1, "threshold": 0.9, **options})


def calls_from(text: str) -> list[ToolCall]:
    """Return the calls of a text: without a status the outcome is unknown, and `(?)` was not captured."""
    return [_call(word) for word in text.split()]


def _call(word: str) -> ToolCall:
    match = _FORM.fullmatch(word.replace("(?)", "(unknown)"))
    assert match, word
    fields: dict[str, Any] = {"status": match["status"] or "ok", "error": match["error"]}
    fields["executed"] = fields["status"] in {"ok", "error"}
    if match["step"]:
        fields["step"] = int(match["step"])
    if match["n"] == "unknown":
        fields["not_captured"] = ["input_parameters"]
    arguments = {"n": match["n"]} if match["n"] not in {None, "unknown"} else {}
    is_recorded = match["status"] or match["step"] or "not_captured" in fields
    return ToolCall(
        name=match["name"], input_parameters=arguments, execution=Execution(**fields) if is_recorded else None
    )


def align(expected: Sequence[CallItem], called: Sequence[CallItem], **options: bool) -> Alignment:
    """Return the best alignment of two lists of calls."""
    return align_list(expected, called, **options)
