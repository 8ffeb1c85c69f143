"""The proxy in front of an MCP server over Streamable HTTP: what passes, and what is recorded."""

from __future__ import annotations

import gzip
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_runner import RUNNER
from toolgrade.calls import CallStatus
from toolgrade.cases import Run
from toolgrade.cli.main import main as toolgrade
from toolgrade.formats import read_traces
from toolgrade.live.http_reader import HttpReader, NotHttpError
from toolgrade.live.mcp_http import Connection, HttpSessions

PROXY = [sys.executable, "-m", "toolgrade.cli", "mcp-record"]
CLOSED = "the connection closed before the call was answered"
OK, ERROR, CANCELLED, UNKNOWN = CallStatus.OK, CallStatus.ERROR, CallStatus.CANCELLED, CallStatus.UNKNOWN_TOOL


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The file of a proxy."""
    return tmp_path / "calls.jsonl"


@contextmanager
def proxy(output: Path, url: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A proxy in front of a server: its address, and its process."""
    command = [*PROXY, "--output", str(output), "--url", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().decode().split()[0], process
        finally:
            process.kill()


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a proxy as a person does; it has nothing to complain about."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, b"", b"")


def runs_in(output: Path) -> list[Run]:
    """Return the runs of a file that a proxy wrote."""
    lines = output.read_text(encoding="utf-8").splitlines()
    return list(read_traces([json.loads(line) for line in lines]).runs) if lines else []


def rows(run: Run) -> list[Any]:
    """Return what a run says of its calls."""
    order = sorted(run.calls, key=lambda call: (call.name, str(call.input_parameters)))
    return [(call.name, call.input_parameters, call.output, call.execution.status) for call in order if call.execution]


# The real client and the real server


@contextmanager
def mcp_server(**options: Any) -> Iterator[str]:
    """The address of the server of the tests, over HTTP."""
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed here")
    spec = spec_from_file_location("mcp_server", Path(__file__).with_name("mcp_server.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    web = uvicorn.Server(uvicorn.Config(module.server.streamable_http_app(**options), port=0, log_level="critical"))
    thread = threading.Thread(target=web.run)
    thread.start()
    wait_for(lambda: web.started)
    yield f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}/mcp"
    web.should_exit = web.force_exit = True
    thread.join()
    logging.disable(logging.NOTSET)


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


async def scene(client: Any) -> None:
    """List the tools, and call them in each way that a call can end."""
    import anyio

    async def ignore(*_: object) -> None:
        pass

    await client.list_tools()
    await client.call_tool("add", {"a": 1, "b": 2})
    await client.call_tool("boom", {"x": 1})
    await client.call_tool("nosuch", {"q": 1})
    await client.call_tool("steps", {}, progress_callback=ignore)
    with anyio.move_on_after(0.5):
        await client.call_tool("wait", {})
    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(client.call_tool, "add", {"a": number, "b": 0})


EXPECTED = [
    ("add", {"a": 0, "b": 0}, "0", OK),
    ("add", {"a": 1, "b": 0}, "1", OK),
    ("add", {"a": 1, "b": 2}, "3", OK),
    ("add", {"a": 2, "b": 0}, "2", OK),
    ("boom", {"x": 1}, None, ERROR),
    ("nosuch", {"q": 1}, None, UNKNOWN),
    ("steps", {}, "done", OK),
    ("wait", {}, None, CANCELLED),
]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("options", [{}, {"json_response": True}, {"stateless_http": True}], ids=str)
def test_every_end_of_a_call_is_recorded(mode: Any, options: dict[str, Any], output: Path) -> None:
    """With sessions and without, by streams and by plain answers, in the older and the newer protocol."""
    pytest.importorskip("mcp.server.mcpserver", reason="mcp is not installed here")
    import anyio
    from mcp import Client

    async def main(url: str) -> None:
        for _ in range(2):
            async with Client(url, mode=mode) as client:
                await scene(client)

    with mcp_server(**options) as url, proxy(output, url) as (address, process):
        assert address.endswith("/mcp")
        anyio.run(main, address)
        stop(process)

    runs = runs_in(output)
    assert [rows(run) for run in runs] == [EXPECTED, EXPECTED]
    for run in runs:
        assert run.warnings == []
        assert sorted(spec.name for spec in run.available_tools or []) == ["add", "boom", "die", "steps", "wait"]
        executions = [call.execution for call in run.calls if call.execution and call.name != "nosuch"]
        assert {(execution.server, execution.agent) for execution in executions} == {("calculator", "mcp")}


# Bytes


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that does this with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    serve(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        listener.shutdown(socket.SHUT_RDWR)


def connected(address: str) -> socket.socket:
    """Return a connection to a proxy."""
    host, port = address.removeprefix("http://").removesuffix("/mcp").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def all_of(connection: socket.socket) -> bytes:
    """Return everything until the other side has ended."""
    data = b""
    while piece := connection.recv(1 << 16):
        data += piece
    return data


@pytest.mark.parametrize("data", [b"\xff\x00 not HTTP\r\n\r\n" + os.urandom(2_000_000), b"GET /mcp HTTP/1.1\r\n\r\n"])
def test_bytes_pass_unchanged(data: bytes, output: Path) -> None:
    """In both directions, also those that are not HTTP."""

    def echo(connection: socket.socket) -> None:
        connection.sendall(all_of(connection))

    with listening(echo) as url, proxy(output, url) as (address, _), connected(address) as connection:
        sender = threading.Thread(target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR)))
        sender.start()
        assert all_of(connection) == data
        sender.join()
    assert output.read_bytes() == b""


def post(*messages: Any, session: str | None = None) -> bytes:
    """Return a request with these messages of MCP."""
    body = json.dumps(messages[0] if len(messages) == 1 else messages).encode()
    headers = f"Host: x\r\nContent-Length: {len(body)}\r\n"
    headers += f"Mcp-Session-Id: {session}\r\n" if session else ""
    return f"POST /mcp HTTP/1.1\r\n{headers}\r\n".encode() + body


def call(number: Any, name: str = "add", **arguments: Any) -> dict[str, Any]:
    """Return the message that calls a tool."""
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def answer(number: Any, text: str) -> dict[str, Any]:
    """Return the message with the result of a tool."""
    return {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": text}]}}


def response(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """Return a response; names of headers have `_` in place of `-`."""
    fields = {"Content-Length": str(len(body)), "Content-Type": "application/json", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def events(*messages: Any) -> bytes:
    """Return a stream of events with these messages."""
    data = b"".join(b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n" for message in messages)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (data[:7], data[7:]) if piece)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + chunks + b"0\r\n\r\n"


JSON_ANSWER = json.dumps(answer(1, "3")).encode()


# When a side dies


def test_a_server_that_does_not_listen_is_an_error(output: Path) -> None:
    """The client gets a gateway's error, and the call is recorded with it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"
    with proxy(output, url) as (address, process), connected(address) as connection:
        connection.sendall(post(call(1, a=1)))
        received = all_of(connection)
        stop(process)
    (run,) = runs_in(output)

    assert received.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert b"the server does not answer" in received
    assert [(one.execution.status, one.execution.error) for one in run.calls if one.execution] == [
        (ERROR, "HTTP 502 Bad Gateway")
    ]


@pytest.mark.parametrize("session", [None, "s1"])
def test_a_server_that_dies_leaves_its_calls(session: str | None, output: Path) -> None:
    """Answered ones with their result, the open one as cancelled; the client sees the end of the connection."""

    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(response(JSON_ANSWER))
        connection.recv(1 << 16)

    with listening(serve) as url, proxy(output, url) as (address, process), connected(address) as connection:
        connection.sendall(post(call(1, a=1), session=session))
        assert connection.recv(1 << 16) == response(JSON_ANSWER)
        connection.sendall(post(call(2, a=2), session=session))
        assert connection.recv(1 << 16) == b""
        stop(process)
    (run,) = runs_in(output)

    assert rows(run) == [("add", {"a": 1}, "3", OK), ("add", {"a": 2}, None, CANCELLED)]
    errors = [one.execution.error for one in run.calls if one.execution]
    assert errors == [None, CLOSED if session is None else "the session ended before the call was answered"]


def test_a_client_that_dies_leaves_its_calls(output: Path) -> None:
    """Its connection to the server ends, and the call is cancelled."""
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        while connection.recv(1 << 16):
            pass
        ended.set()

    with listening(serve) as url, proxy(output, url) as (address, process):
        with connected(address) as connection:
            connection.sendall(post(call(1, a=1)))
            wait_for(lambda: b"tools/call" in output.read_bytes())
        assert ended.wait(30)
        wait_for(lambda: b"the connection closed" in output.read_bytes())
        stop(process)
    (run,) = runs_in(output)

    assert rows(run) == [("add", {"a": 1}, None, CANCELLED)]


def test_a_proxy_that_is_killed_leaves_its_calls(output: Path) -> None:
    """Each call is in the file before the server has received it."""
    received = threading.Event()

    def serve(connection: socket.socket) -> None:
        assert connection.recv(1 << 16)
        assert b"tools/call" in output.read_bytes()
        received.set()
        connection.recv(1 << 16)

    with listening(serve) as url, proxy(output, url) as (address, process), connected(address) as connection:
        connection.sendall(post(call(1, a=1)))
        assert received.wait(30)
        process.kill()
        process.wait(30)
    (run,) = runs_in(output)

    assert rows(run) == [("add", {"a": 1}, None, CANCELLED)]


# One connection


def recorded(*exchanges: tuple[bytes, bytes], pieces: int = 1 << 16) -> list[Run]:
    """Return the runs of connections, each with the bytes of its two directions, which come in pieces."""
    spans: list[Any] = []
    sessions = HttpSessions(spans.append)
    for request, reply in exchanges:
        connection = Connection(sessions)
        for data, reader in ((request, connection.requests), (reply, connection.responses)):
            for start in range(0, len(data), pieces):
                reader.feed(data[start : start + pieces])
        connection.close()
    sessions.end_all()
    return list(read_traces(spans).runs) if spans else []


def outcome(*exchanges: tuple[bytes, bytes]) -> Any:
    """Return status, error and output of the only call; pieces of any size say the same."""
    results = []
    for pieces in (1 << 16, 1):
        (run,) = recorded(*exchanges, pieces=pieces)
        (one,) = run.calls
        assert one.execution is not None
        results.append((one.execution.status, one.execution.error, one.output))
    assert results[0] == results[1]
    return results[0]


FAILED = json.dumps({"id": None, "error": {"code": -32000, "message": "busy"}}).encode()
UNTIL_CLOSE = response(b"").replace(b"Content-Length: 0\r\n", b"") + JSON_ANSWER
REPLIES = {
    "json": (response(JSON_ANSWER), (OK, None, "3")),
    "stream": (events({"method": "notifications/message"}, answer(1, "3")), (OK, None, "3")),
    "an event that ends with the connection": (events(answer(1, "3"))[:-5], (OK, None, "3")),
    "after 100": (b"HTTP/1.1 100 Continue\r\n\r\n" + response(JSON_ANSWER), (OK, None, "3")),
    "without a length": (UNTIL_CLOSE, (OK, None, "3")),
    "gzip": (response(gzip.compress(JSON_ANSWER), Content_Encoding="gzip"), (OK, None, "3")),
    "an encoding that is not read": (response(JSON_ANSWER, Content_Encoding="br"), (CANCELLED, CLOSED, None)),
    "error without a body": (response(status="503 Service Unavailable"), (ERROR, "HTTP 503 Service Unavailable", None)),
    "error of JSON-RPC": (response(FAILED, status="400 Bad Request"), (ERROR, "busy", None)),
    "another id": (response(json.dumps(answer("1", "3")).encode()), (CANCELLED, CLOSED, None)),
    "no response": (b"", (CANCELLED, CLOSED, None)),
    "half of one": (response(JSON_ANSWER)[:-5], (CANCELLED, CLOSED, None)),
    "another protocol": (b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\r\n\r\n", (CANCELLED, CLOSED, None)),
    "not JSON": (response(b"{"), (CANCELLED, CLOSED, None)),
}


@pytest.mark.parametrize(("reply", "expected"), REPLIES.values(), ids=REPLIES)
def test_each_response_has_its_status(reply: bytes, expected: Any) -> None:
    """As over stdio; a call of which no answer can come is cancelled."""
    assert outcome((post(call(1)), reply)) == expected


HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"clientInfo": {"name": "editor"}}}
WELCOME = json.dumps({"id": 0, "result": {"serverInfo": {"name": "calculator"}}}).encode()


def greeted(session: str) -> tuple[bytes, bytes]:
    """Return the exchange that begins a session."""
    return post(HELLO), response(WELCOME, Mcp_Session_Id=session)


def test_an_answer_may_come_by_another_connection() -> None:
    """In a session: a client that lost a stream fetches what follows."""
    get = b"GET /mcp HTTP/1.1\r\nMcp-Session-Id: s1\r\nLast-Event-ID: 7\r\n\r\n"
    lost = events()[: -len(b"0\r\n\r\n")]

    assert outcome(greeted("s1"), (post(call(1), session="s1"), lost), (get, events(answer(1, "3")))) == (OK, None, "3")


def test_a_call_is_cancelled_in_its_session() -> None:
    """By a message in a request of its own."""
    cancel = {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "no"}}
    accepted = response(status="202 Accepted")
    calling = (post(call(1), session="s1"), b"")

    assert outcome(calling, (post(cancel, session="s1"), accepted)) == (CANCELLED, "no", None)


def test_each_session_is_a_run() -> None:
    """Equal ids of two sessions are two calls; an ended session that is used again is a new run."""
    delete = b"DELETE /mcp HTTP/1.1\r\nMcp-Session-Id: s1\r\n\r\n"
    runs = recorded(
        *[greeted("s1"), greeted("s2")],
        (post(call(1, a=1), session="s1"), b""),
        (post(call(1, a=2), session="s2"), response(JSON_ANSWER)),
        (delete, response(status="200 OK")),
        (post(call(1, a=3), session="s1"), response(JSON_ANSWER)),
    )

    assert [rows(run) for run in runs] == [
        [("add", {"a": 1}, None, CANCELLED)],
        [("add", {"a": 2}, "3", OK)],
        [("add", {"a": 3}, "3", OK)],
    ]
    agents = [call.execution.agent for run in runs for call in run.calls if call.execution]
    assert agents == ["editor", "editor", "MCP client"]


def test_equal_ids_without_a_session_are_kept_apart() -> None:
    """Clients of a stateless server number their requests alike."""
    spans: list[Any] = []
    sessions = HttpSessions(spans.append)
    first, second = Connection(sessions), Connection(sessions)
    for number, connection in enumerate((first, second)):
        connection.requests.feed(post(call(1, a=number)))
    for text, connection in (("b", second), ("a", first)):
        connection.responses.feed(response(json.dumps(answer(1, text)).encode()))
    sessions.end_all()
    (run,) = read_traces(spans).runs

    assert rows(run) == [("add", {"a": 0}, "a", OK), ("add", {"a": 1}, "b", OK)]


def test_exchanges_of_one_connection_follow_each_other() -> None:
    """A connection is used again, and a client need not wait for a response."""
    others = b"HEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n" + post({"method": ["a"]})
    requests = post(call(1, a=1)) + others + b"\r\n" + post(call(2, a=2), call(3, a=3))
    batch = json.dumps([answer(3, "c"), answer(2, "b")]).encode()
    without_body = response().replace(b": 0", b": 999") + b"HTTP/1.1 304 Not Modified\r\n\r\n" + response(b"{}")
    responses = response(json.dumps(answer(1, "a")).encode()) + without_body + response(batch)

    for pieces in (1, 1 << 16):
        (run,) = recorded((requests, responses), pieces=pieces)
        assert rows(run) == [
            ("add", {"a": 1}, "a", OK),
            ("add", {"a": 2}, "b", OK),
            ("add", {"a": 3}, "c", OK),
        ]


def test_many_sessions_end_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that runs for a long time has no more than it can store."""
    monkeypatch.setattr("toolgrade.live.mcp_http._MAX_SESSIONS", 2)
    spans: list[Any] = []
    sessions = HttpSessions(spans.append)
    for number in range(4):
        Connection(sessions).requests.feed(post(call(1, a=number), session=f"s{number}"))
    ended = [span for span in spans if span["name"] == "mcp session" and "endTimeUnixNano" in span]

    assert len(ended) == 2
    assert [rows(run) for run in read_traces(spans).runs] == [
        [("add", {"a": number}, None, CANCELLED)] for number in range(4)
    ]


# Reading


class Noted:
    """Receives messages."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def begin(self, line: str, headers: Any) -> bool:
        """Note a head."""
        self.messages.append([line, dict(headers), b""])
        return True

    def body(self, data: bytes) -> None:
        """Note a part of a body."""
        self.messages[-1][2] += data

    def end(self) -> None:
        """Note an end."""
        self.messages[-1].append("end")


@st.composite
def messages(draw: Any) -> tuple[bytes, Any]:
    """A message of HTTP, and what is to be read of it."""
    body = draw(st.binary(max_size=20))
    line = draw(st.sampled_from(["POST /mcp HTTP/1.1", "HTTP/1.1 200 OK"]))
    if draw(st.booleans()):
        head, wire = f"Content-Length: {len(body)}", body
    else:
        cut = draw(st.integers(0, len(body)))
        head = "TRANSFER-Encoding: gzip, Chunked"
        parts = [part for part in (body[:cut], body[cut:]) if part]
        trailer = draw(st.sampled_from([b"", b"X: y\r\n"]))
        wire = b"".join(b"%X;a=b\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailer + b"\r\n"
    name, _, value = head.partition(": ")
    return f"{line}\r\n{head}\r\n\r\n".encode() + wire, [line, {name.lower(): value}, body, "end"]


@given(st.lists(messages(), max_size=4), st.data(), st.booleans())
def test_messages_are_read_in_any_pieces(
    parts: list[tuple[bytes, Any]], data: st.DataObject, of_responses: bool
) -> None:
    """Whatever a connection carries at once."""
    wire = b"".join(part for part, _ in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=8)))
    noted = Noted()
    reader = HttpReader(noted, of_responses=of_responses)
    for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        reader.feed(wire[start:end])
    reader.close()

    assert noted.messages == [expected for _, expected in parts]


SOUP = st.lists(
    st.sampled_from(
        [
            *[b"\r\n", b"\r\n\r\n", b"GET / HTTP/1.1\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 101 X\r\n\r\n", b"{}"],
            *[
                b"Content-Length: 2\r\n",
                b"Content-Length: -1\r\n",
                b"Transfer-Encoding: chunked\r\n",
                b"2\r\n",
                b"0\r\n",
            ],
            *[
                b"Content-Type: text/event-stream\r\n",
                b"data: []\n\n",
                b"no colon\r\n",
                b"\xff",
                b"Content-Encoding: gzip\r\n",
            ],
            *[
                post(call(1)),
                post({"method": ["a"], "id": {}}),
                post([]),
                response(JSON_ANSWER),
                events(answer(1, "3")),
            ],
        ]
    ),
    max_size=8,
).map(b"".join)


@given(st.lists(st.tuples(st.booleans(), SOUP), max_size=6))
def test_any_bytes_are_recorded_or_ignored(pieces: list[tuple[bool, bytes]]) -> None:
    """What is not HTTP ends the reading of a connection by one error; what was read makes a run."""
    spans: list[Any] = []
    sessions = HttpSessions(spans.append)
    connection = Connection(sessions)
    for of_client, data in pieces:
        reader = connection.requests if of_client else connection.responses
        was_stopped = reader.is_stopped
        try:
            reader.feed(data)
        except (NotHttpError, OSError, ValueError):
            assert not was_stopped
    connection.close()
    sessions.end_all()
    calls = {span["spanId"] for span in spans if span["name"].startswith("tools/call")}
    runs = read_traces(spans).runs if spans else []

    assert sum(len(run.calls) for run in runs) == len(calls)


def test_a_head_has_an_end() -> None:
    """A side that never ends its head fills no memory."""
    reader = HttpReader(Noted(), of_responses=False)

    with pytest.raises(NotHttpError, match="too long"):
        reader.feed(b"x" * (1 << 19))
    reader.feed(b"y")
    assert reader.is_stopped


# The command


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--url", "http://127.0.0.1:9/mcp", "--", "server"], "SERVER and --url cannot be combined"),
        ([], "Missing argument 'SERVER [ARGS]...', or --url."),
        (["--url", "https://127.0.0.1/mcp"], "the URL must be http:// on this machine"),
        (["--url", "http://example.com/mcp"], "the URL must be http:// on this machine"),
        (["--url", "127.0.0.1:80"], "the URL must be http:// on this machine"),
        (["--url", "http://127.0.0.1:x/mcp"], "the URL must be http:// on this machine"),
        (["--url", "http://127.0.0.1/mcp", "--listen", "70000"], "70000 is not in the range"),
    ],
)
def test_a_wrong_command_line_is_an_error(arguments: list[str], text: str, output: Path) -> None:
    """Nothing is started then."""
    done = RUNNER.invoke(toolgrade, ["mcp-record", "--output", str(output), *arguments])

    assert done.exit_code == 2
    assert text in " ".join(done.stderr.split())
    assert not output.exists()


def test_a_port_that_is_taken_is_an_error(output: Path) -> None:
    """With the option that names another one; a file that cannot be opened is one, too."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        options = ["--url", "http://localhost:9/mcp", "--listen", port]
        occupied = RUNNER.invoke(toolgrade, ["mcp-record", "--output", str(output), *options])
    unwritable = RUNNER.invoke(toolgrade, ["mcp-record", "--output", str(output / "x"), *options])

    assert (occupied.exit_code, unwritable.exit_code) == (2, 2)
    assert f"cannot listen on port {port}" in occupied.stderr
    assert "nothing was started" in unwritable.stderr
