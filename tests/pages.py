"""Reports for the tests of the HTML page: small, hostile, and with many cases."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from toolgrade import (
    ConversationalTestCase,
    LLMTestCase,
    MetricResult,
    MLLMImage,
    MLLMTestCase,
    ResultStatus,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    Turn,
    evaluate,
)
from toolgrade.calls import Execution, ToolSpec
from toolgrade.cases import Handoff
from toolgrade.report import CaseResult, MetricSummary, Report, TrialSummary
from toolgrade.report.report import Flaky
from toolgrade.result import Finding, QuestionResult, UnitResult

BEGAN = datetime(2026, 11, 22, 9, 0, tzinfo=timezone.utc)
ABOUT = {"toolgrade": "0.1.0", "python": "3.12.1", "started_at": "2026-11-22T09:00:00+00:00", "seconds": 2.5}


def png(width: int = 8, height: int = 6) -> bytes:
    """A red PNG image."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + b"\xc8\x3c\x3c" * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def timed(name: str, arguments: dict[str, Any], begin: float, took: float, **more: Any) -> ToolCall:
    """Return a call that started this many seconds after the first."""
    execution = Execution(started_at=BEGAN + timedelta(seconds=begin), duration=took, executed=True, **more)
    return ToolCall(name=name, input_parameters=arguments, output={"ok": True}, execution=execution)


@dataclass(frozen=True)
class SummedReport(Report):
    """A report with fixed summaries, as an evaluation with trials and a judge has them."""

    fixed_summaries: tuple[MetricSummary, ...] | None = None
    fixed_trials: tuple[TrialSummary, ...] = ()

    @property
    def summaries(self) -> tuple[MetricSummary, ...]:
        """The fixed ones, or those of the results."""
        return self.fixed_summaries or super().summaries

    @property
    def trial_summaries(self) -> tuple[TrialSummary, ...]:
        """The fixed ones."""
        return self.fixed_trials


def summed(report: Report, summaries: Any = None, trials: tuple[TrialSummary, ...] = ()) -> Report:
    """The report with fixed summaries."""
    return SummedReport(
        report.metrics, report.cases, report.trials, report.interrupted, report.about, summaries, trials
    )


def judged_result(metric: str = "tool_use") -> MetricResult:
    """Return the judge's result for the conversation below."""
    questions = (
        QuestionResult(
            criterion="tool_selection",
            decided_by="judge",
            decision="yes",
            tool="search",
            called=0,
            turn=1,
            probability=0.93,
            rationale="The user asked for a flight.",
            evidence=("m1", "c1", "t1"),
        ),
        QuestionResult(
            criterion="arguments",
            decided_by="code",
            decision="no",
            tool="weather",
            called=1,
            turn=1,
            rationale="city is no text",
            evidence=("c2", "c99", "k1"),
        ),
        QuestionResult(
            criterion="missing_calls",
            decided_by="judge",
            decision="no",
            missing=2,
            turn=1,
            rationale="Nothing was booked.",
            flip_rate=0.2,
        ),
        QuestionResult(
            criterion="tool_selection",
            decided_by="judge",
            outcome="malformed",
            tool="weather",
            called=1,
            turn=1,
            problem="the reply was no JSON",
        ),
    )
    return MetricResult(
        metric=metric,
        status=ResultStatus.SCORED,
        score=0.5,
        passed=False,
        threshold=0.8,
        reason="min(selection 0.75, arguments 0.5) = 0.5 (failed at 0.8).",
        parts={"selection": 0.75, "arguments": 0.5},
        units=(UnitResult(index=0, turn=1, selection=0.75, arguments=0.5, questions=questions),),
        judge={"model": "judge-1", "prompts": "3", "samples": "5"},
        usage={"requests": 3, "input_tokens": 4310},
        cost=0.0123,
        warnings=("1 question was not answered",),
    )


SPECS = [
    ToolSpec(name="search", description="Finds flights.", input_schema={"type": "object"}),
    ToolSpec(name="weather"),
]
CONVERSATION = ConversationalTestCase(
    id="conversation",
    turns=[
        Turn(role="user", content="A flight to Lisbon,\nand the weather."),
        Turn(
            role="assistant",
            content="There is TP531.",
            tools_called=[
                ToolCall(name="search", input_parameters={"to": "LIS"}, execution={"step": 0}),
                ToolCall(name="weather", input_parameters={"city": 1}, execution={"step": 0, "status": "error"}),
            ],
        ),
    ],
    available_tools=SPECS,
    tags=["chat"],
)
FLIGHT = {"to": "LIS", "options": {"cabin": "economy", "seats": 2}, "stops": ["FRA", "MUC"]}
WRONG = {"to": "LIS", "options": {"cabin": "business", "seats": 2}, "stops": ["FRA", "ZRH", "BCN"], "note": "now"}
BOOKED = [
    timed("search", FLIGHT, 0, 1.5, step=0),
    timed("weather", {"city": "Lisbon"}, 0.1, 0.4, step=0, children=[timed("cache", {"key": "LIS"}, 0.2, 0.1)]),
    timed("book", WRONG, 2, 3, step=1, status="error", error="TimeoutError: no answer", attempts=2),
]
CASES = [
    LLMTestCase(
        id="booking-1",
        input="Book a flight to Lisbon.",
        actual_output="Booked.",
        expected_output="It is booked.",
        tools_called=BOOKED,
        expected_tools=[
            ToolCall(name="search", input_parameters=FLIGHT),
            ToolCall(name="book", input_parameters=FLIGHT),
            ToolCall(name="mail", input_parameters={"to": "me"}),
        ],
        available_tools=SPECS,
        tags=["booking", "nightly"],
        metadata={"reward": 0.5},
        run=Run(
            calls=BOOKED,
            models=["model-1"],
            usage={"input_tokens": 1200},
            run_id="run-1",
            duration=5,
            handoffs=[Handoff(from_agent="desk", to_agent="sales")],
            warnings=["a stream ended before its last event"],
        ),
    ),
    LLMTestCase(id="booking-2", tools_called=[ToolCall(name="search")], expected_tools=[ToolCall(name="search")]),
    LLMTestCase(id="booking-10", tools_called=[ToolCall(name="search")], expected_tools=[ToolCall(name="search")]),
    LLMTestCase(name="no expectation", tools_called=[ToolCall(name="weather")]),
    MLLMTestCase(
        id="picture",
        input=["What is this?", MLLMImage(data=png()), MLLMImage(url="https://example.org/cat.png")],
        actual_output=["Red."],
        tools_called=[],
        expected_tools=[],
        tags=["nightly"],
    ),
    CONVERSATION,
]
METRIC = ToolCorrectnessMetric(evaluation_params=["input_parameters"], threshold=0.8)


def small_report() -> Report:
    """Return a report of two metrics with every verdict."""
    first = evaluate(CASES[:5], [METRIC])
    name = first.metrics[0]
    skipped = MetricResult(metric="tool_use", status=ResultStatus.SKIPPED, threshold=0.8, reason="No conversation.")
    other = replace(skipped, metric=name, reason="A conversation has no expected calls.")
    cases = [replace(case, results=(*case.results, skipped)) for case in first.cases]
    cases.append(CaseResult(5, CONVERSATION, (other, judged_result())))
    return Report((name, "tool_use"), tuple(cases), about=ABOUT)


def trials_report() -> Report:
    """An interrupted evaluation of two questions, three times each, with intervals and flaky questions."""
    base = evaluate([CASES[0], CASES[1]] * 3, [METRIC])
    cases = tuple(replace(case, trial=case.index // 2 + 1, golden=case.index % 2) for case in base.cases)
    report = Report(base.metrics, cases, trials=3, interrupted=True, about=ABOUT)
    (summary,) = report.summaries
    trials = TrialSummary(
        metric=base.metrics[0],
        goldens=2,
        trials=3,
        pass_at={1: 0.5, 2: 0.5, 3: None},
        pass_hat={1: 0.5, 2: 0.25, 3: None},
        counted={1: 2, 2: 2, 3: 0},
        flaky=(Flaky(name="booking-1", passed=1, scored=3),),
    )
    change = replace(
        summary,
        mean_interval=(0.25, 0.75),
        rate_interval=(0.05, 0.95),
        coverage=0.875,
        usage={"requests": 8},
        cost=None,
    )
    return summed(report, (change,), (trials,))


def before(report: Report, text: str = "release 6") -> list[Report]:
    """Return an evaluation before a report, in which every case had another result and one case more was measured."""
    cases = [replace(case, results=tuple(_other(result, text) for result in case.results)) for case in report.cases]
    gone = replace(cases[0], index=len(cases), case=LLMTestCase(id=text), key=None, golden=None, trial=None, agent=None)
    about = {"name": text, "started_at": "2026-11-15T09:00:00+00:00", text: text}
    return [Report(report.metrics, (*cases, gone), report.trials, about=about)]


def _other(result: MetricResult, text: str) -> MetricResult:
    """Return a result that passed where this one did not, and one that failed where it passed."""
    score = 0.0 if result.passed else 1.0
    finding = Finding("missing", text, text)
    return replace(
        result,
        status=ResultStatus.SCORED,
        score=score,
        passed=score >= result.threshold,
        reason=text,
        error=None,
        findings=() if score else (finding,),
        alignment=None,
    )


def hostile_call(text: str, *, depth: int = 1) -> ToolCall:
    """A call with a text in every field that takes one."""
    return ToolCall(
        name=text,
        description=text,
        reasoning=text,
        input_parameters={text: text, "list": [text, {text: [text]}]},
        output={text: text},
        id=text,
        execution=Execution(
            status="error",
            error=text,
            requested_parameters=text,
            model_output=text,
            artifact={text: [text]},
            agent=text,
            server=text,
            source=text,
            not_captured=[text],
            children=[hostile_call(text, depth=depth - 1)] if depth else [],
            step=0,
        ),
    )


def hostile_cases(text: str) -> list[Any]:
    """Cases of every kind with a text in every field that takes one."""
    common: dict[str, Any] = {
        "id": text,
        "name": f"{text} name",
        "available_tools": [ToolSpec(name=text, description=text, input_schema={text: {"description": text}})],
        "tags": [text],
        "metadata": {text: text},
    }
    run = Run(
        input=text,
        actual_output=text,
        calls=[hostile_call(text), ToolCall(name="other")],
        handoffs=[Handoff(call=0, from_agent=text, to_agent=text)],
        status="error",
        error=text,
        models=[text],
        usage={text: 3},
        conversation_id=text,
        run_id=text,
        tags=[f"{text} run"],
        metadata={text: [text]},
        warnings=[text],
    )
    calls: dict[str, Any] = {
        "tools_called": [hostile_call(text), ToolCall(name=f"{text} 2")],
        "expected_tools": [
            ToolCall(name=text, input_parameters={text: "other", "list": [text, "x"], f"{text}3": text}),
            ToolCall(name=f"{text} 3"),
        ],
    }
    turns = [
        Turn(role="user", content=text, metadata={text: text}),
        Turn(role="assistant", content=text, tools_called=[hostile_call(text)]),
    ]
    images: list[str | MLLMImage] = [
        text,
        MLLMImage(url=text, mime_type=text),
        MLLMImage(path=text),
        MLLMImage(url=f"data:image/svg+xml,{text}"),
        MLLMImage(data=text.encode("utf-8", "replace"), mime_type="image/png"),
        MLLMImage(data=png() + text.encode("utf-8", "replace"), mime_type=text),
    ]
    return [
        LLMTestCase(**common, **calls, input=text, actual_output=text, expected_output=text, run=run),
        MLLMTestCase(**common, **calls, input=images, actual_output=images, expected_output=images, run=run),
        ConversationalTestCase(**common, turns=turns),
    ]


def hostile_results(text: str, metric: str) -> list[MetricResult]:
    """Results of every kind with a text in every field that takes one."""
    finding = Finding(
        "wrong_argument", text, text, expected=0, called=0, path=f"$.input_parameters.{text}", expected_value=text
    )
    judged = QuestionResult(
        criterion="arguments",
        decided_by="judge",
        outcome=text,
        tool=text,
        called=0,
        rationale=text,
        evidence=(text, "c1", f"c1{text}"),
        problem=text,
    )
    scored = MetricResult(
        metric=metric,
        status=ResultStatus.SCORED,
        threshold=0.5,
        score=0.25,
        passed=False,
        reason=text,
        findings=(finding,),
        parts={text: 0.25},
        warnings=(text,),
        units=(UnitResult(index=0, turn=1, questions=(judged, replace(judged, decision="no", turn=1))),),
        judge={"model": text, text: text},
        usage={text: 3},
    )
    return [
        scored,
        MetricResult(metric=metric, status=ResultStatus.ERRORED, threshold=0.5, reason=text, error=f"{text}: {text}"),
        MetricResult(metric=metric, status=ResultStatus.SKIPPED, threshold=0.5, reason=text),
    ]


def hostile_report(text: str) -> Report:
    """A report with a text in every field of everything that has one."""
    metric = f"custom {text}"
    cases = hostile_cases(text)
    real = evaluate(cases[:2], [METRIC])
    results = hostile_results(text, metric)
    entries = [
        CaseResult(index, case, (real.cases[min(index, 1)].results[0], result), trial=1, golden=0)
        for index, (case, result) in enumerate(zip(cases, results, strict=True))
    ]
    report = Report((real.metrics[0], metric), tuple(entries), trials=3, interrupted=True, about={text: {text: [text]}})
    trials = TrialSummary(
        metric=metric,
        goldens=1,
        trials=1,
        pass_at={1: 0.5},
        pass_hat={1: 0.5},
        counted={1: 1},
        flaky=(Flaky(name=text, passed=1, scored=2),),
    )
    return summed(report, trials=(trials,))


def many_cases(amount: int) -> Report:
    """Return an evaluation of many cases in which every fifth fails."""
    cases = [
        CASES[0].model_copy(update={"id": f"case-{index:04}"})
        if index % 5 == 0
        else CASES[1].model_copy(update={"id": f"case-{index:04}", "input": f"question {index}", "tags": ["even"]})
        for index in range(amount)
    ]
    return evaluate(cases, [METRIC])
