"""What a golden says of the user: turns, answers to a run that waits for a person, a simulated user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator

from toolgrade._internal.json import JsonObject, short_repr
from toolgrade._internal.model import Model, drop_none
from toolgrade.calls import AnyJson
from toolgrade.errors import InvalidDataError
from toolgrade.expect.fields import ExpectedTools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from toolgrade.calls import ToolCall
    from toolgrade.cases import ConversationalTestCase
    from toolgrade.expect import Expect

__all__ = ["Approve", "Reject", "SimulatedUser", "UserTurn"]


class UserTurn(Model):
    """One text of the user, and what the agent should do in answer to it.

    Args:
        content: The text.
        expected_tools: The calls of this turn, `[]` for none; `None` if the turn is not scored.
        required_texts: Texts that the agent must say in this turn.

    Raises:
        InvalidDataError: A field has a wrong value; `problems` has every path.

    Example:
        >>> from toolgrade import Golden, ToolCall, UserTurn
        >>> booking = UserTurn("Book the cheapest.", expected_tools=[ToolCall(name="book_flight")])
        >>> Golden(turns=["Find me a flight to Lisbon.", booking]).turns[1].content
        'Book the cheapest.'
    """

    content: str
    expected_tools: ExpectedTools | None = None
    required_texts: list[str] = Field(default_factory=list)

    def __init__(
        self,
        content: str,
        *,
        expected_tools: Sequence[ToolCall | Expect] | ExpectedTools | None = None,
        required_texts: Sequence[str] | None = None,
    ) -> None:
        """Check the fields."""
        stated = {"expected_tools": expected_tools, "required_texts": required_texts}
        super().__init__(content=content, **drop_none(stated))  # type: ignore[call-arg] # type checkers see that of `Model`

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined] # for values of JSON, pydantic skips it


class Approve(Model):
    """The user's yes to a run that waits for a person: all its waiting calls may run.

    In JSON it is `{"approve": true}`.

    Example:
        >>> from toolgrade import Approve, Golden
        >>> len(Golden(turns=["Delete the file.", Approve()]).turns)
        2
    """

    approve: Literal[True] = True

    def __init__(self) -> None:
        """Approve."""
        super().__init__(approve=True)  # type: ignore[call-arg] # type checkers see that of `Model`

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined] # for values of JSON, pydantic skips it


class Reject(Model):
    """The user's no to a run that waits for a person, for all its waiting calls.

    Whether a tool that asks by itself then does nothing is up to the tool: state what should be called.

    In JSON it is `{"reject": "why"}`.

    Args:
        reject: The reason, which the agent is told where its framework takes one; it may be empty.

    Example:
        >>> from toolgrade import Reject
        >>> print(Reject("not this file").to_json())
        {"reject": "not this file"}
    """

    reject: str

    def __init__(self, reject: str = "") -> None:
        """Reject for this reason."""
        super().__init__(reject=reject)  # type: ignore[call-arg] # type checkers see that of `Model`

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined] # for values of JSON, pydantic skips it


UserInput: TypeAlias = "str | Approve | Reject"
"""What an agent is given: a text of the user, or the answer to a run that waits for a person."""

UserFunction: TypeAlias = "Callable[[ConversationalTestCase], UserInput | Awaitable[UserInput | None] | None]"
"""A user: it is given the conversation so far, and returns what it says next, or `None` at the end; sync or async."""

TurnItem: TypeAlias = UserTurn | Approve | Reject
"""An item of the turns of a golden; an answer to a run that waits belongs to the turn before it."""


class SimulatedUser(Model):
    """A user that a model plays: it has a goal and facts, and talks to the agent until the goal is reached.

    It may say its goal, its facts and what the agent has said. If it says another date, id, quoted text or number above
    10, says nothing or speaks for the agent, or if its model cannot be asked, no metric measures the conversation
    (`ConversationalTestCase.user_error`). The model is `evaluate(user_model=...)`.

    Args:
        goal: What the user wants, in words.
        facts: What the user knows, by name; values are JSON.
        stop: When the user is done, in words, such as `"the refund is confirmed"`.
        max_turns: The most texts of the user, at least 1. The conversation ends there and is measured, unless the user
            repeats itself at the end.

    Raises:
        InvalidDataError: A field has a wrong value; `problems` has every path.

    Example:
        >>> from toolgrade import Golden, SimulatedUser, ToolCall
        >>> user = SimulatedUser(goal="get a refund", facts={"order": "4711"}, stop="the refund is confirmed")
        >>> Golden(user=user, expected_tools=[ToolCall(name="refund")]).user.facts["order"]
        '4711'
    """

    goal: Annotated[str, Field(min_length=1)]
    facts: dict[str, AnyJson] = Field(default_factory=dict)
    stop: str | None = None
    max_turns: Annotated[int, Field(ge=1)] = 10


def _read_item(value: object) -> TurnItem:
    if isinstance(value, (UserTurn, Approve, Reject)):
        return value
    if isinstance(value, str):
        return UserTurn(value)
    if not isinstance(value, dict):
        message = (
            f"a turn must be text, a UserTurn, Approve() or Reject(), got {type(value).__name__} {short_repr(value)}"
        )
        raise InvalidDataError(message)
    kind = Approve if "approve" in value else Reject if "reject" in value else UserTurn
    return kind.model_validate(value)


def item_json(item: TurnItem) -> str | JsonObject:
    """Return the JSON form of a turn: a text alone if nothing else is stated."""
    is_text = isinstance(item, UserTurn) and item.model_fields_set == {"content"}
    return item.content if isinstance(item, UserTurn) and is_text else item.to_dict()


def _check_turns(items: object) -> object:
    if isinstance(items, (list, tuple)) and not items:
        raise InvalidDataError("turns must have at least one text of the user")
    return items


if TYPE_CHECKING:
    TurnItems: TypeAlias = Sequence[str | TurnItem]
    UserField: TypeAlias = SimulatedUser | UserFunction
else:
    TurnItems = Annotated[
        list[Annotated[Any, PlainValidator(_read_item), PlainSerializer(item_json, return_type=Any)]],
        BeforeValidator(_check_turns),
    ]

    def _read_user(value: object) -> object:
        return value if callable(value) else SimulatedUser.model_validate(value)

    def _user_json(value: object) -> JsonObject:
        if not isinstance(value, SimulatedUser):
            raise InvalidDataError("a function as user cannot be written; use turns, or a SimulatedUser")
        return value.to_dict()

    UserField = Annotated[Any, PlainValidator(_read_user), PlainSerializer(_user_json, return_type=Any)]
