"""Hostile text for every display: control sequences, markup and instructions."""

from __future__ import annotations

from toolmark import LLMTestCase, Metric, MetricResult, Report, ResultStatus, Run, ToolCall, evaluate

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
        error = self._text if self._status is ResultStatus.FAILED else None
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
    broken = Repeating("ghp_0123456789abcdefghijABCDEF", ResultStatus.FAILED)
    broken.label = "broken"
    return evaluate([case], [metric, broken], show_progress=False)
