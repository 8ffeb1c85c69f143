"""Laws of traces: one history has the same calls in every form of traces, each of them once."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade.formats import read_traces
from tracing import FORMS, Script, calls_of, histories, read_calls


@pytest.mark.parametrize("form", FORMS)
@given(script=histories())
def test_every_form_of_one_history_gives_the_same_calls(form: str, script: Script) -> None:
    """Names, ids, arguments, success and nesting are equal, as are input and answer."""
    traces = read_traces(json.loads(json.dumps(FORMS[form](script))))

    (run,) = traces.runs
    assert read_calls(run.calls) == calls_of(script)
    assert (run.input, run.actual_output, run.run_id) == (script.words, "Done.", script.trace)
    assert not run.warnings


@pytest.mark.parametrize("form", FORMS)
@given(script=histories(ids=False))
def test_without_ids_no_call_is_lost_or_duplicated(form: str, script: Script) -> None:
    """Calls are joined by name, arguments and order; equal calls may swap their tools."""
    (run,) = read_traces(FORMS[form](script)).runs

    def alike(calls: list[Any]) -> list[Any]:
        return sorted((name, json.dumps(arguments, sort_keys=True)) for name, _, arguments, _, _ in calls)

    assert alike(read_calls(run.calls)) == alike(calls_of(script))


@pytest.mark.parametrize("form", ["otlp, genai", "otlp, openinference", "langsmith", "openai-agents"])
@given(script=histories(), seed=st.integers(0, 999))
def test_order_of_spans_in_a_file_does_not_matter(form: str, script: Script, seed: int) -> None:
    """Exporters write spans when they end; the times give the order."""
    value = FORMS[form](script)
    spans = value if isinstance(value, list) else value["resourceSpans"][0]["scopeSpans"][0]["spans"]
    before = read_traces(value).runs[0]

    random.Random(seed).shuffle(spans)

    assert read_calls(read_traces(value).runs[0].calls) == read_calls(before.calls) == calls_of(script)


@given(script=histories(nested=False))
def test_duplicated_span_counts_once(script: Script) -> None:
    """Exporters send spans again if delivery is uncertain."""
    value = FORMS["otlp, genai"](script)
    spans = value["resourceSpans"][0]["scopeSpans"][0]["spans"]

    spans += [dict(span) for span in spans]

    assert read_calls(read_traces(value).runs[0].calls) == calls_of(script)


@pytest.mark.parametrize("form", ["otlp, genai", "langsmith", "langfuse"])
@given(script=histories(nested=False))
def test_calls_that_only_histories_show_are_not_lost(form: str, script: Script) -> None:
    """A trace without tools, and without what models answered, still has the calls in what the next model was given."""
    value: Any = FORMS[form](script)
    if form == "otlp, genai":
        spans = value["resourceSpans"][0]["scopeSpans"][0]["spans"]
        spans[:] = [span for span in spans if span["name"] != "tool"]
        for span in spans:
            span["attributes"] = [pair for pair in span["attributes"] if pair["key"] != "gen_ai.output.messages"]
    elif form == "langsmith":
        value = [{**run, "outputs": None} for run in value if run["run_type"] != "tool"]
    else:
        value["observations"] = [
            {**entry, "output": None} for entry in value["observations"] if entry["type"] != "TOOL"
        ]

    (run,) = read_traces(value).runs

    assert [call[:3] for call in read_calls(run.calls)] == [call[:3] for call in calls_of(script)]
