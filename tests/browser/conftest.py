"""The browser for the tests of this folder: an installed one; none is downloaded.

Without one these tests are left out, and the end of the run says how many, and how to get one.
`TOOLGRADE_REQUIRE_BROWSER=1` makes that a failure. `TOOLGRADE_BROWSER` names a browser that is not on PATH.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
NO_BROWSER = (
    "no Chromium on this machine; install it (on Debian and Ubuntu: apt-get install chromium), "
    "or name a browser in TOOLGRADE_BROWSER"
)
NO_PLAYWRIGHT = "no playwright in this environment; it belongs to the dependency group `test`"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window; ends with the module, since its event loop would be in the way of other tests."""
    path = os.environ.get("TOOLGRADE_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    problem = NO_PLAYWRIGHT if find_spec("playwright") is None else NO_BROWSER if path is None else None
    if problem is not None:
        if os.environ.get("TOOLGRADE_REQUIRE_BROWSER") == "1":
            pytest.fail(f"TOOLGRADE_REQUIRE_BROWSER is set, and there is {problem}")
        pytest.skip(problem)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path)
        yield started
        started.close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says how many tests of the HTML report were left out, and how to have them run."""
    problems = {NO_BROWSER, NO_PLAYWRIGHT}
    skipped = [
        report
        for report in terminalreporter.stats.get("skipped", ())
        if any(one in str(report.longrepr) for one in problems)
    ]
    if skipped:
        reasons = sorted(one for one in problems if any(one in str(report.longrepr) for report in skipped))
        terminalreporter.write_line(f"{len(skipped)} tests in a browser were left out: {'; '.join(reasons)}")
