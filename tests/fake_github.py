"""A real HTTP server on loopback with the part of GitHub's REST API that is about comments of issues.

https://docs.github.com/en/rest/issues/comments, and pages as of
https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from typing_extensions import Self

TOKEN = "ghs_fake/token%with+signs"
NUMBER = 7
_LIST = f"/repos/owner/repo/issues/{NUMBER}/comments"
_LONGEST = 65_536


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a client that timed out has closed its connection."""


class FakeGitHub:
    """Comments of pull request 7 of `owner/repo`, which the token may write."""

    def __init__(self) -> None:
        """Begin to listen."""
        self.comments: dict[int, str] = {}
        self.requests: list[str] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        """Answers in place of the real ones, by method."""
        self.before: Callable[[str], object] = lambda _method: None
        """Called with the method of a request before it is answered."""
        github = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

            def do_GET(self) -> None:
                content = self.rfile.read(int(self.headers.get("content-length", "0")))
                github.requests.append(f"{self.command} {self.path}")
                github.before(self.command)
                answer = github.answers.get(self.command)
                if answer is None and self.headers.get("authorization") != f"Bearer {TOKEN}":
                    answer = 401, {}, b'{"message": "Bad credentials"}'
                status, headers, body = answer or github.answer(self.command, self.path, content)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 - the names that the server calls
            do_PATCH = do_GET  # noqa: N815

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def __enter__(self) -> Self:
        """Return this."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, target: str, content: bytes) -> tuple[int, dict[str, str], bytes]:
        """Return the status, the headers and the body that GitHub would send."""
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        if (method, path) == ("GET", _LIST):
            return self._page({name: int(values[0]) for name, values in query.items()})
        comment = re.fullmatch(r"/repos/owner/repo/issues/comments/(\d+)", path)
        if method == "PATCH" and comment and int(comment[1]) in self.comments:
            status, number = 200, int(comment[1])
        elif (method, path) == ("POST", _LIST):
            status, number = 201, max(self.comments, default=0) + 1
        else:
            return 404, {}, b'{"message": "Not Found"}'
        body = json.loads(content)["body"]
        if len(body) > _LONGEST:
            return 422, {}, b'{"message": "Validation Failed"}'
        self.comments[number] = body
        return status, {}, json.dumps({"id": number, "body": body}).encode()

    def _page(self, query: dict[str, int]) -> tuple[int, dict[str, str], bytes]:
        size, number = min(query.get("per_page", 30), 100), query.get("page", 1)
        listed = [{"id": key, "body": body, "user": {"login": "a"}} for key, body in sorted(self.comments.items())]
        last = max(-(-len(listed) // size), 1)
        pages = {"prev": number - 1, "next": number + 1, "last": last}
        links = [
            f'<{self.url}/repositories/1/issues/{NUMBER}/comments?per_page={size}&page={page}>; rel="{name}"'
            for name, page in pages.items()
            if 0 < page <= last and page != number
        ]
        headers = {"Link": ", ".join(links)} if links else {}
        return 200, headers, json.dumps(listed[size * (number - 1) : size * number]).encode()

    def environment(self, event: Path) -> dict[str, str]:
        """Write the event of the pull request, and return the variables that a step of GitHub Actions has."""
        event.write_text(json.dumps({"action": "opened", "pull_request": {"number": NUMBER}}), encoding="utf-8")
        return {
            "GITHUB_API_URL": self.url,
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_REPOSITORY": "owner/repo",
            "GITHUB_RUN_ID": "42",
            "GITHUB_SERVER_URL": "https://github.test",
            "GITHUB_TOKEN": TOKEN,
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }
