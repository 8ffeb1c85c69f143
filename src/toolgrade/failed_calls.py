"""Failed calls: what a recorded status says, and texts of tools that are errors by convention.

A log of messages does not say that a tool failed, and a tool that catches its exceptions and returns `Error: 500` is
`ok` in every recording. So one predicate, `looks_failed`, serves all metrics. It changes neither status nor output.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from toolgrade._internal.json import as_text
from toolgrade._internal.options import require
from toolgrade._internal.text import printable, shorten
from toolgrade._internal.tool_names import matches, read_patterns
from toolgrade.calls import CallStatus, ToolCall
from toolgrade.result import redact_at_path

if TYPE_CHECKING:
    from toolgrade._internal.budget import BoundedPattern

FAILED: Final = frozenset({CallStatus.ERROR, CallStatus.INVALID_ARGUMENTS, CallStatus.UNKNOWN_TOOL})
"""Statuses of failed calls. A call that was rejected or cancelled, is pending or never ran is not a failure."""

LONGEST_ERROR: Final = 2_000
"""Characters from which on a text counts as a document, whatever it begins with."""

_LONGEST_QUOTE = 120
_MOST_LEVELS: Final = 8
"""Answers inside of answers that are looked at: in a result of MCP a text, in it JSON, in it a `result`, and so on."""
_MOST_BLOCKS: Final = 20
"""Blocks of content that are looked at."""

_ERROR_TEXT: Final = re.compile(
    r"""\s*(?:
      (?i:error)(?:\s*:(?!\s*(?i:null|none|no|false|0)\s*(?:[\n,;.]|\Z))|\s*[(\[]|\s+[-\u2013\u2014]\s|\s+(?:code\W*)?\d|\s*\Z)
    | (?i:error)\s+(?!(?:handling|logging|reporting|tracking|monitoring|checking)\b)[a-z]+ing\b
    | (?i:error)\s+(?:while|when|during|in|from|at|on|occurred)\b
    | (?i:there\s+was\s+an\s+error|encountered\s+(?:an\s+)?error|i\s+encountered\s+an\s+error)\b
    | (?i:an?\s+(?:\w+\s+){0,2}(?:error|exception)\s+(?:has\s+)?occurred)\b
    | [A-Za-z_][\w.]*(?:Error|Exception|Timeout)(?:\s*[:(]|\s*\Z)
    | (?i:exception\s*[:(]|traceback\s+\(most\s+recent\s+call\s+last\)|failed\s+to\b|failure\s*:)
    | (?i:(?:http(?:/[\d.]+)?\s+)?[45]\d\d[\s:-]+(?:internal\s+server\s+error|bad\s+gateway|service\s+unavailable
        |gateway\s+time-?out|not\s+found|forbidden|unauthorized|bad\s+request|too\s+many\s+requests)\b)
    | (?i:internal\s+server\s+error|http\s+[45]\d\d|request\s+failed)\b
    | (?i:(?:access|permission)\s+denied)\b
    | (?i:(?!(?:no|zero)\b)(?:(?:input|output)\ )?\w+\ error(?:\ -?\d+)?\ ?:|\d+\ validation\ errors?\ for\b)
    | (?i:(?:invalid|unable\s+to|could\s+not|cannot)\s+\w)
    | (?i:missing\s+required\s+(?:argument|field|input|key|option|parameter|property|value)s?\b)
    | (?i:(?:\w+\s){1,3}(?:failed|failure)(?:\s*:|\W*\Z)|insufficient\s+(?:funds|balance|permissions?)\b)
    | <tool_use_error>|\[ERROR\]
    | (?i:time-?out|timed\s+out)\W*\Z
    | (?i:unknown\s+tool\s*:|\S+\s+is\s+not\s+a\s+valid\s+tool\b)
    | (?!(?i:no|nothing|none)\b)(?:[\w'"`#.-]+\s+){1,6}
        (?i:(?:was\s+|is\s+)?not\s+found)(?:\W*\Z|\s*:)
    )""",
    re.VERBOSE,
)
"""How usual error texts begin; the last line is `Event not found.` as a whole answer, or `File not found: a.txt`."""

_ABOUT_ERRORS: Final = re.compile(
    r"(?:is_?)?(?:error|exception)\w*|success|ok|trace_?id|\w*code|status|type|name|tool\w*|msg|message|details?|description|reason|hint|"
    r"traceback|stack|path|timestamp|request_?id|retr\w+|_?meta(?:data)?",
    re.IGNORECASE,
)
"""Keys that describe an error; any other key with a value is a result beside it."""


_WRAPPERS: Final = frozenset(
    {*("result", "results", "data", "response", "output", "body"), *("content", "text", "structuredContent")}
)
"""Keys of an object under which a whole answer stands."""

_EMPTY: Final[tuple[object, ...]] = (None, False, "", [], {})
_FAILED_STATUSES: Final = frozenset[object](
    {"error", "failed", "failure", "fail", *range(400, 600), *map(str, range(400, 600))}
)
_GOOD_STATUSES: Final = frozenset[object]({"ok", "success", "succeeded", *range(200, 300)})
_FLAGS: Final = {"isError": True, "is_error": True, "success": False, "ok": False}
"""Flags of an answer, each with the value that says that the call failed."""
_OF_THINGS: Final = frozenset({"name", "path", "type", "id"})
"""Keys of an object that is the thing itself, not an answer about one."""


def _is_error_text(text: str, levels: int = _MOST_LEVELS) -> bool:
    if len(text) >= LONGEST_ERROR:
        return False
    if _is_json_like(text):
        # Python objects, too, as tools print them; a text in quotes would warn of its backslashes.
        for parse in (json.loads, ast.literal_eval)[: 1 if text.lstrip()[0] == '"' else 2]:
            try:
                return is_error(parse(text), levels - 1)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
    return _ERROR_TEXT.match(text) is not None


def _is_json_like(text: str) -> bool:
    return text.lstrip().startswith(("{", "[{", '"'))


def is_error(answer: object, levels: int = _MOST_LEVELS) -> bool:
    """Return whether an answer is an error by convention: a text, content of messages, an object with only errors."""
    if not levels:
        return False
    if isinstance(answer, str):
        return _is_error_text(answer, levels)
    if isinstance(answer, list):
        texts = _texts_of(answer)
        if not texts:  # a list of results
            return bool(answer) and all(
                isinstance(one, Mapping) and _is_error_object(one, levels - 1) for one in answer[:_MOST_BLOCKS]
            )
        # Objects behind the first one are further results of a list.
        return all(_is_error_text(text, levels) for index, text in enumerate(texts) if not index or _is_json_like(text))
    return isinstance(answer, Mapping) and _is_error_object(answer, levels)


def _is_error_object(answer: Mapping[Any, Any], levels: int) -> bool:
    """Return whether an object says that it is an error, or has nothing but errors where an answer stands."""
    status = _status_of(answer)
    if any(answer.get(key) == failed for key, failed in _FLAGS.items()):
        return True
    if True in (answer.get("success"), answer.get("ok"), status in _GOOD_STATUSES):
        return False
    filled = {str(key): value for key, value in answer.items() if not _is_no_error(value)}
    wrapped = _WRAPPERS & filled.keys()
    if not all(map(_ABOUT_ERRORS.fullmatch, filled.keys() - wrapped)):
        return False
    has_error = not filled.keys().isdisjoint(("error", "errors", "exception"))
    if not _OF_THINGS.isdisjoint(filled):  # a job with a name may have failed, and is data all the same
        return has_error and not wrapped
    if status in _FAILED_STATUSES:
        return True
    return all(is_error(filled[key], levels - 1) for key in wrapped) if wrapped else has_error


def _status_of(answer: Mapping[Any, Any]) -> str | float | None:
    status = answer.get("status", answer.get("status_code"))
    if isinstance(status, str):
        return status.lower()
    return status if isinstance(status, (int, float)) else None


def _is_no_error(value: object) -> bool:
    """Return whether a value says that there is no error: nothing, `none`, or a measured number."""
    is_text = isinstance(value, str) and value.strip().lower() in ("none", "null", "no", "n/a")
    return value in _EMPTY or is_text or isinstance(value, float)


def _texts_of(content: Sequence[Any]) -> list[str]:
    """Return the texts of blocks of content, as messages and MCP have it; empty for any other list."""
    blocks = [block.get("text") if isinstance(block, Mapping) else None for block in content[:_MOST_BLOCKS]]
    return [text for text in blocks if isinstance(text, str)] if blocks and isinstance(blocks[0], str) else []


@dataclass(frozen=True, slots=True)
class ErrorTexts:
    """Which answers of tools are errors, for all metrics of an evaluation.

    Args:
        pattern: `"default"` for error texts by convention; a regular expression that is searched in each answer in
            their place (in the JSON text of one that is not text); `None` or `"none"` for the status alone.
        text_tools: Names or patterns of tools that return documents, whose text is never an error.

    Raises:
        ConfigurationError: One is not of these forms.
    """

    pattern: str | None = "default"
    text_tools: Sequence[str] = ()
    own: BoundedPattern | None = field(init=False, repr=False, compare=False, default=None)
    """The expression that the user gave."""

    def __post_init__(self) -> None:
        """Check both and normalize them."""
        pattern = None if self.pattern == "none" else self.pattern
        valid = pattern is None or (pattern and isinstance(pattern, str))
        require(valid, "error_texts must be a regular expression, 'default', or None to look at no texts", pattern)
        object.__setattr__(self, "pattern", pattern)
        object.__setattr__(self, "text_tools", read_patterns(self.text_tools, "text_tools"))
        if pattern not in (None, "default"):
            from toolgrade._internal.budget import BoundedPattern  # noqa: PLC0415 - loaded with the first pattern

            object.__setattr__(self, "own", BoundedPattern(str(pattern)))

    @contextmanager
    def applied(self) -> Generator[None, None, None]:
        """Apply to all that is measured inside, in this thread or task and those that it starts."""
        token = _applied.set(self)
        try:
            yield
        finally:
            _applied.reset(token)

    def finds(self, call: ToolCall) -> bool:
        """Return whether an answer of a call, for the program or for the model, is an error."""
        if self.pattern is None or matches(call.name, self.text_tools):
            return False
        if self.own is None:
            return any(map(is_error, _answers(call)))
        return any(map(self.own.search, map(as_text, _answers(call))))


_DEFAULT: Final = ErrorTexts()
_applied: ContextVar[ErrorTexts] = ContextVar("toolgrade_error_texts", default=_DEFAULT)


def applied_error_texts() -> ErrorTexts:
    """Return the error texts of the evaluation that runs here; outside of one, those by convention."""
    return _applied.get()


def looks_failed(call: ToolCall) -> bool:
    """Return whether a call failed: by its status, or by an answer that is an error.

    `ok` says that the tool returned or was answered, also where an adapter saw it return: that is no statement about
    the text. So texts are looked at for `ok` and for a call without an `execution`; all other statuses decide alone.

    Example:
        >>> from toolgrade import ToolCall
        >>> from toolgrade.failed_calls import looks_failed
        >>> looks_failed(ToolCall(name="refund", output="Error: 500", execution={"status": "ok", "executed": True}))
        True
        >>> looks_failed(ToolCall(name="refund", output="Error rate: 3 %"))
        False
    """
    status = CallStatus.OK if call.execution is None else call.execution.status
    return _applied.get().finds(call) if status is CallStatus.OK else status in FAILED


def has_succeeded(call: ToolCall) -> bool:
    """Return whether a call succeeded; without an `execution`, every call whose answer is not an error counts."""
    return (call.execution is None or call.execution.status is CallStatus.OK) and not looks_failed(call)


def _answers(call: ToolCall) -> list[Any]:
    """Return the answers of a call, for the program and for the model."""
    both = (call.output, None if call.execution is None else call.execution.model_output)
    return [answer for answer in both if answer is not None]


def is_unrecorded(call: ToolCall) -> bool:
    """Return whether nothing is known of what became of a call: neither a status nor an answer."""
    return call.execution is None and call.output is None


def answer_quote(call: ToolCall) -> str:
    """Return the beginning of the answer that is an error, without secrets of a known form."""
    answers = _answers(call)
    answer = next(filter(is_error, answers), answers[0] if answers else "")
    if isinstance(answer, list):
        answer = next(iter(_texts_of(answer)), answer)
    answer = redact_at_path(answer, None)
    return shorten(printable(" ".join(as_text(answer).split())), _LONGEST_QUOTE)
