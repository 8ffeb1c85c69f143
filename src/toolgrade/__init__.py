"""toolgrade measures how well LLM agents call their tools.

Everything public is importable from here and loaded when it is first used; the core needs pydantic alone, the terminal
and the command line load what they need themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgrade._internal.lazy_imports import lazy_package

if TYPE_CHECKING:
    __version__: str
    from toolgrade.analysis.comparison import compare
    from toolgrade.analysis.validation import validate
    from toolgrade.calls import CallStatus, Execution, ToolCall, ToolCallParams, ToolCallType, ToolSpec
    from toolgrade.capture.observation.decorator import observe
    from toolgrade.cases import (
        ConversationalTestCase,
        Handoff,
        LLMTestCase,
        MLLMImage,
        MLLMTestCase,
        Run,
        RunStatus,
        Turn,
    )
    from toolgrade.dataset import Golden, write_cases
    from toolgrade.errors import (
        ConfigurationError,
        DataFileError,
        InvalidDataError,
        JudgeError,
        MetricAssertionError,
        MissingFieldError,
        MissingPackageError,
        NothingRecordedError,
        NotMeasuredError,
        Problem,
        ToolgradeError,
        ToolgradeWarning,
    )
    from toolgrade.evaluation.run import assert_test, evaluate, evaluate_async
    from toolgrade.formats.messages.read import run_from_messages
    from toolgrade.formats.records import case_from_record
    from toolgrade.inputs import read_cases
    from toolgrade.judge import Judge
    from toolgrade.metrics import (
        ArgumentSchemaMetric,
        BudgetMetric,
        Metric,
        RunHealthMetric,
        TaskSuccessMetric,
        ToolCorrectnessMetric,
        ToolEfficiencyMetric,
        ToolGroundingMetric,
        ToolPolicyMetric,
        ToolRecoveryMetric,
        ToolSuccessRate,
        ToolUseMetric,
    )
    from toolgrade.report import CaseResult, Comparison, MetricSummary, Report
    from toolgrade.result import Finding, MetricResult, ResultStatus
    from toolgrade.user_turns import Approve, Reject, SimulatedUser, UserTurn
    from toolgrade.verdict import Gate

_NAMES = {
    "analysis.comparison": "compare",
    "analysis.validation": "validate",
    "calls": "CallStatus Execution ToolCall ToolCallParams ToolCallType ToolSpec",
    "capture.observation.decorator": "observe",
    "cases": "ConversationalTestCase Handoff LLMTestCase MLLMImage MLLMTestCase Run RunStatus Turn",
    "dataset": "Golden write_cases",
    "inputs": "read_cases",
    "errors": (
        "ConfigurationError DataFileError InvalidDataError JudgeError MetricAssertionError MissingFieldError "
        "MissingPackageError NotMeasuredError NothingRecordedError Problem ToolgradeError ToolgradeWarning"
    ),
    "evaluation.run": "assert_test evaluate evaluate_async",
    "formats.messages.read": "run_from_messages",
    "formats.records": "case_from_record",
    "judge": "Judge",
    "metrics": (
        "ArgumentSchemaMetric BudgetMetric Metric RunHealthMetric TaskSuccessMetric "
        "ToolCorrectnessMetric ToolEfficiencyMetric ToolGroundingMetric ToolPolicyMetric ToolRecoveryMetric "
        "ToolSuccessRate ToolUseMetric"
    ),
    "report": "CaseResult Comparison MetricSummary Report",
    "result": "Finding MetricResult ResultStatus",
    "user_turns": "Approve Reject SimulatedUser UserTurn",
    "verdict": "Gate",
}
"""The public names by the module that holds them."""


__all__ = [
    "Approve",
    "ArgumentSchemaMetric",
    "BudgetMetric",
    "CallStatus",
    "CaseResult",
    "Comparison",
    "ConfigurationError",
    "ConversationalTestCase",
    "DataFileError",
    "Execution",
    "Finding",
    "Gate",
    "Golden",
    "Handoff",
    "InvalidDataError",
    "Judge",
    "JudgeError",
    "LLMTestCase",
    "MLLMImage",
    "MLLMTestCase",
    "Metric",
    "MetricAssertionError",
    "MetricResult",
    "MetricSummary",
    "MissingFieldError",
    "MissingPackageError",
    "NotMeasuredError",
    "NothingRecordedError",
    "Problem",
    "Reject",
    "Report",
    "ResultStatus",
    "Run",
    "RunHealthMetric",
    "RunStatus",
    "SimulatedUser",
    "TaskSuccessMetric",
    "ToolCall",
    "ToolCallParams",
    "ToolCallType",
    "ToolCorrectnessMetric",
    "ToolEfficiencyMetric",
    "ToolGroundingMetric",
    "ToolPolicyMetric",
    "ToolRecoveryMetric",
    "ToolSpec",
    "ToolSuccessRate",
    "ToolUseMetric",
    "ToolgradeError",
    "ToolgradeWarning",
    "Turn",
    "UserTurn",
    "__version__",
    "assert_test",
    "case_from_record",
    "compare",
    "evaluate",
    "evaluate_async",
    "observe",
    "read_cases",
    "run_from_messages",
    "validate",
    "write_cases",
]


_load, _ = lazy_package(__name__, _NAMES)


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    if name == "__version__":
        from toolgrade._internal.lazy_imports import installed_version  # noqa: PLC0415 - reads the disk when asked

        return installed_version()
    return _load(name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
