"""Reader of the events of a session of Google's Agent Development Kit.

The content of an event has Gemini's form; the event says which agent is its author, which calls wait for a person, and
how a model call failed.

Source: the package `google-adk`, `events/event.py`, `events/event_actions.py` and `events/_rewind_events.py`;
`utils/_function_call_names.py` (calls that the kit itself makes to ask a person).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from toolgrade._internal.message_content import Fields, first_of, object_of, text_of
from toolgrade.cases import RunStatus
from toolgrade.formats.messages.envelopes import LOST_CALLS, has_calls, token_counts, with_lost_call
from toolgrade.formats.messages.field_readers import Notes, list_of
from toolgrade.formats.messages.gemini import camel_keys, read_messages
from toolgrade.formats.messages.message import Answer, Entry, ModelMessage, ModelUse, NeutralMessage
from toolgrade.formats.messages.pairing import error_of

TRANSFER: Final = "transfer_to_agent"
"""The tool that hands over to another agent."""
PSEUDO_TOOLS: Final = frozenset(
    {"adk_request_credential", "adk_request_confirmation", "adk_request_input", "set_model_response"}
)
"""Calls that ask a person in the name of the kit, and the one that is the structured answer."""

TO_CONFIRM: Final = "This tool call requires confirmation"
"""Start of the first answer to a call that a person has to confirm."""
_UNKNOWN: Final = " failed as no tool with that name is available"
_REJECTED: Final = "This tool call is rejected."
_STOPS: Final = frozenset(
    {"MAX_TOKENS", "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", *LOST_CALLS}
)
"""Reasons for which a response ends early; any other code is an error."""


def read_events(entries: Iterable[Entry], notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the messages; problems go to `notes`."""
    to_confirm: set[str] = set()
    read: list[tuple[Fields, str, NeutralMessage]] = []
    answers: dict[str | None, str] = {}
    """Where the last answer to each call is: a long-running tool may answer that it has begun, too."""
    for path, event in _without_rewound(entries):
        to_confirm |= _ids_asked_about(event)
        for place, message in _read_event(event, path, notes):
            read.append((event, place, message))
            if isinstance(message, Answer):
                answers[message.call_id] = place
    for event, place, message in read:
        if isinstance(message, Answer) and message.call_id:
            if answers[message.call_id] != place:
                continue
            if message.call_id in to_confirm and error_of(message, message.content) == _REJECTED:
                message.approved = False
        elif isinstance(message, ModelMessage):
            waiting = {*to_confirm, *map(str, list_of(event.get("longRunningToolIds")))} - answers.keys()
            for call in message.calls:
                call.needs_approval = call.id in waiting
        yield place, message


def _read_event(event: Fields, path: str, notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the messages of an event, without what the kit itself asks and answers, and how the response ended."""
    if event.get("partial"):  # a piece of a stream, which a later event has whole
        return
    content = {"role": "user" if event.get("author") == "user" else "model", **camel_keys(event.get("content"))}
    code = text_of(first_of(event, "errorCode", "finishReason"))
    error = text_of(event.get("errorMessage")) or code
    if code in LOST_CALLS and not has_calls(content):
        content = with_lost_call({"parts": [], **content}, code, str(error))
    for place, message in read_messages([(f"{path}.content", content)] if "parts" in content else [], notes):
        own = _without_kit(message, event)
        if own is not None:
            yield place, own
    if code in _STOPS or event.get("errorCode"):
        yield path, ModelUse(None, end=(RunStatus.STOPPED if code in _STOPS else RunStatus.ERROR, error))


def _without_kit(message: NeutralMessage, event: Fields) -> NeutralMessage | None:
    """Return a message of an event without the calls of the kit; `None` if it answers one of these."""
    if isinstance(message, Answer):
        message.unknown_tool = message.failed and _UNKNOWN in error_of(message, message.content)
        return None if message.name in PSEUDO_TOOLS or message.call_id in _ids_asked_about(event) else message
    if not isinstance(message, ModelMessage):
        return message
    parts = [part for part in message.parts if isinstance(part, str) or part.name not in PSEUDO_TOOLS]
    own = ModelMessage(parts, text_of(event.get("author")), text_of(event.get("modelVersion")), token_counts(event))
    for call in own.calls:
        call.handoff = call.name == TRANSFER
    return own if parts else ModelUse(own.model, token_counts(event))


def _ids_asked_about(event: Fields) -> set[str]:
    """Return the ids of the calls about which a person is asked; their first answers say only that."""
    actions = camel_keys(event.get("actions"))
    return {*object_of(actions.get("requestedToolConfirmations")), *object_of(actions.get("requestedAuthConfigs"))}


def _without_rewound(entries: Iterable[Entry]) -> list[tuple[str, Fields]]:
    """Return the events without those before which the session was set back."""
    left: list[tuple[str, Fields]] = []
    for path, entry in entries:
        event = camel_keys(entry)
        invocation = camel_keys(event.get("actions")).get("rewindBeforeInvocationId")
        if invocation is not None:
            first = next((n for n, (_, one) in enumerate(left) if one.get("invocationId") == invocation), len(left))
            del left[first:]
        else:
            left.append((path, event))
    return left
