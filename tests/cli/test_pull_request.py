"""`toolgrade report --comment`: one comment on the pull request, against a server on loopback in place of GitHub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from click.testing import Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from command_runner import RUNNER
from fake_github import NUMBER, TOKEN, FakeGitHub
from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.cli.main import main
from toolgrade.report.markdown import render_markdown

MARKER = "<!-- toolgrade: t -->\n"
PAY = ToolCall(name="pay")
CASE = LLMTestCase(id="@somebody", tools_called=[], expected_tools=[PAY])
REPORT = evaluate([CASE], [ToolCorrectnessMetric()], show_progress=False)
FAILED = "failed: 1 of 1 case failed\n"


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGitHub]:
    """A server, and the environment of a step that runs for its pull request in a folder with results."""
    monkeypatch.chdir(tmp_path)
    Path("results.json").write_text(REPORT.to_json(), encoding="utf-8")
    with FakeGitHub() as server:
        for name, value in server.environment(tmp_path / "event.json").items():
            monkeypatch.setenv(name, value)
        yield server


def report(*results: str, name: str = "t") -> Result:
    """Post a report of this name on the last of some files of results."""
    files = results or ("results.json",)
    return RUNNER.invoke(main, ["report", *files, *(f"--name={name}" for _ in files), "--md=out.md", "--comment"])


# What is posted


@given(
    names=st.lists(st.text(min_size=1, max_size=50) | st.sampled_from(["-->", "a --!> @all", "%3E", ">"]), max_size=4)
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_name_has_one_comment(github: FakeGitHub, names: list[str]) -> None:
    """However often it is posted; no name ends the hidden first line."""
    github.comments.clear()
    for name in [*names, *names]:
        assert report(name=name).stderr == f"wrote out.md\nwrote the comment on pull request {NUMBER}\n{FAILED}"

    assert len(github.comments) == len(set(names))
    for body in github.comments.values():
        first, second = body.splitlines()[:2]
        assert first.startswith("<!-- toolgrade: ")
        assert first.index(">") == len(first) - 1
        assert second.startswith("# `")


def test_a_comment_is_updated_and_others_are_not(github: FakeGitHub) -> None:
    """Wherever it is among hundreds; a comment that quotes the marker is somebody else's."""
    github.comments = dict.fromkeys(range(1, 251), f"> {MARKER}")
    report()
    assert github.comments[251] == (
        f"{MARKER}{render_markdown(REPORT, title='t')}\n"
        "From [this run](https://github.test/owner/repo/actions/runs/42).\n"
    )

    github.comments[252] = MARKER
    github.requests.clear()
    passing = CASE.model_copy(update={"tools_called": [PAY]})
    after = evaluate([passing], [ToolCorrectnessMetric()], show_progress=False)
    Path("after.json").write_text(after.to_json(), encoding="utf-8")
    done = report("results.json", "after.json")

    assert done.exit_code == 0
    assert [request.partition("?")[0].rpartition("/")[2] for request in github.requests] == [*["comments"] * 3, "251"]
    assert "Compared with t" in github.comments[251]
    assert (len(github.comments), github.comments[250], github.comments[252]) == (252, f"> {MARKER}", MARKER)


def test_a_comment_has_room_for_what_fits(github: FakeGitHub) -> None:
    """The rest is counted, and the file has all of it."""
    cases = [CASE.model_copy(update={"id": f"{number} " + "é" * 150}) for number in range(500)]
    evaluate(cases, [ToolCorrectnessMetric()], show_progress=False, results="many.jsonl")
    report("many.jsonl")

    (body,) = github.comments.values()
    assert 60_000 < len(body.encode()) <= 65_536
    assert "**Cut**" in body
    assert "**Cut**" not in Path("out.md").read_text(encoding="utf-8")


def test_a_comment_that_was_deleted_is_posted_again(github: FakeGitHub) -> None:
    """Even if that happens after it was listed."""
    github.comments[1] = MARKER
    github.before = lambda method: github.comments.clear() if method == "PATCH" else None
    assert "wrote the comment" in report().stderr
    assert len(github.comments) == 1


@pytest.mark.parametrize(
    ("event", "posted"), [({"pull_request": {"url": "u"}, "number": 7}, True), ({"number": 7}, False)]
)
def test_the_event_may_be_a_comment(github: FakeGitHub, event: object, posted: bool) -> None:
    """On a pull request; a comment on an issue gets no answer."""
    Path("event.json").write_text(json.dumps({"issue": event}), encoding="utf-8")
    assert ("wrote the comment" in report().stderr) is posted
    assert bool(github.comments) is posted


# What prevents it


def assert_not_posted(github: FakeGitHub, kind: str, cause: str) -> None:
    """Assert that one annotation has the cause, and that all else is as without the option."""
    done = report()
    first, annotation, last = done.stderr.splitlines(keepends=True)

    assert done.exit_code == 1
    assert (done.stdout, first, last) == ("", "wrote out.md\n", FAILED)
    assert annotation.startswith(f"::{kind} title=toolgrade::No comment was posted: {cause}")
    assert TOKEN not in annotation
    assert Path("out.md").read_text(encoding="utf-8") == render_markdown(REPORT, title="t")
    assert github.comments == {}


PERMISSION = "give the job `permissions: pull-requests: write`, which pull requests from forks never get"
NO_API = "the answer is not one of GitHub's API; check GITHUB_API_URL"


@pytest.mark.parametrize(
    ("method", "status", "body", "cause"),
    [
        ("GET", 401, "{}", f"GitHub answered 401; {PERMISSION}"),
        ("POST", 403, '{"message": "Resource not accessible by integration"}', f"GitHub answered 403; {PERMISSION}"),
        ("GET", 404, '{"message": "Not Found"}', f"GitHub answered 404; {PERMISSION}"),
        ("POST", 500, TOKEN, "GitHub answered 500; run the job again"),
        ("GET", 200, TOKEN, NO_API),
        ("GET", 200, '{"id": 1}', NO_API),
    ],
)
def test_a_refusal_is_annotated(github: FakeGitHub, method: str, status: int, body: str, cause: str) -> None:
    """With the remedy, and without the token, which an answer may repeat."""
    github.answers[method] = status, {}, body.encode()
    assert_not_posted(github, "warning", cause)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_redirect_is_followed(github: FakeGitHub, method: str, status: int) -> None:
    """The other host would get the token."""
    with FakeGitHub() as other:
        github.answers[method] = status, {"Location": f"{other.url}/repos/owner/repo/issues/7/comments"}, b""
        assert_not_posted(github, "warning", f"GitHub answered {status}; check GITHUB_API_URL and GITHUB_")

    assert other.requests == []


def test_a_server_that_does_not_answer(github: FakeGitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is silent, or there is none."""
    monkeypatch.setattr("toolgrade.cli.pull_request._TIMEOUT", 0.05)
    end = Event()
    github.before = lambda _method: end.wait(60)
    assert_not_posted(github, "warning", "GitHub cannot be reached (")
    end.set()
    github.__exit__(None, None, None)
    assert_not_posted(github, "warning", "GitHub cannot be reached (")


NO_EVENT = ("notice", "this run is not for a pull request; use --comment for the event pull_request only")
NO_TOKEN = ("warning", "GITHUB_TOKEN is not set; add `GITHUB_TOKEN: ${{ github.token }}` to the env of the step")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        *(
            ("GITHUB_EVENT_PATH", value, NO_EVENT)
            for value in ("", "nosuch.json", "push.json", "results.json", "out.md")
        ),
        *(("GITHUB_TOKEN", value, NO_TOKEN) for value in ("", "\n")),
        ("GITHUB_TOKEN", f"a\n{TOKEN}", ("warning", NO_API)),
        ("GITHUB_API_URL", "nowhere", ("warning", NO_API)),
    ],
)
def test_a_wrong_environment_is_annotated(
    github: FakeGitHub, monkeypatch: pytest.MonkeyPatch, name: str, value: str, problem: tuple[str, str]
) -> None:
    """Nothing is sent then."""
    Path("push.json").write_text('{"ref": "refs/heads/main"}', encoding="utf-8")
    monkeypatch.setenv(name, value)
    assert_not_posted(github, *problem)
    assert github.requests == []
