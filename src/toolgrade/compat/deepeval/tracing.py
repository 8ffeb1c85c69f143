"""The names of `deepeval.tracing`, over toolgrade's `@observe`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from toolgrade._internal.model import drop_none
from toolgrade.capture.observation import decorator
from toolgrade.capture.observation.decorator import current_run, update_case
from toolgrade.capture.observation.spans import Observable, begin_span, guarded, text_of
from toolgrade.compat.deepeval import _absent
from toolgrade.compat.deepeval._conversion import converted
from toolgrade.compat.deepeval.metrics import as_metric
from toolgrade.errors import ConfigurationError

__all__ = [
    "a_flush_traces",
    "flush_traces",
    "observe",
    "trace",
    "update_agent_span",
    "update_current_span",
    "update_current_trace",
    "update_llm_span",
    "update_retriever_span",
    "update_tool_span",
]


def observe(
    function: Callable[..., Any] | None = None,
    /,
    *,
    metrics: Sequence[Any] = (),
    metric_collection: str | None = None,
    type: str | None = None,
    name: str | None = None,
    **about: Any,  # noqa: ANN401 - what DeepEval shows of a component
) -> Any:  # noqa: ANN401 - the decorated function
    """Record calls of a function as a component, or with `type="tool"` as calls of a tool; see `toolgrade.observe`.

    What DeepEval shows of a component, such as its `model`, `embedder` or `description`, is not recorded.

    Args:
        function: The function; leave it out to use `@observe(...)`.
        metrics: Metrics that score the component each time it runs.
        metric_collection: Without effect: it names metrics that Confident AI keeps.
        type: `"tool"`, `"agent"`, `"llm"`, `"retriever"` or any other text; all but a tool are components.
        name: Name of the component or tool; by default the function's.
        about: What DeepEval shows of a component; any other name is mentioned in a warning.

    Example:
        >>> from toolgrade.capture import record
        >>> from toolgrade.compat.deepeval.tracing import observe
        >>> @observe(type="tool", description="Weather of a city")
        ... def get_weather(city):
        ...     return "sunny"
        >>> @observe(type="agent")
        ... def agent(question):
        ...     return get_weather("Paris")
        >>> with record() as recorder:
        ...     answer = agent("What is the weather in Paris?")
        >>> [call.name for call in recorder.last_run.tools_called]
        ['get_weather']
    """
    others = {name: value for name, value in about.items() if name not in _ABOUT}
    _absent.warn_of({"metric_collection": metric_collection, **others}, "observe")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        measured = [as_metric(metric) for metric in metrics or ()]
        return decorator.observe(name=name, tool=type == "tool", defaults=True, metrics=measured)(function)

    return decorate if function is None else decorate(function)


_ABOUT = (
    *("model", "provider", "cost_per_input_token", "cost_per_output_token", "embedder", "top_k", "chunk_size"),
    *("description", "available_tools", "agent_handoffs", "handoff_agents", "_drop_if_root", "_internal"),
)


def update_current_span(
    input: Any = None,  # noqa: ANN401 - any JSON value
    output: Any = None,  # noqa: ANN401 - any JSON value
    *,
    test_case: Any = None,  # noqa: ANN401 - a case
    metrics: Sequence[Any] | None = None,
    **fields: Any,  # noqa: ANN401 - fields of the case
) -> None:
    """Set fields of the case of the innermost running observed function; see `toolgrade.observe`.

    `input` and `output` may be any JSON value. `metrics` are further ones of the component: those of `@observe` know
    the calls from its start, these only from now on, unless it is the whole run or `tools_called` says which were made.

    Example:
        >>> from toolgrade.capture import record
        >>> from toolgrade.compat.deepeval.tracing import observe, update_current_span
        >>> @observe(type="agent")
        ... def agent(question):
        ...     update_current_span(output="It rains.")
        ...     return {"text": "It rains.", "tokens": 12}
        >>> with record() as recorder:
        ...     answer = agent("What is the weather in Paris?")
        >>> recorder.test_case().actual_output
        'It rains.'
    """
    update_case(lambda: _fields(test_case, input, output, metrics, fields))


def update_current_trace(
    name: str | None = None,
    tags: Sequence[str] | None = None,
    *,
    input: Any = None,  # noqa: ANN401 - any JSON value
    output: Any = None,  # noqa: ANN401 - any JSON value
    test_case: Any = None,  # noqa: ANN401 - a case
    metrics: Sequence[Any] | None = None,
    **fields: Any,  # noqa: ANN401 - fields of the case
) -> None:
    """Set fields of the case of the whole run, as `update_current_span`; also its `name`, `tags` and `metadata`.

    `thread_id`, `user_id` and the like are added to the metadata.

    Example:
        >>> from toolgrade.compat.deepeval.dataset import EvaluationDataset, Golden
        >>> from toolgrade.compat.deepeval.evaluate import DisplayConfig
        >>> from toolgrade.compat.deepeval.metrics import ToolCorrectnessMetric
        >>> from toolgrade.compat.deepeval.test_case import ToolCall
        >>> from toolgrade.compat.deepeval.tracing import observe, update_current_trace
        >>> @observe
        ... def agent(question):
        ...     update_current_trace(tools_called=[ToolCall(name="get_weather")], expected_tools=[])
        >>> dataset = EvaluationDataset([Golden(input="Hi!")])
        >>> quiet = DisplayConfig(show_indicator=False, print_results=False)
        >>> for golden in dataset.evals_iterator([ToolCorrectnessMetric()], display_config=quiet):
        ...     agent(golden.input)
        >>> dataset.result.test_results[0].metrics_data[0].score
        0.0
    """

    def read() -> dict[str, Any]:
        ids = {key: fields.pop(key, None) for key in ("thread_id", "user_id", "test_case_id", "turn_id")}
        fields["metadata"] = {**(fields.get("metadata") or {}), **drop_none(ids)} or None
        changes = _fields(test_case, input, output, metrics, fields)
        return {**changes, "name": name, "tags": list(tags) if tags else None}

    update_case(read, whole=True)


_FIELDS = (
    *("expected_output", "tools_called", "expected_tools", "available_tools", "metadata", "context"),
    "retrieval_context",
)
_NOT_RECORDED = ("name", "integration", "provider", "metric_collection", "confident_api_key", "test_run_id")


def _fields(
    test_case: object,
    input: object,
    output: object,
    metrics: Any,  # noqa: ANN401 - metrics of any kind
    fields: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the changes of `update_case`.

    Raises:
        ConfigurationError: An argument is unknown, or one of the metrics is none.
    """
    for name in fields.keys() - {*_FIELDS, *_NOT_RECORDED}:
        raise ConfigurationError(f"unknown argument {name!r}; it must be one of {', '.join(sorted(_FIELDS))}")
    known = {name: fields.get(name) for name in _FIELDS}
    texts = {"input": text_of(input), "actual_output": text_of(output)}
    return {**texts, **known, "test_case": converted(test_case), "metrics": [*map(as_metric, metrics or ())]}


@guarded
def update_llm_span(
    model: str | None = None,
    input_token_count: float | None = None,
    output_token_count: float | None = None,
    **_: Any,  # noqa: ANN401 - what DeepEval shows of a span
) -> None:
    """Record which model answered, and its tokens."""
    counts = {"input_tokens": input_token_count, "output_tokens": output_token_count}
    current_run().model_used(model, {name: int(count) for name, count in drop_none(counts).items()})


def update_agent_span(**_: Any) -> None:  # noqa: ANN401 - what DeepEval shows of a span
    """Do nothing: toolgrade does not record what DeepEval shows of such a span."""


update_tool_span: Callable[..., None] = update_agent_span
update_retriever_span: Callable[..., None] = update_agent_span


@contextmanager
def trace(
    *,
    name: str | None = None,
    metrics: Sequence[Any] = (),
    input: object = None,
    **fields: Any,  # noqa: ANN401 - as above
) -> Generator[None, None, None]:
    """Record the block as a component; `metrics` measure the run, and `fields` are those of `update_current_trace`.

    Example:
        >>> from toolgrade.capture import record
        >>> from toolgrade.compat.deepeval.tracing import observe, trace
        >>> @observe(type="tool")
        ... def get_weather(city):
        ...     return "sunny"
        >>> with record() as recorder, trace(input="Weather in Paris?"):
        ...     answer = get_weather("Paris")
        >>> [call.name for call in recorder.last_run.calls]
        ['get_weather']
    """
    with begin_span(Observable(name or "trace"), lambda: drop_none({"input": input})) as span:
        update_current_trace(name, input=input, metrics=metrics, **fields)
        yield
    if span is not None:
        span.returned(None)


def flush_traces() -> None:
    """Do nothing: toolgrade sends nothing."""


async def a_flush_traces() -> None:
    """Do nothing: toolgrade sends nothing."""


__getattr__: _absent.Getter = _absent.getter(
    __name__,
    "apply_pending_to_span current_span_context current_trace_context evaluate_span evaluate_thread evaluate_trace "
    "next_agent_span next_llm_span next_retriever_span next_span next_tool_span pop_pending_for trace_manager",
)
