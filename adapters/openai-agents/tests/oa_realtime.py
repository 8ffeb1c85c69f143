"""A scripted transport for realtime sessions, and a player of what a user and a model do in one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from agents.realtime import RealtimeModel, RealtimeRunner, RealtimeSession
from agents.realtime.items import AssistantAudio, AssistantMessageItem, InputAudio, InputImage, InputText
from agents.realtime.items import UserMessageItem as UserItem
from agents.realtime.model_events import (
    RealtimeModelAudioInterruptedEvent,
    RealtimeModelEndOfStreamEvent,
    RealtimeModelErrorEvent,
    RealtimeModelExceptionEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelToolCallEvent,
    RealtimeModelTranscriptDeltaEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
    RealtimeModelUsageEvent,
)
from agents.realtime.model_inputs import RealtimeModelSendUserInput
from agents.usage import Usage

from toolgrade.testing import AskFor
from toolgrade_openai_agents import Recorder, record

_END_OF_CALL = ("tool_end", "tool_approval_required", "handoff", "error")


class Transport(RealtimeModel):
    """Repeats what the program sends for the user, as OpenAI's server does, and emits what a script says."""

    model = "realtime-1"

    def __init__(self, *, repeats: bool = True, answer: str | None = None) -> None:
        """Begin without listeners; with an `answer`, it answers the first message, and the connection ends."""
        self.repeats = repeats
        self.answer = answer
        self.listeners: list[Any] = []
        self.count = 0

    async def connect(self, options: Any) -> None:
        """Connect to nothing."""

    async def close(self) -> None:
        """Close nothing."""

    def add_listener(self, listener: Any) -> None:
        """Add a listener."""
        self.listeners.append(listener)

    def remove_listener(self, listener: Any) -> None:
        """Remove a listener."""
        self.listeners = [other for other in self.listeners if other is not listener]

    async def emit(self, *events: Any) -> None:
        """Send events to the listeners."""
        for event in events:
            for listener in self.listeners:
                await listener.on_event(event)

    async def send_event(self, event: Any) -> None:
        """Take an event of the session."""
        if isinstance(event, RealtimeModelSendUserInput) and self.repeats:
            message = event.user_input
            parts = [{"type": "input_text", "text": message}] if isinstance(message, str) else message["content"]
            self.count += 1
            await self.emit(_item(f"sent_{self.count}", parts))
        if self.answer is not None:
            await self.emit(RealtimeModelTurnStartedEvent())
            await self.says(self.answer)
            await self.emit(RealtimeModelTurnEndedEvent(), RealtimeModelEndOfStreamEvent())

    async def says(self, part: str | AskFor) -> None:
        """Emit what the model says, or a call that it asks for."""
        self.count += 1
        item_id = f"said_{self.count}"
        if isinstance(part, AskFor):
            text = part.arguments_text
            event = RealtimeModelToolCallEvent(name=part.name, call_id=part.id or "", arguments=text, id=item_id)
            await self.emit(event)
            return
        begun = AssistantMessageItem(item_id=item_id, content=[], status="in_progress")
        await self.emit(RealtimeModelItemUpdatedEvent(item=begun))
        for word in part.split():
            event = RealtimeModelTranscriptDeltaEvent(item_id=item_id, delta=f"{word} ", response_id="r")
            await self.emit(event)
        whole = AssistantMessageItem(item_id=item_id, content=[AssistantAudio(transcript=part)], status="completed")
        await self.emit(RealtimeModelItemUpdatedEvent(item=whole))

    async def send_event_if(self, event: Any, send_if: Any) -> bool:
        """Take an event of the session that may have become useless."""
        if send_if():
            await self.send_event(event)
        return True


def _item(item_id: str, parts: Iterable[Any]) -> Any:
    kinds = {"input_text": InputText, "input_audio": InputAudio, "input_image": InputImage}
    content = [kinds[part["type"]](**part) for part in parts]
    return RealtimeModelItemUpdatedEvent(item=UserItem(item_id=item_id, content=content))


class Scene:
    """One session, and the ways in which a user and a model act in it."""

    def __init__(self, session: RealtimeSession, transport: Transport) -> None:
        """Begin to read the events of the session, as a program does."""
        self.session = session
        self.transport = transport
        self.events: asyncio.Queue[str] = asyncio.Queue()
        self.reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.session:
            self.events.put_nowait(event.type)

    async def until(self, *types: str, count: int = 1) -> None:
        """Wait until the program has read so many events of these types."""
        while count:
            count -= await asyncio.wait_for(self.events.get(), 10) in types

    async def types(self, message: Any) -> None:
        """The user types a message."""
        await self.session.send_message(message=message)

    async def speaks(self, item_id: str, words: str | None = None) -> None:
        """The user speaks, and the words may be known later."""
        await self.transport.emit(_item(item_id, [{"type": "input_audio", "transcript": words}]))

    async def hears(self, item_id: str, words: str) -> None:
        """The words of the user become known."""
        event = RealtimeModelInputAudioTranscriptionCompletedEvent(item_id=item_id, transcript=words)
        await self.transport.emit(event)

    async def begins(self, *parts: str | AskFor) -> None:
        """The model begins a response: it says texts and asks for calls."""
        await self.transport.emit(RealtimeModelTurnStartedEvent())
        for part in parts:
            await self.transport.says(part)

    async def replies(self, *parts: str | AskFor) -> None:
        """The model gives a whole response, and its calls are handled."""
        await self.begins(*parts)
        usage = Usage(requests=1, input_tokens=6, output_tokens=4, total_tokens=10)
        await self.transport.emit(RealtimeModelUsageEvent(usage=usage), RealtimeModelTurnEndedEvent())
        await self.until(*_END_OF_CALL, count=sum(isinstance(part, AskFor) for part in parts))

    async def interrupts(self) -> None:
        """The user talks into the reply."""
        item_id = f"said_{self.transport.count}"
        await self.transport.emit(RealtimeModelAudioInterruptedEvent(item_id=item_id, content_index=0))

    async def fails(self, error: Exception | str) -> None:
        """The model reports an error, or raises."""
        if isinstance(error, str):
            await self.transport.emit(RealtimeModelErrorEvent(error={"message": error}))
        else:
            await self.transport.emit(RealtimeModelExceptionEvent(exception=error))

    async def approves(self, call_id: str) -> None:
        """A person approves a call."""
        await self.session.approve_tool_call(call_id)
        await self.until("tool_end")

    async def rejects(self, call_id: str) -> None:
        """A person rejects a call."""
        await self.session.reject_tool_call(always=False, call_id=call_id)
        await self.until("tool_end")


@asynccontextmanager
async def session_of(agent: Any, config: Any = None, *, repeats: bool = True) -> AsyncIterator[Scene]:
    """A session of an agent that is being recorded or not."""
    transport = Transport(repeats=repeats)
    async with await RealtimeRunner(agent, model=transport, config=config).run() as session:
        scene = Scene(session, transport)
        yield scene
    await asyncio.wait([scene.reader], timeout=10)


def play(agent: Any, steps: Iterable[tuple[Any, ...]], config: Any = None, *, repeats: bool = True) -> Recorder:
    """Record a session in which these steps are taken: each is a method of `Scene`, with its arguments."""

    async def go() -> Recorder:
        with record() as recorder:
            async with session_of(agent, config, repeats=repeats) as scene:
                for name, *arguments in steps:
                    await getattr(scene, name)(*arguments)
        return recorder

    return asyncio.run(go())
