"""A judge for tests: a plain function that reads the prompt as a model would, and answers by a rule."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import pytest

from toolgrade.judge import Reply

needs_openai = pytest.mark.skipif(not find_spec("openai"), reason="the core is tested alone here, without its client")
"""For tests with OpenAI's client and a server."""

Messages = list[dict[str, Any]]
Rule = Callable[[str, dict[str, Any]], Any]


def evidence_text(messages: Messages) -> str:
    """Return the text that contains the record."""
    content = messages[-1]["content"]
    return content if isinstance(content, str) else next(part["text"] for part in content if part["type"] == "text")


def record(messages: Messages) -> dict[str, Any]:
    """The record that a prompt shows."""
    match = re.search(r"<record-([0-9a-f]{16})>\n(.*)\n</record-\1>", evidence_text(messages), re.DOTALL)
    assert match is not None
    document: dict[str, Any] = json.loads(match[2])
    return document


def criterion(messages: Messages) -> str:
    """What a prompt asks."""
    text = messages[0]["content"]
    if '"missing"' in text:
        return "missing_calls"
    return "arguments" if "Are the arguments of this call right?" in text else "tool_selection"


def answer(verdict: str, *, missing: tuple[str, ...] | None = None, evidence: tuple[str, ...] = ()) -> str:
    """Return a reply in the requested form."""
    fields: dict[str, Any] = {"evidence": list(evidence), "reasoning": f"I say {verdict}."}
    if missing is not None:
        fields["missing"] = list(missing)
    return json.dumps({**fields, "verdict": verdict})


class RuleJudge:
    """Answers by a rule, and remembers what it was asked.

    The rule is handed the criterion and the record. It returns a verdict, a list of ids of missing tools (which is a
    *no* to the question about missing calls), a whole reply as text, or an exception to raise.
    """

    def __init__(self, rule: Rule | Mapping[str, Any] | str = "yes") -> None:
        """Keep the rule: a function, an answer for each criterion, or one answer for everything."""
        self._rule = rule
        self.questions: list[tuple[str, dict[str, Any]]] = []
        self.messages: list[Messages] = []

    def __call__(self, messages: Messages) -> str:
        """Return the reply."""
        questions, document = criterion(messages), record(messages)
        self.questions.append((questions, document))
        self.messages.append(messages)
        reply_text = self._answer(questions, document)
        if isinstance(reply_text, BaseException):
            raise reply_text
        if isinstance(reply_text, (list, tuple)):
            return answer("no", missing=tuple(reply_text))
        if reply_text not in {"yes", "no", "cannot_tell"}:
            return str(reply_text)
        return answer(reply_text, missing=() if questions == "missing_calls" else None)

    def _answer(self, questions: str, document: dict[str, Any]) -> Any:
        if isinstance(self._rule, Mapping):
            return self._rule.get(questions, "yes")
        return self._rule(questions, document) if callable(self._rule) else self._rule

    @property
    def criteria(self) -> list[str]:
        """Return the sorted criteria of the questions, which are sent concurrently."""
        return sorted(name for name, _ in self.questions)


def served(judge: RuleJudge) -> Callable[[Any], str]:
    """Serve the same judge with `FakeOpenAI`."""
    return lambda request: judge(request.body["messages"])


def counted(text: str, model: str = "fake-1", **usage: int) -> Reply:
    """A reply with the tokens it took."""
    return Reply(text=text, model=model, usage=usage)
