"""The HTML report without a browser: content, escaping, and atomic writing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages import (
    CASES,
    METRIC,
    before,
    hostile_report,
    judged_result,
    many_cases,
    png,
    small_report,
    summed,
    trials_report,
)
from processes import assert_golden, environment
from reports import agents_report
from strategies import case_fields, few
from toolgrade import (
    LLMTestCase,
    MetricResult,
    MLLMImage,
    MLLMTestCase,
    Report,
    ResultStatus,
    Run,
    TaskSuccessMetric,
    ToolCall,
    ToolCorrectnessMetric,
    evaluate,
)
from toolgrade.errors import ConfigurationError
from toolgrade.expect import Contains, ContainsAll, Expect, Glob, Plan
from toolgrade.formats import run_from_messages
from toolgrade.redact import DEFAULT, DEFAULT_KEYS, OFF, REDACTED, Redactor
from toolgrade.report import CaseResult
from toolgrade.report.html import render_html, write_html

VOID = {"wbr", "meta", "link", "input", "br", "rect", "path"}
ELEMENTS = {
    *("html", "head", "meta", "link", "title", "style", "body", "script", "noscript", "header", "main"),
    *("footer", "section", "div", "form", "fieldset", "legend", "label", "input", "select", "option", "button"),
    *("output", "h1", "h2", "h3", "h4", "p", "ul", "li", "dl", "dt", "dd", "a", "span", "b", "small", "strong"),
    *("code", "pre", "kbd", "em", "br", "wbr", "optgroup", "table", "thead", "tbody", "tr", "th", "td"),
    *("details", "summary", "figure", "figcaption", "svg", "rect", "path"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "rel", "href", "class", "id", "hidden", "tabindex"),
    *("type", "role", "scope", "title", "for", "value", "checked", "placeholder"),
    *("autocomplete", "spellcheck", "viewbox", "preserveaspectratio", "x", "y", "width", "height", "d", "open"),
    *("aria-label", "aria-labelledby", "aria-hidden", "aria-live", "data-v", "data-i", "data-t", "data-m"),
    *("data-s", "data-p", "data-name", "data-where", "data-label", "label"),
}
HOSTILE = (
    "</script></noscript></style></title></textarea><script>window.hit=1</script><img src=x onerror=window.hit=1>"
    "\"'><svg onload=window.hit=1> javascript:window.hit=1 {{7*7}} {% raw %} &lt;b&gt; <!-- \x1b[31m\u202eabc\u2066\x00"
)
INVISIBLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff]")


class Reading(HTMLParser):
    """A page as a browser reads it without scripts: its elements, and its text line by line."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.contents: dict[str, list[str]] = {"script": [], "style": []}
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remembers the element."""
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag in {"h1", "h2", "h3", "h4", "p", "tr", "li", "summary", "dt", "pre", "div"}:
            self.words.append("\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element without content."""
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """Check that elements are properly nested."""
        assert self.open.pop() == tag
        if tag in {"td", "th", "span", "summary", "code", "b"}:
            self.words.append(" ")

    def handle_data(self, data: str) -> None:
        """Texts, but not those of the style and the script."""
        if self.open and self.open[-1] in self.contents:
            self.contents[self.open[-1]].append(data)
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        """The text, one line for each block, without empty ones."""
        lines = (" ".join(line.split()) for line in "".join(self.words).split("\n"))
        return "\n".join(line for line in lines if line) + "\n"

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of all elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page() -> str:
    """The page of the small report."""
    return render_html(small_report(), title="cases.jsonl")


# Content


def test_a_small_report(page: str) -> None:
    """The text of the whole page: verdict, sums, breakdown, and every case with all its parts."""
    assert_golden("html-report.txt", Reading(page).text)


def test_required_texts_are_listed() -> None:
    """Whether the agent said each, if a metric looked for it."""
    case = LLMTestCase(
        id="a", actual_output="Paid 5 €.", tools_called=[], expected_tools=[], required_texts=["5 €", "thank you"]
    )
    looked = Reading(render_html(evaluate([case], [TaskSuccessMetric(guess_effects=False)]))).text
    other = Reading(render_html(evaluate([case], [METRIC]))).text

    assert "required texts\nstated 5 €\nmissing thank you" in looked
    assert "required texts\n5 €\nthank you" in other


def test_a_log_of_several_turns_shows_the_whole_conversation() -> None:
    """Every message of the user and the agent, with the calls of each turn before its answer."""

    def request(name: str) -> dict[str, Any]:
        call = {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    messages = [
        {"role": "user", "content": "Order 7?"},
        {"role": "assistant", "content": "Let me see."},
        request("look"),
        {"role": "tool", "tool_call_id": "look", "content": "ready"},
        {"role": "assistant", "content": "It is ready."},
        {"role": "user", "content": "Thanks."},
        {"role": "assistant", "content": "Welcome."},
        {"role": "user", "content": "Refund it."},
        request("refund"),
        {"role": "tool", "tool_call_id": "refund", "content": "done"},
    ]
    case = run_from_messages(messages).to_test_case().model_copy(update={"expected_tools": []})
    text = Reading(render_html(evaluate([case], [METRIC]))).text.partition("\nConversation\n")[2]

    parts = [
        *("Order 7?", "Let me see.", "c1 look", "It is ready.", "Thanks.", "Welcome.", "Refund it."),
        "c2 refund",
    ]
    places = [text.index(f"\n{part}\n") for part in parts]
    assert places == sorted(places)
    assert text.startswith("user\nOrder 7?\nassistant\nLet me see.\nassistant\n")


def test_cases_are_linked_by_their_ids() -> None:
    """Equal ids are numbered, and any character is escaped, so that a link works in later reports."""
    cases = [LLMTestCase(id=name, tools_called=[], expected_tools=[]) for name in ("a b:c1", "x", "x", "x #2")]
    entries = Reading(render_html(evaluate(cases, [METRIC]))).all("details")

    assert [one["id"] for one in entries if one.get("class") == "case"] == [
        "case-a%20b%3Ac1",
        "case-x",
        "case-x~2",
        "case-x%20%232",
    ]


def test_warnings_are_folded_by_kind_at_the_end() -> None:
    """Texts that differ in names only are one line, below the cases."""
    cases = [
        LLMTestCase(id=f"c{n}", tools_called=[], expected_tools=[], run=Run(warnings=[f"id 'i{n}' has {n} calls"]))
        for n in range(3)
    ]
    text = Reading(render_html(evaluate(cases, [METRIC]))).text.partition("\nCases\n")[2]

    assert "Warnings\nid 'i0' has 0 calls 3 cases, 2 similar texts\nc0, c1, c2\n" in text


def test_trials_and_a_comparison() -> None:
    """What an interrupted evaluation with trials says, with intervals and the judge's coverage; and what changed."""
    text = Reading(render_html(trials_report(), earlier=before(trials_report()))).text

    assert_golden("html-trials.txt", text.partition("\nCases\n")[0] + "\n")
    assert "trials trial 1 trial 2 trial 3" in text


def test_several_agents() -> None:
    """Side by side, with links from each outcome to its case; a case links to the others of its golden."""
    outcomes = {
        "gpt-4o": {"refund": "pp", "late": "ff"},
        "mini": {"refund": "pf", "late": "ff"},
        HOSTILE: {"refund": "ee"},
    }
    reading = Reading(render_html(agents_report(outcomes, 2)))

    assert {tag for tag, _ in reading.elements} <= ELEMENTS
    assert_links_lead_somewhere(reading)
    assert_golden("html-agents.txt", reading.text.partition("\nWhere it goes wrong\n")[0] + "\n")
    assert "this golden gpt-4o, trial 1 gpt-4o, trial 2 mini, trial 1 mini, trial 2" in reading.text


def test_limit_reports_omitted_cases() -> None:
    """The worst cases stay; numbers cover all; no link has a missing target."""
    report = many_cases(40)
    short, full = Reading(render_html(report, limit=10)), Reading(render_html(report, limit=0))

    assert sum("data-v" in attributes for attributes in short.all("details")) == 10
    assert sum("data-v" in attributes for attributes in full.all("details")) == 40
    assert {attributes["data-v"] for attributes in short.all("details") if "data-v" in attributes} == {
        "failed",
        "passed",
    }
    assert "30 more cases are not on this page, which shows the 10 that did worst." in short.text
    assert "more cases are not on this page" not in full.text
    assert "8 of 40 cases failed" in short.text
    assert "32" in short.text
    assert_links_lead_somewhere(short)


def test_a_negative_limit_is_refused() -> None:
    """The message lists the accepted values."""
    with pytest.raises(ConfigurationError, match=r"limit must be 0 \(all cases\) or more, got -1"):
        render_html(small_report(), limit=-1)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (Report((), ()), "there are no cases"),
        (Report(("m",), ()), "There are no cases."),
        (evaluate(CASES[1:3], [METRIC]), "2 cases passed"),
        (evaluate(CASES[3:4], [METRIC]), "1 of 1 case could not be measured"),
        (
            Report(
                ("m",),
                (CaseResult(0, CASES[1], (MetricResult(metric="m", status=ResultStatus.SKIPPED, threshold=0.5),)),),
            ),
            "1 of 1 case could not be measured",
        ),
        (Report(("m",), (CaseResult(0, 7, (judged_result("m"),)),)), "1 of 1 case failed"),  # type: ignore[arg-type]
    ],
    ids=["nothing", "no cases", "all passed", "an error", "skipped", "no case at all"],
)
def test_edges(report: Report, words: str) -> None:
    """Reports without cases, without scores, and with items that are not cases."""
    reading = Reading(render_html(report))

    assert words in reading.text
    assert_links_lead_somewhere(reading)


def test_results_of_other_cases_are_empty_cells() -> None:
    """A component metric has no result in rows of other cases."""
    result = MetricResult(metric="m", status=ResultStatus.SKIPPED, threshold=0.5, reason="about another component")
    other = replace(judged_result("other"), units=())
    report = Report(("m", "other"), (CaseResult(0, CASES[1], (result, other), frozenset({0})),))
    reading = Reading(render_html(report))

    assert "about another component" not in reading.text
    assert next(entry["data-m"] for entry in reading.all("details") if "data-m" in entry) == "apart failed "


def test_evidence_links_to_its_target(page: str) -> None:
    """Calls, messages and tools are linked; invented or malformed anchors are text."""
    reading = Reading(page)
    links = {attributes["href"] for attributes in reading.all("a")}

    assert {"#case-conversation:m1", "#case-conversation:c1", "#case-conversation:c2", "#g1t1"} <= links
    assert "#case-conversation:c99" not in links
    assert_links_lead_somewhere(reading)


def assert_links_lead_somewhere(reading: Reading) -> None:
    """Every link points into the page, to an id that occurs once."""
    ids = [attributes["id"] for _, attributes in reading.elements if "id" in attributes]
    links = [str(attributes["href"]) for attributes in reading.all("a")]

    assert len(ids) == len(set(ids))
    assert [link for link in links if link[0] != "#" or link[1:] not in ids] == []


def test_shared_tools_are_shown_once() -> None:
    """Two thousand cases with the same twenty tools do not repeat them."""
    cases = [CASES[0].model_copy(update={"id": str(index)}) for index in range(5)]
    other = CASES[0].model_copy(update={"available_tools": CASES[0].available_tools[:1]})  # type: ignore[index]
    reading = Reading(render_html(evaluate([*cases, other], [METRIC])))

    assert [attributes["id"] for attributes in reading.all("details") if str(attributes.get("id"))[0] == "g"] == [
        *("g1", "g1t1", "g1t2"),
        *("g2", "g2t1"),
    ]


def test_long_things_are_shortened_where_everybody_sees_it() -> None:
    """Texts, values, calls, turns and tags have limits, and each omission is reported."""
    call = ToolCall(name="n" * 500, input_parameters={"text": "v" * 9000}, output="o" * 5000)
    case = LLMTestCase(
        input="i" * 10_000, tools_called=[call] * 300, expected_tools=[call], tags=[str(n) for n in range(60)]
    )
    page = render_html(evaluate([case], [METRIC]))
    text = Reading(page).text

    assert "shortened: the first 8,000 of 10,000 characters" in text
    assert "shortened: the first 4,000 of 5,002 characters" in text
    assert "100 more calls not shown here" in text
    assert "100 more calls not shown" in text
    assert {len(name) for name in re.findall(r'<code class="tool">(n[n.]+)</code>', page)} == {120}
    assert len(page) < 3_000_000
    assert_links_lead_somewhere(Reading(page))


@pytest.mark.parametrize(
    ("rate", "words"),
    [((1999, 1), "99.95 %"), ((1, 4999), "0.02 %"), ((1, 2), "33.3 %"), ((3, 0), "100 %"), ((0, 3), "0 %")],
)
def test_shares_are_never_rounded_to_all_or_nothing(rate: tuple[int, int], words: str) -> None:
    """One failure among thousands is not 100 %."""
    report = evaluate(CASES[1:2], [METRIC])
    (summary,) = report.summaries
    changed = summed(report, (replace(summary, passed=rate[0], failed=rate[1]),))

    assert f"<b>{words}</b>" in render_html(changed)


def test_shown_trials_link_to_each_other() -> None:
    """An omitted trial is named without a link, as is an omitted case in a warning."""
    full, short = Reading(render_html(trials_report())), Reading(render_html(trials_report(), limit=1))

    assert {f"#case-booking-1%20%28trial%20{trial}%29" for trial in (2, 3)} <= {
        attributes["href"] for attributes in full.all("a")
    }
    assert not {f"#case-booking-1%20%28trial%20{trial}%29" for trial in (2, 3)} & {
        attributes["href"] for attributes in short.all("a")
    }
    assert "trials trial 1 trial 2 trial 3" in short.text
    assert_links_lead_somewhere(full)
    assert_links_lead_somewhere(short)


def test_verdicts_have_matching_styles(page: str) -> None:
    """Yes is positive, no negative, undecided neutral."""
    assert '<span class="badge passed">yes</span>' in page
    assert '<span class="badge failed">no</span>' in page
    assert '<span class="badge failed">no, 2 missing</span>' in page
    assert '<span class="badge skipped">malformed</span>' in page


def test_plan_is_shown_in_its_json_form() -> None:
    """Without secrets."""
    plan = Plan([Expect(Glob("book_*"), {"flight": "TP531", "password": "word-1"}, optional=True)])
    page = render_html(evaluate([LLMTestCase(tools_called=[], expected_tools=plan)], [METRIC]))
    text = Reading(page).text

    assert '"glob": "book_*"' in text or "book_*" in text
    assert "TP531" in text
    assert "word-1" not in page


def test_calls_of_the_run_that_are_not_scored_are_counted() -> None:
    """So that they are not searched among the calls of the case."""
    case = LLMTestCase(tools_called=[ToolCall(name="a")], run=Run(calls=[ToolCall(name=name) for name in "abc"]))

    assert "2 other calls of the run" in render_html(evaluate([case], [METRIC]))
    assert "of the run" not in render_html(small_report())


def test_nested_calls_are_shown_to_a_depth() -> None:
    """Deeper ones are counted."""
    call = ToolCall(name="leaf")
    for _ in range(20):
        call = ToolCall(name="outer", execution={"children": [call]})
    text = Reading(render_html(evaluate([LLMTestCase(tools_called=[call])], [METRIC]))).text

    assert "12 more calls inside, not shown" in text
    assert "leaf" not in text.partition("\nCases\n")[2]


@pytest.mark.parametrize(
    ("cases", "interrupted", "badge"),
    [
        (CASES[1:2], False, '<span class="badge passed">Passed</span> 1 case passed'),
        (
            CASES[1:2],
            True,
            '<span class="badge failed">Failed</span> the evaluation was interrupted after 1 case',
        ),
        ([], False, '<span class="badge failed">Failed</span> there are no cases'),
    ],
)
def test_interrupted_evaluation_is_never_passed(cases: list[Any], interrupted: bool, badge: str) -> None:
    """Its state is shown."""
    report = evaluate(cases, [METRIC]) if cases else Report((), ())
    page = render_html(replace(report, interrupted=interrupted))

    assert badge in page
    assert ("was stopped before all cases were measured" in page) is interrupted


def test_warning_is_shown_once() -> None:
    """With its result; with the recording only if no result has it."""
    case = LLMTestCase(id="a", tools_called=[], run=Run(warnings=["it broke off."]))
    text = Reading(render_html(evaluate([case.model_copy(update={"expected_tools": []})], [METRIC]))).text
    without = Reading(render_html(evaluate([case], [METRIC]))).text

    assert text.partition("\nCases\n")[2].partition("\nWarnings\n")[0].count("it broke off") == 1
    assert without.partition("\nCases\n")[2].count("it broke off") == 1


def test_images_are_named() -> None:
    """By their address; those that the case holds itself have none, and nothing is loaded."""
    parts = ["What is this?", MLLMImage(data=png()), MLLMImage(url="https://example.org/cat.png")]
    parts += [MLLMImage(path="/etc/cat.png"), MLLMImage(url="data:image/svg+xml;base64,PHN2Zz48L3N2Zz4=")]
    case = MLLMTestCase(input=parts, tools_called=[], expected_tools=[])
    text = Reading(render_html(evaluate([case], [METRIC]))).text

    assert "What is this?\n[image]\n[image https://example.org/cat.png]\n[image /etc/cat.png]\n[image]\n" in text


def test_failed_handoffs_are_named() -> None:
    """The page names the requests to hand over that failed, also between other calls."""
    calls = [ToolCall(name="to_bob"), ToolCall(name="add"), ToolCall(name="to_ann")]
    run = Run(input="hi", calls=calls, failed_handoffs=[0, 2])

    text = Reading(render_html(evaluate([run.to_test_case(expected_tools=[])], [METRIC]))).text

    assert "failed handoffs\nto_bob, to_ann" in text
    assert "not scored\n2 other calls of the run" in text
    with_handoffs = run.to_test_case(expected_tools=[], handoffs=True)
    assert "failed handoffs" not in Reading(render_html(evaluate([with_handoffs], [METRIC]))).text


# Data is never markup


def test_hostile_text_is_not_markup() -> None:
    """The page has only its own elements and attributes, and no URL from data."""
    reading = Reading(
        render_html(hostile_report(HOSTILE), title=HOSTILE, earlier=before(hostile_report(HOSTILE), HOSTILE))
    )

    assert {tag for tag, _ in reading.elements} <= ELEMENTS
    assert {name for _, attributes in reading.elements for name in attributes} <= ATTRIBUTES
    assert len(reading.all("script")) == len(reading.all("style")) == len(reading.all("title")) == 1
    for _, attributes in reading.elements:
        assert str(attributes.get("href", "#")).startswith(("#", "data:,"))
    assert_links_lead_somewhere(reading)


def test_hostile_text_is_shown() -> None:
    """It is escaped rather than removed; unprintable characters are visible."""
    page = render_html(hostile_report(HOSTILE), title=HOSTILE, earlier=before(hostile_report(HOSTILE), HOSTILE))
    text = Reading(page).text

    assert not INVISIBLE.search(page.replace("\n", ""))
    assert text.count("<script>window.hit=1</script>") > 40
    assert "{{7*7}} {% raw %} &lt;b&gt;" in text
    assert r"\x1b[31m\u202eabc\u2066\x00" in text


@few
@given(st.lists(case_fields.map(lambda fields: LLMTestCase(**fields)), min_size=1, max_size=3), st.text(max_size=20))
def test_any_report_can_be_rendered(cases: list[LLMTestCase], title: str) -> None:
    """Whatever the cases hold, the page is whole, printable and can be written."""
    page = render_html(evaluate(cases, [METRIC]), title=title)
    reading = Reading(page)

    page.encode()
    assert reading.open == []
    assert not INVISIBLE.search(page.replace("\n", ""))
    assert {tag for tag, _ in reading.elements} <= ELEMENTS
    assert_links_lead_somewhere(reading)


def test_secrets_are_removed() -> None:
    """From every part of a case, results and metadata; they stay on request."""
    token = "sk-live0123456789abcdefghijklmnop"
    text = f"before {token} after"
    execution = {
        "status": "error",
        "error": text,
        "requested_parameters": text,
        "model_output": [text],
        "artifact": {"a": text},
        "children": [ToolCall(name="inner", input_parameters={"api_key": "word-1"}, output=text)],
    }
    call = ToolCall(name="a", description=text, reasoning=text, input_parameters={"a": text}, execution=execution)
    expected = ToolCall(name="a", input_parameters={"a": ["b", text], "password": "word-2"})
    case = LLMTestCase(
        input=text,
        actual_output=text,
        expected_output=text,
        tools_called=[call],
        expected_tools=[expected],
        available_tools=[{"name": "a", "description": text, "parameters": {"description": text}}],
        tags=[text],
        metadata={"a": text, "secret": "word-3"},
        run=Run(warnings=[text], error=text, input=f"run {text}", metadata={"cookie": "word-4"}),
    )
    judged = judged_result()
    questions = tuple(replace(one, rationale=text, problem=text) for one in judged.units[0].questions)
    judged = replace(
        judged, reason=text, error=text, warnings=(text,), units=(replace(judged.units[0], questions=questions),)
    )
    (entry,) = evaluate([case], [METRIC]).cases
    report = Report(
        (entry.results[0].metric, "tool_use"),
        (replace(entry, results=(*entry.results, judged)),),
        about={"a": text, "token": "word-5"},
    )

    page, unredacted = (render_html(report, title=text, redactor=redactor) for redactor in (DEFAULT, OFF))
    assert token not in page
    assert "word-" not in page
    assert page.count(REDACTED) > 20
    assert unredacted.count(token) > 20
    assert all(f"word-{number}" in unredacted for number in range(1, 6))


def test_expected_answers_and_texts_hold_no_secret() -> None:
    """A matcher of the answer is described; required and recorded texts, and their findings, are redacted."""
    token = "sk-live0123456789abcdefghijklmnop"
    text = f"before {token} after"
    case = LLMTestCase(
        expected_output=ContainsAll(text, "seat <12A>"),
        actual_output="none",
        required_texts=[text],
        agent_texts=[f"other {token}"],
    )
    page = render_html(evaluate([case], [TaskSuccessMetric()]))

    assert token not in page
    assert "seat &lt;12A&gt;" in page
    described = render_html(
        evaluate([LLMTestCase(expected_output=Contains("12A"), actual_output="")], [TaskSuccessMetric()])
    )
    assert "contains &#34;12A&#34;" in described


def test_own_rules_for_secrets_are_followed() -> None:
    """A key that only the user knows is hidden in arguments, differences, expectations and metadata."""
    called, expected = (
        ToolCall(name="a", input_parameters={"ssn": "111-1"}),
        ToolCall(name="a", input_parameters={"ssn": "2"}),
    )
    case = LLMTestCase(tools_called=[called], expected_tools=[expected], metadata={"deep": {"ssn": "333-3"}})
    report = evaluate([case], [METRIC])
    page = render_html(report, redactor=Redactor(keys=DEFAULT_KEYS | {"ssn"}))

    assert "333-3" in render_html(report)
    assert "333-3" not in page
    _, _, after = page.partition('<table class="pairs">')
    assert REDACTED in after.partition("</table>")[0]
    assert "111-1" not in after


# The file


def test_the_policy_names_the_very_style_and_script(page: str) -> None:
    """Nothing is allowed but the page's own style and script, by their hashes, and images that it holds itself."""
    reading = Reading(page)
    (policy,) = [entry["content"] for entry in reading.all("meta") if entry.get("http-equiv")]

    def hashed(name: str) -> str:
        digest = hashlib.sha256("".join(reading.contents[name]).encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    assert policy == (
        f"default-src 'none'; script-src {hashed('script')}; style-src {hashed('style')}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert page.index("Content-Security-Policy") < page.index("<title>") < page.index("<style>")


def test_the_file_is_written(tmp_path: Path) -> None:
    """As UTF-8 with plain line ends, and no other file is left."""
    target = tmp_path / "report.html"
    write_html(target, small_report(), title="Zürich \ud800")

    data = target.read_bytes()
    assert data.decode() == render_html(small_report(), title="Zürich \ud800")
    assert b"\r" not in data
    assert data.startswith(b"<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure leaves the previous file unchanged."""
    target = tmp_path / "report.html"
    target.write_text("earlier")

    with pytest.raises(ConfigurationError):
        write_html(target, small_report(), limit=-1)

    def full(_path: Path, data: bytes) -> int:
        with _path.open("wb") as file:
            file.write(data[:10])
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space left"):
        write_html(target, small_report())
    assert target.read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_template_engine_is_loaded_only_for_pages() -> None:
    """Scoring, and the other reports, do without it."""
    program = (
        "import toolgrade.report, toolgrade.report.terminal, toolgrade.evaluation, sys, json\n"
        "print(json.dumps(['jinja2' in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, check=True, text=True
    )

    assert json.loads(done.stdout) == [False]


def test_regressions_come_first_and_are_linked() -> None:
    """Also on a page that has no room for all failures: cases that fail now as before are the least urgent."""
    good, bad = ToolCall(name="a"), ToolCall(name="x")
    before = [
        LLMTestCase(id=f"c{number}", tools_called=[good if number > 5 else bad], expected_tools=[good])
        for number in range(9)
    ]
    after = [case.model_copy(update={"tools_called": None if case.id == "c8" else []}) for case in before]
    old, new = (evaluate(cases, [ToolCorrectnessMetric()]) for cases in (before, after))
    page = render_html(new, earlier=[old], limit=3)

    assert sorted(re.findall(r'<details class="case" id="case-(\w+)"', page)) == ["c6", "c7", "c8"]
    changes = page.partition('id="changes"')[2].partition("</section>")[0]
    assert all(f'<a href="#case-{name}">' in changes for name in ("c6", "c7", "c8"))
    assert "needs tools_called of case" in changes


def test_an_error_is_shown_with_its_reason() -> None:
    """Beside its number, in the totals."""
    page = Reading(render_html(evaluate([LLMTestCase(id="x", expected_tools=[])], [ToolCorrectnessMetric()]))).text
    totals = page.partition("Cases are those")[0]

    assert "MissingFieldError: ToolCorrectnessMetric needs tools_called of case 'x'" in totals


def test_details_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first cases have details up to a number of bytes; the others are rows, and a sentence says how many."""
    report = many_cases(40)
    full = render_html(report)
    monkeypatch.setattr("toolgrade.report.html.page._MAX_DETAIL_BYTES", 20_000)
    light = render_html(report)

    rows = light.count("The details of this case are not in this file")
    assert 0 < rows < 40
    assert light.count('<details class="case"') == full.count('<details class="case"') == 40
    assert f"{rows} cases of this page are rows without details" in light
    assert "without details" not in full
    assert len(light) < len(full)


def test_failures_come_first() -> None:
    """What failed, then what was not measured, then what passed; the lowest score first."""
    entries = [
        attributes for attributes in Reading(render_html(small_report())).all("details") if "data-v" in attributes
    ]

    assert [entry["data-v"] for entry in entries] == ["failed", "failed", "not_measured", "passed", "passed", "passed"]
    assert [entry["data-i"] for entry in entries] == ["0", "5", "3", "1", "2", "4"]
