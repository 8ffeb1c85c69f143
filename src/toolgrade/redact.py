"""Redaction of secrets in data that leaves the process: files, reports, and requests to a model or a service.

Scoring in memory uses the real values. A redacted value is marked (`REDACTED`), and a marked value that is read back is
*not captured*: it is left out of every comparison (see docs/redaction.md).

Two rules find secrets, and your own hook can add more. The value under a *secret key* is replaced as a whole; a text of
a *known shape* is replaced anywhere in a text. This makes leaks rarer; it cannot rule them out.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from types import NoneType
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import BaseModel, JsonValue
from pydantic_core import SchemaError, SchemaValidator, core_schema

from toolgrade._internal.json import MATCHER_MARK, REDACTED
from toolgrade.errors import ConfigurationError, ToolgradeWarning

__all__ = ["DEFAULT", "DEFAULT_KEYS", "DEFAULT_SHAPES", "OFF", "REDACTED", "Redactor"]

Path: TypeAlias = "tuple[str | int, ...]"
"""Keys and positions that lead to a value."""

Hook: TypeAlias = Callable[[Path, JsonValue], JsonValue]
"""Takes the path and the value of a text, number, boolean or null, and returns its replacement."""

_JSON_TYPES: Final = frozenset({str, int, float, bool, NoneType, dict, list})

AnyModel = TypeVar("AnyModel", bound=BaseModel)

DEFAULT_KEYS: Final = frozenset(
    {
        *("api_key", "x_api_key", "openai_api_key", "anthropic_api_key", "azure_api_key", "google_api_key"),
        *("authorization", "proxy_authorization", "cookie", "cookies", "set_cookie"),
        *("password", "passwd", "pwd", "passphrase", "secret", "secrets", "credential", "credentials"),
        *("client_secret", "secret_key", "private_key", "ssh_key", "encryption_key", "signing_key"),
        *("access_key", "access_key_id", "secret_access_key", "aws_access_key_id", "aws_secret_access_key"),
        *("token", "access_token", "refresh_token", "id_token", "auth_token", "x_auth_token", "bearer_token"),
        *("session_token", "aws_session_token", "csrf_token", "xsrf_token", "api_token", "github_token", "gh_token"),
    }
)
"""Names of keys whose value is redacted. Whole names are compared, without case and separators."""

_WORD = r"(?<![A-Za-z0-9])"
_PEM = (  # a private key, also one whose end was cut off
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"[\w+/=\s\\:,.]*(?:-(?!----)[\w+/=\s\\:,.]*)*(?:-----END [A-Z0-9 ]{0,40}-----)?"
)
_TOKEN = (
    _WORD + r"(?:"
    # OpenAI, Anthropic and others that follow them. Words joined by hyphens, as in `sk-learn-based-classifiers`, do not
    # match: they have neither 20 letters or digits in a row, nor a digit or capital among the first 25 characters.
    r"sk-(?:[A-Za-z0-9]{20}|(?=[a-z_-]{0,24}[A-Z0-9])[\w-]{20})[\w-]*"
    r"|(?:gh[pousr]_|github_pat_|glpat-)[\w-]{20,}"  # GitHub, GitLab
    r"|(?:xox[a-z]|xapp)-[A-Za-z0-9-]{10,}"  # Slack
    r"|(?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9]{10,}"  # Stripe
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"  # AWS
    r"|AIza[\w-]{35,}|ya29\.[\w-]{20,}"  # Google
    r"|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{20,}|pypi-AgE[\w-]{20,}"  # Hugging Face, npm, PyPI
    r")"
)
# For each shape, a wider expression that is searched for first. It also matches where the text is written as JSON text,
# and that again as JSON text, and so on, where letters after backslashes stand for line breaks. It begins with three
# or more characters, for which the engine searches several times faster than for fewer.
_HINTS: Final[dict[re.Pattern[str], str]] = {
    re.compile(shape, re.ASCII): hint
    for shape, hint in (
        # The wide ones come first, so that no other takes a part of what they would have hidden.
        (  # the password in a URL
            r"://[^\s/?#@:]*:(?P<secret>[^\s/?#@]+)@",
            r"(?:://|:/\\+/|:\\/\\*/|:\\\\+/\\*/)[^ \t\n\r\x0b\x0c/?#@:]*:[^ \t\n\r\x0b\x0c/?#@]+@",
        ),
        (
            _WORD + r"(?i:authorization:\s{0,8}(?:basic|bearer|digest|token|apikey)\s{1,8})(?P<secret>[^\s\"',;]+)",
            r"(?i:authorization:)",
        ),
        (_PEM, r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY"),
        (
            _WORD + r"(?i:bearer)\s{1,8}(?P<secret>(?=[A-Za-z._~+/=-]{0,40}\d)[\w.~+/=-]{8,}|[\w.~+/=-]{20,})",
            r"(?i:bearer)(?:[ \t\n\r\x0b\x0c]|\\+(?:[nrtf]|u00..)){1,8}[A-Za-z0-9_.~+/=\\-]{8}",
        ),
        # JSON web tokens
        (
            r"(?<![\w-])eyJ[\w-]{8,}(?:\.eyJ[\w-]{8,}(?:\.[\w-]*)?|(?:\.[\w-]*){2,4})",
            r"eyJ[A-Za-z0-9_-]{8,}\.",
        ),
        (
            _TOKEN,
            (
                r"(?:sk-|gh[pousr]_|github_pat_|glpat-|ya29\.|pypi-AgE)[A-Za-z0-9_-]{20}|(?:xox[a-z]|xapp)-[A-Za-z0-9-]{10}"
                r"|(?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9]{10}|A[KS]IA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}"
                r"|(?:hf|npm)_[A-Za-z0-9]{20}"
            ),
        ),
    )
}
# What may stand between the letters of a key: anything but letters and digits, also as an escape of JSON.
_GAP = r"(?:[^A-Za-z0-9\\]|\\+(?:[bfnrt]|u[0-9A-Fa-f]{4})?)*"
# Escapes that hide a key or a shape. The Kelvin sign is a `k` in lower case. Quotes, `&`, `<` and `>` are not among
# them, because many programs escape these in all their JSON text.
_HIDING_ESCAPE = r"\\u(?i:00(?:2[0134589a-f]|3[0-9abdf]|[4-7][0-9a-f])|212a)"
_NEVER = r"[^\x00-\x{10FFFF}]"
DEFAULT_SHAPES: Final[tuple[re.Pattern[str], ...]] = tuple(_HINTS)
"""Texts that are redacted anywhere; of a shape with a group named `secret` only that group.

Each runs in linear time. Two rules for a new shape ensure this:

1. What follows a repetition begins with a character that the repetition cannot match, so there is one place to stop.
2. If the shape can begin to match inside its own repetition, it fails there within a fixed number of characters.
"""

# In a text that is not JSON as a whole: '"key": ', "'key'=>", '\"key\": ', and '?key=' or '&key=' of a URL.
_ASSIGNMENT = re.compile(
    # It begins with one set of characters, which is searched for much faster than two alternatives.
    r"""["'?&](?:(?<=(["']))(?P<key>[\w .-]{1,64})\\{0,3}\1\s{0,16}(?::|=>?)\s{0,16}|"""
    r"""(?<=[?&])(?P<param>[\w.-]{1,64})=)"""
)
# What follows the key in each of them, or the parameter: it is looked for first, because many texts quote words.
_ASSIGNMENT_SIGN = re.compile(r"""["'?&](?:(?<=["'])\s{0,16}[:=]|(?<=[?&])[\w.-]{1,64}=)""")
_ASSIGNED_VALUE = re.compile(
    r"""\\{1,3}["'](?P<escaped>[^"'\\]*)
    |"(?P<double>[^"\\]*(?:\\.[^"\\]*)*)
    |'(?P<single>[^'\\]*(?:\\.[^'\\]*)*)
    |(?P<open>[\[{](?!\s*[\]}]).*)  # the end of a list or object in broken text is unknown: the rest is redacted
    |(?P<bare>(?![\[{])[^\s,;&}\])"'\\]+)""",
    re.VERBOSE | re.DOTALL,
)
_PARAM_VALUE = re.compile(r"""(?P<bare>[^&#\s"'<>\\]+)""")
_UNQUOTED = frozenset({"open", "bare"})
# Values that stay under a secret key in a text that is not JSON, since they hold nothing.
_HARMLESS_VALUES = frozenset({"null", "true", "false", "None", "True", "False", "", REDACTED})
_SCALARS = frozenset({str, int, float, bool, type(None)})
_MAYBE_JSON = re.compile(r"\s*[\[{\"]")

# Fields of toolgrade's data that stay: identity, kind, state and time, and the bytes of an image.
_UNREDACTED_FIELDS = frozenset(
    {
        *("id", "name", "type", "role", "run_id", "conversation_id", "agent", "server", "models", "usage"),
        *("call", "from_agent", "to_agent", "failed_handoffs"),
        *("status", "executed", "attempts", "step", "origin", "started_at", "duration", "not_captured"),
        *("data", "mime_type"),
    }
)
# Here a key is the name of an argument, and its value describes the argument.
_SCHEMA_FIELDS = frozenset({"input_schema"})


@dataclass(frozen=True)
class Redactor:
    r"""Redacts secrets in JSON values and in toolgrade's data.

    A key is secret as a whole name: case, `_`, `-` and blanks do not matter, so `api_key`, `apiKey` and `API-KEY` are
    one name, while `max_tokens` and `page_token` are not `token`. `null`, booleans and empty values under a secret key
    stay, since they hold nothing. Text that is JSON (raw arguments, a tool's answer) is redacted inside, and rewritten
    only if it holds a secret; in broken JSON and in URLs, values under quoted secret keys and secret query parameters
    are redacted. A value that is nested too deeply to be searched is redacted as a whole, a text only if it may hold a
    secret.

    Redacting twice is the same as once, and a value without secrets stays equal.

    Args:
        keys: Names of secret keys; extend the default with `DEFAULT_KEYS | {"ssn"}`.
        shapes: Regular expressions, compiled or not; extend with `(*DEFAULT_SHAPES, r"\bEMP-\d{6}\b")`. Of one with a
            group named `secret` only that group is redacted.
        hook: Called with `(path, value)` for every remaining text, number, boolean and null, in values and inside JSON
            text; its result is written. If it raises, or returns a list or an object, the value is redacted, with a
            `ToolgradeWarning`.
        enabled: `False` returns everything unchanged.

    Raises:
        ConfigurationError: `keys` or `shapes` is a text, or a shape is not a regular expression.

    Example:
        >>> from toolgrade.redact import Redactor
        >>> Redactor()({"city": "Paris", "apiKey": "abc", "note": "use ghp_0123456789abcdefghijABCDEFGHIJ012345"})
        {'city': 'Paris', 'apiKey': '[redacted by toolgrade]', 'note': 'use [redacted by toolgrade]'}
    """

    keys: Collection[str] = DEFAULT_KEYS
    shapes: Sequence[str | re.Pattern[str]] = DEFAULT_SHAPES
    hook: Hook | None = None
    enabled: bool = True
    _keys: frozenset[str] = field(init=False, repr=False, compare=False)
    _shapes: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check and compile the options."""
        for name in ("keys", "shapes"):
            if isinstance(getattr(self, name), str):
                raise ConfigurationError(f"{name} must be a collection of texts, got the text {getattr(self, name)!r}")
        try:
            shapes = tuple(re.compile(shape) for shape in self.shapes)
        except re.error as error:
            message = f"shapes holds {error.pattern!r}, which is not a regular expression: {error}"
            raise ConfigurationError(message) from error
        object.__setattr__(self, "_keys", frozenset(map(_fold_key, self.keys)))  # the dataclass is frozen
        object.__setattr__(self, "_shapes", shapes)

    def __call__(self, value: JsonValue, path: Path = ()) -> JsonValue:
        """Return a redacted copy of a JSON value; `path` is its position, for the hook."""
        if not self.enabled:
            return value
        try:
            return self._redact_value(value, path)
        except RecursionError:
            return REDACTED

    def at(self, keys: tuple[str, ...], value: JsonValue) -> JsonValue:
        """Return a redacted copy of a value inside nested objects; `keys` lead to it, from the outermost object.

        The value is redacted as a whole if one of the keys is secret; under the last one `null`, booleans and empty
        values stay.
        """
        if not self.enabled or not keys:
            return self(value)
        if any(map(self._is_secret, keys[:-1])):
            return REDACTED
        try:
            return self._redact_entry(keys[-1], value, keys)
        except RecursionError:
            return REDACTED

    def model(self, data: AnyModel) -> AnyModel:
        """Return a redacted case, run, call or other data of toolgrade, with the same fields set.

        Arguments, outputs, texts, errors and metadata are redacted at every level; ids, names, kinds and times stay. In
        the schema of an available tool, keys are names of arguments and never secret, so only shapes are redacted, and
        your hook is called. Data in which nothing changes is returned itself, not as a copy.
        """
        return self._redact_model(data, (), {}) if self.enabled else data

    def _may_change(self, text: str | bytes) -> bool:
        """Return whether redaction may change a text, or data of which it is the JSON text; false is certain."""
        return self.hook is not None or _matches(self._shape_hints, text) or _matches(self._key_hints, text)

    @cached_property
    def _key_hints(self) -> SchemaValidator | None:
        return _hints_of_keys(self._keys)

    @cached_property
    def _shape_hints(self) -> SchemaValidator | None:
        return _hints_of_shapes(self._shapes)

    def _redact_model(self, data: AnyModel, path: Path, done: dict[int, Any]) -> AnyModel:
        if id(data) in done:  # calls are shared by a case and its run
            redacted: AnyModel = done[id(data)]
            return redacted
        changed: dict[str, object] = {}
        for name in data.model_fields_set - _UNREDACTED_FIELDS:
            value = getattr(data, name)
            if name in _SCHEMA_FIELDS:
                safe: object = replace(self, keys=())(value, (*path, name))
            else:
                safe = self._redact_field(value, (*path, name), done)
            if safe != value:
                changed[name] = safe
        redacted = data.model_copy(update=changed) if changed else data
        if self.hook is None:  # it also depends on the path
            done[id(data)] = redacted
        return redacted

    def _redact_field(self, value: object, path: Path, done: dict[int, Any]) -> object:
        if isinstance(value, BaseModel):
            return self._redact_model(value, path, done)
        if isinstance(value, list) and any(isinstance(item, BaseModel) for item in value):
            return [self._redact_field(item, (*path, index), done) for index, item in enumerate(value)]
        if _is_matcher(value):
            return self._redact_matcher(value, path)
        return self(value, path)  # type: ignore[arg-type]

    def _redact_matcher(self, matcher: Any, path: Path) -> object:  # noqa: ANN401 - its class is above this module
        """Return an expected answer: a redacted matcher could not be compared any more, so it becomes a text."""
        plain = matcher.to_json()
        safe = self(plain, path)
        return matcher if safe == plain else json.dumps(safe)

    def _redact_value(self, value: JsonValue, path: Path) -> JsonValue:
        if type(value) is dict:
            return {key: self._redact_entry(key, item, (*path, key)) for key, item in value.items()}
        if type(value) is list:
            return [self._redact_value(item, (*path, index)) for index, item in enumerate(value)]
        return self._apply_hook(self._redact_text(value, path) if type(value) is str else value, path)

    def _redact_entry(self, key: str, value: JsonValue, path: Path) -> JsonValue:
        if isinstance(value, bool) or value in (None, "", [], {}) or not self._is_secret(key):
            return self._redact_value(value, path)
        return REDACTED

    def _is_secret(self, key: str) -> bool:
        return (_fold_short_key if len(key) <= _SHORT_KEY else _fold_key)(key) in self._keys

    def _redact_text(self, text: str, path: Path) -> str:
        if _MAYBE_JSON.match(text):
            if not self._may_change(text):
                return text
            try:
                return self._redact_json(text, path)
            except RecursionError:
                return REDACTED
            except ValueError:
                pass  # not JSON
        return self._redact_shapes(self._redact_assignments(text))

    def _redact_json(self, text: str, path: Path) -> str:
        """Return JSON text redacted inside.

        Of a repeated key readers see the last value; a secret in the others is removed too.
        """
        overridden: list[tuple[str, JsonValue]] = []

        def read_object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
            result = dict(pairs)
            if len(result) < len(pairs):
                overridden.extend(pairs)
            return result

        value: JsonValue = json.loads(text, object_pairs_hook=read_object, strict=False)
        redacted = self._redact_value(value, path)
        if redacted == value and all(self._redact_entry(key, item, (*path, key)) == item for key, item in overridden):
            return text
        return json.dumps(redacted, ensure_ascii=text.isascii())

    def _redact_assignments(self, text: str) -> str:
        """Return a text that is not JSON with the values of its secret keys redacted."""
        if not _ASSIGNMENT_SIGN.search(text):
            return text
        parts: list[str] = []
        done = 0
        for start, end in self._secret_spans(text):
            parts += (text[done:start], REDACTED)
            done = end
        return "".join([*parts, text[done:]])

    def _secret_spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and the end of each value under a secret key in a text that is not JSON."""
        at = 0
        while head := _ASSIGNMENT.search(text, at):
            at = head.end()
            if not self._is_secret(head["key"] or head["param"]):
                continue
            value = (_ASSIGNED_VALUE if head["key"] else _PARAM_VALUE).match(text, at)
            if value is None:
                continue
            kind = str(value.lastgroup)  # each alternative is a group
            start, at = value.span(kind)
            if kind in _UNQUOTED and text.startswith(REDACTED, start):
                at = start + len(REDACTED)
            elif text[start:at] not in _HARMLESS_VALUES:
                yield start, at

    def _redact_shapes(self, text: str) -> str:
        if not _matches(self._shape_hints, text):
            return text
        for shape in self._shapes:
            if shape.search(text):
                # Marks are skipped, so that no shape, however wide, takes one for a secret.
                text = REDACTED.join(shape.sub(_mask_secret, part) for part in text.split(REDACTED))
        return text

    def _apply_hook(self, value: JsonValue, path: Path) -> JsonValue:
        if self.hook is None or value == REDACTED or type(value) not in _SCALARS:
            return value
        try:
            result = self.hook(path, value)
        except Exception as error:  # noqa: BLE001 - the value may be a secret, whatever the error
            problem = f"raised {type(error).__name__}"
        else:
            if isinstance(result, (str, int, float, NoneType)):
                return result
            problem = f"returned a {type(result).__name__}, not a text, number, boolean or null"
        warnings.warn(_hook_warning(problem, path), ToolgradeWarning, stacklevel=2)
        return REDACTED


def _is_matcher(value: object) -> bool:
    return type(value) not in _JSON_TYPES and hasattr(value, MATCHER_MARK)


def _hook_warning(problem: str, path: Path) -> str:
    where = "".join(f"[{part!r}]" for part in path) or "a value"
    return f"the redaction hook {problem} at {where}; the value was redacted"


def _matches(hints: SchemaValidator | None, text: str | bytes) -> bool:
    if isinstance(text, str) and not text.isascii():
        text = text.encode("utf-8", "backslashreplace")  # UTF-8 has no lone surrogates: an escape stands for each
    return hints is None or hints.isinstance_python(text)


@lru_cache(maxsize=16)
def _hints_of_shapes(shapes: tuple[re.Pattern[str], ...]) -> SchemaValidator | None:
    """Return what is valid for each text that may hold a shape; `None` if nothing is known of one of them."""
    if not _HINTS.keys() >= set(shapes):
        return None
    return _hints("|".join(_HINTS[shape] for shape in shapes) or _NEVER)


@lru_cache(maxsize=16)
def _hints_of_keys(keys: frozenset[str]) -> SchemaValidator | None:
    """Return what is valid for each text that may hold a key, or an escape that hides something; `None` if unknown."""
    if not all(key and key.isascii() for key in keys):
        return None
    names = "|".join(map(_GAP.join, sorted(keys))) or _NEVER
    return _hints(rf"""{_HIDING_ESCAPE}|(?:["'?&]|\\u002[267]){_GAP}(?i:{names}){_GAP}(?:["'=]|\\u002[27])""")


def _hints(pattern: str) -> SchemaValidator | None:
    """Return a validator of pydantic, whose engine searches for hundreds of alternatives at once.

    It takes 40 microseconds for 20 kB, and Python's several hundred for the shapes alone.
    """
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:  # more keys than the engine takes
        return None


def _fold_key(key: str) -> str:
    """Return the letters and digits of a key in lower case, the same for every way of writing a name."""
    return "".join(filter(str.isalnum, key)).lower()


_fold_short_key = lru_cache(maxsize=1024)(_fold_key)
"""`_fold_key` with a cache, for short keys: most of these occur again and again."""
_SHORT_KEY = 64


def _mask_secret(match: re.Match[str]) -> str:
    """Return the text of a match with its group `secret`, or else all of it, redacted."""
    start, end = match.span("secret") if "secret" in match.re.groupindex else match.span()
    whole, offset = match.group(), match.start()
    return whole if start == end else f"{whole[: start - offset]}{REDACTED}{whole[end - offset :]}"


DEFAULT: Final = Redactor()
"""The default rules."""
OFF: Final = Redactor(enabled=False)
"""Redacts nothing."""
may_hold_secret: Final = DEFAULT._may_change  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - not for users
"""Tells whether `DEFAULT` may change a text, or data of which it is the JSON text; false is certain."""
