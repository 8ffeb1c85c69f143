# a suite imports much more than its tool part uses
import warnings

warnings.simplefilter("ignore", DeprecationWarning)

from deepeval import assert_test, evaluate
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.metrics import (
    AnswerRelevancyMetric,
    ArgumentCorrectnessMetric,
    BiasMetric,
    ContextualPrecisionMetric,
    ContextualRecallMetric,
    ContextualRelevancyMetric,
    ConversationalGEval,
    ConversationCompletenessMetric,
    DAGMetric,
    FaithfulnessMetric,
    GEval,
    GoalAccuracyMetric,
    HallucinationMetric,
    JsonCorrectnessMetric,
    KnowledgeRetentionMetric,
    MCPUseMetric,
    PlanAdherenceMetric,
    PlanQualityMetric,
    PromptAlignmentMetric,
    RoleAdherenceMetric,
    StepEfficiencyMetric,
    SummarizationMetric,
    TaskCompletionMetric,
    ToolCorrectnessMetric,
    ToolUseMetric,
    TopicAdherenceMetric,
    ToxicityMetric,
    TurnRelevancyMetric,
)
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import LLMTestCase, LLMTestCaseParams, SingleTurnParams, ToolCall, ToolCallParams

RAG = (AnswerRelevancyMetric, FaithfulnessMetric, ContextualPrecisionMetric)


def correctness():
    """Only used by the slow part of the suite."""
    return GEval(name="Correctness", criteria="Is the output correct?", evaluation_params=[LLMTestCaseParams.ACTUAL_OUTPUT])


case = LLMTestCase(input="i", actual_output="o", tools_called=[ToolCall(name="t")], expected_tools=[ToolCall(name="t")])
assert_test(case, [ToolCorrectnessMetric()])
assert evaluate([case], [ToolCorrectnessMetric()]).test_results[0].success
assert SingleTurnParams.ACTUAL_OUTPUT.value == "actual_output"
assert all(isinstance(kind, type) for kind in RAG)
print("OK")
