"""`FakeOpenAI`: an HTTP endpoint with OpenAI's API that answers from a script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from toolgrade._internal.json import JsonObject, json_text, parse_json
from toolgrade.errors import ConfigurationError, InvalidDataError
from toolgrade.testing.fake_openai.batches import Batches, BatchPlan
from toolgrade.testing.fake_openai.forms import chat_body, chat_events, responses_body, responses_events
from toolgrade.testing.fake_openai.http import HttpServer, ReceivedRequest, Transmission
from toolgrade.testing.fake_openai.replies import HttpFault, ReplyLike
from toolgrade.testing.scripted_model import Script

if TYPE_CHECKING:
    from typing_extensions import Self

_CHAT = "/v1/chat/completions"
_FORMS = {_CHAT: (chat_body, chat_events), "/v1/responses": (responses_body, responses_events)}

Answer: TypeAlias = Callable[[ReceivedRequest], ReplyLike]
"""Returns the answer to a request."""


class FakeOpenAI:
    """An HTTP server on this machine that plays OpenAI's API: chats, responses, files, batches.

    A script is played on either API, whole or as a stream, as the request asks. The server listens on a free port of
    127.0.0.1 inside its context; leaving it also ends requests that still wait. Use one per test: its scripts are
    played once.

    A client that retries takes the next step, so give clients `max_retries=0` unless you test retries. Requests are not
    validated: a real endpoint refuses some that this one answers.

    ```python
    import http.client, json
    from toolgrade.testing import AskFor, FakeOpenAI

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
        answer: Answer | None = None,
        batches: Sequence[BatchPlan] = (),
    ) -> None:
        """Store the scripts.

        Args:
            steps: The answers, one for each request: text, calls, a `Step`, a `Reply`, an `HttpFault`, or an exception,
                which becomes status 500.
            answer: Returns the answer to each request, in place of `steps`; called in several threads.
            batches: Plans for batches in the order of their creation; later ones are completed. Lines are answered
                like requests.

        Raises:
            ConfigurationError: Both `steps` and `answer`.
        """
        if steps and answer is not None:
            raise ConfigurationError("give either steps or `answer`: both would answer the same requests")
        self._answer = answer
        self._script = Script(map(HttpFault.of, steps)) if answer is None else None
        self._lock = threading.Lock()
        self._requests: list[ReceivedRequest] = []
        self._lines: list[ReceivedRequest] = []
        self._errors: list[str] = []
        self._batches = Batches(batches, self._play_line)
        self._listener: HttpServer | None = None

    @property
    def port(self) -> int:
        """The port, also after closing.

        Raises:
            ConfigurationError: It was not started.
        """
        if self._listener is None:
            raise ConfigurationError("the endpoint does not listen yet: use it in a `with` statement")
        return self._listener.port

    @property
    def base_url(self) -> str:
        """The `base_url` for a client, with `/v1`."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def requests(self) -> tuple[ReceivedRequest, ...]:
        """All requests so far, in order; with one script, each has the step of its position."""
        return tuple(self._requests)

    @property
    def batched(self) -> tuple[ReceivedRequest, ...]:
        """The lines of batches that were answered so far, each as a request."""
        return tuple(self._lines)

    @property
    def errors(self) -> tuple[str, ...]:
        """Requests that the endpoint could not answer: a script that ended, an unknown address, a bad request.

        Faults and exceptions of a script are not among them. The client received each as an error, which an agent may
        have swallowed, so a test should check that there are none.
        """
        return tuple(self._errors)

    def start(self) -> Self:
        """Start to listen; `with` does this.

        Raises:
            ConfigurationError: It was already started.
        """
        if self._listener is not None:
            message = "the endpoint was started before; create a new one, because its script is played once"
            raise ConfigurationError(message)
        self._listener = HttpServer(self._respond, self._errors.append)
        return self

    def close(self) -> None:
        """Stop listening and end all connections; waiting requests get no answer. May be called again."""
        if self._listener is not None and not self._listener.closing.is_set():
            self._listener.close()

    def __enter__(self) -> Self:
        """Start to listen."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self.close()

    def _respond(self, request: ReceivedRequest) -> Transmission:
        path = request.path.partition("?")[0]
        if request.method == "POST" and path in _FORMS:
            return self._play(request, self._requests)
        self._requests.append(request)
        fault = self._batches.respond(request, path)
        if fault is None:
            message = f"there is no {request.method} {path} here"
            fault = HttpFault.status(404, message)
            self._errors.append(message)
        return _transmission(fault, request)

    def _play(self, request: ReceivedRequest, log: list[ReceivedRequest]) -> Transmission:
        """Return the answer to a request to a model, and add the request to `log`."""
        try:
            # A step is taken under the lock that keeps the requests in order, so that both have the same order.
            with self._lock:
                log.append(request)
                fault = self._script.take() if self._script is not None else None
            if fault is None and self._answer is not None:  # not under the lock, because it may be slow
                fault = HttpFault.of(self._answer(request))
            return _transmission(fault or HttpFault(), request)
        except Exception as error:  # noqa: BLE001 - the script of the test's author, who must see the error
            text = f"{request.path} (model {request.model!r}): {type(error).__name__}: {error}"
            self._errors.append(text)
            return _transmission(HttpFault.broken(text), request)

    def _play_line(self, request: ReceivedRequest) -> JsonObject:
        """Return status and body of the answer to a line of a batch."""
        fault, pieces, _ = self._play(request, self._lines)
        with suppress(InvalidDataError):
            if fault.ending == "whole":
                return {"status_code": fault.code, "body": parse_json(b"".join(pieces))}
        broken = HttpFault.status(500, "the line could not be executed")
        return {"status_code": broken.code, "body": parse_json(broken.text)}


def _transmission(fault: HttpFault, request: ReceivedRequest) -> Transmission:
    """Return an answer in the form that was requested.

    Raises:
        ConfigurationError: The reply has no such form.
    """
    reply, path = fault.reply, request.path
    if reply is None:
        return Transmission(fault, [fault.text.encode("utf-8", "replace")])
    if reply.body is not None:
        return Transmission(fault, [json_text(reply.body).encode()])
    if path not in _FORMS:
        raise ConfigurationError(f"a reply to {path} must be Reply(body=...)")
    to_body, to_events = _FORMS[path]
    if not request.streams:
        return Transmission(fault, [json_text(to_body(reply, request)).encode()])
    pieces: list[bytes] = []
    for event in to_events(reply, request):
        name = "" if path == _CHAT else f"event: {event.get('type', 'message')}\n"
        pieces.append(f"{name}data: {json_text(event)}\n\n".encode())
    if path == _CHAT and reply.failure is None:
        pieces.append(b"data: [DONE]\n\n")
    return Transmission(fault, pieces, is_stream=True)
