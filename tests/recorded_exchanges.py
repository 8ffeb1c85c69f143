"""Requests and responses of providers in recorded files: cassettes in YAML, and bodies in JSON."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

ENDS = {"/chat/completions": "openai-chat", "/responses": "openai-responses", "/v1/messages": "anthropic"}


class Exchange(NamedTuple):
    """A request and its response, as JSON; a streamed response is the list of its events."""

    where: str
    format: str
    request: Any
    response: Any
    streamed: bool


def plain(message: Any) -> tuple[Any, bool]:
    """The JSON of a recorded request or response, and whether it was streamed."""
    if "parsed_body" in message:
        return message["parsed_body"], False
    body = message.get("body")
    body = body.get("string") if isinstance(body, dict) else body
    if isinstance(body, bytes):
        body = (gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body).decode("utf-8", "replace")
    if not body:
        return None, False
    if not body.lstrip().startswith(("data:", "event:")):
        try:
            return json.loads(body), False
        except ValueError:  # compressed in a way that needs more than the standard library
            return None, False
    data = (line[5:].strip() for line in body.splitlines() if line.startswith("data:"))
    return [json.loads(text) for text in data if text and text != "[DONE]"], True


def exchanges_in(folder: Path) -> list[Exchange]:
    """Return every recorded exchange of the three APIs in the files of a folder; needs PyYAML."""
    import yaml

    exchanges_read: list[Exchange] = []
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted(folder.rglob("*.yaml")):
        for number, entry in enumerate(yaml.load(path.read_bytes(), Loader=loader)["interactions"]):  # noqa: S506 - a safe one
            place = entry["request"]["uri"].partition("?")[0].partition("#")[0]
            name = next((name for end, name in ENDS.items() if place.endswith(end)), None)
            if name is not None:
                response, streamed = plain(entry["response"])
                where = f"{path.relative_to(folder)}:{number}"
                exchanges_read.append(Exchange(where, name, plain(entry["request"])[0], response, streamed))
    for path in sorted(folder.rglob("*.json")):
        body = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(body, dict) and "choices" in body and "finish_reason" in body["choices"][0]:
            exchanges_read.append(Exchange(str(path), "openai-chat", None, body, streamed=False))
        elif isinstance(body, dict) and body.get("object") == "response":
            exchanges_read.append(Exchange(str(path), "openai-responses", None, body, streamed=False))
        elif isinstance(body, dict) and "stop_reason" in body:
            exchanges_read.append(Exchange(str(path), "anthropic", None, body, streamed=False))
    return exchanges_read
