"""Run health: signs that a run did not go well, in what was recorded of it."""

from __future__ import annotations

import time
from statistics import fmean
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shorthand import calls_from
from strategies import few
from toolgrade import (
    CallStatus,
    ConfigurationError,
    ConversationalTestCase,
    Execution,
    LLMTestCase,
    MetricResult,
    MLLMImage,
    MLLMTestCase,
    ResultStatus,
    Run,
    RunHealthMetric,
    RunStatus,
    ToolCall,
    ToolRecoveryMetric,
    Turn,
)

CHECKS = ("answered", "recovered", "no_loop", "no_admission")


def measured(calls: str | None = None, **fields: Any) -> MetricResult:
    """The result of one case; without calls these are unknown."""
    known = {} if calls is None else {"tools_called": calls_from(calls)}
    return RunHealthMetric().measure(LLMTestCase(**known, **fields))


def parts_of(result: MetricResult) -> list[float | None]:
    """The checks in their order, `None` for one that was left out."""
    assert set(result.parts) <= {"total", *CHECKS}
    return [result.parts.get(name) for name in CHECKS]


def kinds_of(result: MetricResult) -> list[str]:
    """The kinds of the findings."""
    return [finding.kind for finding in result.findings]


RUN: dict[str, Any] = {"calls": calls_from("a:ok"), "actual_output": None}


@pytest.mark.parametrize(
    ("fields", "parts", "kinds"),
    [
        pytest.param({"actual_output": "Done."}, [1, None, None, 1], "", id="the answer alone"),
        pytest.param({"actual_output": " \n"}, [0, None, None, None], "no_answer", id="an empty answer"),
        pytest.param({"calls": "a:ok", "actual_output": "Done."}, [1, 1, 1, 1], "", id="all is well"),
        pytest.param({"calls": "a:ok"}, [None, 1, 1, None], "", id="the answer is unknown"),
        pytest.param({"calls": ""}, [None, None, None, None], "", id="nothing is known"),
        pytest.param({}, [None, None, None, None], "", id="not even the calls"),
        pytest.param({"agent_texts": []}, [0, None, None, None], "no_answer", id="the agent said nothing"),
        pytest.param({"agent_texts": ["Let me see.", "Done."]}, [1, None, None, 1], "", id="the last text answers"),
        pytest.param({"actual_output": "Done.", "ended": False}, [0, None, None, 1], "not_ended", id="it was cut off"),
        pytest.param(
            {"run": Run(**RUN, status=RunStatus.ERROR, error="x")}, [0, None, None, None], "not_ended", id="it broke"
        ),
        pytest.param({"run": Run(**RUN, status=RunStatus.STOPPED)}, [None] * 4, "", id="nothing says how it ended"),
        pytest.param({"run": Run(run_id="7", duration=3)}, [None] * 4, "", id="nothing of it was recorded"),
        pytest.param({"run": Run(**RUN)}, [0, None, None, None], "no_answer", id="it ended without an answer"),
        pytest.param(
            {"run": Run(**RUN, status=RunStatus.INTERRUPTED), "ends": "interrupted"},
            [1] + [None] * 3,
            "",
            id="it waits, as it must",
        ),
        pytest.param(
            {"run": Run(**RUN), "ends": "interrupted"}, [0] + [None] * 3, "not_ended", id="it does not wait, and must"
        ),
        pytest.param({"calls": "transfer_to_human:ok", "actual_output": ""}, [1, 1, 1, None], "", id="handed over"),
        pytest.param(
            {"calls": "transfer_to_human:error", "actual_output": ""},
            [0, 0, 1, None],
            "no_answer abandoned",
            id="nearly",
        ),
        pytest.param({"calls": "a:error b:ok"}, [None, 1 / 2, 1, None], "abandoned", id="a failure that was left"),
        pytest.param({"calls": "a:error b:ok a:ok c:ok"}, [None, 1, 1, None], "", id="a failure and its recovery"),
        pytest.param({"calls": "a:error a:pending"}, [None, 1, 1, None], "", id="a retry that waits"),
        pytest.param(
            {"calls": "a(1):error a(1):error b:ok c:ok"}, [None, 1 / 2, 0, None], "repeated loop", id="stubborn"
        ),
        pytest.param({"calls": "a(1):ok a(2):ok b(1):ok"}, [None, 1, 1, None], "", id="other arguments"),
        pytest.param({"calls": "a(1):ok b:ok a(1):ok a(1):ok"}, [None, 1, 0, None], "loop loop", id="three times"),
        pytest.param({"calls": "a(?):ok a(?):ok"}, [None, 1, None, None], "", id="unknown arguments"),
        pytest.param({"calls": "a:pending a:pending b:rejected b:rejected"}, [None] * 4, "", id="nothing ran"),
        pytest.param({"calls": "a a"}, [None] * 4, "", id="no outcome was recorded"),
    ],
)
def test_edges(fields: dict[str, Any], parts: list[float | None], kinds: str) -> None:
    """The score is the mean of what could be checked."""
    result = measured(**fields)
    known = [part for part in parts if part is not None]

    assert parts_of(result) == parts
    assert kinds_of(result) == kinds.split()
    assert result.score == (fmean(known) if known else None)
    assert (result.status is ResultStatus.SKIPPED) == (not known)


@pytest.mark.parametrize(
    ("case", "warning"),
    [
        (LLMTestCase(tools_called=calls_from("a:ok")), "the answer was not recorded"),
        (LLMTestCase(actual_output="Done."), "the calls were not recorded"),
        (LLMTestCase(tools_called=calls_from("a b:ok")), "1 call left out: their outcome was not recorded"),
        (LLMTestCase(tools_called=calls_from("a(?):ok b:ok")), "1 call left out: their arguments were not recorded"),
        (
            LLMTestCase(tools_called=[ToolCall(name="a", execution=Execution(status=CallStatus.OK))]),
            "1 call recorded by the answer alone",
        ),
    ],
)
def test_what_is_unknown_is_a_warning(case: LLMTestCase, warning: str) -> None:
    """And it costs nothing."""
    result = RunHealthMetric().measure(case)

    assert result.score == 1
    assert any(one.startswith(warning) for one in result.warnings)


def test_calls_that_poll_are_no_loop() -> None:
    """Their answers differ; an answer that was not recorded may differ, too."""
    unknown: Any = {"status": "ok", "not_captured": ["output"]}
    polls = [ToolCall(name="state", output=text) for text in ("running", "running", "done")]

    assert RunHealthMetric().measure(LLMTestCase(tools_called=[polls[0], polls[2]])).parts["no_loop"] == 1
    assert RunHealthMetric().measure(LLMTestCase(tools_called=polls)).parts["no_loop"] == 0
    calls = [ToolCall(name="state", execution=unknown)] * 2
    assert "no_loop" not in RunHealthMetric().measure(LLMTestCase(tools_called=calls)).parts


ADMISSIONS = [
    "I am unable to book it.",
    "Something went wrong.",
    "I'm having trouble connecting.",
    "The request timed out.",
    "I haven't been able to find it.",
    *("I was unable to find a hotel.", "I\u2019m unable to access the page.", "We could not complete the booking."),
    *(
        "I'm sorry, but I cannot help.",
        "An unexpected error has occurred.",
        "Unable to retrieve the file.",
        "x\nCould not log in",
    ),
    *(
        "I tried twice, but I couldn't open it.",
        "The order could not be found.",
        "I failed to send it.",
        "Please try again later.",
    ),
    *(
        "The mail was not sent due to technical issues.",
        "I do not have access to your calendar.",
        "I ran into a problem.",
    ),
    *(
        "The server returned an internal error.",
        "There seems to be an issue with the tool.",
        "I wasn't able to.  Sorry.",
    ),
    *("Agent stopped due to iteration limit or time limit.", "Sorry, need more steps to process this request."),
    *(
        "Leider konnte ich das Hotel nicht buchen.",
        "Je n'ai pas trouvé de chambre.",
        "No pude abrir el archivo.",
        "我无法打开文件。",
    ),
    *("Não foi possível abrir o arquivo.", "Done:\n- mail: sent\n- hotel: I can't find it"),
]
ANSWERS = [
    *(
        "Booked for 3 nights.",
        "I cannot refund a ticket of this fare.",
        "I'm unable to offer a discount under this policy.",
    ),
    *(
        "Unfortunately, the flight is full; I booked the next one.",
        "The error is fixed.",
        "There is an open issue: #12.",
    ),
    *("The author was unable to finish the book.", "If you cannot log in, call us.", "The report lists failed logins."),
    *(
        "No rooms were found for this day.",
        "I can find more if you like.",
        "Sorry to hear that! Done.",
    ),
]


@pytest.mark.parametrize("answer", ADMISSIONS)
def test_admissions(answer: str) -> None:
    """In any line, in any case, with any spaces; the finding quotes the answer."""
    (finding,) = measured(actual_output=answer).findings

    assert finding.kind == "admits_failure"
    assert finding.message.split("'", 1)[1][:4].strip("'\"") in answer.replace("\u2019", "'")
    for other in (answer.upper(), answer.replace(" ", "  "), f"I booked the flight.\n{answer}", f"{answer} More."):
        assert kinds_of(measured(actual_output=other)) == ["admits_failure"]


def test_an_answer_that_is_an_error_admits_it() -> None:
    """By the same convention as an answer of a tool."""
    result = RunHealthMetric().measure(LLMTestCase(tools_called=[], actual_output="Error: 500"))
    assert [finding.message for finding in result.findings] == ["The answer admits a failure: 'Error: 500'."]


@pytest.mark.parametrize("answer", ["", " \n", "None", "null", "{}", "[]", "\u200b", "<think>hm</think>\n"], ids=repr)
def test_an_answer_that_says_nothing_is_none(answer: str) -> None:
    """White space, thoughts, and values that stand for nothing."""
    result = RunHealthMetric().measure(LLMTestCase(tools_called=[], actual_output=answer))
    assert [finding.kind for finding in result.findings] == ["no_answer"]


@pytest.mark.parametrize("answer", ANSWERS)
def test_answers_that_admit_nothing(answer: str) -> None:
    """What rules forbid, what others could not do, and what merely has a word of them."""
    assert parts_of(measured(actual_output=answer)) == [1, None, None, 1]


@pytest.mark.parametrize(
    "text",
    [
        '{"action": "search", "action_input": {"day": 3}}',
        "I will look.\nAction: search\nAction Input: day 3",
        '<tool_call>{"name": "search"}</tool_call>',
        "<function=search>{}</function>",
        '[TOOL_CALLS] [{"name": "search"}]',
    ],
)
def test_a_request_for_a_tool_is_no_answer(text: str) -> None:
    """The model wrote it as text, so nothing was called."""
    result = measured("a:ok", actual_output=text)

    assert (parts_of(result), kinds_of(result)) == ([0, 1, 1, 1], ["no_answer"])


@pytest.mark.parametrize(
    "seed", ["i could not", "an a b ", ".", "i ", "\n", " ", "was ", "x could not ", '"action"', "I'm "]
)
def test_long_answers_are_read_fast(seed: str) -> None:
    """Expressions that go back would take minutes."""
    answer = (seed * 100_000)[:100_000]
    start = time.process_time()
    measured(actual_output=f"{answer}.")

    assert time.process_time() - start < 1  # second


def test_secrets_are_not_quoted() -> None:
    """An answer may repeat a key."""
    token = "ghp_" + "a1B2" * 9
    result = measured(actual_output=f"I could not log in with {token}.")

    assert "I could not" not in str(result.reason)  # from the words on
    assert "could not log in" in str(result.reason)
    assert token not in str(result.reason)


def test_images_are_an_answer() -> None:
    """Also without a text."""
    image = MLLMImage(url="https://example.com/plot.png")
    outputs: list[Any] = [[image], [image, "I was unable to add a title."], [""], []]
    scores = [RunHealthMetric().measure(MLLMTestCase(actual_output=output)).parts for output in outputs]

    assert [one["answered"] for one in scores] == [1, 1, 0, 0]
    assert [one.get("no_admission") for one in scores] == [1, 0, None, None]


def test_the_last_answer_of_a_conversation_counts() -> None:
    """And findings about calls name their turn."""
    turns = [
        Turn(role="user", content="Book it."),
        Turn(role="assistant", content="I was unable to book it.", tools_called=calls_from("book:error")),
        Turn(role="user", content="Then look."),
        Turn(role="assistant", content="It is full.", tools_called=calls_from("look:ok")),
    ]
    result = RunHealthMetric().measure(ConversationalTestCase(turns=turns))

    assert parts_of(result) == [1, 1 / 2, 1, 1]
    assert [(finding.kind, finding.turn) for finding in result.findings] == [("abandoned", 1)]


def test_verdict_label_and_reason() -> None:
    """The whole reason once; the threshold is 1."""
    metric = RunHealthMetric(threshold=0.5, strict_mode=True)
    result = measured("a:ok a:ok", actual_output="Done.")

    assert (metric.label, metric.threshold, result.passed) == ("run_health(strict)", 1, False)
    assert result.reason == (
        "total: (answered 1 + recovered 1 + no_loop 0 + no_admission 1) / 4 = 0.75 (failed at 1).\n"
        "Loop: called #2 'a', the same as #1, and with the same answer."
    )
    with pytest.raises(ConfigurationError):
        RunHealthMetric().measure("a case")


_words = st.sampled_from(["a:ok", "a(1):ok", "a(1):error", "b:error", "b", "a(?):ok", "x:unknown_tool", "b:pending"])
_answers = st.sampled_from([None, "", "Done.", "I was unable to find it.", "Action Input: x"])


@few
@given(st.lists(_words, max_size=6).map(" ".join), _answers, st.sampled_from([None, True, False]))
@example("", None, None)
def test_laws(calls: str, answer: str | None, ended: bool | None) -> None:
    """The mean of checks in [0, 1], each of which is explained; one more good call never lowers it."""
    fields = {name: value for name, value in {"actual_output": answer, "ended": ended}.items() if value is not None}
    result = measured(calls, **fields)
    checks = [part for part in parts_of(result) if part is not None]
    recovery = ToolRecoveryMetric().measure(LLMTestCase(tools_called=calls_from(calls)))

    assert all(0 <= check <= 1 for check in checks)
    assert result.score == (fmean(checks) if checks else None)
    assert bool(result.findings) == any(check < 1 for check in checks)
    assert result.passed == (None if not checks else not result.findings)
    assert (result.parts.get("recovered", 1) == 1) == (recovery.score in {None, 1})
    more = measured(f"{calls} good(9):ok".strip(), **fields)
    assert more.score is not None
    assert more.score >= (result.score or 0) - 1e-9
