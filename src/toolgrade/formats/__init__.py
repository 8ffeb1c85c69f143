"""Outside shapes of recorded runs, read into toolgrade's own: one file per shape.

`read` takes what the APIs of OpenAI (Chat Completions and Responses), Anthropic, Gemini, Bedrock and Ollama send and
receive, dumps of LangChain's messages, and logs of Claude Code and Google ADK, and finds out which it is. `read_traces`
takes spans of OpenTelemetry, exports of Langfuse, runs of LangSmith and traces of the OpenAI Agents SDK.
`case_from_record` takes flat records, `run_from_messages` the trajectories in them. `transcript_of` pairs messages that
a reader of your own made neutral.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgrade._internal.lazy_imports import lazy_package

if TYPE_CHECKING:
    from toolgrade.formats.messages.content_blocks import ContentBlocks, read_content_blocks
    from toolgrade.formats.messages.langchain import is_refusal
    from toolgrade.formats.messages.message import Answer, Instructions, ModelMessage, UserInput
    from toolgrade.formats.messages.openai_responses import read_responses_answer, read_responses_call
    from toolgrade.formats.messages.read import read, run_from_messages
    from toolgrade.formats.messages.transcript import Transcript, transcript_of
    from toolgrade.formats.records import case_from_record
    from toolgrade.formats.traces.read import Traces, read_traces


__all__ = [
    "Answer",
    "ContentBlocks",
    "Instructions",
    "ModelMessage",
    "Traces",
    "Transcript",
    "UserInput",
    "case_from_record",
    "is_refusal",
    "read",
    "read_content_blocks",
    "read_responses_answer",
    "read_responses_call",
    "read_traces",
    "run_from_messages",
    "transcript_of",
]

__getattr__, __dir__ = lazy_package(
    __name__,
    {
        "messages.content_blocks": "ContentBlocks read_content_blocks",
        "messages.langchain": "is_refusal",
        "messages.message": "Answer Instructions ModelMessage UserInput",
        "traces.read": "Traces read_traces",
        "messages.transcript": "Transcript transcript_of",
        "records": "case_from_record",
        "messages.read": "read run_from_messages",
        "messages.openai_responses": "read_responses_answer read_responses_call",
    },
)
