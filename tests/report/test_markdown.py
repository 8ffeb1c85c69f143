"""Reports in Markdown: what stands where, that data stays data in a real renderer, and that the page ends in time."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hostile import SECRETS, TEXTS, Repeating, hostile_cases, report_with_secrets
from processes import assert_golden
from reports import agents_report
from strategies import case_fields
from toolgrade import (
    ConfigurationError,
    LLMTestCase,
    Report,
    ResultStatus,
    ToolCall,
    ToolCorrectnessMetric,
    evaluate,
)
from toolgrade._internal.text import printable
from toolgrade.redact import OFF
from toolgrade.report.markdown import MAX_BYTES, RESERVED, Page, code, fenced, html_code, render_markdown, table_line

METRIC = ToolCorrectnessMetric(should_consider_ordering=True, evaluation_params=["input_parameters", "output"])
#: CommonMark with HTML, tables and strikethrough, as GitHub renders it.
GITHUB = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
OWN_WORDS = {
    *("h1", "h2", "h3", "p", "strong", "blockquote", "ul", "li", "code", "pre", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td", "br"),
}


class Visible(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.codes: list[str] = []
        self.outside = ""
        self.open: list[str] = []
        self.feed(GITHUB.render(page))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what it is."""
        self.tags.add(tag)
        self.attributes.update(f"{name}={value}" for name, value in attrs)
        if tag != "br":  # it has no end
            self.open.append(tag)
        if tag == "code":
            self.codes.append("")

    def handle_endtag(self, tag: str) -> None:
        """Every element ends where it should."""
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        """There is none."""
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        """There is none."""
        raise AssertionError(decl)

    def unknown_decl(self, data: str) -> None:
        """There is none."""
        raise AssertionError(data)

    def handle_pi(self, data: str) -> None:
        """There is none."""
        raise AssertionError(data)

    def handle_data(self, data: str) -> None:
        """Text is that of the innermost code, or stands outside of any."""
        if "code" in self.open:
            self.codes[-1] += data
        else:
            self.outside += data


def tool(name: str, arguments: dict[str, Any] | None = None) -> ToolCall:
    """A call."""
    return ToolCall(name=name, **({} if arguments is None else {"input_parameters": arguments}))


CASES = [
    LLMTestCase(id="happy", tools_called=[tool("find"), tool("book")], expected_tools=[tool("find"), tool("book")]),
    LLMTestCase(
        id="wrong",
        tools_called=[tool("find", {"to": "OPO", "seats": 2})],
        expected_tools=[tool("find", {"to": "LIS", "seats": 2}), tool("mail")],
    ),
    LLMTestCase(id="order", tools_called=[tool(name) for name in "WWQ"], expected_tools=[tool(name) for name in "WQW"]),
    LLMTestCase(id="silent", tools_called=[], expected_tools=[tool("find")]),
    LLMTestCase(id="unknown", tools_called=[tool("find")]),
]


def report(*cases: LLMTestCase, **more: Any) -> Report:
    """Their evaluation."""
    measured = evaluate(cases or CASES, more.pop("metrics", [METRIC]), show_progress=False)
    return Report(measured.metrics, measured.cases, **more)


def many(amount: int, *, length: int = 1) -> Report:
    """Return an evaluation in which this many cases fail."""
    calls = [tool(f"find_{number}" * length) for number in range(4)]
    return report(*(LLMTestCase(id=f"case-{n}", tools_called=[], expected_tools=calls) for n in range(amount)))


# The look


def test_a_page() -> None:
    """Verdict, summary, failures with their calls, other cases."""
    assert_golden("markdown.md", render_markdown(report(), title="cases.jsonl"))


def test_a_page_with_a_baseline() -> None:
    """What got worse and better is named, with the first thing that was found."""
    before = report(*(case.model_copy(update={"tools_called": case.expected_tools}) for case in CASES[1:4]), CASES[3])
    calls = CASES[0].expected_tools
    was_bad = CASES[0].model_copy(update={"tools_called": []})
    gone = LLMTestCase(id="gone", tools_called=calls, expected_tools=calls)
    before = report(*before_cases(before), was_bad, gone)
    text = render_markdown(report(), title="now.jsonl", earlier=[before])

    assert_golden("markdown-baseline.md", text)


AGENTS = {"gpt-4o": {"refund": "p", "late": "f", "lost": "e"}, "mini": {"refund": "f", "late": "f", "lost": "p"}}


def test_several_agents() -> None:
    """The pass rate of each, and how it differs from the first."""
    page = render_markdown(agents_report(AGENTS), title="goldens")

    assert_golden("markdown-agents.md", page.partition("## Findings by tool")[0])


def test_names_of_agents_are_code() -> None:
    """No element, mention or link comes from them."""
    visible_page = Visible(
        render_markdown(agents_report({text: {"a": "pf"[len(text) % 2]} for text in TEXTS}), title="x")
    )

    assert visible_page.tags <= OWN_WORDS
    assert {printable(text) for text in TEXTS if text.strip()} <= {text.rstrip("\n") for text in visible_page.codes}


def before_cases(source: Report) -> list[LLMTestCase]:
    """The cases of a report, each once."""
    return [case.case for case in source.cases[:3]]  # type: ignore[misc]


def test_an_interrupted_evaluation_says_so() -> None:
    """Prominently; an interrupted report never passes."""
    text = render_markdown(report(CASES[0], interrupted=True), title="x")

    assert "**Failed**: `the evaluation was interrupted after 1 case.`" in text
    assert "`the evaluation was interrupted after 1 case.`" in text
    assert "> **Interrupted: stopped before all cases were measured." in text
    assert "**Passed**: `1 case passed.`" in render_markdown(report(CASES[0]), title="x")


# Data stays data


@pytest.fixture(scope="module")
def hostile() -> Report:
    """Return a report with hostile text in every field."""
    metrics = [METRIC, Repeating(TEXTS[1], ResultStatus.ERRORED), Repeating(TEXTS[7], ResultStatus.SKIPPED)]
    return evaluate(hostile_cases(), metrics, show_progress=False)


def test_no_element_comes_from_data(hostile: Report) -> None:
    """Every element is one of ours, every attribute is the alignment of a column or the language of a block."""
    visible_page = Visible(render_markdown(hostile, title=TEXTS[2], limit=0))

    assert visible_page.open == []
    assert visible_page.tags <= OWN_WORDS
    assert visible_page.attributes <= {"style=text-align:right", "class=language-text"}


def test_data_is_only_in_code(hostile: Report) -> None:
    """Where mentions, references, links and emoji are not parsed."""
    visible_page = Visible(render_markdown(hostile, title=TEXTS[2], limit=0, earlier=[hostile]))

    assert not re.search(r"[@#:/\\`<>&$*_~\[\]{}]\w|alert|example|smile", visible_page.outside.replace("pass@k", ""))


def test_visible_text_is_the_data(hostile: Report) -> None:
    """Each id is readable as written, with escapes for unprintable characters."""
    visible_page = Visible(render_markdown(hostile, title="x", limit=0))

    assert set(map(printable, TEXTS)) - {" "} <= {text.rstrip("\n") for text in visible_page.codes}


@given(st.text("`|\\ <>&a*\n", min_size=1, max_size=12) | st.text(min_size=1))
def test_any_data_in_each_place(text: str) -> None:
    """Whatever mixture of backticks, pipes, backslashes and blanks it is."""
    cell = f"| a | b |\n|---|---|\n{table_line([code(text), code('x')])}"

    assert Visible(code(text)).codes == [printable(text)]
    assert Visible(cell).codes == [printable(text), "x"]
    assert Visible(f"<p>{html_code(text)}</p>").codes == [printable(text)]
    assert Visible(fenced(text)).codes == ["\n".join(map(printable, text.split("\n"))) + "\n"]


def test_empty_text_is_not_code() -> None:
    """Two backticks would be text."""
    assert code("") == html_code("") == ""


@given(st.lists(case_fields.map(lambda fields: LLMTestCase(**fields)), min_size=1, max_size=3))
def test_any_report_can_be_rendered(cases: list[LLMTestCase]) -> None:
    """Whatever the cases hold, the page has only elements of ours."""
    visible_page = Visible(render_markdown(report(*cases), title="any"))

    assert visible_page.open == []
    assert visible_page.tags <= OWN_WORDS


def test_secrets_are_removed() -> None:
    """From lines and code blocks."""
    measured = report_with_secrets(METRIC)
    text = render_markdown(measured, title="x")

    for secret in SECRETS:
        assert secret not in text
        assert secret in render_markdown(measured, title="x", redactor=OFF)


# The size


@pytest.mark.parametrize("max_bytes", [4_000, 20_000, MAX_BYTES])
@pytest.mark.parametrize("length", [1, 40])
def test_page_is_limited_and_reports_omissions(max_bytes: int, length: int) -> None:
    """Whole elements are omitted and counted."""
    text = render_markdown(many(300, length=length), title="x", max_bytes=max_bytes, limit=0)
    visible_page = Visible(text)
    cut = re.search(r"\*\*Cut\*\* to \d+ bytes, without (.*)\. The JSON report has all\.", text)
    left_out = {
        what: int(amount) for amount, what in re.findall(r"(\d+) (\w[\w -]*?)s?(?:, |$)", cut[1] if cut else "")
    }
    failures = len(re.findall("❌ <code>case-", text))
    sides = text.count("```text")

    assert len(text.encode()) <= max_bytes
    assert visible_page.open == []
    assert cut is None or text.index(cut[0]) < text.index("| metric |")
    assert failures + left_out.get("failure", 0) == 300
    assert sides + left_out.get("side-by-side view", 0) == failures
    assert (cut is None) == (sides == 300)


def test_every_part_can_be_cut() -> None:
    """Metrics, changes, notes and other parts are counted like failures."""
    calls = [tool("find")]
    metrics = [ToolCorrectnessMetric()]
    good = [LLMTestCase(id=f"case-{n}", tools_called=calls, expected_tools=calls) for n in range(300)]
    bad = [case.model_copy(update={"tools_called": []}) for case in good]
    before, after = report(*good, metrics=metrics), report(*bad, metrics=metrics)
    worse = render_markdown(after, title="x", max_bytes=4_000, earlier=[before])
    better = render_markdown(before, title="x", max_bytes=4_000, earlier=[after])
    wide = report(CASES[0], metrics=[Repeating(f"{n}" * 60, ResultStatus.SKIPPED) for n in range(10, 60)])
    named = render_markdown(wide, title="x", max_bytes=4_000)

    assert re.search(r"without \d+ regressions, 1 tool, 300 failures\.", worse)
    assert re.search(r"without \d+ improvements, 300 other results\.", better)
    assert re.search(r"without \d+ metrics, 50 failures\.", named)
    for text in (worse, better, named):
        assert len(text.encode()) <= 4_000


def test_only_so_many_failures_can_be_unfolded() -> None:
    """The page reports the limit; every failure has its line."""
    text = render_markdown(many(5), title="x", limit=2)

    assert text.count("```text") == 2
    assert text.count("❌ <code>case-") == 5
    assert "## 5 failures\n\nThe first 2 can be unfolded.\n" in text
    assert "can be unfolded" not in render_markdown(many(5), title="x", limit=5)
    assert render_markdown(many(5), title="x", limit=0).count("```text") == 5


@pytest.mark.parametrize(
    ("options", "message"), [({"max_bytes": 3_999}, "max_bytes must be"), ({"limit": -1}, "limit")]
)
def test_impossible_limits_are_refused(options: dict[str, int], message: str) -> None:
    """The error names the limit."""
    with pytest.raises(ConfigurationError, match=message):
        render_markdown(report(), title="x", **options)  # type: ignore[arg-type]


def test_a_block_fits_whole_or_not_at_all() -> None:
    """The room is what the size leaves, counted in bytes."""
    page = Page(RESERVED + 12)
    page.add("é" * 5)
    page.add("")
    page.leave_out("line", 1)

    left_out = "1 paragraph, 1 line"
    assert (
        page.text()
        == "é" * 5 + f"\n\n> **Cut** to {RESERVED + 12} bytes, without {left_out}. The JSON report has all.\n"
    )


def test_a_title_is_left_out_with_its_table() -> None:
    """A title alone would say that the table is empty."""
    page = Page(RESERVED + 24)
    page.add_table(["tool"], "l", [["find"]], what="tool", title="## Findings by tool")

    assert page.text() == f"> **Cut** to {RESERVED + 24} bytes, without 1 tool. The JSON report has all.\n"


def test_sentences_that_do_not_fit_are_counted() -> None:
    """A page that lacks what it was compared with says so."""
    wide = report(CASES[0], metrics=[Repeating(f"{n}" * 60, ResultStatus.SKIPPED) for n in range(10, 60)])
    before = replace(wide, about={**wide.about, "name": "n" * 190})
    page = render_markdown(wide, title="x", max_bytes=4_000, earlier=[before])

    assert "## Compared with" not in page
    assert re.search(r"without \d+ metrics, 1 paragraph, ", page)
