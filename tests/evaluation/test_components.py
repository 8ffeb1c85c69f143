"""Apps of observed functions: evaluation of goldens and separate scores for components."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolgrade import (
    ArgumentSchemaMetric,
    BudgetMetric,
    Golden,
    LLMTestCase,
    Report,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    ToolSpec,
    evaluate,
    evaluate_async,
    observe,
)
from toolgrade.compat.deepeval.tracing import update_current_span
from toolgrade.errors import ConfigurationError

METRIC = ToolCorrectnessMetric(evaluation_params=["input_parameters"])
SEARCH = ToolCall(name="search", input_parameters={"query": "Hi!"})


@observe(tool=True)
def search(query: str, pages: int = 1) -> list[str]:
    """Find nothing much."""
    return [query] * pages


def table(report: Report) -> dict[str, dict[str, Any]]:
    """Return each row's results by metric: the score, or the status without one."""
    return {
        case.label: {
            result.metric: result.status.value if result.score is None else result.score for result in case.results
        }
        for case in report.cases
    }


def the_case(report: Report, row: int = 0) -> LLMTestCase:
    """The case of a row."""
    case = report.cases[row].case
    assert isinstance(case, LLMTestCase)
    return case


# Whole answers


def observed_app(question: str) -> str:
    """Search and return the answer."""
    return f"found {search(question)}"


async def async_app(question: str) -> str:
    """Do so in a task."""
    return f"found {await asyncio.to_thread(search, question)}"


def streaming_app(question: str) -> Generator[str, None, None]:
    """Do so piece by piece."""
    yield "found "
    yield f"{search(question)}"


async def async_streaming_app(question: str) -> AsyncGenerator[str, None]:
    """Do so piece by piece, in a loop."""
    yield "found "
    yield f"{search(question)}"


class App:
    """A class with callable apps."""

    def __call__(self, question: str) -> str:
        """Answer."""
        return observed_app(question)

    async def answer(self, question: str) -> str:
        """Answer in a loop."""
        return await async_app(question)


APPS: dict[str, Callable[[str], Any]] = {
    "plain": observed_app,
    "observed": observe(observed_app),
    "async": async_app,
    "async observed": observe(async_app),
    "stream": streaming_app,
    "observed stream": observe(streaming_app),
    "async stream": async_streaming_app,
    "observed async stream": observe(async_streaming_app),
    "object": App(),
    "method": App().answer,
    "partial": functools.partial(async_app),
    "function that returns a coroutine": lambda question: async_app(f"{question}"),
    "function that returns a stream": lambda question: async_streaming_app(f"{question}"),
}


@pytest.mark.parametrize("app", APPS.values(), ids=APPS)
@pytest.mark.parametrize("in_a_loop", [False, True])
def test_each_kind_of_app(app: Callable[[str], Any], in_a_loop: bool) -> None:
    """It is called with each golden's input; the observed calls are the case, decorated or not."""
    goldens = [
        Golden(input="Hi!", id="one", expected_tools=[SEARCH], tags=["t"], metadata={"k": 1}),
        Golden(input="Ho!", expected_tools=[SEARCH], expected_output="found", required_texts=["x"], ends="ok"),
    ]
    if in_a_loop:
        report = asyncio.run(evaluate_async(goldens=goldens, observed_callback=app, metrics=[METRIC]))
    else:
        report = evaluate(goldens=iter(goldens), observed_callback=app, metrics=[METRIC])

    assert table(report) == {"one": {METRIC.label: 1}, "Ho!": {METRIC.label: 0}}
    case = the_case(report)
    assert (case.input, case.actual_output, case.tags, case.metadata) == ("Hi!", "found ['Hi!']", ["t"], {"k": 1})
    assert the_case(report, 1).expected_output == "found"
    assert (the_case(report, 1).required_texts, the_case(report, 1).ends) == (["x"], "ok")
    assert case.run is not None
    assert case.run.warnings == []


def test_goldens_are_separate() -> None:
    """Sixty concurrent goldens in one loop and in threads each have their own calls, in order."""

    async def app(question: str) -> str:
        await asyncio.sleep(int(question) % 7 / 1000)
        await asyncio.gather(*(asyncio.to_thread(search, question, pages) for pages in range(2)))
        return question

    goldens = [
        Golden(
            input=f"{n}",
            expected_tools=[
                ToolCall(name="search", input_parameters={"query": f"{n}", "pages": pages}) for pages in range(2)
            ],
        )
        for n in range(60)
    ]
    report = evaluate(goldens=goldens, observed_callback=app, metrics=[METRIC], max_concurrency=20)

    assert [case.results[0].score for case in report.cases] == [1] * 60
    assert [the_case(report, n).actual_output for n in range(60)] == [f"{n}" for n in range(60)]
    assert all(len(the_case(report, n).tools_called or ()) == 2 for n in range(60))


def test_a_sync_app_is_never_in_two_places() -> None:
    """It may not be thread-safe; an async app is called up to the concurrency limit."""
    going, most = [], []

    def note(step: int) -> None:
        going.append(step)
        most.append(sum(going))

    def app(_question: str) -> None:
        note(1)
        time.sleep(0.002)
        note(-1)

    async def aapp(_question: str) -> None:
        note(1)
        await asyncio.sleep(0.02)
        note(-1)

    goldens = [Golden(input=f"{n}", expected_tools=[]) for n in range(12)]
    evaluate(goldens=goldens, observed_callback=app, metrics=[METRIC], max_concurrency=6)
    sync_most = max(most)
    most.clear()
    evaluate(goldens=goldens, observed_callback=aapp, metrics=[METRIC], max_concurrency=6)

    assert (sync_most, max(most)) == (1, 6)


def test_an_app_that_fails() -> None:
    """It is scored on its calls with its error next to the score, and the others continue."""

    def app(question: str) -> str:
        search(question)
        if question == "bad":
            raise StopIteration("no more")
        return "done"

    goldens = [Golden(input="bad", expected_tools=[SEARCH]), Golden(input="Hi!", expected_tools=[SEARCH])]
    report = evaluate(goldens=goldens, observed_callback=app, metrics=[ToolCorrectnessMetric()])

    assert [case.results[0].score for case in report.cases] == [1, 1]
    assert report.cases[0].results[0].warnings == ("the run ended with an error: StopIteration: no more",)
    assert the_case(report).actual_output is None


def test_possibly_lost_calls_are_reported() -> None:
    """A thread without a context: the score has a warning that calls may be missing."""

    def app(question: str) -> None:
        thread = threading.Thread(target=search, args=(question,))
        thread.start()
        thread.join()

    report = evaluate(goldens=[Golden(input="Hi!", expected_tools=[SEARCH])], observed_callback=app, metrics=[METRIC])

    (result,) = report.cases[0].results
    assert result.score == 0
    assert "copy_context" in result.warnings[0]


def test_app_may_set_fields_of_its_run() -> None:
    """They apply if the golden lacks them; the expectation cannot be changed."""

    @observe
    def app(_question: str) -> None:
        update_current_span(
            test_case=LLMTestCase(id="other", tags=["other"]),
            input="other",
            output="said",
            tools_called=[SEARCH],
            expected_tools=[],
            expected_output="wanted",
            metadata={"a": 1, "b": 1},
        )

    golden = Golden(input="Hi!", id="g", expected_tools=[SEARCH], metadata={"b": 2})
    report = evaluate(goldens=[golden], observed_callback=app, metrics=[METRIC])

    assert table(report) == {"g": {METRIC.label: 1}}
    case = the_case(report)
    assert (case.input, case.actual_output, case.expected_output) == ("Hi!", "said", "wanted")
    assert case.metadata == {"a": 1, "b": 2}
    assert case.tags == []


# Components


def test_components_are_rows_of_their_own() -> None:
    """A row for each execution; results of inapplicable metrics are neither listed nor counted."""
    efficiency = BudgetMetric(max_calls=1)

    @observe(metrics=[efficiency])
    def retrieve(query: str, often: int) -> None:
        for _ in range(often):
            search(query, often)

    @observe
    def app(question: str) -> str:
        retrieve(question, 1)
        retrieve(question, 2)
        return "done"

    goldens = [Golden(input="Hi!", id="g", expected_tools=[SEARCH])]
    report = evaluate(goldens=goldens, observed_callback=app, metrics=[ToolCorrectnessMetric()])
    name = f"retrieve: {efficiency.label}"

    whole, one, two = report.cases
    assert [case.label for case in report.cases] == ["g", "g > retrieve", "g > retrieve #2"]
    assert report.metrics == ("tool_correctness", name)
    assert [result.status.value for result in whole.results] == ["scored", "skipped"]
    assert [result.status.value for result in one.results] == ["skipped", "scored"]
    assert [one.results[1].passed, two.results[1].passed] == [True, False]
    assert [(summary.scored, summary.skipped, summary.errored) for summary in report.summaries] == [
        (1, 0, 0),
        (2, 0, 0),
    ]
    assert the_case(report, 1).tools_called == [*(the_case(report).tools_called or ())][:1]
    assert [case["id"] for case in report.to_dict()["cases"]] == ["g", "g > retrieve", "g > retrieve #2"]
    assert [[result["metric"] for result in case["results"]] for case in report.to_dict()["cases"]] == [
        ["tool_correctness"],
        [name],
        [name],
    ]
    assert len(list(report.results())) == 3
    assert not report.passed


def test_a_component_that_was_not_reached() -> None:
    """An app that failed before: not measured, and not silently missing. One that went another way: skipped."""

    @observe(metrics=[METRIC])
    def inner(query: str) -> None:
        search(query)
        update_current_span(expected_tools=[SEARCH])

    @observe
    def app(question: str) -> None:
        if question == "bad":
            raise ValueError("no")
        if question == "Hi!":
            inner(question)
            raise ValueError("later")

    report = evaluate(goldens=[Golden(input=text) for text in ("bad", "Hi!", "other")], observed_callback=app)
    name = f"inner: {METRIC.label}"

    assert table(report) == {
        "bad": {name: "errored"},
        "Hi!": {name: "skipped"},
        "Hi! > inner": {name: 1},
        "other": {name: "skipped"},
    }
    assert [(result.metric, case.label) for case, result in report.results()] == [
        (name, label) for label in ("bad", "Hi! > inner", "other")
    ]
    assert report.cases[0].results[0].reason == (
        "Not measured: the app failed before it reached 'inner': ValueError: no"
    )


def test_the_app_may_have_metrics_itself() -> None:
    """The golden is its expectation unless it sets its own."""

    @observe(metrics=[METRIC])
    def app(question: str) -> None:
        search(question)
        if question == "bad":
            update_current_span(expected_tools=[SEARCH])

    goldens = [
        Golden(input=text, expected_tools=[ToolCall(name="search", input_parameters={"query": text})])
        for text in ("Hi!", "bad")
    ]

    assert table(evaluate(goldens=goldens, observed_callback=app)) == {
        "Hi! > app": {f"app: {METRIC.label}": 1},
        "bad > app": {f"app: {METRIC.label}": 0},
    }


def test_components_of_one_name_are_distinguished() -> None:
    """Their metrics have separate columns."""

    def component(threshold: float) -> Callable[[], None]:
        @observe(name="part", metrics=[ToolCorrectnessMetric(threshold=threshold)])
        def part() -> None:
            update_current_span(tools_called=[], expected_tools=[])

        return part

    one, two = component(0.5), component(0.9)

    @observe
    def app(_question: str) -> None:
        one()
        two()

    report = evaluate(goldens=[Golden(input="a")], observed_callback=app)

    assert [(summary.metric, summary.threshold, summary.scored) for summary in report.summaries] == [
        ("part: tool_correctness", 0.5, 1),
        ("part #2: tool_correctness", 0.9, 1),
    ]


def test_a_component_that_cannot_be_measured() -> None:
    """It states no expectation, as for any case, and so the answer has not passed."""

    @observe(metrics=[METRIC])
    def inner() -> None:
        search("a")

    @observe
    def app(_question: str) -> None:
        inner()

    report = evaluate(goldens=[Golden(input="a", expected_tools=[])], observed_callback=app)

    assert report.cases[0].results[0].status.value == "skipped"
    assert "expected_tools" in (report.cases[0].results[0].reason or "")
    assert (report.passed, report.verdict.counts["not_measured"]) == (False, 1)


def test_available_tools_of_a_golden() -> None:
    """The run's calls are checked against them."""
    spec = ToolSpec(name="search", input_schema={"type": "object", "required": ["pages"]})
    report = evaluate(
        goldens=[Golden(input="Hi!", available_tools=[spec])],
        observed_callback=observed_app,
        metrics=[ArgumentSchemaMetric()],
    )

    assert [finding.kind for finding in report.cases[0].results[0].findings] == ["schema_violation"]


# Laws


@settings(deadline=None, max_examples=30)
@given(plan=st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=4), min_size=1, max_size=4))
def test_the_goldens_rows_are_those_without_components(plan: list[list[tuple[bool, int]]]) -> None:
    """Whatever components run inside, a golden's calls and scores are the same, and each component has its own."""

    def steps(question: str) -> list[tuple[bool, int]]:
        return plan[int(question)]

    @observe(metrics=[ToolCorrectnessMetric()])
    def inner(question: str, pages: int) -> None:
        for _ in range(pages):
            search(question, pages)
        update_current_span(expected_tools=[ToolCall(name="search")] * pages)

    def with_components(question: str) -> None:
        for is_component, pages in steps(question):
            if is_component:
                inner(question, pages)
            else:
                search(question, pages)

    def without(question: str) -> None:
        for is_component, pages in steps(question):
            for _ in range(pages if is_component else 1):
                search(question, pages)

    goldens = [Golden(input=f"{n}", id=f"g{n}", expected_tools=[SEARCH] * 2) for n in range(len(plan))]
    options: dict[str, Any] = {"goldens": goldens, "metrics": [METRIC]}
    one, two = (evaluate(observed_callback=app, **options) for app in (with_components, without))
    rows = [case for case in one.cases if " > " not in case.label]

    def calls_of(run: Run | None) -> list[tuple[str, Any]]:
        return [(call.name, call.input_parameters) for call in (run.calls if run is not None else [])]

    assert [case.results[0].score for case in rows] == [case.results[0].score for case in two.cases]
    assert [calls_of(case.case.run) for case in rows] == [calls_of(case.case.run) for case in two.cases]  # type: ignore[union-attr]
    amounts = [pages for steps_of_one in plan for is_component, pages in steps_of_one if is_component]
    inner_rows = [case for case in one.cases if " > " in case.label]
    assert [len(case.case.tools_called) for case in inner_rows] == amounts  # type: ignore[union-attr, arg-type]
    assert all(case.results[1].score == 1 for case in inner_rows)


# What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observed_callback": observed_app, "metrics": [METRIC]}, "observed_callback needs goldens"),
        ({"observed_callback": observed_app, "metrics": [METRIC], "goldens": []}, "goldens must not be empty"),
        (
            {"observed_callback": 3, "metrics": [METRIC], "goldens": [Golden(input="a")]},
            "must be a function of the golden",
        ),
        ({"observed_callback": observed_app, "goldens": [Golden(input="a")]}, "nothing to score"),
        (
            {"observed_callback": observed_app, "metrics": METRIC, "goldens": [Golden(input="a")]},
            "must be a list of at",
        ),
        (
            {"observed_callback": observed_app, "agent": observed_app, "goldens": [Golden(input="a")]},
            "observed_callback and agent cannot be combined",
        ),
        (
            {"observed_callback": observed_app, "test_cases": [LLMTestCase()], "goldens": [Golden(input="a")]},
            "observed_callback and test_cases cannot be combined",
        ),
    ],
)
def test_invalid_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    """With the problem, and before the first question if possible."""
    with pytest.raises(ConfigurationError, match=message):
        evaluate(**options)


def test_nothing_to_score_names_the_failure() -> None:
    """If an app fails before its first component, its error is reported."""

    def app(_question: str) -> None:
        raise ValueError("no key")

    with pytest.raises(ConfigurationError, match="run failed: ValueError: no key"):
        evaluate(observed_callback=app, goldens=[Golden(input="a")])


async def waits_after_a_call(question: str) -> str:
    """An app that is late for one question."""
    observe(lambda: "found", tool=True, name="lookup")()
    await asyncio.sleep(600 if question == "late" else 0)
    return "done"


def waits_in_a_thread(question: str) -> str:
    """The same in a thread."""
    observe(lambda: "found", tool=True, name="lookup")()
    if question == "late":
        threading.Event().wait(600)
    return "done"


@pytest.mark.parametrize("app", [waits_after_a_call, waits_in_a_thread])
def test_a_late_app_keeps_its_calls(app: Any) -> None:
    """It is stopped, and the others have all their time, also where they wait for one another."""
    goldens = [Golden(input=question, expected_tools=[ToolCall(name="lookup")]) for question in ("a", "late", "b")]

    report = evaluate(goldens=goldens, observed_callback=app, metrics=[ToolCorrectnessMetric()], timeout=0.5)

    runs = [case.case.run for case in report.cases]
    assert [run.status.value for run in runs] == ["ok", "stopped", "ok"]
    assert runs[1].error == "TimeoutError: no answer within 0.5 s"
    assert [[call.name for call in run.calls] for run in runs] == [["lookup"]] * 3
