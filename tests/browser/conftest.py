"""The browser in which the tests of this folder open pages: one that is on the machine; none is ever downloaded.

Without one these tests are left out, and the end of the run says how many, and how to get one.
`TOOLMARK_REQUIRE_BROWSER=1` makes that a failure. `TOOLMARK_BROWSER` names a browser that is not on PATH.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
REMEDY = "install Chromium (on Debian and Ubuntu: apt-get install chromium), or name one in TOOLMARK_BROWSER"
REASON = "no Chromium on this machine"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window; ends with the module, since its event loop would be in the way of other tests."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("TOOLMARK_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        if os.environ.get("TOOLMARK_REQUIRE_BROWSER") == "1":
            pytest.fail(f"{REASON}, and TOOLMARK_REQUIRE_BROWSER is set; {REMEDY}")
        pytest.skip(f"{REASON}; {REMEDY}")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path)
        yield started
        started.close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests of the HTML report were left out, and how to have them run."""
    skipped = [
        report for report in terminalreporter.stats.get("skipped", ()) if report.nodeid.startswith("tests/browser/")
    ]
    if skipped:
        terminalreporter.write_line(
            f"{len(skipped)} tests in a browser were left out: {REASON}, or no playwright; {REMEDY}."
        )
