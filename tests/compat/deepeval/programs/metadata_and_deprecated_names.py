import warnings

from deepeval import evaluate
from deepeval.dataset import Golden
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import ConversationalTestCase, LLMTestCase, ToolCall, Turn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from deepeval.test_case import LLMTestCaseParams, TurnParams
from deepeval.test_case import MultiTurnParams, SingleTurnParams

assert LLMTestCaseParams.INPUT.value == SingleTurnParams.INPUT.value == "input"
assert SingleTurnParams.TOOLS_CALLED.value == "tools_called"
assert SingleTurnParams.EXPECTED_TOOLS.value == "expected_tools"
assert TurnParams.CONTENT.value == MultiTurnParams.CONTENT.value == "content"

golden = Golden(input="i", additional_metadata={"source": "ticket 9"})
case = LLMTestCase(
    input=golden.input, actual_output="o", additional_metadata=golden.additional_metadata,
    tools_called=[ToolCall(name="t")], expected_tools=[ToolCall(name="t")],
)
modern = LLMTestCase(input="j", actual_output="o", metadata={"source": "ticket 10"}, tools_called=[], expected_tools=[])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    assert case.additional_metadata == {"source": "ticket 9"}
assert case.metadata == {"source": "ticket 9"}

result = evaluate([case, modern], [ToolCorrectnessMetric()])
assert {r.input: r.metadata["source"] for r in result.test_results} == {"i": "ticket 9", "j": "ticket 10"}

talk = ConversationalTestCase(turns=[Turn(role="user", content="u", additional_metadata={"a": 1})], additional_metadata={"b": 2})
assert talk.metadata == {"b": 2}
assert talk.turns[0].metadata == {"a": 1}
print("OK")
