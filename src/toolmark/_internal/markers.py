"""The marks that toolmark writes into data, and how they are recognised when they are read back."""

from __future__ import annotations

from typing import Final

REDACTED: Final = "[redacted by toolmark]"
"""Stands for a hidden value, or for the hidden part of a text. Files and scores know it by this very text."""

CANCEL_MARK: Final = b"\x18"
"""Ends a line of a file that was begun and never finished: the control character *cancel*, which JSON text cannot
contain, so that no line is taken for a torn one by mistake."""


def is_redacted(value: object) -> bool:
    """Return whether a value is a text that holds the mark, on its own or among other text.

    What is inside a list or an object is not looked at.
    """
    return isinstance(value, str) and REDACTED in value
