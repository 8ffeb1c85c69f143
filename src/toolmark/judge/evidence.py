"""What a judge is shown of a case: JSON values with an id on everything that a verdict may rest on.

Little text is shown that the question does not need, long values are cut where everybody sees it, and secrets are taken
out. How the values become a text that nothing can break out of stands in `_prompts`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolmark._internal.json import JsonObject, canonical_json
from toolmark.calls import CallStatus, ToolSpec
from toolmark.cases import MLLMImage
from toolmark.judge.image_parts import ImageReader, Picture
from toolmark.judge.interactions import MadeCall, Said, Unit
from toolmark.redact import Redactor

LONGEST_TEXT = 8_000
"""Characters of one message, description, schema or set of arguments."""
LONGEST_RESULT = 4_000
"""Characters of one result."""
SHORT_RESULT = 300
"""Characters of a result that lies further back than `ALL_RESULTS` characters of later ones."""
ALL_RESULTS = 60_000
MOST_EARLIER = 30
"""Messages before the unit; the ones further back are counted."""
MOST_DONE = 200
"""Calls before the one in question; the ones further back are counted."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one question shows.

    Attributes:
        document: A JSON object.
        ids: The ids in it, in their order.
        pictures: The images it speaks of, in their order.
    """

    document: JsonObject
    ids: tuple[str, ...]
    pictures: tuple[Picture, ...] = ()


class Exhibits:
    """Makes the evidence of every question about one case."""

    def __init__(self, tools: Sequence[ToolSpec], redactor: Redactor, images: ImageReader) -> None:
        """Keep the tools, and how secrets and images are dealt with."""
        self._tools = [redactor.model(tool) for tool in tools]
        self._redactor = redactor
        self._images = images
        self._shown: dict[tuple[int, int | None], JsonObject] = {}

    def of_call(self, unit: Unit, made: MadeCall, *, all_tools: bool) -> Evidence:
        """Return the evidence about one call: what led to it, and nothing that came after it.

        Args:
            unit: The unit it belongs to.
            made: The call.
            all_tools: Show all tools; else only those of the call's name.
        """
        pictures: list[Picture] = []
        before = [other for other in unit.calls if other.number < made.number]
        document = {
            **self._earlier(unit, pictures),
            "request": self._messages(unit.asked, pictures),
            **self._done(unit, made, before, pictures),
            "tools": self._specs(None if all_tools else made.call.name),
            "call": self._call(made, None),
        }
        return _evidence(document, pictures)

    def of_unit(self, unit: Unit) -> Evidence:
        """Return the evidence about a whole unit: all its calls with their results, and the agent's answer."""
        pictures: list[Picture] = []
        document = {
            **self._earlier(unit, pictures),
            "request": self._messages(unit.asked, pictures),
            "calls": self._with_results(unit.calls),
            "answer": self._messages(unit.answered, pictures),
            "tools": self._specs(None),
        }
        if len(unit.calls) > MOST_DONE:
            document["calls_left_out"] = len(unit.calls) - MOST_DONE
        return _evidence(document, pictures)

    def _earlier(self, unit: Unit, pictures: list[Picture]) -> JsonObject:
        shown = unit.earlier[-MOST_EARLIER:]
        messages = self._messages(shown, pictures)
        for message, said in zip(messages, shown, strict=True):
            if said.calls:
                message["calls"] = self._with_results(said.calls)
        entry: JsonObject = {"earlier": messages}
        if len(unit.earlier) > MOST_EARLIER:
            entry["earlier_left_out"] = len(unit.earlier) - MOST_EARLIER
        return entry

    def _done(self, unit: Unit, made: MadeCall, before: Sequence[MadeCall], pictures: list[Picture]) -> JsonObject:
        """Return the calls before the one in question, and what the agent said in earlier turns of the same unit."""
        at_once = {other.number for other in before if _asked_at_once(other, made)}
        entry: JsonObject = {"done": self._with_results(before, without=at_once)}
        if len(before) > MOST_DONE:
            entry["done_left_out"] = len(before) - MOST_DONE
        # Within one turn the text cannot be told to stand before the call, so only the text of earlier turns is shown.
        said = [turn for turn in unit.answered if not turn.calls or turn.calls[-1].number < made.number]
        said = [turn for turn in said if made.turn is not None and turn.number <= made.turn]
        if said:
            entry["said"] = self._messages(said, pictures)
        return entry

    def _messages(self, messages: Iterable[Said], pictures: list[Picture]) -> list[JsonObject]:
        return [
            {"id": f"m{said.number}", "role": said.role, "content": self._content(said, pictures)} for said in messages
        ]

    def _content(self, said: Said, pictures: list[Picture]) -> Any:  # noqa: ANN401 - a JSON value
        if isinstance(said.content, str):
            return _fitted(self._redactor(said.content), LONGEST_TEXT)
        parts: list[Any] = []
        for part in said.content:
            if isinstance(part, MLLMImage):
                picture = self._images.read(part, f"i{len(pictures) + 1}")
                pictures.append(picture)
                parts.append({"image": picture.id, "sha256": picture.sha256})
            else:
                parts.append(_fitted(self._redactor(part), LONGEST_TEXT))
        return parts

    def _specs(self, name: str | None) -> list[JsonObject]:
        return [
            {
                "id": f"t{number}",
                "name": _fitted(tool.name, LONGEST_TEXT),
                "description": _fitted(tool.description, LONGEST_TEXT),
                "input_schema": _fitted(tool.input_schema, LONGEST_TEXT),
            }
            for number, tool in enumerate(self._tools, 1)
            if name is None or tool.name == name
        ]

    def _with_results(self, calls: Sequence[MadeCall], without: Iterable[int] = ()) -> list[JsonObject]:
        """Return calls with their results; results further back are shorter, so that the document has an end."""
        left_out = set(without)
        shown: list[JsonObject] = []
        used = 0
        for made in reversed(calls[-MOST_DONE:]):
            limit = LONGEST_RESULT if used < ALL_RESULTS else SHORT_RESULT
            entry = self._call(made, None if made.number in left_out else limit)
            if made.number in left_out:
                entry["asked_at_once_with_the_call"] = True
            used += len(canonical_json(entry))
            shown.append(entry)
        return shown[::-1]

    def _call(self, made: MadeCall, limit: int | None) -> JsonObject:
        """Return a call; with its result, of at most `limit` characters, unless that is `None`.

        Each is made once: of many calls, every later one shows the earlier ones again.
        """
        key = (made.number, limit)
        if key not in self._shown:
            self._shown[key] = self._made(made, limit)
        return dict(self._shown[key])

    def _made(self, made: MadeCall, limit: int | None) -> JsonObject:
        call = self._redactor.model(made.call)
        execution = call.execution
        arguments: Any = call.arguments
        if execution is not None and execution.status is CallStatus.INVALID_ARGUMENTS:
            arguments = execution.requested_parameters
        entry: JsonObject = {
            "id": f"c{made.number}",
            "name": _fitted(call.name, LONGEST_TEXT),
            "arguments": _fitted(arguments, LONGEST_TEXT)
            if call.captured("input_parameters")
            else {"not_recorded": True},
        }
        if limit is None:
            return entry
        if execution is not None and execution.status is not CallStatus.OK:
            entry["status"] = execution.status.value
            told = execution.error if execution.error is not None else execution.model_output
            entry["error"] = _fitted(told, limit)
        elif "output" in call.model_fields_set and call.captured("output"):
            entry["result"] = _fitted(call.output, limit)
        else:
            entry["result"] = {"not_recorded": True}
        return entry


def _asked_at_once(other: MadeCall, made: MadeCall) -> bool:
    """Return whether two calls were asked for in one message, so that neither could know the other's result."""
    first, second = other.call.execution, made.call.execution
    if other.turn != made.turn or first is None or second is None:
        return False
    return first.step is not None and first.step == second.step and first.agent == second.agent


def _fitted(value: Any, limit: int) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value, or where its text is longer than `limit`, its beginning, its length and its hash."""
    text = value if isinstance(value, str) else canonical_json(value)
    if len(text) <= limit:
        return value
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {"cut_off": True, "characters": len(text), "sha256": digest, "beginning": text[:limit]}


def _evidence(document: JsonObject, pictures: Sequence[Picture]) -> Evidence:
    ids = [*_issued(document), *(picture.id for picture in pictures)]
    return Evidence(document, tuple(dict.fromkeys(ids)), tuple(pictures))


def _issued(document: JsonObject) -> Iterator[str]:
    for name in ("earlier", "request", "said", "done", "calls", "answer", "tools"):
        for entry in document.get(name, ()):
            yield entry["id"]
            for call in entry.get("calls", ()):
                yield call["id"]
    if "call" in document:
        yield document["call"]["id"]
