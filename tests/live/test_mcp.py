"""Recording of MCP sessions: around a client, and by a proxy in the place of the server."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.util import module_from_spec, spec_from_file_location
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from command_runner import RUNNER
from toolgrade import ToolCall, ToolCorrectnessMetric
from toolgrade.calls import CallStatus, ToolCallType
from toolgrade.cases import Run
from toolgrade.cli.main import main as toolgrade
from toolgrade.errors import NothingRecordedError
from toolgrade.formats import read_traces
from toolgrade.live.mcp import McpRecorder, record_session
from toolgrade.live.mcp_messages import LineWriter, MessageLines
from toolgrade.live.mcp_session import McpSession
from toolgrade.redact import DEFAULT

pytest.importorskip("mcp.server.mcpserver", reason="mcp is not installed here")

import anyio
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, ClientSession, MCPError, StdioServerParameters, stdio_client


def invoke(*arguments: str) -> Any:
    """Run a command in this process."""
    return RUNNER.invoke(toolgrade, arguments)


SERVER = [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]
PROXY = [sys.executable, "-m", "toolgrade.cli", "mcp-record"]


@asynccontextmanager
async def session_with(command: list[str]) -> AsyncIterator[ClientSession]:
    """A session with a server over stdio."""
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


async def scene(session: ClientSession) -> None:
    """List the tools, and call them in each way that a call can end."""
    await session.list_tools()
    await session.call_tool("add", {"a": 1, "b": 2})
    await session.call_tool("boom", {"x": 1})
    await session.call_tool("nosuch", {"q": 1})
    await session.call_tool("steps", {}, progress_callback=ignore)
    with anyio.move_on_after(0.2):
        await session.call_tool("wait", {})
    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(session.call_tool, "add", {"a": number, "b": 0})


async def ignore(*_: object) -> None:
    """Take a report of progress."""


def recorded_lines(path: Path) -> list[Any]:
    """Return the lines of a file that a proxy wrote."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run_in(path: Path) -> Run:
    """Return the only run of a file that a proxy wrote."""
    (run,) = read_traces(recorded_lines(path)).runs
    return run


def rows(run: Run) -> list[Any]:
    """Return what a run says of its calls, apart from times and places."""
    order = sorted(run.calls, key=lambda call: (call.name, str(call.input_parameters)))
    return [
        (call.name, call.type, call.input_parameters, call.output, call.execution.status, call.execution.executed)
        for call in order
        if call.execution is not None
    ]


OK, ERROR, CANCELLED, UNKNOWN = CallStatus.OK, CallStatus.ERROR, CallStatus.CANCELLED, CallStatus.UNKNOWN_TOOL
MCP = ToolCallType.MCP
EXPECTED = [
    ("add", MCP, {"a": 0, "b": 0}, "0", OK, True),
    ("add", MCP, {"a": 1, "b": 0}, "1", OK, True),
    ("add", MCP, {"a": 1, "b": 2}, "3", OK, True),
    ("add", MCP, {"a": 2, "b": 0}, "2", OK, True),
    ("boom", MCP, {"x": 1}, None, ERROR, True),
    ("nosuch", MCP, {"q": 1}, None, UNKNOWN, False),
    ("steps", MCP, {}, "done", OK, True),
    ("wait", MCP, {}, None, CANCELLED, True),
]


@pytest.fixture(scope="module")
def both_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """The run of one session as its client recorded it, and as the proxy in the place of the server did."""
    path = tmp_path_factory.mktemp("mcp") / "calls.jsonl"

    async def main() -> Run:
        async with session_with([*PROXY, "--output", str(path), "--", *SERVER]) as session:
            with record_session(session) as recorder:
                await scene(session)
            return recorder.last_run

    return anyio.run(main), run_in(path)


def test_every_end_of_a_call_is_recorded(both_runs: tuple[Run, Run]) -> None:
    """With its status, and equal by the session and by the proxy."""
    for run in both_runs:
        assert rows(run) == EXPECTED
        assert (run.warnings, run.status.value) == ([], "ok")


def test_errors_are_those_of_the_server(both_runs: tuple[Run, Run]) -> None:
    """The text of a result with `isError`, and the reason of a cancellation."""
    for run in both_runs:
        calls = {call.name: call.execution for call in run.calls if call.execution}
        assert calls["boom"].error == "Error executing tool boom"
        assert calls["nosuch"].error == calls["nosuch"].model_output == "Unknown tool: nosuch"
    errors = [call.execution.error for run in both_runs for call in run.calls if call.execution and call.name == "wait"]
    assert "deadline exceeded" in str(errors[0])
    assert errors[1] == "caller cancelled"


def test_calls_know_their_server_and_their_times(both_runs: tuple[Run, Run]) -> None:
    """The server's own name, the client as the agent, and when the tool ran."""
    for run in both_runs:
        call = next(call for call in run.calls if call.name == "steps")
        assert call.execution is not None
        assert (call.execution.server, call.execution.agent) == ("calculator", "mcp")
        assert call.execution.started_at is not None
        assert call.execution.duration is not None


def test_the_offered_tools_are_recorded(both_runs: tuple[Run, Run]) -> None:
    """With their schemas, as tools of MCP."""
    for run in both_runs:
        specs = {spec.name: spec for spec in run.available_tools or []}
        assert sorted(specs) == ["add", "boom", "die", "steps", "wait"]
        assert {spec.type for spec in specs.values()} == {MCP}
        assert (specs["add"].input_schema or {})["required"] == ["a", "b"]


# A session


def record_calls(use: Callable[[ClientSession, McpRecorder], Any]) -> McpRecorder:
    """Return the recorder of a session that was used in this way."""

    async def main() -> McpRecorder:
        async with session_with(SERVER) as session:
            with record_session(session) as recorder:
                await use(session, recorder)
            assert "send_request" not in vars(session)
            return recorder

    return anyio.run(main)


def test_a_session_is_scored() -> None:
    """By the metrics that score any run, also before it has ended."""

    async def use(session: ClientSession, recorder: McpRecorder) -> None:
        await session.call_tool("add", {"a": 1, "b": 2})
        (run,) = recorder.runs
        assert run.warnings == ["1 span had not ended when the run was read: 'mcp session'"]

    recorder = record_calls(use)
    case = recorder.test_case([ToolCall(name="add", input_parameters={"a": 1, "b": 2})])

    assert float(ToolCorrectnessMetric(evaluation_params=["input_parameters"]).measure(case)) == 1


def test_a_session_without_calls_is_no_run() -> None:
    """Clients open sessions that they never use."""

    async def use(session: ClientSession, _: McpRecorder) -> None:
        await session.list_tools()

    with pytest.raises(NothingRecordedError, match="record_session"):
        record_calls(use).last_run  # noqa: B018 - a property


def test_a_server_that_dies_cancels_its_call() -> None:
    """The client sees a closed connection."""

    async def use(session: ClientSession, _: McpRecorder) -> None:
        with pytest.raises(MCPError):
            await session.call_tool("die", {})

    (call,) = record_calls(use).last_run.calls

    assert call.execution is not None
    assert (call.execution.status, call.execution.error) == (CANCELLED, "Connection closed")


def test_a_protocol_error_is_an_error_of_the_call() -> None:
    """A server may answer with an error of JSON-RPC and no result."""

    class Session:
        async def send_request(self, _: Any) -> Any:
            raise MCPError(-32602, "Unknown tool: nosuch")

    class Request:
        def model_dump(self, **_: object) -> Any:
            return {"method": "tools/call", "params": {"name": "nosuch"}}

    async def main() -> Run:
        session = Session()
        with record_session(session) as outer, record_session(session) as inner, pytest.raises(MCPError):
            await session.send_request(Request())
        assert len(outer.last_run.calls) == 1
        assert "send_request" not in vars(session)
        return inner.last_run

    (call,) = anyio.run(main).calls
    assert call.execution is not None
    assert (call.execution.status, call.execution.error) == (ERROR, "Unknown tool: nosuch")


@pytest.fixture
def server() -> Iterator[Any]:
    """The server of the tests, in this process."""
    spec = spec_from_file_location("mcp_server", SERVER[1])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.server
    logging.disable(logging.NOTSET)


async def called_by(client: Any) -> Run:
    """Return the run of a client that calls two tools."""
    async with client:
        with record_session(client) as recorder:
            await client.call_tool("add", {"a": 1, "b": 2})
            await client.call_tool("boom", {"x": 1})
    return recorder.last_run


def test_an_open_client_is_recorded(server: Any) -> None:
    """The high-level client of `mcp` has a session."""
    run = anyio.run(called_by, Client(server))

    assert [(call.name, call.output) for call in run.tools_called] == [("add", "3"), ("boom", None)]


def test_a_session_over_http_is_recorded(server: Any) -> None:
    """Like any other: the recorder sees requests, and no transport."""
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed here")

    async def main() -> Run:
        web = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), port=0, log_level="error"))
        async with anyio.create_task_group() as group:
            group.start_soon(web.serve)
            with anyio.fail_after(30):
                while not web.started:  # noqa: ASYNC110 - it has no event
                    await anyio.sleep(0.01)
            port = web.servers[0].sockets[0].getsockname()[1]
            run = await called_by(Client(f"http://127.0.0.1:{port}/mcp"))
            web.should_exit = True
        return run

    run = anyio.run(main)

    assert [(call.name, call.output) for call in run.tools_called] == [("add", "3"), ("boom", None)]
    assert [call.execution.server for call in run.calls if call.execution] == ["calculator"] * 2


def test_a_fault_of_the_recorder_does_not_reach_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged, and the call returns."""

    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    for name in ("requested", "answered", "ended", "named"):
        monkeypatch.setattr(f"toolgrade.live.mcp_session.McpSession.{name}", fail)

    async def use(session: ClientSession, _: McpRecorder) -> None:
        result = await session.call_tool("add", {"a": 1, "b": 2})
        assert result.content[0].text == "3"

    assert record_calls(use).runs == []


# The proxy

ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
"""
SLEEP = "import time; print('x', flush=True); time.sleep(60)"


def request(number: int | str, method: str, **params: Any) -> bytes:
    """Return a request as a client writes it."""
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


def call(number: int | str, name: str = "add", **arguments: Any) -> bytes:
    """Return the request to call a tool."""
    return request(number, "tools/call", name=name, arguments=arguments)


def scripted(*lines: Any, then: str = "") -> list[str]:
    """Return a server that reads one line for each line that it writes, and then does something."""
    script = f"import sys, os, json\nfor line in {list(lines)!r}:\n    sys.stdin.readline()\n"
    script += (
        "    if line is not None:\n        print(line if isinstance(line, str) else json.dumps(line), flush=True)\n"
    )
    return [sys.executable, "-c", f"{script}{then}"]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The file of a proxy."""
    return tmp_path / "calls.jsonl"


def start(output: Path, server: list[str]) -> subprocess.Popen[bytes]:
    """Start a proxy in the place of a server."""
    command = [*PROXY, "--output", str(output), "--", *server]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def converse(output: Path, server: list[str], data: bytes) -> tuple[bytes, bytes, int]:
    """Return what a client gets that writes these bytes and leaves: output, errors, and the exit code."""
    with start(output, server) as proxy:
        out, err = proxy.communicate(data, timeout=60)
    return out, err, proxy.returncode


def answer(number: int | str, **fields: Any) -> dict[str, Any]:
    """Return the answer of a server."""
    return {"jsonrpc": "2.0", "id": number, **fields}


def result(text: str, **more: Any) -> dict[str, Any]:
    """Return the result of a tool."""
    return {"content": [{"type": "text", "text": text}], **more}


def test_bytes_pass_through_unchanged(output: Path) -> None:
    """Also those that are not messages, of any length, and with any ends of lines."""
    data = b"\xff\x00not JSON\r\n[1, null]\n" + b"x" * 3_000_000 + b'\n{"id": {}, "result": 1}\n[[[' + b"no end of line"

    assert converse(output, [sys.executable, "-c", ECHO], data) == (data, b"", 0)
    assert output.read_bytes() == b""


def test_a_server_that_dies_leaves_its_calls(output: Path) -> None:
    """Answered ones with their result, the open one as cancelled; the exit code is the server's."""
    server = scripted(answer(1, result=result("3")), None, then="os._exit(7)")

    with start(output, server) as proxy:
        assert proxy.stdin is not None
        proxy.stdin.write(call(1, a=1) + call("1", a=2))
        proxy.stdin.flush()
        assert proxy.wait(60) == 7
    run = run_in(output)

    assert [(one.output, one.execution.status) for one in run.calls if one.execution] == [("3", OK), (None, CANCELLED)]
    assert run.error == "the server ended with exit code 7"


def test_a_client_that_dies_leaves_its_calls(output: Path) -> None:
    """The proxy notes what the server still answers, and ends with it."""
    with start(output, scripted(answer(1, result=result("3")), answer(2, result=result("4")))) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        proxy.stdout.close()
        proxy.stdin.write(call(1, a=1) + call(2, a=2))
        proxy.stdin.close()
        assert proxy.wait(60) == 0
    run = run_in(output)

    assert [one.output for one in run.calls] == ["3", "4"]
    assert run.error is None


def test_a_proxy_that_is_killed_leaves_its_calls(output: Path) -> None:
    """Each call is in the file before the server receives it."""
    with start(output, scripted(answer(1, result=result("3")), "got it", then="import time; time.sleep(60)")) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        proxy.stdin.write(call(1, a=1))
        proxy.stdin.flush()
        proxy.stdout.readline()
        wait_for(lambda: len(recorded_lines(output)) == 3)
        proxy.stdin.write(call(2, a=2))
        proxy.stdin.flush()
        assert proxy.stdout.readline() == b"got it\n"
        proxy.kill()
    run = run_in(output)

    statuses = [(one.input_parameters, one.execution.status) for one in run.calls if one.execution]
    assert statuses == [({"a": 1}, OK), ({"a": 2}, CANCELLED)]


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_a_signal_ends_the_server_too(output: Path) -> None:
    """Clients terminate what they started."""
    with start(output, [sys.executable, "-c", SLEEP]) as proxy:
        assert proxy.stdout is not None
        assert proxy.stdout.readline() == b"x\n"
        proxy.send_signal(signal.SIGTERM)
        assert proxy.wait(60) == 128 + signal.SIGTERM


def exchanges() -> Iterator[Any]:
    """Yield requests, the server's lines, and the status, error and output of the call."""
    listed = request(9, "tools/list")
    tools = answer(9, result={"tools": [{"name": "add", "inputSchema": {}}]})
    more = answer(9, result={"tools": [{"name": "add"}], "nextCursor": "2"})
    wrong = answer(1, error={"code": -32602, "message": "Unknown tool"})
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    cancel = b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "no"}}\n'
    ok = answer(1, result=result("3", isError=False))
    other = call(1, "other")
    yield "ok", call(1), [ok], (OK, None, "3")
    yield "without isError", call(1), [answer(1, result=result("3"))], (OK, None, "3")
    yield (
        "structured",
        call(1),
        [answer(1, result={"content": [], "structuredContent": {"a": 1}})],
        (OK, None, '{"a": 1}'),
    )
    yield "isError", call(1), [answer(1, result=result("bad", isError=True))], (ERROR, "bad", None)
    yield "silent isError", call(1), [answer(1, result={"isError": True})], (ERROR, "failed", None)
    yield "JSON-RPC error", call(1), [wrong], (ERROR, "Unknown tool", None)
    yield "an error that is no object", call(1), [answer(1, error="bad")], (ERROR, '"bad"', None)
    yield "unknown", listed + other, [tools, wrong], (UNKNOWN, "Unknown tool", None)
    yield "listed in part", listed + other, [more, wrong], (ERROR, "Unknown tool", None)
    yield (
        "listed again",
        listed + other,
        [json.dumps(tools) + "\n" + json.dumps(changed), wrong],
        (
            *(ERROR, "Unknown tool"),
            None,
        ),
    )
    yield "hidden tool", listed + other, [tools, ok], (OK, None, "3")
    yield "cancelled", call(1) + cancel, [None, ok], (CANCELLED, "no", None)
    yield (
        "other id",
        call(1),
        [answer("1", result=result("3"))],
        (
            CANCELLED,
            "the session ended before the call was answered",
            None,
        ),
    )
    yield "batch", b"[" + call(1).strip() + b"]\n", [json.dumps([ok])], (OK, None, "3")
    yield "no name", request(1, "tools/call"), [ok], (OK, None, "3")
    yield (
        "server's own request",
        call(1),
        [json.dumps({"id": 1, "method": "ping"}) + "\n" + json.dumps(ok)],
        (
            *(OK, None),
            "3",
        ),
    )


@pytest.mark.parametrize(
    ("data", "lines", "expected"), [pytest.param(*entry[1:], id=entry[0]) for entry in exchanges()]
)
def test_each_answer_has_its_status(output: Path, data: bytes, lines: list[Any], expected: Any) -> None:
    """As the contract says: what failed has no output."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    session = McpSession(LineWriter(file, DEFAULT).write)
    requests, answers = MessageLines(session, from_client=True), MessageLines(session, from_client=False)
    for piece, line in zip_longest(data.splitlines(keepends=True), lines):
        text = line if isinstance(line, str) else json.dumps(line)
        requests.feed((piece or b"")[:9])  # a pipe may end a read anywhere
        requests.feed((piece or b"")[9:])
        answers.feed(b"" if line is None else text.encode() + b"\n")
    session.ended()
    os.close(file)
    (one,) = run_in(output).calls

    assert one.execution is not None
    assert (one.execution.status, one.execution.error, one.output) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "add", "t", "1"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["name", "arguments", "_meta", "progressToken", "content", "isError", "tools", "message", "text"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
METHODS = st.sampled_from(
    ["initialize", "tools/list", "tools/call", "notifications/cancelled", "notifications/progress", "ping", 3]
)
MESSAGES = st.fixed_dictionaries(
    {}, optional={"id": JSON, "method": METHODS, "params": JSON, "result": JSON, "error": JSON}
)


@given(st.lists(st.tuples(st.booleans(), MESSAGES | JSON), max_size=12))
def test_any_messages_are_recorded_or_ignored(messages: list[tuple[bool, Any]]) -> None:
    """No message makes the recorder fail, and what it writes can be read."""
    spans: list[Any] = []
    session = McpSession(spans.append)
    directions = [MessageLines(session, from_client=is_from_client) for is_from_client in (False, True)]
    faults: list[logging.LogRecord] = []
    logger = logging.getLogger("toolgrade.capture.observation.spans")
    logger.addFilter(note := lambda record: faults.append(record) is not None)
    try:
        for is_from_client, message in messages:
            directions[is_from_client].feed(json.dumps(message).encode() + b"\n")
        session.ended()
    finally:
        logger.removeFilter(note)

    assert [record.exc_info for record in faults] == []
    calls = {span["spanId"] for span in spans if span["name"].startswith("tools/call")}
    runs = read_traces(spans).runs if spans else []
    assert sum(len(run.calls) for run in runs) == len(calls)


def test_progress_is_in_the_file(output: Path) -> None:
    """As events of the call that it is of."""
    progress = {"method": "notifications/progress", "params": {"progressToken": "t", "progress": 1, "total": 2}}
    data = request(1, "tools/call", name="add", _meta={"progressToken": "t"})
    converse(output, scripted(f"{json.dumps(progress)}\n{json.dumps(answer(1, result=result('3')))}"), data)

    spans = [line["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for line in recorded_lines(output)]
    (event,) = next(span["events"] for span in spans if "events" in span)
    assert [(pair["key"], pair["value"]["stringValue"]) for pair in event["attributes"]] == [
        ("progress", "1"),
        ("total", "2"),
    ]


def test_secrets_are_not_written(output: Path) -> None:
    """Neither those of arguments nor those of results; the server gets them."""
    data = call(1, password="hunter2-secret")
    out, _, _ = converse(output, [sys.executable, "-c", ECHO + "    print('end', flush=True)\n"], data)
    assert b"hunter2-secret" in out
    text = json.dumps({"api_key": "sk-abcdefghijklmnop"})
    converse(output, scripted(answer(1, result=result(text, structuredContent={"token": "hunter3-secret"}))), call(1))

    content = output.read_text(encoding="utf-8")
    assert not any(secret in content for secret in ("hunter2-secret", "hunter3-secret", "sk-abcdefghijklmnop"))


def test_several_sessions_may_share_a_file(output: Path) -> None:
    """Each is a run."""
    for number in range(2):
        converse(output, scripted(answer(1, result=result("3"))), call(1, a=number))
    runs = read_traces(recorded_lines(output)).runs

    assert [run.calls[0].input_parameters for run in runs] == [{"a": 0}, {"a": 1}]
    assert not any(run.warnings for run in runs)


def test_the_file_is_scored_converted_and_linted(output: Path, tmp_path: Path) -> None:
    """By the commands that read traces; goldens are checked against the recorded tools."""
    tools = answer(9, result={"tools": [{"name": "add", "inputSchema": {"type": "object"}}]})
    converse(output, scripted(tools, answer(1, result=result("3"))), request(9, "tools/list") + call(1, a=1))
    goldens = tmp_path / "goldens.jsonl"
    goldens.write_text('{"input": "Add.", "expected_tools": [{"name": "ad"}]}\n', encoding="utf-8")

    scored = invoke("score", str(output), "--metric", "tool-success-rate")
    converted = invoke("convert", str(output), "--to", str(tmp_path / "cases.jsonl"))
    linted = invoke("lint", str(goldens), "--tools", str(output))

    assert (scored.exit_code, converted.exit_code, linted.exit_code) == (0, 0, 1)
    assert "did you mean 'add'?" in linted.stdout
    assert invoke("lint", str(output)).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--output", "nowhere/calls.jsonl", "--", sys.executable], "nowhere/calls.jsonl: No such file or directory"),
        (["--output", "calls.jsonl", "--", "no-such-server"], "no-such-server: No such file or directory"),
        (["--output", "calls.jsonl"], "Missing argument 'SERVER [ARGS]...'"),
        (["--", "server"], "Missing option '--output'"),
    ],
)
def test_a_wrong_command_line_is_an_error(
    arguments: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is started then."""
    monkeypatch.chdir(tmp_path)
    done = invoke("mcp-record", *arguments)

    assert done.exit_code == 2
    assert text in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_does_not_disturb_the_client() -> None:
    """It is one line on standard error."""
    line = answer(1, result=result("3"))
    out, err, code = converse(Path("/dev/full"), scripted(line), call(1))

    assert (json.loads(out), code) == (line, 0)
    assert err == b"toolgrade mcp-record: calls are not recorded: No space left on device\n"
