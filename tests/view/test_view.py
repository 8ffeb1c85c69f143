"""`toolgrade view`: what its server answers, over real files and a real socket on this machine."""

from __future__ import annotations

import gzip
import http.client
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from pages import CASES, CONVERSATION, METRIC, hostile_report
from processes import environment
from toolgrade import LLMTestCase, ToolCall, evaluate
from toolgrade.errors import ConfigurationError, DataFileError
from toolgrade.report import Report
from toolgrade.results import read_results
from toolgrade.view.build import build_index
from toolgrade.view.filters import Filters
from toolgrade.view.pages import Pages
from toolgrade.view.results_file import ResultsFile
from toolgrade.view.server import PageServer

Get = Callable[..., tuple[int, str]]

CALL = ToolCall(name="pay", input_parameters={"amount": 5, "to": "Zoë"})
WRONG = ToolCall(name="pay", input_parameters={"amount": 6, "to": "Zoë"})


@contextmanager
def served(folder: Path, *paths: Path) -> Iterator[Get]:
    """Serve files, the later one first; yields what sends a request and returns the status and the page."""
    folder.mkdir(exist_ok=True)
    files = [ResultsFile(path, folder) for path in paths]
    index, evaluation = build_index(folder / "index.sqlite", files[0], files[1] if len(files) > 1 else None)
    with PageServer("127.0.0.1", 0, Pages(index, evaluation, files)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def get(target: str, host: str | None = None, method: str = "GET") -> tuple[int, str]:
            connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
            connection.request(method, target, headers={} if host is None else {"Host": host})
            response = connection.getresponse()
            page = response.read().decode()
            connection.close()
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
            return response.status, page

        yield get
        server.shutdown()
        thread.join()


def listed(page: str) -> list[str]:
    """Return the names of the cases of a list."""
    return re.findall(r'<a class="row".*?<span class="name">(.*?)</span>', page, re.DOTALL)


def write(path: Path, outcomes: str, start: int = 0) -> Path:
    """Write results with a case for each letter: `p`assed or `f`ailed."""
    cases = [
        LLMTestCase(
            id=f"case-{start + place}",
            input=f"question{start + place} refund_order",
            tools_called=[CALL if letter == "p" else WRONG],
            expected_tools=[CALL],
            tags=["even" if place % 2 == 0 else "odd"],
        )
        for place, letter in enumerate(outcomes)
    ]
    evaluate(cases, [METRIC], results=path, show_progress=False)
    return path


@pytest.fixture
def get(tmp_path: Path) -> Iterator[Get]:
    """A server of all kinds of cases."""
    path = tmp_path / "results.jsonl"
    evaluate(CASES, [METRIC], results=path, show_progress=False)
    with served(tmp_path / "index", path) as send:
        yield send


def test_totals_are_those_of_the_report(get: Get, tmp_path: Path) -> None:
    """The first page has the numbers of the file, and every case of it."""
    report = read_results(tmp_path / "results.jsonl")
    status, page = get("/")

    (summary,) = report.summaries
    assert status == 200
    assert sorted(listed(page)) == sorted(case.label for case in report.cases)
    assert f"{summary.mean:.4f}".rstrip("0") in page
    assert f"{len(report.cases)} of {len(report.cases)} shown" in page


def test_a_case_shows_its_content(get: Get) -> None:
    """Every case of the list opens by its name, with its conversation, calls and results."""
    for name in listed(get("/")[1]):
        assert get(f"/case?id={quote(name)}")[0] == 200
    page = get("/case?id=booking-1")[1]
    assert "Book a flight to Lisbon." in page
    assert "TimeoutError: no answer" in page
    assert 'id="now' in page
    assert CONVERSATION.turns[1].content in get("/case?id=conversation")[1]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tag=nightly", {"booking-1", "picture"}),
        ("tool=weather", {"booking-1", "no expectation", "conversation"}),
        ("tool=mail", {"booking-1"}),
        ("finding=missing", {"booking-1"}),
        ("finding=any&tool=search", set()),
        ("argument=stops", {"booking-1"}),
        ("q=LISB", {"booking-1", "conversation"}),
        ("q=lisbon+book", {"booking-1"}),
        ("q=%22NEAR(%22", set()),
        ("q=%21%21%21", set()),
        ("verdict=error", {"no expectation", "conversation"}),
        ("verdict=error&verdict=failed&tag=nightly", {"booking-1"}),
        ("tag=unknown", set()),
        ("unknown=1&tag=chat", {"conversation"}),
    ],
)
def test_filters(get: Get, query: str, expected: set[str]) -> None:
    """A filter in the address leaves exactly the cases that fit."""
    status, page = get(f"/?{query}")
    assert status == 200
    assert set(listed(page)) == expected


@pytest.mark.parametrize(
    "query",
    [
        "page=0",
        "page=-1",
        "page=x",
        "page=1e3",
        "page=" + "9" * 30,
        "sort=up",
        "q=%ff",
        "&".join(["a=1"] * 500),
        "q=" + "a" * 30_000,
        "verdict=good",
        "metric=x",
        "change=x",
    ],
)
def test_malformed_queries_are_refused(get: Get, query: str) -> None:
    """An impossible value is an error that names what is possible, also on the page of a case."""
    for target in (f"/?{query}", f"/case?id=booking-1&{query}"):
        status, page = get(target)
        assert status == 400
        assert "must" in page


def test_unknown_pages_are_not_found(get: Get) -> None:
    """Unknown cases and addresses are 404, and no file is served."""
    for target in ("/case?id=nope", "/case", "/nope", "/../results.jsonl", "/results.jsonl", "//case", "/style.css/x"):
        assert get(target)[0] == 404
    assert get("/style.css")[0] == get("/script.js")[0] == 200


def test_only_get_is_answered(get: Get) -> None:
    """Other methods are refused."""
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert get("/", method=method)[0] == 501


def test_other_hosts_are_refused(get: Get) -> None:
    """A name that a page of another site points to this machine is refused."""
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1", "a b"):
        assert get("/", host=host)[0] == 403
    for host in ("localhost", "localhost:9000", "127.0.0.1", "[::1]:80"):
        assert get("/", host=host)[0] == 200


def test_a_second_file_is_compared(tmp_path: Path) -> None:
    """Cases that became worse come first, both sides of a case are shown, and gone cases are listed last."""
    before = write(tmp_path / "before.jsonl", "ppfpp")
    now = write(tmp_path / "now.jsonl", "pppfp", start=1)
    with served(tmp_path / "index", now, before) as get:
        page = get("/")[1]
        report_now, report_before = read_results(now), read_results(before)
        passed = {case.name: case.results[0].passed for case in report_now.cases}
        earlier = {case.name: case.results[0].passed for case in report_before.cases}
        both = passed.keys() & earlier.keys()
        expected = {
            "worse": {name for name in both if earlier[name] and not passed[name]},
            "better": {name for name in both if passed[name] and not earlier[name]},
            "same": {name for name in both if passed[name] == earlier[name]},
            "new": {"case-5"},
            "gone": {"case-0"},
        }
        assert all(expected.values())
        for change, names in expected.items():
            assert set(listed(get(f"/?change={change}")[1])) == names
        assert set(listed(page)[: len(expected["worse"])]) == expected["worse"]
        assert listed(page)[-1] == "case-0"
        case = get("/case?id=case-2")[1]
        assert "Before: " in case
        assert "Now: " in case
        assert get("/case?id=case-0")[0] == 200


def test_files_without_a_common_case_are_not_compared(tmp_path: Path) -> None:
    """The error of `toolgrade compare` says what each file has."""
    before, now = write(tmp_path / "a.jsonl", "p"), write(tmp_path / "b.jsonl", "p", start=5)
    with pytest.raises(ConfigurationError, match="no case is in both"), served(tmp_path / "index", now, before):
        pass


def test_a_resumed_file_is_read(tmp_path: Path) -> None:
    """An incomplete line is left out with a warning, and what a later session wrote is shown."""
    path = write(tmp_path / "results.jsonl", "pfp")
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    with served(tmp_path / "torn", path) as get:
        page = get("/")[1]
        assert set(listed(page)) == {"case-0", "case-1"}
        assert "a torn line" in page
        assert "Interrupted." in page
    path.write_bytes(whole)
    with served(tmp_path / "whole", path) as get:
        assert len(listed(get("/")[1])) == 3


def test_a_file_that_changes_is_an_error(tmp_path: Path) -> None:
    """No other case is shown in the place of the one that was read."""
    path = write(tmp_path / "results.jsonl", "pf")
    data = path.read_bytes()
    with served(tmp_path / "index", path) as get:
        assert "A file has changed" not in get("/")[1]
        path.write_bytes(data.replace(b"case-0", b"case-9"))
        os.utime(path, ns=(1, 1))
        status, page = get("/case?id=case-0")
        assert status == 500
        assert "has changed since it was read" in page
        assert "A file has changed" in get("/")[1]
        path.unlink()
        assert get("/case?id=case-0")[0] == 500


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"a,b\n1,2\n", b'{"id": "x", "tools_called": []}\n', b"\x1f\x8bxx", b"\0" * 99]
)
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    """A file that is not one of results is a clear error."""
    path = tmp_path / "results.jsonl"
    path.write_bytes(data)
    with pytest.raises(DataFileError, match=r"results\.jsonl"), served(tmp_path / "index", path):
        pass


def test_a_damaged_line_is_an_error(tmp_path: Path) -> None:
    """A line that differs from the one that was written is named with its number."""
    path = write(tmp_path / "results.jsonl", "pf")
    path.write_bytes(path.read_bytes().replace(b"question1", b"question2"))
    with pytest.raises(DataFileError, match=r"results\.jsonl:3: .*checksum"), served(tmp_path / "index", path):
        pass


def test_compressed_files_and_reports_are_read(tmp_path: Path) -> None:
    """A gzip file shows the same; the JSON of a report has no content, but all results."""
    path = write(tmp_path / "results.jsonl", "pfp")
    packed, report = tmp_path / "packed.jsonl.gz", tmp_path / "report.json"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    report.write_text(read_results(path).to_json(), encoding="utf-8")
    with ExitStack() as stack:
        plain, other, short = (
            stack.enter_context(served(tmp_path / one.name.replace(".", "-"), one)) for one in (path, packed, report)
        )
        names = listed(plain("/")[1])
        assert names == listed(other("/")[1]) == listed(short("/")[1])
        assert "question1" in other("/case?id=case-1")[1]
        assert short("/case?id=case-1")[0] == 200


def test_pages_of_many_cases(tmp_path: Path) -> None:
    """Every case is on exactly one page, and a page behind the last shows the last."""
    path = write(tmp_path / "results.jsonl", "pf" * 130)
    with served(tmp_path / "index", path) as get:
        pages = [listed(get(f"/?sort=name&page={number}")[1]) for number in (1, 2, 3)]
        names = [name for page in pages for name in page]
        assert [len(page) for page in pages] == [100, 100, 60]
        assert names == [f"case-{place}" for place in range(260)]
        assert listed(get("/?sort=name&page=99")[1]) == pages[2]
        assert 'href="/case?id=case-1&amp;sort=name' in get("/case?id=case-0&sort=name")[1]


def test_hostile_texts_are_escaped(tmp_path: Path) -> None:
    """Texts of cases are shown as text, and characters that change the direction of writing are escaped."""
    text = "<script>window.hit=1</script>\"'\x00\u202e"
    report: Report = hostile_report(text)
    path = tmp_path / "results.jsonl"
    evaluate([case.case for case in report.cases], [METRIC], results=path, show_progress=False)
    with served(tmp_path / "index", path) as get:
        page = get("/")[1]
        assert len(listed(page)) == 3
        targets = re.findall(r'<a class="row" href="([^"]*)"', page)
        for content in (page, *(get(target.replace("&amp;", "&"))[1] for target in targets)):
            assert "<script>window" not in content
            assert "\u202e" not in content


def test_filters_survive_their_address() -> None:
    """The query of filters gives the same filters, whatever their texts hold."""
    filters = Filters(verdict=("failed", "error"), tool="a&b=ü", q='"x" y', sort="low:m", page=3)
    assert Filters.parse(filters.query(3), ["m"]) == filters


def test_the_command_serves_until_it_is_ended(tmp_path: Path) -> None:
    """It prints the address, answers there, says how long reading took, and leaves no files."""
    path = write(tmp_path / "results.jsonl", "pf")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "toolgrade.cli", "view", str(path), "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), "TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    match = re.match(r"http://127\.0\.0\.1:(\d+)/ ", line)
    assert match, line
    connection = http.client.HTTPConnection("127.0.0.1", int(match[1]), timeout=30)
    connection.request("GET", "/")
    assert "case-1" in connection.getresponse().read().decode()
    connection.close()
    assert [*scratch.iterdir()]
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert re.search(r"read 2 cases of .*results\.jsonl in [\d.]+ s", errors)
    assert not [*scratch.iterdir()]
