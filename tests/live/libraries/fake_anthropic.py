"""A server on this machine that plays Anthropic's API from a script."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from toolgrade.testing import AskFor
from toolgrade.testing.scripted_model import Step, StepLike


def _content(step: Step) -> list[dict[str, Any]]:
    text = [] if step.text is None else [{"type": "text", "text": step.text}]
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in step.calls
        if isinstance(call, AskFor)
    ]
    return text + calls


@contextmanager
def fake_anthropic(steps: Sequence[StepLike]) -> Iterator[str]:
    """Listen while inside; each request takes the next step, and an exception is status 500."""
    script = iter(map(Step.of, steps))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            step = next(script)
            reason = "tool_use" if step.calls else "end_turn"
            message = {"id": "m", "type": "message", "role": "assistant", "model": "m-1", "content": _content(step)}
            usage = {"input_tokens": 1, "output_tokens": 1}
            body: dict[str, Any] = {**message, "stop_reason": reason, "stop_sequence": None, "usage": usage}
            if step.error is not None:
                body = {"type": "error", "error": {"type": "api_error", "message": str(step.error)}}
            data = json.dumps(body).encode()
            self.send_response(200 if step.error is None else 500)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
