"""How often `ToolGroundingMetric` flags arguments of runs that were good, and how often chance would be traced."""

from __future__ import annotations

import random
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from validity.runs import Run

from toolgrade import LLMTestCase, ToolGroundingMetric
from toolgrade.metrics.seen_values import SeenValues, values_of
from toolgrade.metrics.tool_grounding import events_of

TRIES = 20
"""Random values of each kind for each run."""
CUT = 300
"""Characters at which the outputs of the neutral form are cut, where the words of the user are missing too."""

_DIGITS = random.Random(0)


def _code() -> str:
    return "".join(_DIGITS.choice(string.ascii_uppercase + string.digits) for _ in range(5)) + _DIGITS.choice(
        "0123456789"
    )


KINDS: Mapping[str, Callable[[], Any]] = {
    "whole numbers from 11 to 99": lambda: _DIGITS.randrange(11, 100),
    "whole numbers from 100 to 999": lambda: _DIGITS.randrange(100, 1000),
    "whole numbers from 1,000 to 9,999": lambda: _DIGITS.randrange(1000, 10_000),
    "amounts with cents up to 1,000": lambda: _DIGITS.randrange(1101, 100_000, 2) / 100,
    "dates of the year": lambda: f"2024-{_DIGITS.randrange(1, 13):02}-{_DIGITS.randrange(1, 29):02}",
    "ids of 7 digits": lambda: str(_DIGITS.randrange(10**6, 10**7)),
    "ids of 6 letters and digits": _code,
    "e-mail addresses of a known domain": lambda: f"{_code().lower()}@example.com",
}
"""Kinds of values that an agent may invent."""


def case_of_run(run: Run) -> LLMTestCase:
    """Return the case of a run with all that its agent saw.

    In the neutral form outputs are cut, and the words of the user are missing, for which those of the agent stand in.
    """
    has_all = "user" in run
    calls = [
        {
            "name": call["name"],
            "input_parameters": call.get("args") or {},
            "output": call.get("output"),
            **({"turn": call["turn"]} if has_all else {}),
            "execution": {"not_captured": [] if has_all or len(call.get("output") or "") < CUT else ["output"]},
        }
        for call in run["called"]
    ]
    texts = run["user"] if has_all else [run.get("query") or "", *run["said"]]
    dialogue = [{"role": "user", "content": text} for text in texts]
    fields = {"instructions": run.get("instructions"), "dialogue": dialogue if has_all else []}
    return LLMTestCase.model_validate(
        {"input": None if has_all else "\n".join(texts), "tools_called": calls, "run": {"calls": [], **fields}}
    )


_WRITES = ToolGroundingMetric(only="write", answer=False)


def grounding_of_runs(runs: Sequence[Run]) -> list[float | None]:
    """Return the score of the arguments of writes of each run; `None` if nothing of them must have a source."""
    return [_WRITES.measure(case_of_run(run)).score for run in runs]


def figures(data: Mapping[str, Sequence[Run]]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the arguments of writes by data set and finding, and the share of random values that are traced.

    The second result are the messages about good runs.
    """
    counts: dict[str, dict[str, int]] = {}
    flags: dict[str, list[str]] = {}
    for name, runs in data.items():
        counter: Counter[str] = Counter()
        flags[name] = []
        for run in runs:
            side = "good" if run["reward"] >= 1 else "bad"
            for finding in _WRITES.measure(case_of_run(run)).findings:
                counter[f"{side} {finding.kind}"] += 1
                if finding.kind != "traced" and side == "good":
                    flags[name].append(f"{run['id']}: {finding.message}")
        counts[name] = dict(sorted(counter.items()))
    return {"grounding": counts, "chance": _chance(data)}, flags


def _chance(data: Mapping[str, Sequence[Run]]) -> dict[str, list[float]]:
    """Return the shares of random values that are found, and that are found or derived, over the complete runs."""
    runs = [run for of_set in data.values() for run in of_set if "user" in run]
    hits: Counter[str] = Counter()
    for run in runs:
        case = case_of_run(run)
        seen = SeenValues(event for event in events_of(case, case.tools_called or ()) if event.kind != "call")
        for kind, draw in KINDS.items():
            for _ in range(TRIES):
                [value] = values_of(draw())
                copied = seen.source(value, bool) is not None
                hits[kind] += copied
                hits[f"{kind}, derived"] += copied or seen.derived(value, (), bool) is not None
    total = max(len(runs) * TRIES, 1)
    return {kind: [round(hits[name] / total, 4) for name in (kind, f"{kind}, derived")] for kind in KINDS}
