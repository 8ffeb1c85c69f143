"""Values with secrets in them, none of which may leave redaction."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from typing import Any

from hostile import TEXTS, VALUES
from toolgrade import LLMTestCase, ToolCall, ToolCorrectnessMetric, evaluate
from toolgrade.redact import DEFAULT
from toolgrade.report.html import render_html
from toolgrade.report.junit import render_junit
from toolgrade.report.markdown import render_markdown

_LETTERS = string.ascii_letters + string.digits
_KEYS = ("password", "apiKey", "api_key", "API-KEY", "access_token", "client_secret", "Authorization", "token")
_PLAIN = [text for text in (*TEXTS, "x", "é", "", " ") if not set(text) & set("\\\"'`=:")]


def write(chance: random.Random) -> bytes:
    """Return a value with secrets at some depth, and the secrets."""
    secrets: list[str] = []
    value: Any = _planted(chance, secrets)
    for _ in range(chance.randint(0, 5)):
        value = _wrapped(value, chance, secrets)
    return json.dumps({"secrets": secrets, "value": value}).encode()


def check(data: bytes) -> None:
    """Check that no secret is in the redacted value, in a redacted case, or in a report about it."""
    content = json.loads(data)
    value, secrets = content["value"], content["secrets"]
    _check_text("the value", json.dumps(DEFAULT(value)), secrets)
    call = ToolCall(name="add", input_parameters={"x": value}, output=value)
    case = LLMTestCase(input="x", tools_called=[call], expected_tools=[ToolCall(name="add", input_parameters={})])
    _check_text("the case", DEFAULT.model(case).to_json(), secrets)
    if len(data) % 8 == 0:  # rendering takes much longer
        metric = ToolCorrectnessMetric(evaluation_params=["input_parameters"])
        report = evaluate([case], [metric], show_progress=False)
        _check_text("the page", render_html(report), secrets)
        _check_text("the Markdown report", render_markdown(report, title="x"), secrets)
        _check_text("the JUnit report", str(render_junit(report, title="x")), secrets)
        _check_text("the JSON report", report.to_json(), secrets)


def _check_text(what: str, text: str, secrets: list[str]) -> None:
    leaked = [secret for secret in secrets if secret in text]
    assert not leaked, f"{what} holds the secret {leaked[0]!r}"


def _word(chance: random.Random, length: int) -> str:
    return "".join(chance.choice(_LETTERS) for _ in range(length))


def _token(chance: random.Random) -> tuple[str, str]:
    """Return a secret of a known shape, and the part of it that must not be seen."""
    word = _word(chance, 36)
    upper = "".join(chance.choice(string.ascii_uppercase + string.digits) for _ in range(16))
    return chance.choice(
        (
            (f"ghp_{word}", word),
            (f"sk-proj-{word}", word),
            (f"AKIA{upper}", upper),
            (f"xoxb-123456789012-{word}", word),
            (f"Bearer {word}", word),
            (f"https://user:{word}@host/x", word),
            (f"-----BEGIN PRIVATE KEY-----\n{word}\n-----END PRIVATE KEY-----", word),
        )
    )


def _planted(chance: random.Random, secrets: list[str]) -> Any:
    token, secret = _token(chance)
    key, plain = chance.choice(_KEYS), _word(chance, 12)
    forms: list[Callable[[], tuple[Any, str]]] = [
        lambda: (token, secret),
        lambda: (f"{chance.choice(_PLAIN)} {token} {chance.choice(_PLAIN)}", secret),
        lambda: ({key: plain}, plain),
        lambda: ({key: [{"x": plain}]}, plain),
        lambda: (f'{{"{key}": "{plain}"}}', plain),
        lambda: (f"https://host/path?{key}={plain}&x=1", plain),
        lambda: (f"{chance.choice(_PLAIN)} '{key}': '{plain}', 'x': 1", plain),
    ]
    value, secret = chance.choice(forms)()
    secrets.append(secret)
    return value


def _wrapped(value: Any, chance: random.Random, secrets: list[str]) -> Any:
    other: Any = chance.choice([one for one in VALUES if not isinstance(one, (int, float))])
    wraps: list[Callable[[], Any]] = [
        lambda: [other, value],
        lambda: {"x": value, "other": other},
        lambda: {chance.choice(_KEYS): value},
        lambda: json.dumps(value),
        lambda: json.dumps({"x": value, "y": [other]}),
        lambda: [value, _planted(chance, secrets)],
    ]
    return chance.choice(wraps)()
