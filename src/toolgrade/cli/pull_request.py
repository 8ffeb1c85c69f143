"""One comment on the pull request of a run of GitHub Actions, updated by later runs with the same name.

The REST API treats a pull request as an issue: https://docs.github.com/en/rest/issues/comments.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import quote
from urllib.request import HTTPErrorProcessor, Request, build_opener

import click
from pydantic import BaseModel, TypeAdapter

from toolgrade._internal.text import printable
from toolgrade.cli.annotations import Kind, workflow_command
from toolgrade.report import Report
from toolgrade.report.markdown import render_markdown
from toolgrade.report.redaction import redact

_MAX_CHARACTERS = 65_536
"""Length of a comment, beyond which GitHub answers 422."""
_MAX_PAGES = 100
"""Pages of 100 comments that are searched, so that a server cannot keep the search running."""
_TIMEOUT = 10.0
"""Seconds that the server may be silent."""
_FORBIDDEN = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
"""404 too: that is how GitHub refuses to show what a token may not see."""


class _Issue(BaseModel):
    number: int
    pull_request: object = None
    """Set if the issue of an event is a pull request."""


class _WorkflowEvent(BaseModel):
    pull_request: _Issue | None = None
    issue: _Issue | None = None


class _Comment(BaseModel):
    id: int
    body: str | None = None


_COMMENTS = TypeAdapter(list[_Comment])


@dataclass(eq=False)
class _RefusedError(Exception):
    """An answer of the API that is not a success."""

    status: int


class _PlainResponses(HTTPErrorProcessor):
    """Returns each response as it is: a redirect is not followed, because every request carries the token."""

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:  # noqa: ARG002 - urllib's own
        return response

    https_response = http_response


def post_comment(reports: Sequence[Report], by: Sequence[str]) -> None:
    """Post the last report as a comment on the pull request of this run, or update the comment of an earlier run.

    Whatever prevents this is printed as an annotation; it changes neither the exit code nor the other reports.
    """
    number, token = _pull_request_number(), os.environ.get("GITHUB_TOKEN", "").strip()
    if number is None:
        _annotate("notice", "this run is not for a pull request; use --comment for the event pull_request only")
        return
    if not token:
        _annotate("warning", "GITHUB_TOKEN is not set; add `GITHUB_TOKEN: ${{ github.token }}` to the env of the step")
        return
    *earlier, report = reports
    # Percent-encoded, a name cannot end the HTML comment, and two short names never share a marker.
    name = quote(redact(str(report.about["name"])), " ", errors="backslashreplace")[:1000]
    marker = f"<!-- toolgrade: {name} -->\n"
    link = _link_to_run()
    room = _MAX_CHARACTERS - len(marker) - len(link)
    body = marker + render_markdown(report, earlier=earlier, by=by, max_bytes=room) + link
    try:
        _Comments(number, token).put(marker.strip(), body)
    except (_RefusedError, OSError, HTTPException, ValueError) as error:
        _annotate("warning", _cause(error))
    else:
        click.echo(f"wrote the comment on pull request {number}", err=True)


def _pull_request_number() -> int | None:
    """Return the number of the pull request that the event of the run is about, or that it is a comment on."""
    try:
        event = _WorkflowEvent.model_validate_json(Path(os.environ.get("GITHUB_EVENT_PATH", "")).read_bytes())
    except (OSError, ValueError):
        return None
    issue = event.issue if event.issue and event.issue.pull_request else event.pull_request
    return issue.number if issue else None


def _link_to_run() -> str:
    server, repository, run = map(os.environ.get, ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"))
    return f"\nFrom [this run]({server}/{repository}/actions/runs/{run}).\n" if run else ""


class _Comments:
    """The comments of a pull request."""

    def __init__(self, number: int, token: str) -> None:
        api = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
        self._url = f"{api}/repos/{os.environ.get('GITHUB_REPOSITORY', '')}/issues"
        self._number = number
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def put(self, marker: str, body: str) -> None:
        """Replace the comment that starts with the marker, or post one if there is none."""
        comment = self._find(marker)
        if comment is not None:
            try:
                self._send("PATCH", f"comments/{comment}", body)
            except _RefusedError as error:
                if error.status != HTTPStatus.NOT_FOUND:  # somebody has deleted the comment since it was listed
                    raise
            else:
                return
        self._send("POST", f"{self._number}/comments", body)

    def _find(self, marker: str) -> int | None:
        for page in range(1, _MAX_PAGES + 1):
            # Pages are counted here, since a link of the response could name another host.
            data, link = self._send("GET", f"{self._number}/comments?per_page=100&page={page}")
            for comment in _COMMENTS.validate_json(data):
                if comment.body is not None and comment.body.startswith(marker):
                    return comment.id
            if 'rel="next"' not in link:
                break
        return None

    def _send(self, method: str, path: str, body: str | None = None) -> tuple[bytes, str]:
        """Send a request, and return the content of the response and its header `Link`."""
        data = None if body is None else json.dumps({"body": body}).encode()
        request = Request(f"{self._url}/{path}", data, self._headers, method=method)  # noqa: S310 - the runner's URL
        with build_opener(_PlainResponses).open(request, timeout=_TIMEOUT) as response:
            if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
                raise _RefusedError(response.status)
            return response.read(), response.headers.get("Link", "")


def _cause(error: Exception) -> str:
    """Return what went wrong and what to do; the texts of other errors could have the token."""
    if isinstance(error, OSError):
        return f"GitHub cannot be reached ({printable(str(getattr(error, 'reason', error)))}); run the job again"
    if not isinstance(error, _RefusedError):
        return "the answer is not one of GitHub's API; check GITHUB_API_URL and GITHUB_TOKEN"
    remedy = "run the job again"
    if error.status in _FORBIDDEN:
        remedy = "give the job `permissions: pull-requests: write`, which pull requests from forks never get"
    elif error.status < HTTPStatus.BAD_REQUEST:
        remedy = "check GITHUB_API_URL and GITHUB_REPOSITORY, since a redirect is not followed"
    return f"GitHub answered {error.status}; {remedy}"


def _annotate(kind: Kind, cause: str) -> None:
    click.echo(workflow_command(kind, f"No comment was posted: {cause}."), err=True)
