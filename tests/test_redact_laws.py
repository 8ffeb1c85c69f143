"""Redaction: what holds of every value, and what can be set."""

from __future__ import annotations

import json
import pickle
import re
import time
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import strategies
from toolgrade import LLMTestCase, ToolCall, ToolgradeWarning
from toolgrade._internal.json import json_text
from toolgrade.errors import ConfigurationError
from toolgrade.evaluation.result_json import encode_model
from toolgrade.redact import DEFAULT, DEFAULT_KEYS, DEFAULT_SHAPES, OFF, REDACTED, Redactor, may_hold_secret

M = REDACTED
TOKEN = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TOKENS = (
    TOKEN,
    "sk-proj-a1B2c3D4e5F6g7H8i9J0k1L2m3N4",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-a1B2c3D4e5F6",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.a1B2c3D4e5F6g7H8i9J0",
    "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nx/y+z==\n-----END PRIVATE KEY-----",
)

_fragments = st.sampled_from(
    (
        *(*TOKENS, M, M[:-1], "://", "://u:p@h", "Bearer ", "Authorization: Basic ", "abc123def", '"password": ', "-"),
        *("'token': '", '"secret": [', "?token=", "&api_key=a", '"', "'", "\\", "[", "]", "{", "}", ":", ","),
        *(" ", "\n"),
        *("x", "é", "_", "eyJ", "sk-", "@", "/", "=", "-----BEGIN PRIVATE KEY-----", "null"),
    )
)
_texts = st.lists(_fragments, max_size=6).map("".join) | st.text(max_size=4)
_secrets = st.recursive(
    _texts | st.sampled_from((None, True, 0, 1.5, float("nan"))),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("password", "apiKey", "a", "token")), inner, max_size=3)
        | inner.map(json.dumps)
    ),
    max_leaves=6,
)


@given(_secrets)
def test_twice_is_the_same_as_once(value: Any) -> None:
    """A mark is not a secret, and redaction creates no new secret."""
    once = DEFAULT(value)

    assert repr(DEFAULT(once)) == repr(once)


@given(_secrets)
def test_a_case_is_redacted_like_its_values(value: Any) -> None:
    """A case without secrets is returned itself, and no secret passes the quick search that decides that."""
    case = LLMTestCase(metadata={"plain": value, "password": value})

    redacted = DEFAULT.model(case)

    assert repr(redacted.metadata) == repr(DEFAULT(case.metadata))
    assert redacted is case or redacted != case or "nan" in repr(value)


def names_a_secret(text: str) -> bool:
    """Whether a text may contain a secret key; Hypothesis may draw them from the source."""
    return any(key.replace("_", "") in re.sub(r"[\W_]", "", text).lower() for key in DEFAULT_KEYS)


@given(strategies.json_values())
def test_values_without_secrets_are_copied_unchanged(value: Any) -> None:
    """Equal in every detail, and independent of the original."""
    assume(not names_a_secret(repr(value)))
    matches = DEFAULT(value)

    assert repr(matches) == repr(value)
    assert matches is not value or not isinstance(value, (list, dict))


@given(
    st.sampled_from(TOKENS), st.recursive(st.just(None), lambda inner: st.tuples(st.booleans(), inner), max_leaves=5)
)
def test_no_nesting_hides_a_secret_from_the_rules(token: str, nesting: Any) -> None:
    """Lists, objects and JSON text inside each other."""
    value: Any = f"({token})"
    while nesting is not None:
        as_text, nesting = nesting
        value = json.dumps({"a": value}) if as_text else [{"a": value}]

    assert token not in json.dumps(DEFAULT(value))
    assert json.dumps(token)[1:-1] not in json.dumps(DEFAULT(value))


_MORE_TOKENS = (
    *(
        *TOKENS,
        "sk-" + "a" * 20,
        "sk-abc-def-ghi-jkl-mno-pqR",
        "ASIA" + "Z9" * 8,
        "AIza" + "x_-" * 12,
        "glpat-" + "x" * 20,
    ),
    *(
        "whsec_0123456789",
        "sk_live_0123456789",
        "hf_" + "x" * 20,
        "ya29." + "x" * 20,
        "pypi-AgE" + "x" * 20,
        "xapp-1-2-3-4-5-6",
    ),
    *("https://u:p@h", "a://:\xa0\ud800&<'@", "Authorization:\n Basic x", "bearer\n\tabcdefg1", "BEARER " + "+/" * 10),
    *(
        "x?api_key=5&y",
        "x&token=<y>",
        "?a=1&to.ken=abc",
        "'to ken' => 'x'",
        '\\"token\\"\n:\n\\"x\\"',
        "-----BEGIN PRIVATE KEY-----",
    ),
)


@st.composite
def _spelled_keys(draw: Any) -> str:
    """Return a secret key in any of its spellings, or one that resembles it."""
    key = draw(st.sampled_from([*sorted(DEFAULT_KEYS), "max_tokens", "tok", "a"]))
    words = key.replace("*", draw(st.sampled_from(("", "my_", "MY")))).split("_")
    spelled = [draw(st.sampled_from((word, word.upper(), word.capitalize()))) for word in words]
    return draw(st.sampled_from(("_", "-", "", " ", "."))).join(spelled)


@st.composite
def _as_json(draw: Any, value: Any) -> str:
    """Return a JSON text of a value as any program may write it: with escapes where JSON allows them."""
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from((None, None, 1))))
    escaped = draw(st.sampled_from(("", "/", "&<>'", '"')))

    def write_string(match: re.Match[str]) -> str:
        pieces = re.findall(r"\\u....|\\.|.", match[0][1:-1], re.DOTALL)
        return f'"{"".join(_escape(piece) if piece in escaped else piece for piece in pieces)}"'

    return re.sub(r'"(?:[^"\\]|\\.)*"', write_string, text, flags=re.DOTALL)


def _escape(letter: str) -> str:
    return "\\/" if letter == "/" else f"\\u{ord(letter):04x}"


_around = st.lists(st.sampled_from(("", " ", "\n", "x", "é", "(", '"', "\\")), max_size=2).map("".join)


@st.composite
def _planted(draw: Any) -> Any:
    """Return a value with one secret, or with something that resembles one: a second one would hide a mistake."""
    key, text = draw(_spelled_keys()), draw(st.sampled_from(_MORE_TOKENS))
    value: Any = draw(st.sampled_from(({key: "x"}, {key: [1]}, f"{draw(_around)}{text}{draw(_around)}")))
    for _ in range(draw(st.integers(0, 3))):
        value = draw(
            draw(st.sampled_from((st.just([value]), st.just({"a": value}), _as_json(value), st.just(repr(value)))))
        )
    return value


@given(_planted())
def test_the_quick_search_misses_no_secret(value: Any) -> None:
    """What it takes as clean is clean for the rules alone, as it is and in JSON text of any depth."""
    with patch("toolgrade.redact._matches", return_value=True):  # everything is searched
        expected = DEFAULT(value)

    assert DEFAULT(value) == expected
    if expected != value:
        assert may_hold_secret(json_text(value))


@given(_planted())
def test_the_quick_search_of_a_case_misses_no_secret(value: Any) -> None:
    """A case, too: its JSON text has all of its fields."""
    call = ToolCall(name="x", input_parameters={"value": value}, output=value)
    case = LLMTestCase(tools_called=[call], expected_tools=[call], metadata={"value": value}, tags=[repr(value)])

    if DEFAULT.model(case) is not case:
        assert may_hold_secret(encode_model(case))


@pytest.mark.parametrize(
    "text",
    [
        r'{"a": "https:\/\/u:p@h"}',
        r'{"a": "https:/\/u:p@h"}',
        r'{"a": "{\u0022token\u0022: 1}"}',
        r'{"a": "h?b=c\u0026token=d"}',
    ],
)
def test_the_quick_search_reads_escapes(text: str) -> None:
    """In text that is JSON, and in the JSON text of that."""
    assert DEFAULT(text) != text
    assert may_hold_secret(json_text(text))
    assert may_hold_secret(json_text([json_text({"b": text})]))


def test_the_quick_search_finds_nothing_in_usual_data() -> None:
    """Otherwise it would save no time."""
    texts = [
        f"a {word} here" for word in ("token", "password", "secret", "Asia/Tokyo", "task-1", "https://h:80/?q=a@b")
    ]
    answer = json.dumps({"max_tokens": 5, "url": "https://h/a?b=c&d=é", "html": "<a href='x'>\n</a>", "note": texts})

    for text in (answer, answer.replace("/", "\\/"), answer.replace("<", "\\u003c").replace("&", "\\u0026")):
        assert not may_hold_secret(json_text([text, *texts, json.dumps([text])]))


HOSTILE = (
    *("sk-", "-sk-", "sk-a-", "eyJaaaaaaaa-", "eyJaaaaaaaa.", ".eyJaaaaaaaa ", "ghp_", "AKIA", "bearer ", "bearer\t\t"),
    *("authorization:        ", "://", "://a:", "://a:b", "a:", "@", "-----BEGIN "),
    *("-----BEGIN PRIVATE KEY-----", "-a"),
    *('"', '"password": "', '"password": [', '"a', "?token=", "\\", '\\"token\\": \\"\\', "[", '{"a":', '["'),
    *(" ", "\0"),
)


@pytest.mark.parametrize(
    "text",
    [
        *(unit * (200_000 // len(unit)) for unit in HOSTILE),
        "-----BEGIN PRIVATE KEY-----" + "-a" * 100_000,
        '{"password": "' + '\\"' * 100_000,
        "://a:" + "b" * 200_000,
    ],
    ids=lambda text: repr(text[:16]),
)
def test_no_text_makes_it_slow(text: str) -> None:
    """200,000 characters without an end take milliseconds; if looked through again and again, minutes."""
    before = time.process_time()
    DEFAULT(text)

    assert time.process_time() - before < 10


# Options


def test_off_returns_everything_as_it_is() -> None:
    """The very same object, not a copy."""
    value: Any = {"password": "x", "a": TOKEN}
    call = ToolCall(name="t", input_parameters=value)

    assert OFF(value) is value
    assert OFF.model(call) is call


def test_keys_and_shapes_can_be_added() -> None:
    """In addition to the defaults, or instead of them."""
    more = Redactor(
        keys=DEFAULT_KEYS | {"ssn"}, shapes=(*DEFAULT_SHAPES, r"EMP-(?P<secret>\d+)", re.compile("x{3}", re.IGNORECASE))
    )
    other = Redactor(keys=["tail_number"], shapes=())

    assert more({"SSN": 1, "pwd": 2, "a": f"EMP-12 xXx {TOKEN}"}) == {"SSN": M, "pwd": M, "a": f"EMP-{M} {M} {M}"}
    assert other({"tailNumber": 1, "pwd": 2, "a": TOKEN}) == {"tailNumber": M, "pwd": 2, "a": TOKEN}


@pytest.mark.parametrize("shape", [".", ".+", r"\w+", "redacted", "", "x*", r"\[", "^|$", "(?P<secret>b?)a"])
@given(text=_texts)
def test_no_shape_breaks_a_mark(shape: str, text: str) -> None:
    """Whatever a shape of one's own matches, twice is the same as once."""
    redactor = Redactor(shapes=(shape,))
    once = redactor(text)

    assert redactor(once) == once


@pytest.mark.parametrize(
    "options",
    [{"keys": "password"}, {"shapes": "x+"}, {"shapes": ["(unclosed"]}],
)
def test_invalid_options_are_refused_at_once(options: Any) -> None:
    """Not at the first secret."""
    with pytest.raises(ConfigurationError, match=r"must be a collection|not a regular expression"):
        Redactor(**options)


def test_a_redactor_is_a_value() -> None:
    """Equal ones are equal, and they go where processes send them."""
    assert Redactor() == DEFAULT
    assert pickle.loads(pickle.dumps(DEFAULT)) == DEFAULT  # noqa: S301 - our own bytes
    assert pickle.loads(pickle.dumps(DEFAULT))({"pwd": 1}) == {"pwd": M}  # noqa: S301 - our own bytes


def test_hook_receives_the_remaining_values() -> None:
    """Each text, number, boolean and null with its path, also inside JSON text, but no mark."""
    visited: list[tuple[Any, Any]] = []

    def look(path: Any, value: Any) -> Any:
        visited.append((path, value))
        return value

    value: Any = {"a": [1, None, True, "t"], "password": "x", "j": '{"b": 2.5}', "k": f"see {TOKEN}"}

    assert Redactor(hook=look)(value) == {**value, "password": M, "k": f"see {M}"}
    assert visited == [
        *((("a", 0), 1), (("a", 1), None), (("a", 2), True), (("a", 3), "t")),
        *((("j", "b"), 2.5), (("j",), '{"b": 2.5}'), (("k",), f"see {M}")),
    ]


def test_the_hook_decides() -> None:
    """What it returns is written, also inside of JSON text."""
    redactor = Redactor(hook=lambda path, value: M if path[-1:] == ("ssn",) else value)

    assert redactor({"ssn": 5, "j": '{"ssn": 5, "n": 1}'}) == {"ssn": M, "j": f'{{"ssn": "{M}", "n": 1}}'}


@pytest.mark.parametrize(
    "hook", [lambda _path, _value: 1 / 0, lambda _path, _value: ["x"], lambda _path, value: {1: value}]
)
def test_a_hook_that_fails_hides_the_value(hook: Any) -> None:
    """The warning says where, and never what."""
    with pytest.warns(ToolgradeWarning, match=r"at \['a'\]\[0\]; the value was redacted") as caught:
        assert Redactor(hook=hook)({"a": ["private"]}) == {"a": [M]}

    assert "private" not in str(caught[0].message)
