"""toolmark's metrics as evaluators of Arize Phoenix, in experiments that its clients run without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from phoenix.client import AsyncClient, Client
from phoenix.client.resources.datasets import Dataset
from phoenix.client.resources.experiments.types import AnnotatorKind

from toolmark import LLMTestCase, ToolCorrectnessMetric, ToolErrorRate, ToolUseMetric
from toolmark.compat.phoenix import evaluator

METRIC = ToolCorrectnessMetric(evaluation_params=["input_parameters"])
CALLED = {"tools_called": [{"name": "add", "args": {"a": 1}}]}
EXPECTED = {"expected_tools": [{"name": "add", "args": {"a": 1}}]}
NOW = "2026-01-01T00:00:00+00:00"


INFO = {"id": "d1", "name": "sums", "description": None, "metadata": {}, "created_at": NOW, "updated_at": NOW}


@contextmanager
def served(example: dict[str, Any]) -> Iterator[tuple[str, Dataset]]:
    """The address of a server on this machine that has a dataset of one example, and the dataset."""
    info = {**INFO, "example_count": 1}
    data = {"dataset_id": "d1", "version_id": "v1", "examples": [example], "filtered_splits": []}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = data if self.path.partition("?")[0].endswith("/examples") else info
            body = json.dumps({"data": content}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", Dataset(info, data)  # type: ignore[arg-type]
        server.shutdown()


def experiment(returned: Any, *evaluators: Any, **fields: Any) -> list[Any]:
    """Return the evaluation runs of a task that returns this; both clients give the same."""
    example = {"id": "e1", "node_id": "e1", "input": {"question": "1 + 1?"}, "updated_at": NOW}
    example |= {"output": {}, "metadata": {}, **fields}
    options: Any = {"task": lambda _: returned, "evaluators": list(evaluators), "print_summary": False, "retries": 0}

    async def run() -> Any:
        return await AsyncClient(base_url=url).experiments.run_experiment(dataset=dataset, dry_run=True, **options)

    with served(example) as (url, dataset):
        sync = Client(base_url=url).experiments.run_experiment(dataset=dataset, dry_run=True, **options)
        runs = [sync["evaluation_runs"], asyncio.run(run())["evaluation_runs"]]
    assert [run.result for run in runs[0]] == [run.result for run in runs[1]]
    assert not [run.error for run in runs[0] + runs[1] if run.error]
    return list(runs[0])


@pytest.mark.parametrize("place", ["output", "metadata"])
def test_examples_are_scored(place: str) -> None:
    """With a label and the reason."""
    (run,) = experiment(CALLED, evaluator(METRIC), **{place: EXPECTED})

    assert (run.name, run.annotator_kind) == (METRIC.label, AnnotatorKind.CODE.value)
    explanation = "1 matched / 1 expected = 1 (passed at 0.5)."
    assert run.result == {"name": METRIC.label, "score": 1.0, "label": "pass", "explanation": explanation}


def test_examples_without_a_score_are_not_zero() -> None:
    """They have a label, and no score."""
    failed, skipped = experiment({"tools_called": []}, evaluator(METRIC, ToolErrorRate()))

    assert (failed.name, skipped.name) == (METRIC.label, ToolErrorRate().label)
    assert "score" not in failed.result
    assert "score" not in skipped.result
    assert (failed.result["label"], skipped.result["label"]) == ("not measured", "skipped")
    assert failed.result["explanation"].startswith("Not measured: MissingFieldError")
    (unread,) = experiment({}, evaluator(METRIC))
    assert "do not contain the called tools" in unread.result["explanation"]


def test_a_case_of_ones_own() -> None:
    """`to_case` receives what Phoenix passes to evaluators."""

    def to_case(input: Any, output: Any, expected: Any, metadata: Any) -> LLMTestCase:
        assert (input, metadata) == ({"question": "1 + 1?"}, {"a": "b"})
        return LLMTestCase(tools_called=[{"name": output}], expected_tools=[{"name": expected["answer"]}])

    example: Any = {"output": {"answer": "add"}, "metadata": {"a": "b"}}
    (run,) = experiment("add", evaluator(METRIC, to_case=to_case), **example)

    assert run.result["score"] == 1


def test_a_judge_is_another_kind() -> None:
    """Phoenix shows who measured."""
    assert evaluator(ToolUseMetric(model=lambda _: "")).kind == AnnotatorKind.LLM.value
