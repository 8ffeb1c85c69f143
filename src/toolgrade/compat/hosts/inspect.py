"""toolgrade's metrics as scorers of Inspect AI.

```python
from inspect_ai import Task
from toolgrade import ToolCorrectnessMetric
from toolgrade.compat.hosts.inspect import scorer

Task(
    dataset=[Sample(input="What is 1 + 2?", metadata={"expected_tools": [{"name": "add"}]})],
    solver=[use_tools(add()), generate()],
    scorer=scorer(ToolCorrectnessMetric()),
)
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import nan
from typing import Any

from toolgrade._internal.lazy_imports import import_extra
from toolgrade._internal.sync_bridge import is_in_asyncio
from toolgrade.calls import ToolCallType, ToolSpec
from toolgrade.capture import Request
from toolgrade.cases import AnyCase, LLMTestCase, Run
from toolgrade.compat.hosts._evaluators import Feedback, case_of, host_metrics
from toolgrade.evaluation.measuring import waits
from toolgrade.expect import AnyOf
from toolgrade.formats.messages.field_readers import Notes, arguments_of, output_of
from toolgrade.formats.messages.message import Answer, ModelMessage, NeutralMessage, OfferedTools, read_user_input
from toolgrade.formats.messages.transcript import read_transcript
from toolgrade.metrics import MetricLike
from toolgrade.redact import DEFAULT, Redactor

__all__ = ["scorer"]


def scorer(
    metric: MetricLike, *, to_case: Callable[[Any, Any], AnyCase] | None = None, redactor: Redactor = DEFAULT
) -> Any:  # noqa: ANN401 - a class of Inspect, whose package may be missing
    """Return a metric of toolgrade as a scorer for `inspect_ai.Task(..., scorer=...)`.

    The value is the score in [0, 1], the explanation is the reason, and the metadata has `passed`, the findings, the
    alignment and the warnings. A sample that was skipped or could not be measured is unscored: its value is NaN, which
    Inspect leaves out of its metrics, and the explanation says why.

    Args:
        metric: The metric.
        to_case: Builds a case from a `TaskState` and a `Target`. By default the called tools are those in the messages
            that the solver added; the expected ones are `expected_tools` in the metadata of the sample, as in a golden;
            and the target is the expected output, unless the metadata has one.
        redactor: Redacts secrets in explanations and metadata.

    Raises:
        MissingPackageError: inspect-ai is not installed.
        ConfigurationError: `metric` is not a metric.

    Example:
        >>> from inspect_ai import Task, eval
        >>> from inspect_ai.dataset import Sample
        >>> from inspect_ai.model import ModelOutput, ModelUsage, get_model
        >>> from toolgrade import ToolCorrectnessMetric
        >>> from toolgrade.compat.hosts.inspect import scorer
        >>> sample = Sample(
        ...     input="What is the weather in Paris?", metadata={"expected_tools": [{"name": "get_weather"}]}
        ... )
        >>> task = Task(dataset=[sample], scorer=scorer(ToolCorrectnessMetric()))
        >>> reply = ModelOutput.from_content("mockllm", "It rains.").model_copy(update={"usage": ModelUsage()})
        >>> [log] = eval(task, model=get_model("mockllm/model", custom_outputs=[reply]), display="none")
        >>> log.samples[0].scores["tool_correctness"].value
        0.0
    """
    inspect = _import("inspect_ai.scorer")
    threads = _import("anyio.to_thread")  # of both event loops that Inspect runs in
    host = host_metrics([metric], _case_of if to_case is None else to_case, redactor)

    async def score(state: Any, target: Any) -> Any:  # noqa: ANN401 - classes of Inspect
        if waits(metric) and is_in_asyncio():  # and not in trio
            (feedback,) = await host.feedback_async(state, target)
        else:  # an alignment keeps the processor busy, and other samples are waiting for their models
            (feedback,) = await threads.run_sync(host.feedback, state, target)
        return _score(inspect.Score, feedback, state.output.completion)

    return inspect.scorer(metrics=[inspect.mean(), inspect.stderr()], name=host.names[0])(lambda: score)()


def _import(module: str) -> Any:  # noqa: ANN401 - a module of a package that may be missing
    return import_extra(module, "inspect-ai", "a scorer of Inspect")


def _score(score_class: Any, feedback: Feedback, answer: str) -> Any:  # noqa: ANN401 - classes of Inspect
    """Return feedback as a score of Inspect."""
    metadata = {name: value for name, value in feedback.result.items() if name not in ("score", "reason")}
    fields: dict[str, Any] = {"answer": answer or None, "explanation": feedback.comment, "metadata": metadata or None}
    if feedback.score is None:
        reason = "scoring_failed" if feedback.failed else "skipped"
        return score_class(value=nan, reason=reason, **fields)
    return score_class(value=float(feedback.score), **fields)


# Reading of a sample


def _case_of(state: Any, target: Any) -> LLMTestCase:  # noqa: ANN401 - classes of Inspect
    """Return the case of a sample."""
    reference = dict(state.metadata)
    answers = [text for text in target if text]
    if answers:
        expected = answers[0] if len(answers) == 1 else AnyOf(*answers)
        reference = {"expected_output": expected, **reference}
    return case_of(state.input_text, _run_of(state), reference)


def _run_of(state: Any) -> Run:  # noqa: ANN401 - a class of Inspect
    """Return the run in the messages of a sample; the calls in its input are not the agent's."""
    notes = Notes()
    run = read_transcript(_messages_of(state, notes), "$.messages", notes, format="inspect").run
    notes.raise_problems()
    return run.model_copy(update={"run_id": state.uuid})


def _messages_of(state: Any, notes: Notes) -> Iterator[tuple[str, NeutralMessage]]:  # noqa: ANN401 - a class of Inspect
    yield "$.tools", OfferedTools(_tool_specs(state.tools), all_known=True)
    for index, message in enumerate(state.messages):
        path = f"$.messages[{index}]"
        if message.role == "user":
            content = message.content if isinstance(message.content, str) else _plain_parts(message.content)
            user = read_user_input(content, path, notes)
            if user is not None:
                yield path, user
        elif message.source == "input":
            continue
        elif message.role == "assistant":
            yield path, ModelMessage([*_content_pieces(message, path), *_requests(message, path)])
        elif message.role == "tool":
            yield path, _answer(message)


def _tool_specs(tools: Sequence[Any]) -> list[ToolSpec]:
    """Return the tools of a solver; agents that bring their own do not list them there."""
    if not tools:
        return []
    definition = _import("inspect_ai.tool").ToolDef
    specs: list[ToolSpec] = []
    for tool in map(definition, tools):
        schema = tool.parameters.model_dump(exclude_none=True)
        specs.append(ToolSpec(name=tool.name, description=tool.description, input_schema=schema))
    return specs


def _content_pieces(message: Any, path: str) -> list[str | Request]:  # noqa: ANN401 - a class of Inspect
    """Return the texts of a message, and the calls that the provider ran."""
    if isinstance(message.content, str):
        return [message.content]
    pieces: list[str | Request] = []
    for index, part in enumerate(message.content):
        if part.type == "text":
            pieces.append(part.text)
        elif part.type == "tool_use":
            arguments, reason = arguments_of(part.arguments)
            request = Request(part.name, {"input": arguments} if reason else arguments, part.id)
            request.type = ToolCallType.MCP if part.tool_type == "mcp_call" else ToolCallType.HOSTED
            request.server, request.ran, request.source = part.context, True, f"{path}.content[{index}]"
            request.result, request.failure = part.result, part.error
            pieces.append(request)
    return pieces


def _requests(message: Any, path: str) -> list[Request]:  # noqa: ANN401 - a class of Inspect
    """Return the calls of a message."""
    requests: list[Request] = []
    for index, call in enumerate(message.tool_calls or ()):
        arguments = "" if call.parse_error else call.arguments  # Inspect has the text in the error only
        kind = ToolCallType.CUSTOM if call.type == "custom" else ToolCallType.FUNCTION
        source = f"{path}.tool_calls[{index}]"
        requests.append(Request(call.function, arguments, call.id, kind, error=call.parse_error, source=source))
    return requests


def _answer(message: Any) -> Answer:  # noqa: ANN401 - a class of Inspect
    """Return what the tool of a call returned; the model reads an error in place of the content."""
    error = message.error
    if error is not None:
        approved = False if error.type == "approval" else None
        return Answer(message.tool_call_id, message.function, error.message, failed=True, approved=approved)
    content = message.content if isinstance(message.content, str) else output_of(_plain_parts(message.content))
    return Answer(message.tool_call_id, message.function, content)


def _plain_parts(content: Sequence[Any]) -> list[Any]:
    """Return the parts of a content as JSON values, images in the form of OpenAI's API."""
    parts: list[Any] = []
    for part in content:
        if part.type == "image":
            parts.append({"type": "image_url", "image_url": {"url": part.image}})
        else:
            parts.append(part.model_dump(mode="json", exclude_none=True))
    return parts
