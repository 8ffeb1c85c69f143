"""Markers that toolgrade writes into data and recognizes when it reads them back."""

from __future__ import annotations

from typing import Final

REDACTED: Final = "[redacted by toolgrade]"
"""Replaces a secret value, or the secret part of a text. Files and scores recognize it by this exact text."""

RESULTS_MARK: Final = "toolgrade_results"
"""Key of the header of a file of results."""

CANCEL_MARK: Final = b"\x18"
"""Ends a line of a file that was begun and never finished: the control character *cancel*. JSON text cannot contain
it, so no complete line is mistaken for a torn one."""

MATCHER_MARK: Final = "__toolgrade_matcher__"
"""Attribute of the classes whose objects stand for many values, so that they are not values of a call."""

MARK: Final = "$is"
"""The key that marks the JSON form of a matcher."""


def is_redacted(value: object) -> bool:
    """Return whether a value is a text that contains `REDACTED`; lists and objects are not searched."""
    return isinstance(value, str) and REDACTED in value
