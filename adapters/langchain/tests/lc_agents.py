"""Agents for the tests: the framework's own classes around a scripted model."""

# ruff: noqa: ARG002 - tools, models and sinks need not use all that they are given

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

try:  # the agents of langchain 1.0 know a class of their own
    from langchain.tools import InjectedState
except ImportError:
    from langgraph.prebuilt import InjectedState  # noqa: F401 - for the tests

USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


class ScriptedModel(BaseChatModel):
    """A chat model that answers from the script. It is stateless: the messages show how many steps are done."""

    script: Any = ()
    """Answers in their order, or for each text of the user, or a function from that text to answers."""
    usage: Any = USAGE

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": "scripted-1"}

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Offer the tools as OpenAI's models do."""
        return self.bind(
            tools=[item if isinstance(item, dict) else convert_to_openai_tool(item) for item in tools], **kwargs
        )

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """Return the next answer of the turn."""
        humans = [index for index, message in enumerate(messages) if isinstance(message, HumanMessage)]
        text = messages[humans[-1]].content if humans else ""
        before = sum(isinstance(message, AIMessage) for message in messages[humans[-1] + 1 if humans else 0 :])
        script = self.script
        if isinstance(script, Mapping):
            script = script[text]
        elif callable(script):
            script = script(text)
        message = script[min(before, len(script) - 1)]
        if isinstance(message, str):
            message = AIMessage(message)
        return message.model_copy(deep=True, update={"usage_metadata": dict(self.usage) if self.usage else None})

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages))])


class StreamingModel(ScriptedModel):
    """A scripted model that streams letter by letter."""

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self.answer(messages)
        for letter in str(message.content):
            yield ChatGenerationChunk(message=AIMessageChunk(content=letter))
        for index, call in enumerate(message.tool_calls):
            text = json.dumps(call["args"])
            for first, part in ((True, text[:3]), (False, text[3:])):
                chunk = {
                    "name": call["name"] if first else None,
                    "args": part,
                    "id": call["id"] if first else None,
                    "index": index,
                }
                yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[chunk]))
        yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=message.usage_metadata))


def asks(*calls: tuple[str, dict[str, Any], str | None], text: Any = "", invalid: Sequence[Any] = ()) -> AIMessage:
    """A model message that asks for these calls, each with name, arguments and id."""
    return AIMessage(
        content=text,
        tool_calls=[{"name": name, "args": args, "id": call_id} for name, args, call_id in calls],
        invalid_tool_calls=[
            {"name": name, "args": args, "id": call_id, "error": error} for name, args, call_id, error in invalid
        ],
    )


# Tools


@tool
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


@tool
def slow(x: int) -> str:
    """Be slower for 1 than for 2."""
    time.sleep(0.03 if x == 1 else 0)
    return f"slow {x}"


@tool
def boom(x: int) -> str:
    """Fail."""
    message = f"boom {x}"
    raise ValueError(message)


def failing_twice() -> Any:
    """A tool that fails the first two times."""
    failures = [ValueError("first"), ValueError("second")]

    @tool
    def flaky(x: int) -> str:
        """Fail twice."""
        if failures:
            raise failures.pop(0)
        return f"ok {x}"

    return flaky


# Agents


def make_agent(model: Any, tools: Sequence[Any], **options: Any) -> Any:
    """The agent of the newest kind that is installed."""
    try:
        from langchain.agents import create_agent
    except ImportError:
        return react_agent(model, tools, **options)
    return create_agent(model, tools, **options)


def react_agent(model: Any, tools: Any, **options: Any) -> Any:
    """LangGraph's own prebuilt agent, which all supported versions have."""
    from langgraph.prebuilt import create_react_agent

    return create_react_agent(model, tools, **options)


def scripted(*script: Any, streaming: bool = False) -> ScriptedModel:
    """A model with these answers."""
    return (StreamingModel if streaming else ScriptedModel)(script=list(script))


def parallel_script() -> list[Any]:
    """Three calls in one message; the second ends before the first."""
    return [asks(("slow", {"x": 1}, "c1"), ("slow", {"x": 2}, "c2"), ("add", {"a": 1}, "c3")), "final"]


def memory() -> Any:
    """A checkpointer."""
    from langgraph.checkpoint.memory import InMemorySaver

    return InMemorySaver()


def thread(name: str, *recorders: Any) -> dict[str, Any]:
    """A configuration with a thread."""
    return {"configurable": {"thread_id": name}, "callbacks": list(recorders)}


# What is expected


def summary(call: Any) -> dict[str, Any]:
    """A recorded call as its name, arguments, id, output and everything unusual about it."""
    execution = call.execution
    fields: dict[str, Any] = {
        "name": call.name,
        "args": call.input_parameters,
        "id": call.id,
        "output": call.output,
        "status": execution.status.value,
    }
    more = {
        "executed": (execution.executed, True),
        "attempts": (execution.attempts, 1),
        "origin": (execution.origin.value, "model"),
        "error": (execution.error, None),
        "requested": (execution.requested_parameters, None),
        "model_output": (execution.model_output, None),
        "artifact": (execution.artifact, None),
        "type": (None if call.type is None else call.type.value, "function"),
        "children": ([summary(child) for child in execution.children], []),
    }
    return fields | {key: value for key, (value, usual) in more.items() if value != usual}


def summaries(calls: Sequence[Any]) -> list[dict[str, Any]]:
    """Summarize several calls."""
    return [summary(call) for call in calls]


def called(name: str, args: dict[str, Any], call_id: str | None, output: Any = None, **more: Any) -> dict[str, Any]:
    """An expected call, in the form of `summary`; it went well unless `status` says otherwise."""
    return {"name": name, "args": args, "id": call_id, "output": output, "status": "ok"} | more


PARALLEL = [
    called("slow", {"x": 1}, "c1", "slow 1"),
    called("slow", {"x": 2}, "c2", "slow 2"),
    called("add", {"a": 1}, "c3", "3"),
]
"""What `parallel_script` must give, in every mode."""
