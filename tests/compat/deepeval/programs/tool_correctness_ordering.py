from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall


def tools(*names):
    return [ToolCall(name=name) for name in names]


def measure(called, expected, **flags):
    metric = ToolCorrectnessMetric(**flags)
    metric.measure(LLMTestCase(input="plan", actual_output="done", tools_called=tools(*called), expected_tools=tools(*expected)))
    return metric.score


assert measure(("load", "clean", "plot"), ("load", "clean", "plot"), should_consider_ordering=True) == 1.0
assert measure(("load", "extra", "clean", "plot"), ("load", "clean", "plot"), should_consider_ordering=True) == 1.0
assert abs(measure(("clean", "load", "plot"), ("load", "clean", "plot"), should_consider_ordering=True) - 2 / 3) < 1e-9
assert abs(measure(("plot", "clean", "load"), ("load", "clean", "plot"), should_consider_ordering=True) - 1 / 3) < 1e-9
assert measure(("plot", "clean", "load"), ("load", "clean", "plot"), should_consider_ordering=False) == 1.0
assert measure(("load",), ("load", "clean"), should_consider_ordering=True) == 0.5
# should_exact_match wins over should_consider_ordering
assert measure(("load", "extra"), ("load",), should_consider_ordering=True, should_exact_match=True) == 0.0
print("OK")
