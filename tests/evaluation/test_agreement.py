"""Agreement of runs in reports: which runs belong together, where it is shown, and what it survives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolgrade import (
    CallStatus,
    ConversationalTestCase,
    Execution,
    Golden,
    LLMTestCase,
    Report,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    Turn,
    evaluate,
)
from toolgrade.evaluation import read_results
from toolgrade.evaluation.agreement import RunContent, agreements
from toolgrade.evaluation.execute import EvaluationOptions, run_evaluation
from toolgrade.report.html import render_html
from toolgrade.report.junit import render_junit
from toolgrade.report.markdown import render_markdown
from toolgrade.report.terminal import print_report
from toolgrade.report.text.phrases import agreement_lines

METRIC = ToolCorrectnessMetric()
CANCEL = [ToolCall(name="cancel_order", input_parameters={"id": 7})]
REFUND = [ToolCall(name="refund_order", input_parameters={"id": 7})]
LINES = [
    "Agreement of runs: writes 0.33, answers 1.00 (mean over 1 golden with several runs).",
    "Writes that agree least: g (trial 3) 0.",
    "Runs without writes agree, and so do runs of a task that all fail alike.",
]


def case(calls: list[ToolCall] = CANCEL, **fields: Any) -> LLMTestCase:
    """A run of one question."""
    values: dict[str, Any] = {"input": "Cancel it", "tools_called": calls, **fields}
    return LLMTestCase(**values)


def trials(**options: Any) -> Report:
    """Three trials of one golden, of which two agree."""
    runs = iter([CANCEL, CANCEL, REFUND] * 2)

    async def agent(question: str, _: object) -> Run:
        return Run(input=question, calls=next(runs), actual_output="Done.")

    golden = Golden(id="g", input="Cancel it", expected_tools=CANCEL)
    return evaluate(goldens=[golden], agent=agent, metrics=[METRIC], trials=3, show_progress=False, **options)


def groups(cases: list[Any]) -> list[int | None]:
    """The group of each case in the report of a log."""
    rows = evaluate(cases, [METRIC], show_progress=False).cases
    return [None if row.agreement is None else row.agreement.group for row in rows]


def talk(*texts: str) -> ConversationalTestCase:
    """A conversation in which the user says these texts."""
    turns = [Turn(role=role, content=text) for text in texts for role in ("user", "assistant")]
    return ConversationalTestCase(turns=turns)


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        ([case(), case(REFUND)], [0, 0]),
        ([case(input="other"), case(), case(), case()], [None, 1, 1, 1]),
        ([case(id="a"), case(id="b"), case()], [None, None, None]),
        ([case(expected_tools=CANCEL), case(expected_tools=REFUND), case(expected_tools=CANCEL)], [0, None, 0]),
        ([case(name="line 1, turn 2"), case(name="line 2, turn 2"), case(name="line 3, turn 1")], [None, None, None]),
        ([case(run=Run(conversation_id="c")), case(run=Run(conversation_id="d"))], [None, None]),
        ([case(input=None), case(input=None), case(input=""), case(input="")], [None] * 4),
        ([talk("a", "b"), talk("a", "c"), talk("a", "b")], [0, None, 0]),
        ([case(tools_called=None), case(tools_called=None)], [None, None]),
    ],
)
def test_runs_of_one_question(cases: list[Any], expected: list[int | None]) -> None:
    """Cases without an id, with equal inputs and expectations, that are not later turns of a conversation."""
    assert groups(cases) == expected


SECRET = {"api_key": "[redacted by toolgrade]"}


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        ([case(), case(), case([*CANCEL, *REFUND])], [(5 / 6, None), (5 / 6, None), (2 / 3, None)]),
        ([case([]), case([ToolCall(name="get_order")]), case()], [(0.5, None), (0.5, None), (0.0, None)]),
        # Calls that failed are no writes, those of unknown effect are.
        ([case([]), case([ToolCall(name="pay", execution=Execution(status=CallStatus.ERROR))])], [(1.0, None)] * 2),
        ([case([]), case([ToolCall(name="frob")])], [(0.0, None)] * 2),
        # The tools of the case say more than a name.
        ([case([]), case(available_tools=[{"name": "cancel_order", "effect": "read"}])], [(1.0, None)] * 2),
        # By meaning, in any order and in any turn.
        (
            [case([ToolCall(name="pay", input_parameters={"to": "Ann"}, turn=turn)]) for turn in (1, 2)],
            [(1.0, None)] * 2,
        ),
        ([case(CANCEL + REFUND), case(REFUND + CANCEL)], [(1.0, None)] * 2),
        # An object is one leaf where a text is expected, and is several where it is itself expected: 1/2 and 1/3.
        (
            [case([ToolCall(name="pay", input_parameters={"a": 1, "b": b})]) for b in ("x", {"c": 1})],
            [(5 / 12, None)] * 2,
        ),
        # Half of the words of the one, all of the other.
        ([case(actual_output="paid 12"), case(actual_output="paid")], [(1.0, 0.75)] * 2),
        # What is not known takes part on neither side.
        ([case(), case(), case([ToolCall(name="pay", input_parameters=SECRET)])], [(1.0, None)] * 2 + [(None, None)]),
        (
            [
                case([]),
                case(
                    [ToolCall(name="pay", execution=Execution(status=CallStatus.OK, not_captured=["input_parameters"]))]
                ),
            ],
            [(None, None)] * 2,
        ),
        (
            [case(actual_output=text) for text in ("a", "b", "", "key [redacted by toolgrade]")],
            [(1.0, 0.0)] * 2 + [(1.0, None)] * 2,
        ),
        ([case()], [(None, None)]),
        ([], []),
    ],
)
def test_numbers(cases: list[Any], expected: list[tuple[float | None, float | None]]) -> None:
    """Each the mean over the other runs."""
    assert agreements([RunContent.of(one) for one in cases]) == expected


def test_trials(capsys: pytest.CaptureFixture[str]) -> None:
    """Every view shows the same lines; JUnit has the numbers, and JSON has them by run."""
    report = trials()

    assert [row.agreement for row in report.cases] == [(0, 0.5, 1.0), (0, 0.5, 1.0), (0, 0.0, 1.0)]
    assert agreement_lines(report) == LINES
    print_report(report, title="t")
    shown = " ".join(capsys.readouterr().out.split())
    assert all(line in shown for line in LINES)
    assert all(line in render_markdown(report, title="t") for line in LINES)
    assert all(line in render_html(report) for line in LINES)
    plain = report.to_dict()
    assert plain["agreement"] == {
        "writes": pytest.approx(1 / 3),
        "answers": 1.0,
        "groups": 1,
        "least": [["g (trial 3)", 0.0]],
    }
    assert plain["cases"][2]["agreement"] == {"group": 0, "writes": 0.0, "answer": 1.0}


def test_a_report_without_several_runs_shows_nothing() -> None:
    """Not in any view."""
    report = evaluate([case(id="a"), case(id="b")], [METRIC], show_progress=False)

    assert report.agreement is None
    pages = [
        json.dumps(report.to_dict()),
        render_markdown(report, title="t"),
        render_html(report),
        render_junit(report, title=""),
    ]
    assert not any("agreement" in page.lower() for page in pages)


def test_files(tmp_path: Path) -> None:
    """A file of results and the JSON of a report have the numbers; without the content, the former has none."""
    report = trials(results=tmp_path / "whole.jsonl")
    trials(results=tmp_path / "short.jsonl", contents=False)
    (tmp_path / "report.json").write_text(report.to_json())

    assert read_results(tmp_path / "whole.jsonl").agreement == report.agreement
    restored = read_results(tmp_path / "report.json")
    assert agreement_lines(restored) == LINES
    assert restored.to_dict() == report.to_dict()
    assert read_results(tmp_path / "short.jsonl").agreement is None
    assert trials(results=tmp_path / "texts.jsonl", error_texts="none").agreement == report.agreement
    assert read_results(tmp_path / "texts.jsonl").agreement is None


def test_a_secret_makes_no_runs_agree(tmp_path: Path) -> None:
    """Runs with different secrets do not agree after these were removed: there, it is not known."""
    keys = ("sk-aaaaaaaaaaaaaaaaaaaa1", "sk-bbbbbbbbbbbbbbbbbbbb1")
    cases = [case([ToolCall(name="pay", input_parameters={"with": key})], actual_output=key) for key in keys]
    report = evaluate(cases, [METRIC], results=tmp_path / "results.jsonl", show_progress=False)

    assert [row.agreement for row in report.cases] == [(0, 0.0, 0.0)] * 2
    assert read_results(tmp_path / "results.jsonl").agreement is None


def test_a_log_of_many_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too much to compare is not compared; nor are cases of which a report has no content."""
    calls = [CANCEL, CANCEL, REFUND] * 30
    lines = [case(one, id=f"{place // 3}", actual_output="Done.").to_json() for place, one in enumerate(calls)]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines))

    def agreement(full: int) -> Any:
        return run_evaluation(EvaluationOptions(test_cases=path, metrics=[METRIC], full=full)).agreement

    assert agreement(0)[:3] == (pytest.approx(1 / 3), 1.0, 30)
    assert agreement(30) is None
    monkeypatch.setattr("toolgrade.evaluation.agreement._MOST_WORK", 10000)
    assert 0 < agreement(0).groups < 30


def test_several_agents() -> None:
    """Each has its own numbers; the runs of one agent are no others for those of another one."""

    def agent_of(calls: list[ToolCall]) -> Any:
        async def agent(question: str, _: object) -> Run:
            return Run(input=question, calls=calls)

        return agent

    agents = {"a": agent_of(CANCEL), "b": agent_of(REFUND)}
    golden = Golden(id="g", input="Cancel it", expected_tools=CANCEL)
    report = evaluate(goldens=[golden], agents=agents, metrics=[METRIC], trials=2, show_progress=False)

    assert report.agreement is None
    assert [part.agreement.writes for name in "ab" if (part := report.of_agent(name)).agreement] == [1.0, 1.0]
