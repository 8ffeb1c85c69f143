"""A run read from what the SDK kept of it, by those who did not record it."""

from __future__ import annotations

from typing import Any, Final

from toolmark import InvalidDataError
from toolmark.capture import Run, RunBuilder, RunStatus
from toolmark_openai_agents import _errors, _items, _sdk

_BLIND: Final = (
    "read from a finished result: a failure that the tool's own function put into words, or that an MCP server "
    "reported, reads as success; neither calls made inside tools nor times are in it"
)
_CUT_SHORT: Final = "read from a run that failed: the calls of the turn in which it did are not in it"


def run_from_result(
    result: Any,  # noqa: ANN401 - a result or an exception of the SDK
    error: BaseException | None = None,
    *,
    input: str | None = None,
    conversation_id: str | None = None,
) -> Run:
    """Return the run that a result of the SDK tells of.

    It tells less than a recording does: see the adapter's README. What may be missing is said in the run's `warnings`.

    Args:
        result: What `Runner.run`, `run_sync` or `run_streamed` returned (a stream read to its end), the exception that
            ended the run, or its `run_data`; `None` where there is only an `error` without one.
        error: The exception that ended the run, where `result` is not it.
        input: What the user said; by default the text of the user messages at the end of the result's own input,
            which handing over may have rewritten.
        conversation_id: The conversation that it belongs to.

    Raises:
        InvalidDataError: It is nothing of that kind, or a stream that goes on.
    """
    if isinstance(result, BaseException):
        error = error or result
        result = getattr(result, "run_data", None)
    elif result is None and error is not None:
        result = getattr(error, "run_data", None)
    kept = _kept(result, error)
    builder = RunBuilder(conversation_id=conversation_id)
    builder.started(input if input is not None else _sdk.question_in(getattr(kept, "input", None)))
    responses = list(getattr(kept, "raw_responses", ()) or ())
    interruptions = getattr(kept, "interruptions", None) or ()
    items = list(getattr(kept, "new_items", ()) or ())
    refused = _sdk.guardrail_texts(kept)
    asked = _items.tell(
        builder,
        items,
        responses,
        waiting=bool(interruptions),
        refused=refused,
        rejects=getattr(kept, "context_wrapper", None),
    )
    model = _sdk.model_name(getattr(kept, "last_agent", None), None) if kept is not None else None
    for response in responses:
        builder.model_used(model, _sdk.usage_of(response))
    if asked:
        builder.warn(_BLIND)
    waits = bool(interruptions) or _items.asks_for_approval(items)
    if error is not None:
        if not isinstance(error, _sdk.WHOLE):
            builder.warn(_CUT_SHORT)
        builder.ended(None, status=_errors.status_of(error), error=_errors.error_text(error))
    elif not waits and hasattr(kept, "stream_events") and not _sdk.has_answer(kept):
        builder.ended(None, status=RunStatus.STOPPED, error=_sdk.what_stopped(kept))
    else:
        builder.ended(None if waits else _sdk.final_text(kept.final_output), may_wait=waits)
    return builder.build()


def _kept(result: Any, error: BaseException | None) -> Any:  # noqa: ANN401 - objects of the SDK
    """Return what holds the items of a run; `None` where nothing was kept of one that failed."""
    if hasattr(result, "new_items"):
        if getattr(result, "is_complete", True) is False and error is None:
            raise InvalidDataError("the stream goes on: read `result.stream_events()` to its end first")
        return result
    if result is None and error is not None:
        return None
    raise InvalidDataError(
        f"expected a result of `Runner.run`, `run_sync` or `run_streamed`, or the exception of one, got "
        f"{type(result).__name__}"
    )
