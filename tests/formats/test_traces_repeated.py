"""Repeated messages in histories: each is parsed once, with the same result as parsing it every time."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade.errors import InvalidDataError
from toolgrade.formats import read_traces
from toolgrade.formats.traces import messages
from toolgrade.formats.traces import read as reader
from toolgrade.formats.traces.messages import TraceMessage, read_once, remember_messages
from tracing import FORMS, Script, ScriptedCall, Step, histories, otlp

STEPS = 30


def long_history(steps: int) -> Script:
    """A run of many messages of the model, each with one call."""
    calls = [ScriptedCall("add", f"call_{number}", {"a": number}, f"[{number}]") for number in range(steps)]
    return Script("Go.", [*(Step("boss", [call]) for call in calls), Step("boss", [], "Done.")])


@pytest.mark.parametrize("form", FORMS)
def test_a_message_is_read_once_however_many_histories_repeat_it(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many messages take twice the work, although the histories hold four times as much."""
    work: list[int] = []
    read = messages._object

    def counted(*args: Any) -> Any:
        work[-1] += 1
        return read(*args)

    monkeypatch.setattr(messages, "_object", counted)
    for steps in (STEPS, 2 * STEPS):
        work.append(0)
        (run,) = read_traces(FORMS[form](long_history(steps))).runs
        assert [call.input_parameters for call in run.calls] == [{"a": number} for number in range(steps)]

    assert STEPS <= work[0] < work[1] <= 2 * work[0] <= 16 * STEPS


def without_memory(value: Any) -> list[str]:
    """Return the runs of traces with every message parsed every time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "remember_messages", nullcontext)
        return [run.to_json() for run in read_traces(value).runs]


@pytest.mark.parametrize("form", FORMS)
@given(script=histories(), ids=st.booleans())
def test_result_does_not_depend_on_the_cache(form: str, script: Script, ids: bool) -> None:
    """Including places: the same message has another place in every history."""
    value = FORMS[form](script)
    if not ids:
        value = json.loads(json.dumps(value).replace("call_", "call"))

    assert [run.to_json() for run in read_traces(value).runs] == without_memory(value)


def test_values_equal_only_in_python_are_distinguished() -> None:
    """`1 == 1.0 == True`, and a tuple may be written like a list; each argument keeps its own form."""
    values: list[Any] = [1, 1.0, True, "1", [1], -0.0, 0]
    calls = [ScriptedCall("add", "same", {"a": value}, "3") for value in values]
    value = otlp(
        *(Script("Go.", [Step("boss", [call]), Step("boss", [], "Done.")], f"{number:032x}")
          for number, call in enumerate(calls))
    )  # fmt: skip

    read = [run.calls[0].input_parameters for run in read_traces(value).runs]

    assert list(map(repr, read)) == [repr({"a": value}) for value in values]


def test_calls_of_equal_messages_share_nothing() -> None:
    """Who changes the arguments of one call changes no other."""
    script = [Script("Go.", [Step("boss", [ScriptedCall("add", "", {"a": [1]}, "3")])], trace * 32) for trace in "ab"]
    first, second = read_traces(otlp(*script)).runs

    first.calls[0].input_parameters["a"].append(2)  # type: ignore[index]

    assert second.calls[0].input_parameters == {"a": [1]}


def test_nothing_is_remembered_after_reading() -> None:
    """Neither after traces that were read, nor after those that were refused."""
    read_traces(otlp(long_history(1)))
    assert messages._MEMORY.get(None) is None

    with pytest.raises(InvalidDataError):
        read_traces({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "no id", "attributes": []}]}]}]})
    assert messages._MEMORY.get(None) is None


@pytest.mark.parametrize(
    ("value", "times"),
    [
        ({"a": [1, None, "x", 1.5, True]}, 1),
        ("x", 1),
        ({"a": b"x"}, 2),
        ({"a": [{"b": bytearray(b"x")}]}, 2),
        ({"a": (1,)}, 2),
        ({b"a": 1}, 2),
        ({"a": TraceMessage("user", "$")}, 2),
    ],
)
def test_only_json_is_remembered(value: object, times: int) -> None:
    """Other objects may look alike without being alike."""
    reads: list[object] = []

    def read() -> list[TraceMessage]:
        reads.append(value)
        return [TraceMessage("user", ".content", "Go.")]

    with remember_messages():
        messages = [read_once(value, path, "here", read) for path in ("$[0]", "$[1]")]

    assert len(reads) == times
    assert messages == [[TraceMessage("user", "$[0].content", "Go.")], [TraceMessage("user", "$[1].content", "Go.")]]


def test_different_readers_use_separate_caches() -> None:
    """The same message has another meaning if roles are read differently."""
    with remember_messages():
        user = read_once("Go.", "$", "user", lambda: [TraceMessage("user", "", "Go.")])
        model = read_once("Go.", "$", "model", lambda: [TraceMessage("model", "", "Go.")])

    assert (user[0].speaker, model[0].speaker) == ("user", "model")
