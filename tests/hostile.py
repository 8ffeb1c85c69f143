"""Hostile text for every display, and mutations of valid data for every reader."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from toolgrade import LLMTestCase, Metric, MetricResult, Report, ResultStatus, Run, ToolCall, evaluate

#: HTML, Markdown, what GitHub makes of a text, what a terminal obeys, and what ends a cell, a fence or an attribute.
TEXTS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</code></summary></details><svg onload=alert(1)>",
    '"\' onmouseover="alert(1)',
    "&lt;b&gt; &amp; &#60;i&#62; &copy;",
    "<!-- hidden -->",
    "]]><![CDATA[",
    "`code` ``two`` ```three``` ````four````",
    "```\n<b>out of the fence</b>\n```",
    "~~~\nout\n~~~",
    "| a | b \\| c \\\\| d |",
    "|",
    "\\",
    "\\`",
    "ends with `",
    "` begins with",
    " blanks ",
    " ",
    "*a* **b** _c_ __d__ ~~e~~ ~f~",
    "[link](javascript:alert(1)) ![image](http://example.com/x.png)",
    "[ref]: http://example.com",
    "<http://example.com> www.example.com https://example.com/a?b=c&d someone@example.com",
    "@everyone @org/team #123 owner/repo#4 GH-5 deadbeefdeadbeefdeadbeefdeadbeefdeadbeef",
    "# title\n## more",
    "- item\n1. item\n> quote\n    code",
    "---\n***\n===",
    "line one\nline two\r\n\r\nline three\u2028four\x0bfive",
    "$x$ $`y`$ $$z$$",
    ":smile: :+1:",
    "[^1] [x] [ ]",
    "\x1b[31mred\x1b]0;title\x07 \x9b31m",
    "\u202eabc\u2066 \u200b\ufeff",
    "\x00\x01\x08\x0c\x1f\x7f\x85",
    "\ufffe \uffff",
    "{{7*7}} {% raw %} ${7*7}",
    "航班 é e\u0301 👩\u200d🚀",
)


def hostile_cases() -> list[LLMTestCase]:
    """Return a case for each text, with the text in names, keys, values, ids and warnings."""
    cases: list[LLMTestCase] = []
    for text in TEXTS:
        called = [
            ToolCall(name=text, input_parameters={text: text, "same": {text: [text]}, "extra": text}, output=text),
            ToolCall(name=f"b{text}"),
        ]
        expected = [
            ToolCall(name=text, input_parameters={"same": {text: text}, f"more{text}": text}, output={text: 1}),
            ToolCall(name=f"c{text}"),
        ]
        cases.append(
            LLMTestCase(id=text, tools_called=called, expected_tools=expected, run=Run(warnings=[text, f"w{text}"]))
        )
        cases.append(LLMTestCase(id=f"unknown{text}", tools_called=called))
    return cases


class Repeating:
    """A metric that repeats in its error, or in the reason why it does not apply, what it read."""

    def __init__(self, text: str, status: ResultStatus) -> None:
        """Keep what to say."""
        self.label = f"{status.value}{text}"
        self.threshold = 0.5
        self._text = text
        self._status = status

    def measure(self, _case: object) -> MetricResult:
        """Return a result without a score."""
        error = self._text if self._status is ResultStatus.ERRORED else None
        return MetricResult(
            metric=self.label,
            status=self._status,
            threshold=0.5,
            reason=self._text,
            error=error,
            warnings=(self._text,),
        )

    async def a_measure(self, case: object) -> MetricResult:
        """Return the same."""
        return self.measure(case)


#: Secrets in the report of `report_with_secrets`.
SECRETS = ("new-2", "old-1", "abcdef1234567890xyz", "ghp_")


def report_with_secrets(metric: Metric) -> Report:
    """Return a report with secrets in the arguments of a case and in the error of a metric."""
    case = LLMTestCase(
        id="secret",
        tools_called=[
            ToolCall(name="pay", input_parameters={"api_key": "new-2", "note": "Bearer abcdef1234567890xyz"})
        ],
        expected_tools=[ToolCall(name="pay", input_parameters={"api_key": "old-1", "note": ""})],
    )
    broken = Repeating("ghp_0123456789abcdefghijABCDEF", ResultStatus.ERRORED)
    broken.label = "broken"
    return evaluate([case], [metric, broken], show_progress=False)


#: Values that are rarely where a reader expects them, or at the edge of what a reader can hold.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1.5, -0.0, 1e308, float("nan"), float("inf"), 2**63, 10**30, -(10**400), 10**5000),
    *(
        "",
        "x",
        "\u00b2",
        "\ud800",
        "\x00",
        "9" * 5000,
        "-",
        "--5",
        "0x1F",
        "1e999",
        "NaN",
        "null",
        "[]",
        "{}",
        '{"a":',
        "[" * 5000,
    ),
    *(
        '{"a": 1, "a": 2}',
        "%Y %Y",
        "%",
        "*" * 60,
        "[!",
        "()" * 200,
        "(a|aa)+$",
        "2024-02-30T25:61:00Z",
        "9999-12-31T23:59:59-23:59",
    ),
    *("$.a[0]", "a..b", "::error::x", "2024-01-01", "tool_calls", "assistant", "function_call", "user", "tool"),
    *(
        [],
        {},
        [[]],
        [None],
        ["x"],
        [{}],
        {"": 0},
        {"a": None},
        [1, [2, [3]]],
        {"type": [1]},
        {"$glob": "["},
        {"$matches": "("},
    ),
    *(
        {"$date": "%Y %Y"},
        {"name": "add"},
        {"unknown": 1},
        [{"name": 1}],
        [0] * 50,
        {str(key): key for key in range(50)},
    ),
)


def nested(depth: int, *, in_objects: bool) -> Any:
    """Return lists or objects inside of one another."""
    value: Any = "inner"
    for _ in range(depth):
        value = {"a": value} if in_objects else [value]
    return value


def _holders(value: Any) -> Iterator[Any]:
    """Yield every object and list that is not empty, also those in JSON texts, which are decoded in place."""
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        if holder and isinstance(holder, (dict, list)):
            yield holder
            waiting.extend(holder.values() if isinstance(holder, dict) else holder)


def mutated(value: Any, chance: random.Random, *, changes: int = 2) -> Any:
    """Return a copy of a JSON value with some entries replaced, removed, repeated, moved, renamed or wrapped."""
    value = [copy.deepcopy(value)]
    for _ in range(chance.randint(1, changes)):
        holders = list(_holders(value))
        holder = chance.choice(holders)
        key = chance.choice(list(holder)) if isinstance(holder, dict) else chance.randrange(len(holder))
        other = chance.choice(holders)
        match chance.randrange(8):
            case 0 | 1 | 2:
                holder[key] = copy.deepcopy(chance.choice(VALUES))
            case 3:
                holder[key] = nested(chance.choice((3, 60, 150, 250, 400)), in_objects=chance.random() < 0.5)
            case 4 if len(value[0] if isinstance(value[0], (dict, list)) else ()) > 1:
                del holder[key]
            case 5 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 5:
                holder[chance.choice(("type", "role", "content", "id", "name", "index", "x"))] = holder.pop(key)
            case 6:
                source = chance.choice(list(other.values()) if isinstance(other, dict) else other)
                holder[key] = copy.deepcopy(source)
            case _:
                holder[key] = [holder[key]] if chance.random() < 0.5 else json.dumps(holder[key], default=str)
        if not value:
            return None
    return value[0]


def mutated_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return data with some bytes changed, removed or repeated."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(changed) + 1)
        end = min(len(changed), start + chance.randint(0, 12))
        match chance.randrange(4):
            case 0:
                changed[start:end] = b""
            case 1:
                changed[start:start] = chance.choice(
                    (b"\xff", b"\x00", b"\xed\xa0\x80", b"\x18", b"\n", b'"', b"[", b"{", b"\r")
                )
            case 2:
                changed[start:start] = changed[start:end]
            case _ if start < len(changed):
                changed[start] ^= 1 << chance.randrange(8)
            case _:
                pass
    return bytes(changed)
