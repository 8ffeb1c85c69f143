"""toolgrade's metrics as a Python assertion of promptfoo, which is a program of Node and is not needed here.

A file beside the configuration, named by `type: python`, `value: file://toolgrade_assert.py`:

```python
from toolgrade import ToolCorrectnessMetric
from toolgrade.compat.hosts.promptfoo import assertion

get_assert = assertion(ToolCorrectnessMetric(evaluation_params=["input_parameters"]))
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolgrade._internal.message_content import object_of
from toolgrade.capture import Request
from toolgrade.cases import AnyCase, Run
from toolgrade.compat.hosts._evaluators import Feedback, case_of, host_metrics
from toolgrade.formats import read
from toolgrade.formats.messages.content_parts import call_of, piece_of
from toolgrade.formats.messages.field_readers import Notes, decoded
from toolgrade.formats.messages.message import ModelMessage
from toolgrade.formats.messages.transcript import read_transcript
from toolgrade.metrics import MetricLike
from toolgrade.redact import DEFAULT, Redactor

__all__ = ["assertion"]

_KEYS_OF_RECORDS = frozenset({"tools_called", "toolsCalled", "agent_trajectory", "agentTrajectory", "messages"})
"""Keys of an output that is a record: it lists its calls or messages under one of these keys."""


def assertion(
    *metrics: MetricLike, to_case: Callable[[Any, dict[str, Any]], AnyCase] | None = None, redactor: Redactor = DEFAULT
) -> Callable[[Any, dict[str, Any]], dict[str, Any]]:
    """Return the function `get_assert` of a Python assertion of promptfoo.

    It returns whether the case passed, the mean of the scores, the reasons, and the score of each metric as a named
    score. promptfoo has no assertion without a score: a metric that could not measure fails with 0, and one that was
    skipped passes and is left out of the mean, but fails with 0 if no other metric of the assertion was measured.
    Neither has a named score.

    Args:
        metrics: The metrics.
        to_case: Builds a case from `output` and `context`. By default the output contains the calls in the form of
            promptfoo's providers, or `messages`, `tools_called` or `agent_trajectory`; and the metadata of the test, or
            the `config` of the assertion, contains the expected ones, under `expected_tools`; docs/extend.md lists all
            keys.
        redactor: Redacts secrets in reasons.

    Raises:
        ConfigurationError: There is no metric, or one of them is not a metric.

    Example:
        >>> from toolgrade import ToolCorrectnessMetric
        >>> from toolgrade.compat.hosts.promptfoo import assertion
        >>> get_assert = assertion(ToolCorrectnessMetric())
        >>> calls = [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}]
        >>> result = get_assert(calls, {"config": {"expected_tools": [{"name": "add"}]}})
        >>> result["pass"], result["score"]
        (True, 1.0)
    """
    host = host_metrics(metrics, _case_of if to_case is None else to_case, redactor)

    def get_assert(output: Any, context: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - what a provider returned
        entries = host.feedback(output, context)
        counted = [entry for entry in entries if entry.score is not None or entry.failed]
        parts = [_part(entry, skipped_passes=bool(counted)) for entry in entries]
        result = {
            "pass": all(part["pass"] for part in parts),
            "score": sum(entry.score or 0.0 for entry in counted) / max(len(counted), 1),
            "reason": parts[0]["reason"] if len(parts) == 1 else "\n".join(map(_line, entries, parts)),
            "namedScores": {entry.name: float(entry.score) for entry in entries if entry.score is not None},
        }
        return result if len(parts) == 1 else {**result, "componentResults": parts}

    return get_assert


def _part(feedback: Feedback, *, skipped_passes: bool) -> dict[str, Any]:
    """Return feedback as a result of promptfoo."""
    if feedback.score is None:
        passed = skipped_passes and not feedback.failed
        return {"pass": passed, "score": float(passed), "reason": feedback.comment}
    return {"pass": feedback.passed, "score": float(feedback.score), "reason": feedback.comment or ""}


def _line(feedback: Feedback, part: Mapping[str, Any]) -> str:
    return f"{feedback.name}: {part['reason']}"


# Reading of an output


def _case_of(output: object, context: Mapping[str, Any]) -> AnyCase:
    """Return the case of a test."""
    reference = {**object_of(object_of(context.get("test")).get("metadata")), **object_of(context.get("config"))}
    inputs = {"question": context.get("prompt"), **reference, **object_of(context.get("vars"))}
    return case_of(inputs, _outputs(decoded(output)), reference)


def _outputs(output: object) -> object:
    """Return the run in an output; a record stays as it is."""
    if not _KEYS_OF_RECORDS.isdisjoint(object_of(output)):
        return output
    if isinstance(output, str):
        # Providers of Anthropic's and OpenAI's newer API write texts and calls below each other.
        return _run_of([decoded(line) for line in output.split("\n")])
    entries = output if isinstance(output, list) else [output]
    if entries and all("role" in object_of(entry) for entry in entries):
        return read(entries, path="$.output").run
    return _run_of(entries)


def _run_of(pieces: list[Any]) -> Run:
    """Return the run of one reply; a piece that is not a call becomes text."""
    parts: list[str | Request] = []
    for index, piece in enumerate(pieces):
        path = f"$.output[{index}]"
        request = piece_of(piece, path)
        if not isinstance(request, Request):
            request = call_of(object_of(piece), path=path, empty={})
        parts.append(request or str(piece))
    texts = "\n".join(part for part in parts if isinstance(part, str)).strip()
    message = ModelMessage([texts, *(part for part in parts if isinstance(part, Request))])
    return read_transcript([("$.output", message)], "$.output", Notes()).run
