"""Eval sets of Google's Agent Development Kit as goldens, in toolgrade's JSON form.

Source: the package `google-adk`, `evaluation/eval_set.py` and `evaluation/eval_case.py` (`get_all_tool_calls`).
"""

from __future__ import annotations

from collections.abc import Iterator

from toolgrade._internal.json import JsonObject
from toolgrade._internal.message_content import Fields, object_of, part_text
from toolgrade._internal.model import drop_none
from toolgrade.formats.messages.field_readers import list_of
from toolgrade.formats.messages.gemini import camel_keys
from toolgrade.formats.messages.google_adk import PSEUDO_TOOLS, TRANSFER


def is_eval_set(value: object) -> bool:
    """Return whether a JSON value is an eval set."""
    return isinstance(value, dict) and ("eval_cases" in value or "evalCases" in value)


def is_old_test(value: object) -> bool:
    """Return whether a JSON value is a question of an eval set in the form before these."""
    return isinstance(value, dict) and {"query", "expected_tool_use"} <= value.keys()


def goldens_of(eval_set: Fields) -> Iterator[JsonObject]:
    """Yield the golden of each case; a scenario has a simulated user, who knows how to begin."""
    for case in map(camel_keys, list_of(camel_keys(eval_set).get("evalCases"))):
        invocations = list(map(camel_keys, list_of(case.get("conversation"))))
        turns = [
            drop_none({"content": _text(one.get("userContent")) or "", "expected_tools": _calls(one)})
            for one in invocations
        ]
        output = _text(invocations[-1].get("finalResponse")) if invocations else None
        golden: JsonObject = {"id": case.get("evalId"), "turns": turns, "expected_output": output}
        if not turns:
            scenario = camel_keys(case.get("conversationScenario"))
            facts = {"first message": scenario.get("startingPrompt")}
            golden |= {"turns": None, "user": {"goal": scenario.get("conversationPlan"), "facts": facts}}
        elif len(turns) == 1:
            golden |= {"turns": None, "input": turns[0]["content"], "expected_tools": turns[0].get("expected_tools")}
        yield drop_none(golden)


def _calls(invocation: Fields) -> list[JsonObject] | None:
    """Return the expected calls, without hand-overs to other agents; `None` if there is no data of calls."""
    if "intermediateData" not in invocation:
        return None
    data = camel_keys(invocation["intermediateData"])
    contents = [object_of(object_of(event).get("content")) for event in list_of(data.get("invocationEvents"))]
    parts = [camel_keys(part) for content in contents for part in list_of(content.get("parts"))]
    calls = [*list_of(data.get("toolUses")), *(part["functionCall"] for part in parts if "functionCall" in part)]
    return [
        {"name": call.get("name"), "input_parameters": call.get("args", {})}
        for call in map(camel_keys, calls)
        if str(call.get("name")) not in {TRANSFER, *PSEUDO_TOOLS}
    ]


def _text(content: object) -> str | None:
    return "".join(part_text(part) or "" for part in list_of(object_of(content).get("parts"))) or None
