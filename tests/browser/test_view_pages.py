"""The pages of `toolgrade view` in a real browser: search, filters, addresses, and texts that are not obeyed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pages import METRIC, many_cases
from toolgrade import LLMTestCase, ToolCall, evaluate
from toolgrade.view.build import build_index
from toolgrade.view.pages import Pages
from toolgrade.view.results_file import ResultsFile
from toolgrade.view.server import PageServer

ATTACK = "<script>window.hit=1</script><img src=x onerror=window.hit=1>\"' onmouseover=window.hit=1 x='"


@contextmanager
def opened(browser: Any, folder: Path, cases: list[Any], **options: Any) -> Iterator[Any]:
    """Serve the results of cases and open them; nothing may be complained of."""
    path = folder / "results.jsonl"
    evaluate(cases, [METRIC], results=path, show_progress=False)
    file = ResultsFile(path, folder)
    index, evaluation = build_index(folder / "index.sqlite", file, None)
    problems: list[str] = []
    with PageServer("127.0.0.1", 0, Pages(index, evaluation, [file])) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        context = browser.new_context(**options)
        try:
            tab = context.new_page()
            tab.on("console", lambda message: problems.append(message.text))
            tab.on("pageerror", lambda error: problems.append(str(error)))
            tab.on("request", lambda one: None if one.url.startswith(server.address) else problems.append(one.url))
            tab.goto(server.address)
            yield tab
        finally:
            context.close()
            server.shutdown()
    assert problems == []


def match_text(tab: Any) -> str:
    """Return how many cases are shown."""
    return str(tab.inner_text("#matching output"))


def until(tab: Any, text: str) -> None:
    """Wait for the number of cases that are shown."""
    end = time.monotonic() + 10
    while match_text(tab) != text and time.monotonic() < end:
        tab.wait_for_timeout(20)
    assert match_text(tab) == text


def test_searching_and_opening_have_addresses(browser: Any, tmp_path: Path) -> None:
    """Typing changes the list and the address; a case has its own, and the back button returns to the list."""
    cases = [case.case for case in many_cases(20).cases]
    with opened(browser, tmp_path, cases) as tab:
        until(tab, "20 of 20 shown")
        tab.fill("#search", "question 1")
        until(tab, "9 of 20 shown")
        assert "q=question+1" in tab.url
        tab.reload()
        assert match_text(tab) == "9 of 20 shown"
        tab.click(".row >> nth=0")
        tab.wait_for_url("**/case?id=*")
        assert "question 1" in tab.inner_text("main")
        tab.go_back()
        assert match_text(tab) == "9 of 20 shown"
        tab.check("input[value=failed]")
        until(tab, "0 of 20 shown")
        assert "verdict=failed" in tab.url


@pytest.mark.parametrize("scripts", [True, False])
def test_hostile_texts_are_not_obeyed(browser: Any, tmp_path: Path, scripts: bool) -> None:
    """Names, texts and arguments with markup are text, in the list, in filters and on the page of the case."""
    call = ToolCall(name=ATTACK, input_parameters={ATTACK: ATTACK}, output=ATTACK)
    case = LLMTestCase(id=ATTACK, input=ATTACK, tags=[ATTACK], tools_called=[call], expected_tools=[])
    with opened(browser, tmp_path, [case], java_script_enabled=scripts) as tab:
        assert ATTACK in tab.inner_text(".row")
        tab.click(".row")
        tab.wait_for_url("**/case?id=*")
        assert ATTACK in tab.inner_text("main")
        if scripts:
            assert tab.evaluate("window.hit") is None


def test_filters_work_without_scripts(browser: Any, tmp_path: Path) -> None:
    """The form is sent by its button."""
    cases = [case.case for case in many_cases(10).cases]
    with opened(browser, tmp_path, cases, java_script_enabled=False) as tab:
        tab.check("input[value=failed]")
        tab.click("#controls button")
        tab.wait_for_url("**verdict=failed**")
        assert match_text(tab) == "2 of 10 shown"
