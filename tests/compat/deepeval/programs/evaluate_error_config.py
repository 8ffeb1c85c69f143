from deepeval import evaluate
from deepeval.errors import MissingTestCaseParamsError
from deepeval.evaluate import AsyncConfig, ErrorConfig
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall

complete = LLMTestCase(input="complete", actual_output="o", tools_called=[ToolCall(name="t")], expected_tools=[ToolCall(name="t")])
incomplete = LLMTestCase(input="incomplete", actual_output="o", tools_called=[ToolCall(name="t")])

for run_async in (False, True):
    config = AsyncConfig(run_async=run_async)
    try:
        evaluate(test_cases=[complete, incomplete], metrics=[ToolCorrectnessMetric()], async_config=config)
    except MissingTestCaseParamsError as error:
        assert "expected_tools" in str(error)
    else:
        raise AssertionError("missing parameters are an error by default")

    ignored = evaluate(
        test_cases=[complete, incomplete], metrics=[ToolCorrectnessMetric()], async_config=config,
        error_config=ErrorConfig(ignore_errors=True),
    )
    by_input = {r.input: r for r in ignored.test_results}
    assert by_input["complete"].success is True
    broken = by_input["incomplete"]
    assert broken.success is False
    assert "expected_tools" in broken.metrics_data[0].error
    assert broken.metrics_data[0].score is None

    skipped = evaluate(
        test_cases=[complete, incomplete], metrics=[ToolCorrectnessMetric()], async_config=config,
        error_config=ErrorConfig(skip_on_missing_params=True, ignore_errors=True),
    )
    by_input = {r.input: r for r in skipped.test_results}
    assert by_input["complete"].metrics_data[0].score == 1.0
    if "incomplete" in by_input:
        assert not by_input["incomplete"].metrics_data
print("OK")
