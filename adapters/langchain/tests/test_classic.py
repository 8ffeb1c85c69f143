"""The agents of langchain 0.3: an executor around a model, whose tools receive no call ids."""

from typing import Any

import pytest
from feature_table import version_of
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from lc_agents import add, asks, called, scripted, slow, summaries

from toolgrade_langchain import ToolCallRecorder

CLASSIC = version_of("langchain") < (1, 0, 0)


def test_classic_agents_exist_before_langchain_1() -> None:
    """The tests below run on every version that has these agents and are skipped on others."""
    if CLASSIC:
        from langchain.agents import AgentExecutor
    else:
        with pytest.raises(ImportError):
            from langchain.agents import AgentExecutor  # noqa: F401


def recorded(agent: Any) -> ToolCallRecorder:
    """The recorder after one run of an executor."""
    from langchain.agents import AgentExecutor

    recorder = ToolCallRecorder()
    executor = AgentExecutor(agent=agent, tools=[slow, add], handle_parsing_errors=True)
    executor.invoke({"input": "hi"}, {"callbacks": [recorder]})
    assert not recorder.warnings
    assert not recorder.run.warnings
    return recorder


if CLASSIC:

    def tool_calling(*script: Any) -> Any:
        """An agent whose model asks for calls."""
        from langchain.agents import create_tool_calling_agent

        prompt = ChatPromptTemplate.from_messages([("user", "{input}"), ("placeholder", "{agent_scratchpad}")])
        return create_tool_calling_agent(scripted(*script), [slow, add], prompt)

    def test_two_tools() -> None:
        """Two calls of one message are found by their arguments."""
        run = recorded(tool_calling(asks(("slow", {"x": 2}, "c1"), ("add", {"a": 1}, "c2")), "final")).run

        outputs = [(call.name, call.id, call.output, call.execution.model_output) for call in run.calls]
        assert outputs == [("slow", "c1", "slow 2", None), ("add", "c2", 3, "3")]
        assert (run.input, run.actual_output) == ("hi", "final")

    def test_unknown_tool() -> None:
        """The stand-in tool that the executor runs for an unknown tool is not a call; the original call is."""
        run = recorded(tool_calling(asks(("nope", {"x": 1}, "c1")), "final")).run

        (call,) = run.calls
        assert (call.name, call.id, call.execution.status.value) == ("nope", "c1", "unknown_tool")
        assert not call.execution.executed

    def test_an_agent_that_writes_its_calls_as_text() -> None:
        """Calls that an agent writes as text count as calls of its model; text that cannot be parsed does not."""
        from langchain.agents import create_react_agent

        template = "{tools} {tool_names} {input} {agent_scratchpad}"
        model = FakeListChatModel(
            responses=[
                "Thought: look\nAction: slow\nAction Input: 2",
                "no format at all",
                "Thought: look\nAction: nope\nAction Input: 3",
                "Final Answer: done",
            ]
        )

        run = recorded(create_react_agent(model, [slow, add], PromptTemplate.from_template(template))).run

        first, second = run.calls
        assert summaries([first]) == [called("slow", {"input": "2"}, None, "slow 2")]
        assert (second.name, second.execution.status.value) == ("nope", "unknown_tool")
        assert not second.execution.executed
        assert run.actual_output == "done"
