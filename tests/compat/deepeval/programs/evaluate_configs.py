from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall

cases = [
    LLMTestCase(
        input=f"question {i}",
        actual_output="answer",
        tools_called=[ToolCall(name="search")] * (1 if i % 2 else 0),
        expected_tools=[ToolCall(name="search")],
    )
    for i in range(6)
]

first = evaluate(
    test_cases=cases,
    metrics=[ToolCorrectnessMetric()],
    async_config=AsyncConfig(run_async=True, throttle_value=0, max_concurrent=2),
    display_config=DisplayConfig(show_indicator=False, print_results=False, verbose_mode=False),
    cache_config=CacheConfig(write_cache=False, use_cache=False),
    error_config=ErrorConfig(ignore_errors=False, skip_on_missing_params=False),
)
second = evaluate(
    test_cases=cases,
    metrics=[ToolCorrectnessMetric()],
    async_config=AsyncConfig(run_async=False),
    display_config=DisplayConfig(show_indicator=True, print_results=True, display_option="failing"),
)
third = evaluate(cases, [ToolCorrectnessMetric()], async_config=AsyncConfig(run_async=0), display_config=DisplayConfig(print_results=0, show_indicator=0))

for result in (first, second, third):
    scores = {r.input: r.metrics_data[0].score for r in result.test_results}
    assert scores == {f"question {i}": float(i % 2) for i in range(6)}

defaults = AsyncConfig()
assert defaults.run_async is True and defaults.throttle_value == 0 and defaults.max_concurrent == 20
assert CacheConfig().write_cache is True and CacheConfig().use_cache is False
assert ErrorConfig().ignore_errors is False and ErrorConfig().skip_on_missing_params is False
assert DisplayConfig().print_results is True and DisplayConfig().verbose_mode is None
for wrong in (dict(max_concurrent=0), dict(throttle_value=-1)):
    try:
        AsyncConfig(**wrong)
    except ValueError:
        pass
    else:
        raise AssertionError(wrong)
print("OK")
