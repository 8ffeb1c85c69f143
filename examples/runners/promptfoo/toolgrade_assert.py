"""The assertion of `promptfooconfig.yaml`: toolgrade scores the calls of each output."""

from toolgrade import ToolCorrectnessMetric
from toolgrade.compat.hosts.promptfoo import assertion

get_assert = assertion(ToolCorrectnessMetric(evaluation_params=["input_parameters"], threshold=1))
