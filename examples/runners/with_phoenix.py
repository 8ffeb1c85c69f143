"""Score an experiment of Arize Phoenix: the numbered lines. The rest stands in for its server and for an agent.

From a checkout of toolgrade: `pip install arize-phoenix-client .`
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from phoenix.client import Client
from phoenix.client.resources.datasets import Dataset

from toolgrade import ToolCorrectnessMetric  # 1
from toolgrade.compat.hosts.phoenix import evaluator  # 2

TIMES = {"created_at": "2026-01-01T00:00:00+00:00", "updated_at": "2026-01-01T00:00:00+00:00"}
EXAMPLE = {"id": "e1", "node_id": "e1", "input": {}, "output": {}, "metadata": {}, **TIMES}
INFO = {"id": "d1", "name": "sums", "description": None, "metadata": {}, "example_count": 1, **TIMES}


def agent(input: dict[str, Any]) -> dict[str, Any]:
    """Answer a question; this agent asks no model."""
    a, b = input["numbers"]
    return {"tools_called": [{"name": "add", "args": {"a": a, "b": b}}], "actual_output": f"It is {a + b}."}


@contextmanager
def served(**fields: Any) -> Iterator[tuple[str, Dataset]]:  # noqa: ANN401
    """Serve a dataset of one example on this machine, as Phoenix does."""
    data = {"dataset_id": "d1", "version_id": "v1", "examples": [{**EXAMPLE, **fields}], "filtered_splits": []}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = data if self.path.partition("?")[0].endswith("/examples") else INFO
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
        yield f"http://127.0.0.1:{server.server_port}", Dataset(INFO, data)
        server.shutdown()


EXPECTED = {"expected_tools": [{"name": "add", "args": {"a": 1, "b": 2}}]}  # 3

if __name__ == "__main__":
    with served(input={"numbers": [1, 2]}, output=EXPECTED) as (url, dataset):
        experiment = Client(base_url=url).experiments.run_experiment(
            dataset=dataset,
            task=agent,
            evaluators=[evaluator(ToolCorrectnessMetric(evaluation_params=["input_parameters"]))],  # 4
            dry_run=True,
            print_summary=False,
        )
    for run in experiment["evaluation_runs"]:
        print(f"{run.name}: {run.result['score']:g}. {run.result['explanation']}")
