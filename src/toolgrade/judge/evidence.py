"""Evidence for a judge: the JSON document that shows a case, with an id on everything a verdict may rest on.

A case is judged in units: a user's request and everything the agent did about it. Each question shows only what it
needs, long values are visibly truncated, and secrets are redacted. `prompts` turns the document into text that no value
can break out of. Marks stand beside a value, under a key that ends in `_cut_off`, `_not_recorded` or `_left_out`: a key
of that name inside a value is data. Images are read only where the user allowed it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, groupby
from pathlib import Path
from typing import Any, TypeAlias

from toolgrade._internal.json import JsonObject, canonical_json, short_repr
from toolgrade._internal.message_content import DATA_URL, image_type, replace_images
from toolgrade.calls import CallStatus, Execution, ToolCall, ToolSpec
from toolgrade.cases import ConversationalTestCase, LLMTestCase, MLLMImage, MLLMTestCase, Turn, input_with_images
from toolgrade.errors import ConfigurationError, InvalidDataError
from toolgrade.redact import Redactor

Content: TypeAlias = "str | list[str | MLLMImage]"

LONGEST_TEXT = 8_000
"""Characters of one message, description, schema or set of arguments."""
LONGEST_RESULT = 4_000
"""Characters of one result."""
SHORT_VALUE = 300
"""Characters of a name, a result or arguments that stand before `ALL_CALLS` characters of later calls."""
ALL_CALLS = 60_000
MOST_EARLIER = 30
"""Messages before the unit that are shown; earlier ones are counted."""
MOST_DONE = 200
"""Calls before the one in question that are shown; earlier ones are counted."""
MOST_RESULT_IMAGES = 20
"""Images in results that one question sends, those of the latest calls; of others it shows type and hash."""
_PARALLEL = {"asked_at_once_with_the_call": True}
"""Field of a call that the model asked for together with the call in question."""
_PARALLEL_CHARACTERS = len(canonical_json(_PARALLEL)) - len("{}") + len(",")


LARGEST_IMAGE = 20_000_000
"""Bytes of the largest image that is sent."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image with its id in the evidence, a `data:` URL or address, and the SHA-256 of its bytes or address."""

    id: str
    url: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ImageAccess:
    """What may be read of images: files in a folder (`None`: no file), and whether addresses may be passed on.

    Nothing is ever fetched here. An image at an address is passed on as that address, and only if the user allowed it:
    the judge's provider then fetches it. A file is read only from the folder that the user named: a case does not say
    who made it, and a data set could name any file of this machine.
    """

    folder: Path | None = None
    addresses: bool = False


_NO_IMAGES = ImageAccess()


@dataclass(frozen=True, slots=True)
class CaseCall:
    """One call of a case.

    `number` counts all calls of the case from 1, and its id in the evidence is `c<number>`. `message` is the position
    of its message from 0, `None` in a case without turns.
    """

    number: int
    call: ToolCall
    message: int | None


@dataclass(frozen=True, slots=True)
class CaseMessage:
    """One message of a case with its calls; `number` counts from 1, and its id in the evidence is `m<number>`."""

    number: int
    role: str
    content: Content
    calls: tuple[CaseCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit interaction; `index` counts from 0, `earlier` holds all messages before it.

    `request` holds the user's messages, none where the agent began on its own; `response` the agent's. `turn` is its
    turn in a conversation, from 1; `is_multimodal` says that the judge is sent the images of the case.
    """

    index: int
    earlier: tuple[CaseMessage, ...]
    request: tuple[CaseMessage, ...]
    response: tuple[CaseMessage, ...]
    turn: int | None = None
    is_multimodal: bool = False

    @property
    def calls(self) -> tuple[CaseCall, ...]:
        """Its calls, in order."""
        return tuple(call for message in self.response for call in message.calls)


def unit_of(case: LLMTestCase | MLLMTestCase) -> Unit:
    """Return a case of one question as one unit; the case must have `tools_called` and `input`."""
    calls = tuple(CaseCall(index + 1, call, None) for index, call in enumerate(case.tools_called or ()))
    request = CaseMessage(1, "user", input_with_images(case) or "")
    response = CaseMessage(2, "assistant", case.actual_output or "", calls)
    return Unit(0, (), (request,), (response,), is_multimodal=isinstance(case, MLLMTestCase))


def units_of(case: ConversationalTestCase) -> tuple[tuple[Unit, ...], list[str]]:
    """Return the units of a conversation, and notes about the turns that are in none.

    A unit is a run of user turns with the assistant turns up to the next user turn. Assistant turns before the first
    user turn are a unit of their own if they call tools, else only context; user turns after the last assistant turn
    are not answered, and not a unit.
    """
    messages = _messages_of(case.turns)
    units: list[Unit] = []
    notes: list[str] = []
    request: tuple[CaseMessage, ...] = ()
    turns, turn = count(1), 1
    # A user may need several turns to say one thing, and an agent several to answer: runs of one role are not split.
    for role, group in groupby(messages, key=lambda message: message.role):
        run = tuple(group)
        if role == "user":
            request = run
            turn = next(turns)
            continue
        # A greeting is not judged, but an agent that acts before it is asked is.
        if request or any(message.calls for message in run):
            begin = (*request, *run)[0].number - 1
            units.append(Unit(len(units), tuple(messages[:begin]), request, run, turn))
        if not request:
            fate = "judged as calls without a request" if units else "not judged, since it calls no tool"
            notes.append(f"{_turns_text(run)} before the first user turn: {fate}")
        request = ()
    if request:
        notes.append(f"{_turns_text(request)} at the end: not answered, so not judged")
    return tuple(units), notes


def _messages_of(turns: Sequence[Turn]) -> list[CaseMessage]:
    messages: list[CaseMessage] = []
    numbers = count(1)
    for index, turn in enumerate(turns):
        calls = [CaseCall(next(numbers), call, index) for call in turn.tools_called or ()]
        messages.append(CaseMessage(index + 1, turn.role, turn.content, tuple(calls)))
    return messages


def _turns_text(messages: Sequence[CaseMessage]) -> str:
    first, last, role = messages[0].number, messages[-1].number, messages[0].role
    return f"{role} turn #{first}" if first == last else f"{role} turns #{first} to #{last}"


@dataclass(frozen=True, slots=True)
class QuestionEvidence:
    """The document that one question shows, the ids it issues in order, and the images it refers to."""

    document: JsonObject
    ids: tuple[str, ...]
    pictures: tuple[Picture, ...] = ()


class EvidenceBuilder:
    """Builds the evidence of every question about one case."""

    def __init__(
        self,
        tools: Sequence[ToolSpec],
        redactor: Redactor,
        images: ImageAccess = _NO_IMAGES,
        *,
        sends_images: bool = False,
    ) -> None:
        """Redact the tools, and store how to treat secrets and images."""
        self._sends_images = sends_images
        self._tools = [redactor.model(tool) for tool in tools]
        self._redactor = redactor
        self._images = images
        self._calls: dict[tuple[int, bool, bool, bool], tuple[JsonObject, list[Picture], int]] = {}

    def for_call(self, unit: Unit, call: CaseCall, *, all_tools: bool) -> QuestionEvidence:
        """Return the evidence about one call: what led to it, and nothing that came after it.

        With `all_tools` it shows every tool, else only those of the call's name.
        """
        pictures: list[Picture] = []
        before = [other for other in unit.calls if other.number < call.number]
        document = self._opening(unit, pictures)
        document["done"] = self._calls_with_results(before, pictures, call)
        _note_left_out(document, "done", len(before) - MOST_DONE)
        # Whether text of the same turn precedes the call is not recorded, so only the text of earlier turns is shown.
        earlier_turns = call.message or 0
        messages = [message for message in unit.response if message.number <= earlier_turns]
        if messages:
            document["said"] = self._messages(messages, pictures)
        document["tools"] = self._tool_specs(None if all_tools else call.call.name)
        document["call"], _, _ = self._call(call, is_short=False, with_result=False)
        return _evidence(document, pictures)

    def for_unit(self, unit: Unit) -> QuestionEvidence:
        """Return the evidence about a whole unit: all its calls with their results, and the agent's answer."""
        pictures: list[Picture] = []
        document = self._opening(unit, pictures)
        document["calls"] = self._calls_with_results(unit.calls, pictures)
        _note_left_out(document, "calls", len(unit.calls) - MOST_DONE)
        document["answer"] = self._messages(unit.response, pictures)
        document["tools"] = self._tool_specs()
        return _evidence(document, pictures)

    def _opening(self, unit: Unit, pictures: list[Picture]) -> JsonObject:
        """Return the start of a document: the conversation before the unit, and the request."""
        recent = unit.earlier[-MOST_EARLIER:]
        earlier = self._messages(recent, pictures)
        # The limits hold for the calls of all these messages together.
        visible = self._calls_with_results([call for message in recent for call in message.calls], pictures)
        for entry, message in zip(earlier, recent, strict=True):
            if message.calls:
                ids = {f"c{call.number}" for call in message.calls}
                entry["calls"] = [call for call in visible if call["id"] in ids]
                _note_left_out(entry, "calls", len(message.calls) - len(entry["calls"]))
        document: JsonObject = {"earlier": earlier, "request": self._messages(unit.request, pictures)}
        _note_left_out(document, "earlier", len(unit.earlier) - MOST_EARLIER)
        return document

    def _messages(self, messages: Iterable[CaseMessage], pictures: list[Picture]) -> list[JsonObject]:
        entries: list[JsonObject] = []
        for message in messages:
            content = self._content(message, pictures)
            entries.append({"id": f"m{message.number}", "role": message.role, **content})
        return entries

    def _content(self, message: CaseMessage, pictures: list[Picture]) -> JsonObject:
        """Return the content of a message as a field; a part that is an object is an image, or a text that was cut."""
        if isinstance(message.content, str):
            return _field("content", self._redactor(message.content), LONGEST_TEXT)
        parts: list[Any] = []
        for part in message.content:
            if isinstance(part, MLLMImage) and not self._sends_images:
                parts.append({"image": {"not_sent": True}})
            elif isinstance(part, MLLMImage):
                picture = read_image(part, f"i{len(pictures) + 1}", self._images)
                pictures.append(picture)
                parts.append({"image": picture.id, "sha256": picture.sha256})
            else:
                text = _field("text", self._redactor(part), LONGEST_TEXT)
                parts.append(text if len(text) > 1 else text["text"])
        return {"content": parts}

    def _tool_specs(self, name: str | None = None) -> list[JsonObject]:
        specs: list[JsonObject] = []
        for number, tool in enumerate(self._tools, 1):
            if name in (None, tool.name):
                fields = {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
                spec: JsonObject = {"id": f"t{number}"}
                for key, value in fields.items():
                    spec |= _field(key, value, LONGEST_TEXT)
                specs.append(spec)
        return specs

    def _calls_with_results(
        self, calls: Sequence[CaseCall], pictures: list[Picture], judged: CaseCall | None = None
    ) -> list[JsonObject]:
        """Return calls with their results, and add the images in these to the pictures.

        Older results are truncated more, so that the document stays bounded. Calls that were asked at once with
        `judged` are shown without a result.
        """
        entries: list[JsonObject] = []
        images: list[Picture] = []
        used = 0
        for call in reversed(calls[-MOST_DONE:]):
            is_parallel = judged is not None and _in_parallel(call, judged)
            shape = {"is_short": used >= ALL_CALLS, "with_result": not is_parallel}
            entry, images_of_call, size = self._call(call, **shape, sends_images=self._sends_images)
            if len(images) + len(images_of_call) > MOST_RESULT_IMAGES:
                entry, images_of_call, size = self._call(call, **shape)
            images = images_of_call + images
            if is_parallel:
                entry = {**entry, **_PARALLEL}
                size += _PARALLEL_CHARACTERS
            used += size
            entries.append(entry)
        pictures += images
        return entries[::-1]

    def _call(
        self, call: CaseCall, *, is_short: bool, with_result: bool, sends_images: bool = False
    ) -> tuple[JsonObject, list[Picture], int]:
        """Return a call, the images to send, and the characters of the call in a document.

        Without `sends_images`, an image is shown as its type and hash.
        """
        # Each entry is built once: in a case of many calls, the evidence of every later call shows the earlier ones.
        key = (call.number, is_short, with_result, sends_images)
        if key not in self._calls:
            pictures: list[Picture] = []
            replace = partial(_result_image, number=call.number, pictures=pictures, sends_images=sends_images)
            entry = self._build_call(call, replace, is_short=is_short, with_result=with_result)
            text = canonical_json(entry)  # without the pictures that are cut off
            self._calls[key] = entry, [picture for picture in pictures if picture.id in text], len(text)
        return self._calls[key]

    def _build_call(
        self, case_call: CaseCall, replace: Callable[[str, bytes], JsonObject], *, is_short: bool, with_result: bool
    ) -> JsonObject:
        call = case_call.call
        if with_result:
            # Before the redaction, which is for texts: it might take a part of an image for a secret.
            output = replace_images(call.output, replace)
            call = call if output is call.output else call.model_copy(update={"output": output})
        call = self._redactor.model(call)
        execution = call.execution or Execution()
        arguments: Any = call.arguments
        if execution.status is CallStatus.INVALID_ARGUMENTS:
            arguments = execution.requested_parameters
        limit = SHORT_VALUE if is_short else LONGEST_TEXT
        entry: JsonObject = {"id": f"c{case_call.number}", **_field("name", call.name, limit)}
        recorded = call.captured("input_parameters")
        entry |= _field("arguments", arguments, limit) if recorded else {"arguments_not_recorded": True}
        return entry | _result_fields(call, SHORT_VALUE if is_short else LONGEST_RESULT) if with_result else entry


def _result_image(mime: str, content: bytes, *, number: int, pictures: list[Picture], sends_images: bool) -> JsonObject:
    """Return what the document shows of an image in the result of a call; add one that is sent to the pictures."""
    digest = hashlib.sha256(content).hexdigest()
    if not sends_images or len(content) > LARGEST_IMAGE:
        return {"image": mime, "sha256": digest}
    url = f"data:{mime};base64,{base64.b64encode(content).decode('ascii')}"
    pictures.append(Picture(f"c{number}-i{len(pictures) + 1}", url, digest))
    return {"image": pictures[-1].id, "sha256": digest}


def _result_fields(call: ToolCall, limit: int) -> JsonObject:
    """Return what came of a redacted call: its status and error, or its result."""
    execution = call.execution or Execution()
    if execution.status is not CallStatus.OK:
        error = execution.error if execution.error is not None else execution.model_output
        return {"status": execution.status.value, **_field("error", error, limit)}
    if "output" in call.model_fields_set and call.captured("output"):
        return _field("result", call.output, limit)
    return {"result_not_recorded": True}


def _in_parallel(other: CaseCall, call: CaseCall) -> bool:
    """Return whether one model message asked for both calls, so that neither depends on the other's result."""
    first, second = other.call.execution or Execution(), call.call.execution or Execution()
    in_one_step = (other.message, first.step, first.agent) == (call.message, second.step, second.agent)
    return in_one_step and first.step is not None


def _field(name: str, value: Any, limit: int) -> JsonObject:  # noqa: ANN401 - a JSON value
    """Return a value under a name, or where its text is longer than `limit`, its beginning with a mark beside it."""
    text = value if isinstance(value, str) else canonical_json(value)
    if len(text) <= limit:
        return {name: value}
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {name: text[:limit], f"{name}_cut_off": {"characters": len(text), "sha256": digest}}


def _note_left_out(document: JsonObject, name: str, amount: int) -> None:
    if amount > 0:
        document[f"{name}_left_out"] = amount


def _evidence(document: JsonObject, pictures: Sequence[Picture]) -> QuestionEvidence:
    names = ("earlier", "request", "said", "done", "calls", "answer", "tools")
    entries = [entry for name in names for entry in document.get(name, ())]
    ids = [issued["id"] for entry in entries for issued in (entry, *entry.get("calls", ()))]
    if "call" in document:
        ids.append(document["call"]["id"])
    ids += [picture.id for picture in pictures]
    return QuestionEvidence(document, tuple(dict.fromkeys(ids)), tuple(pictures))


def read_image(image: MLLMImage, id: str, access: ImageAccess) -> Picture:
    """Return an image under an id.

    Raises:
        ConfigurationError: The image is an address or a file, and these are not allowed.
        InvalidDataError: The image is missing, outside of the folder, too large, or not a PNG, JPEG, GIF or WebP.
    """
    if image.url is not None and not image.url.startswith("data:"):
        return _picture_at_address(image.url, id, allow_addresses=access.addresses)
    name = repr(image.path) if image.path is not None else "given as data"
    content = _read_content(image, access.folder)
    if len(content) > LARGEST_IMAGE:
        message = f"the image {name} has {len(content):,} bytes or more; a judge is sent at most {LARGEST_IMAGE:,}"
        raise InvalidDataError(message)
    # The type is read from the bytes, so that a file that is not an image is never sent, whatever its name.
    mime = image_type(content)
    if mime is None:
        raise InvalidDataError(f"the image {name} is not a PNG, JPEG, GIF or WebP; it begins with {content[:12]!r}")
    text = base64.b64encode(content).decode("ascii")
    return Picture(id, f"data:{mime};base64,{text}", hashlib.sha256(content).hexdigest())


def _picture_at_address(url: str, id: str, *, allow_addresses: bool) -> Picture:
    if not allow_addresses:
        advice = "allow it with Judge(..., image_addresses=True), or give the image as data"
        raise ConfigurationError(f"the judge would have to fetch the image at {short_repr(url)}; {advice}")
    if not url.startswith(("https://", "http://")):
        raise InvalidDataError(f"the address of an image must begin with https:, http: or data:, got {short_repr(url)}")
    return Picture(id, url, hashlib.sha256(url.encode()).hexdigest())


def _read_content(image: MLLMImage, folder: Path | None) -> bytes:
    """Return the bytes of an image, at most one more than is allowed of a file."""
    if image.path is not None:
        return _read_file(image.path, folder)
    if image.data is not None:
        return base64.b64decode(image.data)
    match = DATA_URL.fullmatch(image.url or "")
    if match is None:
        message = f"a data: URL of an image must have the form data:image/png;base64,..., got {short_repr(image.url)}"
        raise InvalidDataError(message)
    try:
        return base64.b64decode(match["data"], validate=True)
    except ValueError as error:
        raise InvalidDataError(f"the data: URL of an image does not hold base64 text: {error}") from None


def _read_file(name: str, folder: Path | None) -> bytes:
    """Return the bytes of a file in a folder, at most one more than is allowed; a relative name is one in the folder.

    Raises:
        ConfigurationError: There is no folder.
        InvalidDataError: The file is elsewhere, not a regular file, or cannot be read.
    """
    if folder is None:
        advice = "name the folder of its images with Judge(..., image_folder=...), or give the image as data"
        raise ConfigurationError(
            f"the image {name!r} is a file, and a case may name any file of this machine; {advice}"
        )
    try:
        # Links are followed here, so that one that leads out of the folder is seen.
        path = (folder / name).resolve(strict=True)
        if not path.is_relative_to(folder.resolve()):
            raise InvalidDataError(f"the image {name!r} must lie in image_folder {str(folder)!r}, got {str(path)!r}")
        # Opening a named pipe waits for another program, and a device may have no end.
        if not path.is_file():
            raise InvalidDataError(f"the image {name!r} must be a regular file; give another path")
        with path.open("rb") as file:
            return file.read(LARGEST_IMAGE + 1)
    except (OSError, ValueError, RuntimeError) as error:  # the last for links in a circle
        raise InvalidDataError(f"the image {name!r} cannot be read: {error}") from error
