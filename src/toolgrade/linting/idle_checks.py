"""Check of whether a run that does nothing passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from toolgrade._internal.model import drop_none
from toolgrade.cases import AnyCase, ConversationalTestCase, LLMTestCase
from toolgrade.dataset import Golden
from toolgrade.errors import ToolgradeError
from toolgrade.expect.fields import is_silence
from toolgrade.linting.findings import LintFinding, LintKind, Spot
from toolgrade.metrics import TaskSuccessMetric

_METRIC = TaskSuccessMetric()
_STATED = ("expected_output", "required_texts", "ends")


def check_idle(case: AnyCase | Golden, spot: Spot) -> Iterator[LintFinding]:
    """Yield a finding if a run without calls and texts passes, although the case states more than calls.

    Of calls alone the metric says so itself, and others do not let such a run pass.
    """
    stated: dict[str, Any] = {name: getattr(case, name) for name in _STATED if getattr(case, name, None)}
    if isinstance(case, ConversationalTestCase) or is_silence(case.expected_tools) or not stated:
        return
    stated |= {name: getattr(case, name) for name in ("expected_tools", "available_tools")}
    idle: dict[str, Any] = {"tools_called": [], "agent_texts": [], "actual_output": "", "ended": True}
    with suppress(ToolgradeError):  # other checks say what is wrong with it
        if _METRIC.measure(LLMTestCase(**drop_none(stated), **idle)).passed:
            message = "a run that calls and says nothing passes TaskSuccessMetric"
            advice = "state writes, required_texts or an expected_output that nothing does not fit"
            yield LintFinding(LintKind.ASKS_NOTHING, spot.path, f"{message}; {advice}")
