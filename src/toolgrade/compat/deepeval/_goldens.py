"""Goldens whose fields can be set after they were made, as code for DeepEval does."""

# No `from __future__ import annotations` here: pydantic would compile the text of each annotation at every start.

from typing import Any

from pydantic import model_validator

from toolgrade import dataset as core
from toolgrade.compat.deepeval.test_case import Calls, Changeable, Turn


class Golden(core.Golden, Changeable):
    """A question and what is expected, which can be changed; an answer may stand beside it.

    Example:
        >>> from toolgrade.compat.deepeval.dataset import Golden
        >>> from toolgrade.compat.deepeval.test_case import ToolCall
        >>> golden = Golden(input="Weather in Paris?", additional_metadata={"ticket": 5})
        >>> golden.expected_tools = [ToolCall(name="get_weather")]
        >>> golden.additional_metadata
        {'ticket': 5}
    """

    actual_output: str | None = None
    tools_called: Calls = None
    context: list[Any] | None = None
    retrieval_context: list[Any] | None = None
    comments: str | None = None
    name: str | None = None
    source_file: str | None = None
    custom_column_key_values: dict[str, str] | None = None


class ConversationalGolden(Changeable):
    """The scenario of a conversation. Nothing acts it out here; `toolgrade.SimulatedUser` does so with a goal."""

    scenario: str
    expected_outcome: str | None = None
    user_description: str | None = None
    context: list[Any] | None = None
    metadata: dict[str, Any] | None = None
    comments: str | None = None
    name: str | None = None
    custom_column_key_values: dict[str, str] | None = None
    turns: list[Turn] | None = None

    @model_validator(mode="before")
    @classmethod
    def _older_name(cls, data: Any) -> Any:  # noqa: ANN401 - as pydantic gives it
        fields = dict(data)
        for name in ("additional_metadata", "additionalMetadata"):
            if name in fields:
                fields["metadata"] = fields.pop(name)
        return fields
