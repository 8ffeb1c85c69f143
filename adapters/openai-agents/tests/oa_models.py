"""A model of the SDK that answers by a script, with the items that a provider would send."""

# ruff: noqa: ARG002 - the model need not use all that it is given

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from agents import ModelResponse, Usage
from agents.models.interface import Model
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseUsage,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from toolgrade.testing import AskFor, HandOff, ScriptedModel, Step

_numbers = itertools.count()


@contextmanager
def own_loop() -> Iterator[None]:
    """An event loop for `Runner.run_sync`, which leaves the one it finds, or makes, open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def says(text: str) -> ResponseOutputMessage:
    """Return an item with text of the model."""
    part = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    number = next(_numbers)
    return ResponseOutputMessage(
        id=f"msg_{number}", content=[part], role="assistant", type="message", status="completed"
    )


def asks(ask: AskFor | HandOff) -> ResponseFunctionToolCall:
    """Return an item in which the model requests a function call."""
    if isinstance(ask, HandOff):
        ask = AskFor(re.sub(r"\W", "_", f"transfer_to_{ask.to}").lower(), {}, ask.id)
    return ResponseFunctionToolCall(
        id=f"fc_{next(_numbers)}",
        call_id=ask.id or "",
        name=ask.name,
        arguments=ask.arguments_text,
        type="function_call",
        status="completed",
    )


def items_of(step: Any) -> list[Any]:
    """The items of one step: of a script, or a list that holds items, calls and texts."""
    if isinstance(step, Step):
        texts = [says(step.text)] if step.text is not None else []
        return [*texts, *(asks(call) for call in step.calls)]
    parts = [step] if isinstance(step, str) else step
    return [
        says(item) if isinstance(item, str) else asks(item) if isinstance(item, AskFor | HandOff) else item
        for item in parts
    ]


class Scripted(Model):
    """Says what a script says: that of `toolgrade.testing`, or steps of items of the provider."""

    model = "scripted-1"

    def __init__(self, *steps: Any) -> None:
        """Keep the script."""
        self.script = steps[0] if len(steps) == 1 and isinstance(steps[0], ScriptedModel) else None
        self.steps = list(steps)
        self.inputs: list[Any] = []

    async def _output(self, messages: Any) -> list[Any]:
        self.inputs.append(messages)
        if self.script is not None:
            step = self.script.next_step()
            await asyncio.sleep(step.delay)
            return items_of(step)
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return items_of(step)

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return the next answer."""
        usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
        return ModelResponse(output=await self._output(input), usage=usage, response_id=None)

    async def stream_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Stream the next answer: each finished item, then the whole response."""
        output = await self._output(input)
        for index, item in enumerate(output):
            yield ResponseOutputItemDoneEvent(
                type="response.output_item.done", item=item, output_index=index, sequence_number=index
            )
        response = Response(
            id="resp_1",
            created_at=0,
            model=self.model,
            object="response",
            output=output,
            tool_choice="none",
            tools=[],
            parallel_tool_calls=False,
            usage=_usage(),
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=len(output))


def _usage() -> ResponseUsage:
    counted = [name for name in ("cached_tokens", "cache_write_tokens") if name in InputTokensDetails.model_fields]
    return ResponseUsage(
        input_tokens=10,
        output_tokens=5,
        total_tokens=15,
        input_tokens_details=InputTokensDetails(**dict.fromkeys(counted, 0)),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
    )
