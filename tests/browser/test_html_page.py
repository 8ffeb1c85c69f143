"""The HTML report in a real browser: it opens, filters, sorts and expands, and nothing that it shows is obeyed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pages import before, hostile_report, many_cases, small_report, trials_report
from toolgrade import LLMTestCase, Report, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.report.html import write_html

Opened = Callable[..., Any]

#: Each would set `window.hit`, open a dialog or load something if the page took it for more than text.
SCHEMES = ["javascript:window.hit=1", "data:text/html,<script>window.hit=1</script>"]
"""Texts that run where they are all of an address."""
ATTACKS = [
    "<script>window.hit=1</script>",
    "</script><script>window.hit=1</script>",
    "</noscript><img src=x onerror=window.hit=1>",
    "</style></title></textarea></template></noscript></svg><svg onload=window.hit=1>",
    "<img src=http://127.0.0.1:9/x.png onerror=window.hit=1>",
    "<iframe srcdoc='<script>parent.hit=1</script>'></iframe><object data=//127.0.0.1:9/></object>",
    "\" autofocus onfocus=window.hit=1 x=\"' onmouseover=window.hit=1 '",
    "<a href=javascript:window.hit=1 id=cases>click</a><form id=controls><input name=outcome id=list>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=window.hit=1&gt;'>",
    "&lt;img src=x onerror=window.hit=1&gt;&#60;script&#62;window.hit=1&#60;/script&#62;",
    "<style>*{display:none}</style><link rel=stylesheet href=//127.0.0.1:9/>",
    "<meta http-equiv=refresh content=0;url=//127.0.0.1:9><base href=//127.0.0.1:9>",
    "{{constructor.constructor('window.hit=1')()}}${window.hit=1}<%= 1 %>",
    "<!--<script>window.hit=1</script>--!><img src=x onerror=window.hit=1>",
    "\x1b]0;t\x07\u202e</p>\u2028\x00<b onclick=window.hit=1>",
]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opened]:
    """Opens a report from the disk, as a user would; nothing may be fetched, asked or complained of."""
    contexts: list[Any] = []
    heard: list[str] = []

    def open_report(
        report: Report, *, title: str | None = "cases.jsonl", page: dict[str, Any] | None = None, **options: Any
    ) -> Any:
        target = tmp_path / "report.html"
        write_html(target, report, title=title, **(page or {}))
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: heard.append(f"console: {message.text}"))
        tab.on("pageerror", lambda error: heard.append(f"error: {error}"))
        tab.on("dialog", lambda dialog: (heard.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        tab.on("popup", lambda popup: heard.append(f"popup: {popup.url}"))

        def request(requested: Any) -> None:
            if requested.url != target.as_uri() and not requested.url.startswith("data:image/png;base64,"):
                heard.append(f"request: {requested.url}")

        tab.on("request", request)
        tab.goto(target.as_uri())
        return tab

    yield open_report
    for context in contexts:
        context.close()
    assert heard == []


def visible_cases(tab: Any) -> list[str]:
    """The names of the cases that are not hidden, from top to bottom."""
    names: list[str] = tab.evaluate(
        "[...document.querySelectorAll('.case:not([hidden]) .name')].map((one) => one.textContent)"
    )
    return names


def until(tab: Any, expected: list[str]) -> None:
    """Waits until exactly these cases are shown; the search waits for the end of typing."""
    end = time.monotonic() + 10
    while visible_cases(tab) != expected and time.monotonic() < end:
        tab.wait_for_timeout(20)
    assert visible_cases(tab) == expected


ALL = ["booking-1", "conversation", "no expectation", "booking-2", "booking-10", "picture"]

# It opens, and can be read


def test_page_opens_with_failures_first(opened: Opened) -> None:
    """It shows the verdict, the metrics and the closed cases."""
    tab = opened(small_report())

    assert tab.title() == "cases.jsonl"
    assert "2 of 6 cases failed, 1 could not be measured" in tab.locator(".headline").inner_text()
    assert visible_cases(tab) == ALL
    assert tab.locator(".case[open]").count() == 0
    assert tab.locator("#matches").inner_text() == "6 of 6 shown"


def test_a_case_opens_and_shows_all_of_it(opened: Opened) -> None:
    """Both sides, the conversation with its calls, the timeline, and the recording."""
    tab = opened(small_report())
    tab.locator("#case-booking-1 > summary").click()
    case = tab.locator("#case-booking-1")

    text = case.inner_text()
    assert case.locator(".pairs tr.differs").count() == 1
    assert "stops[1]" in text
    assert "Book a flight to Lisbon." in text
    assert case.locator(".times svg rect").count() == 4
    widths = [float(str(rect.get_attribute("width"))) for rect in case.locator(".times svg rect").all()]
    assert widths == [300, 80, 20, 600]
    case.locator(".call > summary").nth(3).click()
    assert "TimeoutError: no answer" in case.inner_text()


def test_without_scripts_everything_can_be_read(opened: Opened) -> None:
    """Cases open, and what needs a script is not shown at all."""
    tab = opened(small_report(), java_script_enabled=False)

    assert not tab.locator("#controls").is_visible()
    tab.locator("#case-booking-1 > summary").click()
    assert tab.locator("#case-booking-1 .pairs tr.differs").is_visible()
    assert tab.locator("#case-booking-1 .message.user").is_visible()
    assert tab.get_by_text("This case is shown by the page's script").count() == 0
    assert visible_cases(tab) == ALL


# Filter, search, sort


def test_cases_are_filtered_by_outcome(opened: Opened) -> None:
    """Each kind can be hidden; its count stays."""
    tab = opened(small_report())
    tab.get_by_label("passed").uncheck()

    assert visible_cases(tab) == ALL[:3]
    assert tab.locator("#matches").inner_text() == "3 of 6 shown"
    tab.get_by_label("failed").uncheck()
    assert visible_cases(tab) == ["no expectation"]
    amounts = tab.locator(".pick .amount").all_inner_texts()
    assert [part.strip() for part in amounts] == ["0", "2", "1", "0", "3"]


def test_cases_are_filtered_by_metric_and_tag(opened: Opened) -> None:
    """With a metric it is that metric's verdict that counts."""
    tab = opened(small_report())
    tab.locator("#metric").select_option(label="tool_use")
    tab.get_by_label("skipped").uncheck()

    assert visible_cases(tab) == ["conversation"]
    tab.get_by_label("skipped").check()
    tab.locator("#tag").select_option(label="nightly (2)")
    assert visible_cases(tab) == ["booking-1", "picture"]


def test_cases_are_searched_by_all_their_text(opened: Opened) -> None:
    """Including text of unopened cases, and characters that are escaped in the file."""
    case = LLMTestCase(id="signs", input='a < b & "c"', tools_called=[ToolCall(name="x")], expected_tools=[])
    tab = opened(evaluate([case, *(entry.case for entry in small_report().cases[:2])], [ToolCorrectnessMetric()]))  # type: ignore[list-item]
    search = tab.get_by_label("Search")

    for text, names in {
        'a < B & "c"': ["signs"],
        "timeouterror": ["booking-1"],
        "booking lisbon": ["booking-1"],
        "no such text": [],
        "booked": ["booking-1"],
        "class": [],
    }.items():
        search.fill(text)
        until(tab, names)
    assert tab.locator("#nothing").is_visible()
    tab.get_by_role("button", name="Show all cases").click()
    assert len(visible_cases(tab)) == 3


def test_cases_are_sorted(opened: Opened) -> None:
    """Numbers in names count as numbers; cases without a score stand last, whichever way scores are sorted."""
    tab = opened(small_report())
    sort = tab.locator("#sort")

    sort.select_option(label="in order")
    assert visible_cases(tab) == ["booking-1", "booking-2", "booking-10", "no expectation", "picture", "conversation"]
    sort.select_option(label="by name")
    assert visible_cases(tab) == ["booking-1", "booking-2", "booking-10", "conversation", "no expectation", "picture"]
    sort.select_option(label="tool_correctness(input_parameters), lowest first")
    assert visible_cases(tab) == ["booking-1", "booking-2", "booking-10", "picture", "no expectation", "conversation"]
    sort.select_option(label="tool_correctness(input_parameters), highest first")
    assert visible_cases(tab) == ["booking-2", "booking-10", "picture", "booking-1", "no expectation", "conversation"]
    sort.select_option(label="worst first")
    assert visible_cases(tab) == ALL


# Links and keys


def test_links_open_their_targets(opened: Opened) -> None:
    """Evidence opens a call, a warning its case even if filtered out, and tools their set."""
    tab = opened(small_report())
    tab.get_by_label("failed").uncheck()
    tab.locator(".warnings > summary", has_text="not answered").click()
    tab.locator(".warnings a", has_text="conversation").click()

    tab.wait_for_selector("#case-conversation[open]")  # the page hears of a link that was followed a moment later
    tab.locator("#case-conversation .judged a", has_text="c2").nth(1).click()
    tab.wait_for_selector("[id='case-conversation:c2'][open]:target")
    tab.locator("#case-conversation .judged a", has_text="t1").click()
    tab.wait_for_selector("#g1t1 pre")


def test_an_address_with_a_case_opens_it(opened: Opened) -> None:
    """As a link shared with a colleague."""
    tab = opened(small_report())
    tab.goto(f"{tab.url}#case-booking-1:c3")
    tab.reload()

    tab.wait_for_selector("#case-booking-1[open] [id='case-booking-1:c3']")


def state(tab: Any) -> str:
    """What the address says behind `#`."""
    return str(tab.url).partition("#")[2]


def test_the_address_says_what_is_open_and_searched(opened: Opened) -> None:
    """By ids and names, so that it means the same in a later report; a new tab shows the same."""
    tab = opened(small_report())
    tab.locator("#case-booking-1 > summary").click()
    assert state(tab) == "case-booking-1"
    tab.get_by_label("Search").fill("booking lisbon")
    until(tab, ["booking-1"])
    tab.get_by_label("passed").uncheck()
    tab.locator("#tag").select_option(label="nightly (2)")
    tab.locator("#sort").select_option(label="by name")
    address = (
        "case-booking-1&outcome=agent_error,failed,not_measured,skipped&tag=nightly&sort=name&search=booking%20lisbon"
    )
    assert state(tab) == address

    tab.reload()
    tab.wait_for_selector("#case-booking-1[open] .pairs")
    assert visible_cases(tab) == ["booking-1"]
    assert tab.get_by_label("Search").input_value() == "booking lisbon"
    assert not tab.get_by_label("passed").is_checked()
    assert state(tab) == address
    tab.locator("#case-booking-1 > summary").click()
    tab.get_by_role("button", name="Open all shown").focus()
    assert not state(tab).startswith("case-")


def test_a_filter_of_an_address_without_its_tool_shows_all(opened: Opened) -> None:
    """A link into another report, in which the tool makes no mistakes."""
    tab = opened(small_report())
    tab.goto(f"{tab.url}#place=no_such_tool&tag=%E0%A4%A")
    tab.reload()

    assert visible_cases(tab) == ALL


def test_tools_arguments_and_pairs_of_tools_link_to_their_cases(opened: Opened) -> None:
    """A click shows all cases of a place, whatever was filtered before."""
    tab = opened(small_report())
    tab.get_by_label("failed").uncheck()
    for table, words, name in (
        ("Tools", "mail", "mail"),
        ("Arguments", "options.cabin", "book(options.cabin)"),
        ("Expected and called tools", "1", "mail not called"),
    ):
        tab.get_by_role("group", name=table, exact=True).get_by_role("link", name=words).first.click()
        assert visible_cases(tab) == ["booking-1"]
        assert tab.locator("#place").evaluate("(one) => one.selectedOptions[0].dataset.name") == name
        assert state(tab).startswith("cases&place=")
    tab.get_by_role("button", name="Close all").or_(tab.get_by_role("button", name="Open all shown")).click()
    assert state(tab).startswith("cases&place=")


@pytest.mark.parametrize("width", [390, 1280])
def test_filters_stay_at_the_top(opened: Opened, width: int) -> None:
    """However far a reader scrolls down the list; an opened case is below them."""
    tab = opened(many_cases(60), viewport={"width": width, "height": 800})
    tab.locator(".case").nth(50).scroll_into_view_if_needed()
    bar = tab.locator("#controls").bounding_box()
    assert abs(bar["y"]) <= 1
    assert bar["height"] <= 130

    tab.goto(f"{tab.url.partition('#')[0]}#case-case-0040")
    tab.wait_for_selector("#case-case-0040[open]")
    top = tab.locator("#case-case-0040 > summary").bounding_box()["y"]
    assert bar["height"] <= top + 1 <= 250


def test_wide_tables_scroll_within_themselves(opened: Opened) -> None:
    """On a telephone every table can be scrolled to its last column."""
    tab = opened(small_report(), page={"earlier": before(small_report())}, viewport={"width": 390, "height": 800})

    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    cut = tab.evaluate(
        """[...document.querySelectorAll('main > section table')].filter((table) => {
            const box = table.closest('.scroll, .case');
            return box.scrollWidth < table.scrollWidth && getComputedStyle(box).overflowX === 'visible';
        }).length"""
    )
    assert cut == 0


@pytest.mark.parametrize("width", [1000, 1280])
def test_tables_of_mistakes_fit_on_a_screen(opened: Opened, width: int) -> None:
    """No column is cut."""
    tab = opened(small_report(), viewport={"width": width, "height": 800})
    boxes = tab.locator("section[aria-labelledby=where] .scroll")

    assert boxes.count() == 3
    assert boxes.evaluate_all("(all) => all.filter((box) => box.scrollWidth > box.clientWidth).length") == 0


def focused(tab: Any) -> str:
    """The name of the case that has the focus."""
    name: str = tab.evaluate("document.activeElement.closest('.case')?.querySelector('.name').textContent ?? ''")
    return name


def test_the_keyboard_reaches_everything(opened: Opened) -> None:
    """`/` searches, `j` and `k` move, Enter opens, Escape closes; the page lists these keys."""
    tab = opened(small_report())
    keys = tab.keyboard

    keys.press("j")
    keys.press("j")
    assert focused(tab) == ALL[1]
    keys.press("k")
    assert focused(tab) == ALL[0]
    keys.press("k")
    assert focused(tab) == ALL[0]
    keys.press("Enter")
    assert tab.locator("#case-booking-1[open] .pairs").is_visible()
    tab.locator("#case-booking-1 .call > summary").first.focus()
    keys.press("Escape")
    assert tab.locator("#case-booking-1[open]").count() == 0
    assert focused(tab) == ALL[0]
    keys.press("/")
    keys.type("jjkk")
    assert tab.locator("#search").input_value() == "jjkk"
    until(tab, [])
    keys.press("j")
    keys.press("Escape")
    assert visible_cases(tab) == ALL
    assert tab.locator("#search").input_value() == ""
    assert "next and previous case" in tab.locator("#keys").inner_text()


def test_all_cases_open_and_close_together(opened: Opened) -> None:
    """Only visible ones, for printing or browser search."""
    tab = opened(small_report())
    tab.get_by_label("passed").uncheck()
    tab.get_by_role("button", name="Open all shown").click()

    assert tab.locator(".case[open]").count() == 3
    tab.get_by_role("button", name="Close all").click()
    assert tab.locator(".case[open]").count() == 0


# How it looks


def background(tab: Any) -> str:
    """The colour behind everything."""
    colour: str = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


def test_page_has_two_themes(opened: Opened) -> None:
    """As the system has them."""
    light, dark = (opened(small_report(), color_scheme=scheme) for scheme in ("light", "dark"))

    assert background(light) != background(dark)


@pytest.mark.parametrize("width", [400, 800, 1600])
def test_nothing_is_wider_than_the_window(opened: Opened, width: int) -> None:
    """On a telephone as on a large screen, with every case open."""
    tab = opened(
        trials_report(),
        page={"earlier": before(trials_report(), "long_name_" * 30)},
        viewport={"width": width, "height": 800},
    )
    tab.get_by_role("button", name="Open all shown").click()

    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [360, 768])
def test_long_names_stay_inside_of_the_window(opened: Opened, width: int) -> None:
    """Of the evaluation, facts, tools, arguments and tags."""
    name = "x" * 3000
    call = ToolCall(name=name, input_parameters={name: name})
    case = LLMTestCase(id=name, tools_called=[call], expected_tools=[ToolCall(name="y" + name)], tags=[name])
    report = evaluate([case], [ToolCorrectnessMetric()], about={"name": name, name: name})
    tab = opened(report, title=None, viewport={"width": width, "height": 800})

    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("report", [small_report, trials_report], ids=["small", "trials"])
def test_axe_finds_nothing(opened: Opened, report: Callable[[], Report], scheme: str) -> None:
    """Names of controls, headers of tables, contrast and order: in both themes, with every case open."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    tab = opened(report(), page={"earlier": before(report())}, color_scheme=scheme)
    tab.get_by_role("button", name="Open all shown").click()
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")

    problems = axe.Axe().run(tab)
    assert [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in problems.response["violations"]] == []


def test_focus_is_visible(opened: Opened) -> None:
    """Every focused control has an outline."""
    tab = opened(small_report())

    for _ in range(12):
        tab.keyboard.press("Tab")
        style = tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style != "none", tab.evaluate("document.activeElement.outerHTML")


# Data is never obeyed


def elements(tab: Any) -> list[str]:
    """The kinds of elements of a page, all parts of it open."""
    tab.get_by_role("button", name="Open all shown").click()
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert tab.locator(".case[open] > .body > noscript").count() == 0
    problems: list[str] = tab.evaluate(
        "[...new Set([...document.querySelectorAll('*')].map((one) => one.tagName))].sort()"
    )
    return problems


@pytest.fixture(scope="module")
def harmless(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the element types of the page with harmless texts."""
    target = tmp_path_factory.mktemp("harmless") / "report.html"
    write_html(target, hostile_report("word"), title="word", earlier=before(hostile_report("word"), "word"))
    tab = browser.new_page()
    tab.goto(target.as_uri())
    return elements(tab)


@pytest.mark.parametrize("attack", ["".join(ATTACKS), "".join(reversed(ATTACKS)), *SCHEMES], ids=range(4))
def test_hostile_text_does_nothing(opened: Opened, harmless: list[str], attack: str) -> None:
    """In every field of everything: nothing runs, nothing is loaded, and the page keeps its elements."""
    tab = opened(hostile_report(attack), title=attack, page={"earlier": before(hostile_report(attack), attack)})

    assert elements(tab) == harmless
    tab.evaluate("document.querySelectorAll('*').forEach((one) => one.dispatchEvent(new MouseEvent('mouseover')))")
    assert tab.evaluate("window.hit") is None
    assert [tab.locator(name).count() for name in ("script", "style", "#list > .case", ".case", "#cases")] == [
        1,
        1,
        3,
        3,
        1,
    ]
    attributes = tab.evaluate("[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())")
    assert not [name for name in attributes if name.startswith("on") or name == "style"]


def test_hostile_text_does_nothing_without_scripts(opened: Opened) -> None:
    """Where no script runs, nothing is loaded and no text breaks out of its place either."""
    attacks = "".join(ATTACKS)
    page = {"earlier": before(hostile_report(attacks), attacks)}
    tab = opened(hostile_report(attacks), title=attacks, page=page, java_script_enabled=False)
    assert [tab.locator(name).count() for name in ("script", "#list > .case", ".case", "img", "iframe")] == [
        *(1, 3, 3, 0, 0)
    ]


# Many cases


def test_two_thousand_cases_open(opened: Opened) -> None:
    """The first is at the top, and the search finds the last."""
    tab = opened(many_cases(2000))
    assert tab.locator("#matches").inner_text() == "2,000 of 2,000 shown"
    assert visible_cases(tab)[0] == "case-0000"
    tab.get_by_label("Search").fill("case-1999")
    until(tab, ["case-1999"])
