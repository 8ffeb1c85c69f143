"""`FakeOpenAI`: an HTTP endpoint with OpenAI's API that answers from a script."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from toolmark._internal.json import JsonObject, json_text
from toolmark.errors import ConfigurationError, ToolmarkError
from toolmark.testing.fake_openai import chat, responses
from toolmark.testing.fake_openai.batches import BATCHES, FILES, Batches, BatchPlan
from toolmark.testing.fake_openai.http import JSON_TYPE, Listener, ReceivedRequest, Transmission
from toolmark.testing.fake_openai.replies import HttpFault, Ids, Reply, ReplyLike
from toolmark.testing.scripted_model import Script, ScriptEndedError

if TYPE_CHECKING:
    from typing_extensions import Self

_STREAM_TYPE = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_CHAT = "/v1/chat/completions"
_RESPONSES = "/v1/responses"
_DECISIONS = "/v1/decisions"
_MODELS = "/v1/models"
_SCRIPTED = (_CHAT, _RESPONSES, _DECISIONS)
_TENTHS = 10

Answer: TypeAlias = Callable[[ReceivedRequest], ReplyLike]
"""Returns the answer to a request."""


class FakeOpenAI:
    """An HTTP server on this machine that plays OpenAI's API: chats, responses, models, files, batches.

    A script is played on either API, whole or as a stream, as the request asks. The server listens on a free port of
    127.0.0.1 inside its context; leaving it also ends requests that still wait. Use one per test: its scripts are
    played once. `/v1/decisions` answers with a `Reply(body=...)`.

    A client that retries takes the next step, so give clients `max_retries=0` unless you test retries. Requests are not
    validated: a real endpoint refuses some that this one answers.

    ```python
    import http.client, json
    from toolmark.testing import AskFor, FakeOpenAI

    with FakeOpenAI([AskFor("add", {"a": 1}, "c1")], "It is 3.") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        question = {"model": "any", "messages": [{"role": "user", "content": "1 + 2?"}]}
        connection.request("POST", "/v1/chat/completions", json.dumps(question))
        answer = json.load(connection.getresponse())
        connection.close()

    assert answer["choices"][0]["message"]["tool_calls"][0]["id"] == "c1"
    assert server.requests[0].body == question
    ```
    """

    def __init__(
        self,
        *steps: ReplyLike,
        models: Mapping[str, Sequence[ReplyLike]] | None = None,
        answer: Answer | None = None,
        batches: Sequence[BatchPlan] = (),
    ) -> None:
        """Store the scripts.

        Args:
            steps: The answers, one for each request: text, calls, a `Step`, a `Reply`, an `HttpFault`, or an exception,
                which becomes status 500.
            models: Separate scripts for requests to these models, so that simultaneous conversations do not take each
                other's steps.
            answer: Returns the answer to each request to another model, in place of `steps`; called in several
                threads.
            batches: Plans for batches in the order of their creation; later ones are completed. Lines are answered
                like requests.

        Raises:
            ConfigurationError: Both `steps` and `answer`, or a script that is text.
        """
        if steps and answer is not None:
            raise ConfigurationError("give either steps or `answer`: both would answer the same requests")
        for name, script in (models or {}).items():
            if isinstance(script, str):
                raise ConfigurationError(f"the script of model {name!r} is text; write [{script!r}] for one answer")
        self._answer = answer
        self._script = Script(Reply.of(step) for step in steps)
        self._scripts = {name: Script(Reply.of(step) for step in script) for name, script in (models or {}).items()}
        self._ids = Ids()
        self._lock = threading.Lock()
        self._requests: list[ReceivedRequest] = []
        self._lines: list[ReceivedRequest] = []
        self._errors: list[str] = []
        self._batches = Batches(batches, self._ids, self._answer_line)
        self._listener: Listener | None = None

    @property
    def port(self) -> int:
        """The port, also after closing.

        Raises:
            ConfigurationError: It was not started.
        """
        if self._listener is None:
            raise ConfigurationError("the endpoint does not listen yet: use it in a `with` statement")
        return self._listener.server_port

    @property
    def base_url(self) -> str:
        """The `base_url` for a client, with `/v1`."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def requests(self) -> tuple[ReceivedRequest, ...]:
        """All requests so far, in order; with one script, each has the step of its position."""
        with self._lock:
            return tuple(self._requests)

    @property
    def batched(self) -> tuple[ReceivedRequest, ...]:
        """The lines of batches that were answered so far, each as a request."""
        with self._lock:
            return tuple(self._lines)

    @property
    def errors(self) -> tuple[str, ...]:
        """Requests that the endpoint could not answer: a script that ended, an unknown address, a bad request.

        Faults and exceptions of a script are not among them. The client received each as an error, which an agent may
        have swallowed, so a test should check that there are none.
        """
        with self._lock:
            return tuple(self._errors)

    def start(self) -> Self:
        """Start to listen; `with` does this.

        Raises:
            ConfigurationError: It was already started.
        """
        if self._listener is not None:
            raise ConfigurationError(
                "the endpoint was started before; create a new one, because its script is played once"
            )
        self._listener = Listener(self._respond, self._report)
        self._listener.serve()
        return self

    def close(self) -> None:
        """Stop listening and end all connections; waiting requests get no answer. May be called again."""
        if self._listener is not None and not self._listener.closing.is_set():
            self._listener.close()

    def __enter__(self) -> Self:
        """Start to listen."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        self.close()

    async def __aenter__(self) -> Self:
        """Start to listen."""
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def _report(self, error: str) -> None:
        with self._lock:
            self._errors.append(error)

    def _respond(self, request: ReceivedRequest) -> Transmission:
        path = request.path.partition("?")[0]
        if path.startswith((FILES, BATCHES)):
            with self._lock:
                self._requests.append(request)
            return self._transmission(self._batches.respond(request, path), request, path)
        # A step is taken under the lock that keeps the requests in order, so that both have the same order.
        with self._lock:
            self._requests.append(request)
            reply = self._next_reply(request, path)
        return self._transmission(self._resolve(reply, request), request, path)

    def _next_reply(self, request: ReceivedRequest, path: str) -> Reply | HttpFault | Answer:
        """Return the answer to a request, or the function that returns it; the caller holds the lock."""
        if request.method == "GET" and (path == _MODELS or path.startswith(f"{_MODELS}/")):
            return self._models(path.removeprefix(_MODELS).removeprefix("/"))
        refused = _refused(request, path)
        if refused is not None:
            self._errors.append(f"request {len(self._requests)}: {refused.text}")
            return refused
        script = self._scripts.get(request.model)
        if script is None and self._answer is not None:
            return self._answer
        try:
            return (script or self._script).take()
        except ScriptEndedError as error:
            self._errors.append(f"request {len(self._requests)} (model {request.model!r}): {error}")
            return HttpFault.broken(f"the script of the fake endpoint has ended: {error}")

    def _answer_line(self, request: ReceivedRequest) -> tuple[int, str]:
        """Return status and body of the answer to a line of a batch."""
        with self._lock:
            self._lines.append(request)
            reply = self._next_reply(request, request.path)
        sent = self._transmission(self._resolve(reply, request), request, request.path)
        body = b"".join(sent.pieces).decode()
        if sent.ending != "whole" or not sent.headers["content-type"].startswith("application/json"):
            return HttpFault.status(500).code, HttpFault.status(500, "the line could not be executed").text
        return sent.status, body

    def _resolve(self, reply: Reply | HttpFault | Answer, request: ReceivedRequest) -> Reply | HttpFault:
        """Call the author's `answer`, outside of the lock because it may be slow."""
        if not callable(reply):
            return reply
        try:
            return Reply.of(reply(request))
        except Exception as error:  # noqa: BLE001 - code of the test's author, who must see the error
            text = f"`answer` raised {type(error).__name__}: {error}"
            self._report(text)
            return HttpFault.broken(text)

    def _models(self, name: str) -> Reply | HttpFault:
        names = [*self._scripts, *(["any"] if self._script.steps or self._answer else [])]
        models = [{"id": name, "object": "model", "created": 0, "owned_by": "toolmark"} for name in names]
        if not name:
            return Reply(body={"object": "list", "data": models})
        for model in models:
            if model["id"] == name:
                return Reply(body=model)
        return HttpFault.status(404, f"the model {name!r} does not exist, only {names}")

    def _transmission(self, reply: Reply | HttpFault, request: ReceivedRequest, path: str) -> Transmission:
        fault = reply if isinstance(reply, HttpFault) else HttpFault(reply=reply)
        headers = {**JSON_TYPE, "x-request-id": self._ids.new("req"), **fault.headers}
        pieces, streams, delay = [fault.text.encode("utf-8", "replace")], False, fault.delay
        if fault.reply is not None:
            delay += fault.reply.delay
            try:
                pieces, streams = self._body(fault.reply, request, path)
            except ToolmarkError as error:  # the reply has no form in this API
                self._report(str(error))
                return self._transmission(HttpFault.broken(str(error)), request, path)
        if streams:
            headers.update(_STREAM_TYPE)
        elif fault.pause:
            size = -(-len(pieces[0]) // _TENTHS)
            pieces = [pieces[0][start : start + size] for start in range(0, len(pieces[0]), size)]
        return Transmission(fault.code, headers, pieces, streams, fault.ending, fault.share, delay, fault.pause)

    def _body(self, reply: Reply, request: ReceivedRequest, path: str) -> tuple[list[bytes], bool]:
        """Return the pieces of a body, and whether it is a stream."""
        if reply.body is not None:
            return [json_text(reply.body).encode()], False
        if path == _DECISIONS:
            raise ConfigurationError(f"a reply to {_DECISIONS} must be Reply(body=...)")
        is_chat = path == _CHAT
        if not request.streams:
            if reply.events is not None:
                raise ConfigurationError("the reply has `events`, but no stream was requested; give it a `body`")
            to_body = chat.completion if is_chat else responses.response
            return [json_text(to_body(reply, request, self._ids)).encode()], False
        to_events = chat.chunks if is_chat else responses.events
        events = to_events(reply, request, self._ids) if reply.events is None else reply.events
        pieces = [_event(event, named=not is_chat) for event in events]
        if is_chat and reply.failure is None:
            pieces.append(b"data: [DONE]\n\n")
        return pieces, True


def _refused(request: ReceivedRequest, path: str) -> HttpFault | None:
    """Return the error for a request that is not to a model."""
    if request.method != "POST" or path not in _SCRIPTED:
        return HttpFault.status(404, f"there is no {request.method} {path} here, only POST {', '.join(_SCRIPTED)}")
    if not request.model:
        return HttpFault.status(400, "you must provide a model parameter")
    if path == _CHAT and not isinstance(request.body.get("messages"), list):
        return HttpFault.status(400, "`messages` must be a list")
    return None


def _event(event: JsonObject, *, named: bool) -> bytes:
    name = f"event: {event.get('type', 'message')}\n" if named else ""
    return f"{name}data: {json_text(event)}\n\n".encode()
