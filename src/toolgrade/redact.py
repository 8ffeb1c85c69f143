"""Redaction of secrets in data that leaves the process: files, reports, and requests to a model or a service.

Scoring in memory uses the real values. A redacted value is marked (`REDACTED`), and a marked value that is read back is
*not captured*: it is left out of every comparison (see docs/redaction.md).

Two rules find secrets, and your own hook can add more. The value under a *secret key* is replaced as a whole; a text of
a *known shape* is replaced anywhere in a text. This makes leaks rarer; it cannot rule them out.
"""

from __future__ import annotations

import json
import re
import string
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
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
        *("*password", "*passwd", "*passphrase", "*passcode", "*_pass", "*_pwd"),
        *("*secret", "*secrets", "*secret_value"),
        *("*password_confirmation", "*secret_string", "*secret_key_base", "*credential", "*credentials", "jwt"),
        *("*api_key", "*secret_key", "*private_key", "*access_key", "*access_key_id", "*account_key", "*signing_key"),
        *("*encryption_key", "*ssh_key", "*master_key", "*session_key", "*consumer_key", "*license_key", "*auth_key"),
        *("*app_key", "*application_key", "*deploy_key", "*hmac_key", "*tls_key", "*storage_key", "*subscription_key"),
        *("*openai_key", "*anthropic_key", "*stripe_key", "*token", "*access_tokens", "*api_tokens", "*auth_tokens"),
        *("*connection_string", "*recovery_code", "*seed_phrase", "*security_code", "*credit_card", "*card_number"),
        *("*card_no", "*cc_number", "*cvv", "*cvv2", "*cvc", "*cvc2", "authorization", "proxy_authorization"),
        *("*cookie", "*cookies"),
    }
)
"""Names of keys whose value is redacted; `*` stands for any beginning, and `*_` for whole words or nothing."""

_POSITIONS: Final = (
    r".*(?:page|next|prev|previous|continuation|continue|sync|cursor|start|stop|end|max|min|first|last"
    r"|eos|bos|pad|sep|unk|cls|mask|special|image|per)[\s_.-]?token"
)
"""Keys that `*token` does not mean: positions in a list, and tokens of a language model."""

_WORD = r"(?<![A-Za-z0-9])"
_PEM = (  # a private key, also one whose end was cut off
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"[\w+/=\s\\:,.]*(?:-(?!----)[\w+/=\s\\:,.]*)*(?:-----END [A-Z0-9 ]{0,40}-----)?"
)
# The forms are those of the rules of gitleaks (config/gitleaks.toml, 8.28) and of GitHub's list of supported secret
# scanning patterns, as far as they begin with letters of their own. To update: compare the services named there.
_FORMS: Final = (
    # OpenAI, Anthropic and others that follow them. Words joined by hyphens, as in `sk-learn-based-classifiers`, do not
    # match: they have neither 20 letters or digits in a row, nor a digit or capital among the first 25 characters.
    r"sk-(?:[A-Za-z0-9]{20}|(?=[a-z_-]{0,24}[A-Z0-9])[\w-]{20})[\w-]*"
    r"|(?:xai|pplx|nvapi|tvly|fw|gsk|pcsk|r8|hf|npm|lin_api|figd|ntn|dckr_pat|sbp|sb_secret|rubygems)[-_][\w-]{20,}"
    r"|(?:sk|e2b|jina|csk|nfp|bkua|sq[apu]|HRKU|CCIPAT|xkeysib|tskey|fo1|pat-[a-z]{2}[0-9]|pscale_[a-z]+)[-_][\w-]{30,}"
    r"|(?:gh[pousr]_|github_pat_|glsa_|glc_|do[opr]_v1_|ph[cx]_|lsv2_[ps][tk]_)[\w-]{20,}|gl[a-z]{2,4}t?-[\w.-]{20,}"
    r"|(?:GOCSPX-|AIza|ya29\.|1//0|hv[bsr]\.|pypi-AgE|AT(?:ATT3|CTT3|BB)|PMAK-|NRAK-|pul-|dp\.[a-z]{2,5}\.|LTAI)[\w+/=-]{20,}"
    r"|(?:sntry[su]_|sq0[a-z]{3}-|ABSK|AGE-SECRET-KEY-1|ops_eyJ|EAA[A-Z]|fc-|re_)[\w+/=-]{30,}"
    r"|(?:xox[a-z]|xapp|xoxe\.xox[bp])-[A-Za-z0-9-]{10,}"  # Slack
    r"|(?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9]{10,}"  # Stripe
    r"|A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])"  # AWS
    r"|dapi[0-9a-f]{32}|shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}"  # Databricks, Shopify
    r"|SG\.[\w-]{16,}\.[\w-]{16,}|(?:SK|AC|key-)[0-9a-f]{32}(?![A-Za-z0-9])"  # SendGrid, Twilio, Mailgun
    r"|(?:bot)?[0-9]{8,10}:AA[\w-]{33}(?![\w-])|[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}"  # Telegram, Discord
    r"|[\w~.]{3}[0-9]Q~[\w~.-]{31,34}|secret_[A-Za-z0-9]{43}|[0-9a-f]{32}-us[0-9]{1,2}"  # Entra ID, Notion, Mailchimp
    r"|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"  # Terraform, Airtable
)
# What may be before the secret, and the secret; in a text that is JSON text of JSON text, slashes may be escaped.
_REFERENCE = r"(?!\$[A-Z_{(]|[<{]|%\()"
"""What a secret does not begin with: `$TOKEN`, `<your token>` and `{token}` stand for one."""
_SHAPES: Final[dict[re.Pattern[str], str]] = {
    re.compile(shape, re.ASCII): hint
    for shape, hint in (
        # The wide ones come first, so that no other takes a part of what they would have hidden.
        (  # the password in a URL
            rf"://[^\s/?#@:]*:{_REFERENCE}(?P<secret>[^\s/?#]+)@",
            r":\\*/\\*/[^ \t\n\r\x0b\x0c/?#@:]*:[^ \t\n\r\x0b\x0c/?#]+@",
        ),
        (
            r"(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/(?P<secret>[\w/-]{20,})",
            r"hooks\.slack\.com|api\S{1,8}webhooks",
        ),
        (r"[?&](?:sig|X-Amz-Signature|X-Amz-Security-Token)=(?P<secret>[\w%+/=-]{16,})", r"(?:sig|-Signature|-Token)="),
        (
            _WORD + r"(?i:authorization[:=]\s{0,8}(?:basic|bearer|digest|token|api-?key|negotiate|key)\s{1,8})"
            rf"{_REFERENCE}(?P<secret>[^\s\"',;]+)",
            r"(?i:authorization[:=])",
        ),
        (_WORD + r"(?i:cookie:)[ \t]{0,8}(?P<secret>[^\s\"'=]{1,128}=[^\r\n\"']*)", r"(?i:cookie:)"),
        (
            (
                r"\bcurl[ \t](?:[^\r\n]{0,400}[ \t])?(?:-u|--user)[ \t=]{0,8}[\"']?[^\s:\"']{1,64}:"
                r"(?!//)(?P<secret>[^\s\"']+)"
            ),
            r"curl\s",
        ),
        (r"\b(?:mysql\w*|mariadb)[ \t](?:[^\r\n]{0,400}[ \t])?-p(?P<secret>[^\s\"']+)", r"mysql|mariadb"),
        (r"\bsshpass[ \t]+-p[ \t]*[\"']?(?P<secret>[^\s\"']+)", r"sshpass"),
        (r"(?i:identified[ \t]+by)[ \t]+['\"](?P<secret>[^'\"]+)", r"(?i:identified)"),
        (_PEM, r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY"),
        (
            _WORD + r"(?i:bearer)\s{1,8}(?P<secret>(?=[A-Za-z._~+/=-]{0,40}\d)[\w.~+/=-]{8,}|[\w.~+/=-]{20,})",
            r"(?i:bearer)(?:\s|\\)",
        ),
        # JSON web tokens
        (r"(?<![\w-])eyJ[\w-]{8,}(?:\.eyJ[\w-]{8,}(?:\.[\w-]*)?|(?:\.[\w-]*){2,4})", r"eyJ[A-Za-z0-9_-]{8,}\."),
        (_WORD + f"(?:{_FORMS})", re.sub(r"\(\?[=!][^)]*\)", "", _FORMS).replace(r"\w", "A-Za-z0-9_")),
    )
}
DEFAULT_SHAPES: Final[tuple[re.Pattern[str], ...]] = tuple(_SHAPES)
"""Texts that are redacted anywhere; of a shape with a group named `secret` only that group.

Each runs in linear time. Two rules for a new shape ensure this:

1. What follows a repetition begins with a character that the repetition cannot match, so there is one place to stop.
2. If the shape can begin to match inside its own repetition, it fails there within a fixed number of characters.
"""

# Between a key and its value in a text that is not JSON, such as a log, a file of settings or a command line.
_SIGN = re.compile(r"""(?P<quote>\\{0,15}["'])?\]?(?P<sign>\s{0,16}(?:=>|:=|=|:)|(?=[ \t]))(?P<space>[ \t]{0,16})""")
_KEY_LETTERS: Final = string.ascii_letters + string.digits + "_.-"
_LONGEST_KEY: Final = 64
_MOST_ANSWERS: Final = 4096
# Where an entry of YAML or INI begins, also as a header in quotes, or in a text with escaped line ends.
_ENTRY = re.compile(r"""(?:\A|[\r\n"'{,]|\\n|-H|--header=?)[ \t]*(?:- )?(?:export |set )?\Z""")
_COMMAND = re.compile(r"(?:\bsetx|\bENV|\blogin[ \t]+\S+)[ \t]+\Z")
_ENTRY_VALUE = re.compile(
    r"""[|>][+-]?[ \t]*\r?\n[ \t]+(?P<block>\S[^\r\n]*(?:\r?\n[ \t]+[^\r\n]+)*)
    |\r?\n[ \t]+(?P<below>[^\s:]+)(?=[ \t]*(?:[\r\n]|\Z))
    |(?P<bare>(?![A-Za-z]*(?:[\s"',;}]|\Z))[^\s"'\\,}]+)(?=[ \t]*(?:[\r\n"'\\,}]|\Z|[ ]\#))""",
    re.VERBOSE,
)
_ENV_VALUE = re.compile(r"""(?P<env>[^\s"'\\]+)""")
_PARAM_VALUE = re.compile(r"""(?P<bare>[^&#\s"'<>\\]+)""")
_XML_VALUE = re.compile(r">(?P<bare>[^<]+)(?=</)")
_VALUE = re.compile(
    r"""\\{1,15}["'](?P<escaped>[^"'\\]*)
    |\(?\s{0,8}[bBfFrRuU]{0,2}(?:"(?P<double>[^"\\]*(?:\\.[^"\\]*)*)|'(?P<single>[^'\\]*(?:\\.[^'\\]*)*))
    |(?P<open>[\[{](?!\s*[\]}]).*)  # the end of a list or object in broken text is unknown: the rest is redacted
    |(?P<bare>(?![\[{(<*]|\$[A-Z_{(]|%[(sd])[^\s,;&}\])"'\\]+)""",
    re.VERBOSE | re.DOTALL,
)
_PLACEHOLDER = re.compile(r"\$(?:[A-Z_][A-Z0-9_]*\Z|[{(])|\{.*\}\Z|<.*>\Z|%[(sd]", re.DOTALL)
_CALL = re.compile(r"[A-Za-z_][\w.]*[(\[]")
# Values that stay under a secret key in a text that is not JSON, since they hold nothing.
_HARMLESS_VALUES = frozenset({"null", "true", "false", "none", "", "basic", "bearer", "digest", REDACTED.lower()})
_SCALARS = frozenset({str, int, float, bool, type(None)})
_NEVER = r"[^\s\S]"
_MAYBE_JSON = re.compile(r"\s*[\[{\"]")

# Fields of toolgrade's data that stay: identity, kind, state and time, and the bytes of an image.
_UNREDACTED_FIELDS = frozenset(
    {
        *("id", "name", "type", "role", "run_id", "conversation_id", "agent", "server", "models", "usage"),
        *("call", "from_agent", "to_agent", "failed_handoffs"),
        *("status", "executed", "attempts", "replayed", "step", "origin", "started_at", "duration", "not_captured"),
        *("data", "mime_type"),
    }
)
# Here a key is the name of an argument, and its value describes the argument.
_SCHEMA_FIELDS = frozenset({"input_schema"})


@dataclass(frozen=True)
class Redactor:
    r"""Redacts secrets in JSON values and in toolgrade's data.

    Case, and `_`, `-`, `.` and blanks between the words of a key, do not matter, so `api_key`, `apiKey` and `API-KEY`
    are one name; `*api_key` also means `STRIPE_API_KEY`. `max_tokens` and `page_token` are not `*token`. `null`,
    booleans and empty values under a secret key stay, since they hold nothing. Text that is JSON (raw arguments, a
    tool's answer) is redacted inside, and rewritten only if it holds a secret. In other text, the values of secret keys
    are redacted in broken JSON, query parameters, `NAME=value`, lines of YAML and INI, headers and options of commands.
    A value that is nested too deeply to be searched is redacted as a whole, a text only if it may hold a secret.

    Redacting twice is the same as once, and a value without secrets stays equal.

    Args:
        keys: Names of secret keys, `*` for any beginning; extend the default with `DEFAULT_KEYS | {"*ssn"}`.
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
        object.__setattr__(self, "_keys", frozenset(self.keys))  # the dataclass is frozen
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
        return self.hook is not None or _matches(_hints_of_shapes(self._shapes), text) or self._may_assign(text)

    def _may_assign(self, text: str | bytes) -> bool:
        return _matches(_names(self._keys).hints, text)

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
        if type(value) not in _JSON_TYPES and hasattr(value, MATCHER_MARK):
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
        return len(key) <= _LONGEST_KEY and _names(self._keys).include(key)

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

        Raises:
            ValueError: It is not JSON, or an object has a key twice: readers see only the last value.
        """
        value: JsonValue = json.loads(text, object_pairs_hook=_unique, strict=False)
        redacted = self._redact_value(value, path)
        return text if redacted == value else json.dumps(redacted, ensure_ascii=text.isascii())

    def _redact_assignments(self, text: str) -> str:
        """Return a text that is not JSON with the values of its secret keys redacted."""
        if not self._may_assign(text):
            return text
        parts: list[str] = []
        done = 0
        for start, end in self._secret_spans(text):
            parts += (text[done:start], REDACTED)
            done = end
        return "".join([*parts, text[done:]])

    def _secret_spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and the end of each value under a secret key in a text that is not JSON."""
        done = 0
        for name in _names(self._keys).ends.finditer(text):
            before = text[max(done, name.start() - _LONGEST_KEY) : name.start()]
            start = name.start() - len(before) + len(before.rstrip(_KEY_LETTERS))
            if name.start() < done or not self._is_secret(text[start : name.end()].lstrip("-.")):
                continue
            value = _value_of_key(text, start, name.end())
            if value is None:
                continue
            kind = str(value.lastgroup)  # each alternative is a group
            first, end = value.span(kind)
            if text.startswith(REDACTED, first):
                done = first + len(REDACTED)
            elif kind == "open" or not _stands_for_secret(text[first:end], text[start : name.end()], kind):
                done = end
                yield first, end

    def _redact_shapes(self, text: str) -> str:
        if not _matches(_hints_of_shapes(self._shapes), text):
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
        where = "".join(f"[{part!r}]" for part in path) or "a value"
        text = f"the redaction hook {problem} at {where}; the value was redacted"
        warnings.warn(text, ToolgradeWarning, stacklevel=2)
        return REDACTED


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError
    return result


def _matches(hints: SchemaValidator | None, text: str | bytes) -> bool:
    if isinstance(text, str) and not text.isascii():
        text = text.encode("utf-8", "backslashreplace")  # UTF-8 has no lone surrogates: an escape stands for each
    return hints is None or hints.isinstance_python(text)


@lru_cache(maxsize=16)
def _hints_of_shapes(shapes: tuple[re.Pattern[str], ...]) -> SchemaValidator | None:
    """Return what is valid for each text that may hold a shape; `None` if nothing is known of one of them."""
    if not _SHAPES.keys() >= set(shapes):
        return None
    return _hints("|".join(_SHAPES[shape] for shape in shapes) or _NEVER)


class _Names:
    """Names of secret keys as expressions.

    Attributes:
        ends: Matches in a text the end of each secret key.
        hints: What is valid for each text that may hold a secret key with a value; `None` if unknown.
    """

    def __init__(self, keys: frozenset[str]) -> None:
        names = {key: _spellings(key.lstrip("*")) for key in sorted(keys)}
        anywhere = "|".join(names.values()) or _NEVER
        whole = [_beginning(key) + name for key, name in names.items() if key != "*token"]
        if "*token" in names:
            whole.append(rf"(?!{_POSITIONS}\Z).*token")
        self._whole = re.compile("|".join(whole) or _NEVER, re.IGNORECASE | re.DOTALL)
        self._answers: dict[str, bool] = {}
        self.ends = re.compile(rf"(?:{anywhere})(?![A-Za-z0-9_.-])", re.IGNORECASE)
        gap = r"""(?:[\\"'\]]|u002[27]){0,32}[ \t\n\r]{0,16}[:=>]"""
        command = r"(?:--[!-~]{0,64}|setx[ \t]|ENV[ \t]|login[ \t])"
        self.hints = _hints(rf"(?i-u:(?:{anywhere}){gap}|{command})")

    def include(self, key: str) -> bool:
        """Return whether a key is secret; the same keys occur again and again."""
        answer = self._answers.get(key)
        if answer is None:
            answer = self._whole.fullmatch(key) is not None
            if len(self._answers) < _MOST_ANSWERS:
                self._answers[key] = answer
        return answer


_names = lru_cache(maxsize=16)(_Names)


def _beginning(key: str) -> str:
    """Return what may be before the rest of a name."""
    if key.startswith("*_"):
        return r"(?:.*[\s_.-])?"
    return ".*" if key.startswith("*") else ""


def _spellings(key: str) -> str:
    """Return an expression of a name in all its spellings."""
    words = re.split(r"[\s_.-]+|(?<=[a-z0-9])(?=[A-Z])", key)
    return r"[\s_.-]?".join(re.escape(word) for word in words if word) or _NEVER


def _value_of_key(text: str, start: int, end: int) -> re.Match[str] | None:
    """Return the value of the key at this place of a text, `None` if nothing is assigned to it there."""
    before = text[max(start - 40, 0) : start]
    if before.endswith("<"):
        return _XML_VALUE.match(text, end)
    head = _SIGN.match(text, end)
    if head is None:
        return None
    at, sign = head.end(), head["sign"].strip()
    if head["quote"]:
        return _VALUE.match(text, at) if sign and before.endswith(("'", '"')) else None
    if sign == "=" and text[end:at] == "=" and before.endswith(("?", "&")):
        return _PARAM_VALUE.match(text, at)
    value = _VALUE.match(text, at)
    if value is not None and value.lastgroup != "bare":
        return None if value.lastgroup == "open" else value  # a text in quotes
    return _bare_value(value, text, text[start:end], at, sign, before, is_close=text[end:at] == sign)


def _bare_value(
    value: re.Match[str] | None, text: str, key: str, at: int, sign: str, before: str, *, is_close: bool
) -> re.Match[str] | None:
    """Return the value of a key if neither has quotes; `is_close` if no space is around the sign between them."""
    if not sign:
        is_option = key.startswith("--") and not text.startswith("-", at)
        return value if is_option or _COMMAND.search(before) else None
    is_entry = _ENTRY.search(before) is not None
    if sign == ":":
        return _ENTRY_VALUE.match(text, at) if is_entry else None
    if not is_entry:
        return value if is_close else None
    return _ENV_VALUE.match(text, at) if is_close and key.isupper() else value


def _stands_for_secret(value: str, key: str, kind: str) -> bool:
    """Return whether a value is empty or a placeholder or, without quotes, a call or the name of its key."""
    if value.lower() in _HARMLESS_VALUES or _PLACEHOLDER.match(value):
        return True
    is_code = _CALL.match(value) is not None or value.rpartition(".")[2] == key.rpartition(".")[2]
    return kind == "bare" and is_code


def _hints(pattern: str) -> SchemaValidator | None:
    """Return a validator of pydantic, whose engine searches for hundreds of alternatives at once.

    It takes 40 microseconds for 20 kB, and Python's several hundred for the shapes alone.
    """
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:  # more keys than the engine takes
        return None


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
