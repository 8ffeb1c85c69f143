"""What a reader who decides sees first: sentences, facts, slices, and earlier evaluations, in every view."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import datetime, timezone
from html import unescape
from io import StringIO

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.console import Console

from toolgrade import (
    ConversationalTestCase,
    Execution,
    Gate,
    LLMTestCase,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    ToolGroundingMetric,
    Turn,
    compare,
    evaluate,
)
from toolgrade.errors import ConfigurationError
from toolgrade.redact import DEFAULT
from toolgrade.report import Report
from toolgrade.report.html import render_html
from toolgrade.report.markdown import render_markdown
from toolgrade.report.overview import overview
from toolgrade.report.terminal import print_report
from toolgrade.report.text.headline import facts_of, headline
from toolgrade.report.text.slices import slices_of
from toolgrade.stats import mcnemar, rate_interval

BOOK = ToolCall(name="book", input_parameters={"seats": 2})
CALLS = {"p": [BOOK], "f": [ToolCall(name="book", input_parameters={"seats": 3})], "e": None}
METRIC = ToolCorrectnessMetric(evaluation_params=["input_parameters"], threshold=1)


def case(outcome: str, place: int, tags: list[str] | None = None, team: str | None = None) -> LLMTestCase:
    """Return a case that passes, fails, could not be measured, or breaks the agent."""
    run = Run(
        status="error" if outcome == "a" else "ok",
        error="TimeoutError: no answer" if outcome == "a" else None,
        models=["gpt-4.1"],
        usage={"input_tokens": 100, "output_tokens": 7},
        duration=2.0,
    )
    metadata = {} if team is None else {"team": team}
    calls, tags = CALLS["p" if outcome == "a" else outcome], tags or []
    return LLMTestCase(id=f"c{place}", tools_called=calls, expected_tools=[BOOK], tags=tags, metadata=metadata, run=run)


def report(outcomes: str, name: str = "", **about: object) -> Report:
    """Return a report with these outcomes, of cases that are the same in every report."""
    cases = [case(outcome, place) for place, outcome in enumerate(outcomes)]
    measured = evaluate(cases, [METRIC], show_progress=False)
    facts = {"started_at": "2026-11-21T09:00:00+00:00", **({"name": name} if name else {}), **about}
    return replace(measured, about=facts)


# Sentences


def test_sentences_of_one_evaluation() -> None:
    """Verdict with the pass rate, and the tool and argument that go wrong."""
    assert headline(report("ppppffea")) == [
        (
            "Failed: 2 of 8 cases failed, 1 could not be measured (c6: ToolCorrectnessMetric needs tools_called of "
            "case 'c6'; give the calls, or [] for none), 1 agent broke (c7: TimeoutError: no answer); 67 % of those "
            "measured passed (95 % interval 30 % to 90 %)."
        ),
        "Most often wrong: 'book' in 2 of 2 failed cases (2 with wrong arguments), there mostly 'seats'.",
    ]
    assert headline(report("pp")) == ["Passed: 2 cases passed."]
    assert headline(replace(report("pppf"), gate=Gate(pass_rate=0.5)))[0] == (
        "Passed: 3 of 4 cases passed, and the gate allows the rest: 1 of 4 cases failed."
    )


def test_what_costs_no_score_is_noticed() -> None:
    """Further calls, and calls that failed, where no case failed; a report is true if its gate holds."""
    extra = LLMTestCase(tools_called=[BOOK, ToolCall(name="pay")], expected_tools=[BOOK])
    failing = BOOK.model_copy(update={"execution": Execution(status="error", error="TimeoutError")})
    broken = LLMTestCase(tools_called=[failing], expected_tools=[BOOK])
    noticed = evaluate([extra, broken], [METRIC], show_progress=False)

    assert headline(noticed) == [
        "Passed: 2 cases passed.",
        "Noticed in passed cases: 'pay' in 1 case (1 unexpected); 1 case with warnings.",
    ]
    assert noticed
    assert not report("pf")


def test_what_is_missing_since_before_is_said() -> None:
    """Fewer cases must not look like better ones."""
    before = report("pppf", "release 6")

    now = replace(before, cases=before.cases[:2])
    _, second = headline(now, compare(before, now))

    assert second == (
        "Compared with release 6 (2026-11-21), none of 2 cases changed between passed and failed; 2 cases of before "
        "are missing."
    )
    interrupted = overview(before, [replace(before, interrupted=True)], (), DEFAULT)
    assert interrupted.sentences[1].startswith("Compared with release 6 (interrupted) (2026-11-21), ")
    assert interrupted.trend[0].name == "release 6 (interrupted)"


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("pppp", "pppp", "none of 4 cases changed between passed and failed."),
        ("pppppp", "ffffff", "6 of 6 cases became worse and 0 better, more than chance explains (p = 0.031)."),
        ("pf", "fp", "1 of 2 cases became worse and 1 better, which may be chance (p = 1.000)."),
        (
            "ppp",
            "pea",
            "none of 1 case changed between passed and failed; 2 more cases passed before and have no verdict now.",
        ),
        ("e", "p", "no case has a verdict in both."),
    ],
)
def test_the_sentence_of_a_change(before: str, after: str, sentence: str) -> None:
    """With the name and the date of what it was compared with, and whether it may be chance."""
    _, second, *_ = headline(report(after), compare(report(before, "release 6"), report(after)))

    assert second == f"Compared with release 6 (2026-11-21), {sentence}"


@given(st.lists(st.tuples(st.sampled_from("pfea"), st.sampled_from("pfea")), min_size=1, max_size=12))
def test_changes_are_counted_by_outcome(pairs: list[tuple[str, str]]) -> None:
    """Over the cases with a verdict in both, with McNemar's exact test."""
    before, after = ("".join(side) for side in zip(*pairs, strict=True))
    changes = compare(report(before), report(after), resamples=1).outcomes
    counts = Counter(pair for pair in pairs if {*pair} <= {"p", "f"})
    worse, better = counts["p", "f"], counts["f", "p"]

    assert (changes.both, changes.worse, changes.better) == (counts.total(), worse, better)
    assert changes.passed_a - changes.passed_b == worse - better
    assert changes.p_value == (mcnemar(worse, better) if counts else None)


def test_agents_are_named_best_first() -> None:
    """In place of a comparison with earlier results."""
    rows = [
        replace(entry, agent=name, golden=entry.index % 2)
        for entry, name in zip(report("fpff").cases, ("mini", "large", "mini", "large"), strict=True)
    ]

    assert headline(replace(report("pfff"), cases=tuple(rows)))[1] == (
        "By agent: large passed 1 of 2 cases, mini passed 0 of 2 cases."
    )


def test_every_view_begins_with_the_same_sentences() -> None:
    """The terminal, Markdown and the page, as does `print(report)` without what was before."""
    now, earlier = report("pppfff", "release 7"), report("ppppff", "release 6")
    sentences = overview(now, [earlier], (), DEFAULT).sentences
    console = Console(file=StringIO(), width=200)
    with console.capture() as capture:
        print_report(now, earlier=[earlier], console=console)
    page = unescape(re.sub("<[^>]*>", "", render_html(now, earlier=[earlier])))
    markdown = render_markdown(now, earlier=[earlier]).replace("`", "").replace("**", "")

    assert len(sentences) == 3
    assert [line.strip() for line in capture.get().splitlines()[1:4]] == sentences
    for view in (page, markdown):
        places = [view.index(sentence.removeprefix("Failed: ")) for sentence in sentences]
        assert places == sorted(places)
    assert str(now).splitlines()[:2] == [sentences[0], sentences[2]]


# Facts


def test_facts_are_what_was_recorded() -> None:
    """Models, tokens, time and what the caller stated; sums name the cases that they cover."""
    measured = report("pp", commit="0123456789abcdef", model="gpt")
    silent = replace(measured.cases[1], case=LLMTestCase(id="c1", input="Hello"))
    part = replace(measured, cases=(measured.cases[0], silent))

    assert facts_of(measured) == {
        "model": "gpt",
        "models": "gpt-4.1",
        "tokens": "200 input, 14 output",
        "time": "2.0 s a case",
        "commit": "0123456789ab",
        "date": "2026-11-21",
    }
    assert facts_of(part)["tokens"] == "100 input, 7 output (of 1 case)"


def test_the_commit_of_ci_is_a_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the caller states another one; facts that are not a mapping are refused."""
    monkeypatch.setenv("GITHUB_SHA", "abc")

    assert evaluate([case("p", 0)], [METRIC]).about["commit"] == "abc"
    stated = evaluate(
        [case("p", 0)], [METRIC], about={"commit": "def", "at": datetime(2026, 11, 1, tzinfo=timezone.utc)}
    )
    assert (stated.about["commit"], stated.about["at"]) == ("def", "2026-11-01T00:00:00+00:00")
    with pytest.raises(ConfigurationError, match="about must map names to values, got 'x'"):
        evaluate([case("p", 0)], [METRIC], about="x")  # type: ignore[arg-type]


# Slices


@given(
    st.lists(
        st.tuples(st.sampled_from("pfea"), st.lists(st.sampled_from("abc"), max_size=2, unique=True)),
        min_size=1,
        max_size=12,
    )
)
def test_slices_add_up(rows: list[tuple[str, list[str]]]) -> None:
    """Each tag has the cases that carry it, with Wilson's interval over those measured; the lowest rate comes first."""
    cases = [case(outcome, place, tags) for place, (outcome, tags) in enumerate(rows)]
    assume(any(tags for _, tags in rows))
    parts = slices_of(evaluate(cases, [METRIC], show_progress=False), "tag")

    for part in parts:
        own = [outcome for outcome, tags in rows if (part.name in tags if part.name else not tags)]
        measured = [outcome == "p" for outcome in own if outcome in "pf"]
        assert part.cases == len(own) == sum(part.counts.values())
        assert part.rate == (sum(measured) / len(measured) if measured else None)
        assert part.interval == rate_interval(measured)
    named = [part.rate for part in parts if part.name and part.rate is not None]
    assert named == sorted(named)
    assert {part.name for part in parts} == {tag for _, tags in rows for tag in tags or [""]}


def test_slices_by_a_field() -> None:
    """Of the metadata, such as a team; an unknown one is an error with a hint."""
    measured = evaluate([case("p", 0, team="a"), case("f", 1, team="b"), case("p", 2)], [METRIC], show_progress=False)

    assert [(part.name, part.rate) for part in slices_of(measured, "metadata.team")] == [("b", 0), ("a", 1), ("", 1)]
    assert "Pass rate by metadata.team" in render_html(measured, by=["metadata.team"])
    with pytest.raises(ConfigurationError, match=r"did you mean 'metadata\.team'"):
        slices_of(measured, "team")


# Several evaluations


def test_a_trend() -> None:
    """One chart, and a line for each evaluation; those that cannot be compared say why."""
    reports = [report(outcomes, name) for outcomes, name in (("ffpp", "1"), ("fppp", "2"), ("pppp", "3"))]
    strict = evaluate([case("p", 0)], [ToolCorrectnessMetric(threshold=0.5)], show_progress=False)
    view = overview(reports[-1], reports[:-1], (), DEFAULT)
    page = render_html(reports[-1], earlier=reports[:-1])
    other = overview(strict, [report("p", "1")], (), DEFAULT)

    assert [(point.name, point.cases.rate) for point in view.trend] == [("1", 0.5), ("2", 0.75), ("3", 1)]
    assert [point.passed for point in view.trend] == [False, False, True]
    assert page.count('class="dot"') == 3
    assert len(re.findall(r"<script|<svg[^>]*role=\"img\"[^>]*Pass rate", page)) == 2
    assert render_html(reports[1], earlier=reports[:1]).count('class="dot"') == 0
    assert other.comparison is None
    assert other.sentences[1].startswith("Not compared with the earlier results: ")
    assert other.trend[1].change == other.sentences[1].removeprefix("Not compared with the earlier results: ")[:-1]


# Cases


def test_the_page_shows_where_values_come_from() -> None:
    """Beside the call: on hover, and in text."""
    calls = [
        ToolCall(name="search", input_parameters={"city": "Lisbon"}, output=[{"id": "TP-531"}]),
        ToolCall(name="book", input_parameters={"flight": "TP-531", "seat": "XY-12345"}),
    ]
    flight = LLMTestCase(input="Book a flight to Lisbon", actual_output="Done.", tools_called=calls)
    page = render_html(evaluate([flight], [ToolGroundingMetric()], show_progress=False))

    hover = re.search(r'<code class="args" title="([^"]*)">[^<]*TP-531', page)
    assert hover is not None
    assert 'flight = "TP-531", from search[0].id.' in unescape(hover[1])
    assert '<li class="traced">flight = "TP-531", from search[0].id.</li>' in page
    assert re.search(r'<li class="ungrounded">seat = "XY-12345"[^<]*</li>', page)


def test_a_page_of_a_thousand_cases_is_light() -> None:
    """At most 2 MB; what is left out is counted, and failures keep their details."""
    rows = [
        case("pf"[place % 10 == 0], place).model_copy(update={"actual_output": "word " * 100}) for place in range(1000)
    ]
    page = render_html(evaluate(rows, [METRIC], show_progress=False))
    without = int(re.search(r"([\d,]+) cases of this page are rows without details", page)[1].replace(",", ""))  # type: ignore[index]

    assert len(page.encode()) < 2_000_000
    assert 0 < without < 900
    assert page.count("The details of this case are not in this file") == without


def test_a_case_is_called_by_its_question() -> None:
    """If it has neither id nor name, without secrets and shortened."""
    cases = [LLMTestCase(input=text, tools_called=[], expected_tools=[]) for text in ("Is it\nsunny?", "x" * 99, None)]
    names = [entry.name for entry in evaluate(cases, [METRIC], show_progress=False).cases]

    assert names[0] == "Is it sunny?"
    assert len(names[1]) == 60
    assert names[2] == "#3"


def test_a_generated_id_is_no_name() -> None:
    """A UUID, as recorders make them, says less than the question; without one it stays."""
    uuid = "01a22a2f-b2b7-7611-96fd-51e86c02219e"
    cases = [LLMTestCase(id=uuid, input=text, tools_called=[], expected_tools=[]) for text in ("Sunny?", None)]
    report = evaluate(cases, [METRIC], show_progress=False)

    assert [(entry.name, entry.identity) for entry in report.cases] == [("Sunny?", ("id", uuid)), (uuid, ("id", uuid))]


def test_a_case_in_a_notebook() -> None:
    """As the page shows it, in a frame of its own without scripts; the text of the case is data twice over."""
    (entry,) = evaluate(
        [LLMTestCase(id="<b>", input='"><script>x</script>', tools_called=[BOOK], expected_tools=[])], [METRIC]
    ).cases
    frame = entry._repr_html_()
    inside = unescape(re.fullmatch(r'<iframe title="&lt;b&gt;" srcdoc="([^"]*)" sandbox [^<]*></iframe>', frame)[1])  # type: ignore[index]

    assert "<script" not in inside
    assert "&gt;&lt;script&gt;x&lt;/script&gt;" in inside
    assert "book: not expected" in inside


# Transcripts


def test_a_run_is_printed_for_people() -> None:
    """What was said and called, with the outcome of each call, and how the run ended; `repr` has the fields."""
    inner = ToolCall(name="pay", input_parameters={"token": "tok_live_abcdefgh12345678"}, output={"ok": True})
    failed = Execution(status="error", error="TimeoutError: no\nanswer", children=[inner])
    calls = [ToolCall(name="book", input_parameters={"seats": 2}, execution=failed)]
    run = Run(input="Two seats", actual_output="It did not work.", calls=calls, status="stopped", error="limit of 3")

    assert str(run).splitlines() == [
        "user: Two seats",
        '  book {"seats": 2} -> error: TimeoutError: no\\nanswer',
        '    pay {"token": "[redacted by toolgrade]"} -> {"ok": true}',
        "assistant: It did not work.",
        "the run ended: stopped (limit of 3)",
    ]
    assert repr(run).startswith("Run(")


def test_handoffs_and_warnings_of_a_run_are_printed() -> None:
    """Which agent went on, which hand-over failed, and what the recording lacks."""
    run = Run(
        input="Pay",
        actual_output="",
        calls=[ToolCall(name="transfer_to_nobody")],
        handoffs=[{"from_agent": "Front", "to_agent": "Payer"}],
        failed_handoffs=[0],
        warnings=["a call was cut off"],
    )

    assert str(run).splitlines()[-4:] == [
        "assistant: (nothing)",
        "handoff: Front -> Payer",
        "handoff that failed: transfer_to_nobody",
        "warning: a call was cut off",
    ]


def test_a_conversation_is_printed_for_people() -> None:
    """Turn by turn."""
    turns = [
        Turn(role="user", content="Rome?"),
        Turn(role="assistant", content="Sunny.", tools_called=[ToolCall(name="look", output="sun")]),
        Turn(role="user", content="Oslo?"),
        Turn(role="assistant", content="", tools_called=[]),
    ]

    assert str(ConversationalTestCase(turns=turns)).splitlines() == [
        "user: Rome?",
        "  look {} -> sun",
        "assistant: Sunny.",
        "user: Oslo?",
        "assistant: (nothing)",
    ]
