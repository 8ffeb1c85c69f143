"""How does a metric ask a judge? Metrics load this module when they are given one: it is most of the judge.

A case of one question is one unit, of which the selection of tools is judged; a conversation has several, of which the
arguments are judged too.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolmark.calls import ToolSpec
from toolmark.cases import LLMTestCase, MLLMTestCase
from toolmark.judge import Judge
from toolmark.judge.driver import Flow
from toolmark.judge.flow import Judgement, judging
from toolmark.judge.interactions import Unit, unit_of, units_of

__all__ = ["Judge", "judgement_of", "judgement_of_units", "units_of"]


def judgement_of(judge: Judge, case: LLMTestCase | MLLMTestCase, tools: Sequence[ToolSpec]) -> Flow[Judgement]:
    """Return the flow that judges the selection of the tools of a case of one question."""
    return judging(judge, [unit_of(case)], tools, arguments=False)


def judgement_of_units(
    judge: Judge, units: Sequence[Unit], tools: Sequence[ToolSpec], *, at_once: bool
) -> Flow[Judgement]:
    """Return the flow that judges selection and arguments of the units of a conversation."""
    return judging(judge, units, tools, arguments=True, at_once=at_once)
