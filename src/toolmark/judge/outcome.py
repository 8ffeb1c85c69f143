"""What came back for one prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolmark.errors import JudgeOutcome
from toolmark.judge.protocol import Prompt, Verdict


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to one prompt, or why there is none.

    Attributes:
        prompt: What was asked.
        outcome: `ok` if there is a verdict.
        verdict: The verdict, if `ok`.
        problem: What is wrong, unless `ok`.
        usage: Tokens that it took, by name; empty for what came from a cache.
        requests: Requests that were sent for it.
        cost: At the judge's prices; `None` where they are not known. 0 for what came from a cache.
        model: Who answered.
        cached: It came from a cache.
    """

    prompt: Prompt
    outcome: JudgeOutcome
    verdict: Verdict | None = None
    problem: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    requests: int = 0
    cost: float | None = 0.0
    model: str | None = None
    cached: bool = False


@dataclass(slots=True)
class Stop:
    """What the questions of one case share.

    Attributes:
        fatal: One of them met a fault that will stay, so those that were not sent yet are not sent any more.
    """

    fatal: bool = False
