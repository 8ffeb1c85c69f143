"""Reader of the events of a session of Google's Agent Development Kit.

The content of an event has Gemini's form; the event says which agent is its author, which calls wait for a person, and
how a model call failed.

Source: the package `google-adk`, `events/event.py`, `events/event_actions.py` and `events/_rewind_events.py`;
`utils/_function_call_names.py` (calls that the kit itself makes to ask a person).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from toolgrade._internal.message_content import Fields, object_of, text_of
from toolgrade.capture import Request
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
    events = _without_rewound([(path, camel_keys(entry)) for path, entry in entries])
    to_confirm = {call_id for _, event in events for call_id in _ids_asked_about(event)}
    read = [(event, *one) for path, event in events for one in _read_event(event, path, notes)]
    # A long-running tool may answer twice: that it has begun, and what came of it.
    answers = {message.call_id: place for _, place, message in read if isinstance(message, Answer)}
    for event, place, message in read:
        if isinstance(message, ModelMessage):
            waiting = {*to_confirm, *map(str, list_of(event.get("longRunningToolIds")))} - answers.keys()
            for part in message.parts:
                if isinstance(part, Request):
                    part.needs_approval = part.id in waiting
        elif isinstance(message, Answer):
            if message.call_id and answers[message.call_id] != place:
                continue
            refusal = error_of(message, message.content)
            message.unknown_tool = message.failed and _UNKNOWN in refusal
            message.approved = False if message.call_id in to_confirm and refusal == _REJECTED else None
        yield place, message


def _read_event(event: Fields, path: str, notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:
    """Yield the messages of an event, without what the kit itself asks and answers, and how the response ended."""
    if event.get("partial"):
        return
    content = {"role": "user" if event.get("author") == "user" else "model", **camel_keys(event.get("content"))}
    code = text_of(event.get("errorCode")) or text_of(event.get("finishReason"))
    error = text_of(event.get("errorMessage")) or code
    if code in LOST_CALLS and not has_calls(content):
        content = with_lost_call({"parts": [], **content}, code, error or code)
    for place, message in read_messages([(f"{path}.content", content)] if "parts" in content else [], notes):
        if isinstance(message, ModelMessage):
            parts = [one for one in message.parts if not isinstance(one, Request) or one.name not in PSEUDO_TOOLS]
            for part in parts:
                if isinstance(part, Request):
                    part.handoff = part.name == TRANSFER
            model, usage = text_of(event.get("modelVersion")), token_counts(event)
            author = text_of(event.get("author"))
            yield place, ModelMessage(parts, author, model, usage) if parts else ModelUse(model, usage)
        elif not (isinstance(message, Answer) and _is_of_kit(message, event)):
            yield place, message
    if code in _STOPS or event.get("errorCode"):
        yield path, ModelUse(None, end=(RunStatus.STOPPED if code in _STOPS else RunStatus.ERROR, error))


def _is_of_kit(answer: Answer, event: Fields) -> bool:
    """Return whether an answer is not that of a tool."""
    return answer.name in PSEUDO_TOOLS or answer.call_id in _ids_asked_about(event)


def _ids_asked_about(event: Fields) -> set[str]:
    """Return the ids of the calls about which a person is asked; their first answers say only that."""
    actions = camel_keys(event.get("actions"))
    return {*object_of(actions.get("requestedToolConfirmations")), *object_of(actions.get("requestedAuthConfigs"))}


def _without_rewound(events: list[tuple[str, Fields]]) -> list[tuple[str, Fields]]:
    """Return the events without those before which the session was set back."""
    left: list[tuple[str, Fields]] = []
    for path, event in events:
        invocation = camel_keys(event.get("actions")).get("rewindBeforeInvocationId")
        if invocation is None:
            left.append((path, event))
        else:
            first = next((n for n, (_, one) in enumerate(left) if one.get("invocationId") == invocation), len(left))
            del left[first:]
    return left
