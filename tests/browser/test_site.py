"""The site of `make docs`, opened as files: it can be searched, and asks no host for anything.

TOOLGRADE_SITE names the folder of the site; without it these tests are left out, since `make test` builds no site.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

SITE = os.environ.get("TOOLGRADE_SITE")

pytestmark = pytest.mark.skipif(SITE is None, reason="TOOLGRADE_SITE is not set; `make docs` builds a site")


def test_search_works_without_a_server(browser: Any) -> None:
    """A word of the scoring page finds that page."""
    assert SITE is not None
    tab = browser.new_page()
    requests: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(Path(SITE, "index.html").resolve().as_uri())
    tab.locator("input[name=query]").click()
    tab.keyboard.type("subsequence")  # the page listens to keys
    tab.locator(".md-search-result__item a[href*='scoring.html']").first.wait_for()  # results follow each key

    assert [address for address in requests if not address.startswith(("file:", "data:"))] == []
    tab.close()
