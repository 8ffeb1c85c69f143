"""The assertion of `promptfooconfig.yaml`: toolmark scores the calls of each output."""

from toolmark import ToolCorrectnessMetric
from toolmark.compat.promptfoo import assertion

get_assert = assertion(ToolCorrectnessMetric(evaluation_params=["input_parameters"], threshold=1))
