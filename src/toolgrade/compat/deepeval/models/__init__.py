"""The names of `deepeval.models`: the base of a model of your own, which judges where `model=` takes it."""

from __future__ import annotations

from typing import Any

from toolgrade.compat.deepeval import _absent

__all__ = ["DeepEvalBaseLLM"]


class DeepEvalBaseLLM:
    """Base of a model that judges: `generate` or `a_generate` returns text, or an object of the `schema` it is given.

    Example:
        >>> from toolgrade.compat.deepeval.metrics import ArgumentCorrectnessMetric
        >>> from toolgrade.compat.deepeval.models import DeepEvalBaseLLM
        >>> from toolgrade.compat.deepeval.test_case import LLMTestCase, ToolCall
        >>> class MyModel(DeepEvalBaseLLM):
        ...     def load_model(self):
        ...         return self
        ...
        ...     def generate(self, prompt):
        ...         return '{"evidence": [], "reasoning": "It fits.", "verdict": "yes"}'
        ...
        ...     async def a_generate(self, prompt):
        ...         return self.generate(prompt)
        ...
        ...     def get_model_name(self):
        ...         return "my-model"
        >>> called = ToolCall(name="get_weather", input_parameters={"city": "Paris"})
        >>> ArgumentCorrectnessMetric(model=MyModel()).measure(LLMTestCase(input="Paris?", tools_called=[called]))
        1.0
    """

    def __init__(self, model: str | None = None, *_: Any, **__: Any) -> None:  # noqa: ANN401 - as DeepEval's
        """Store the name, and load the model."""
        self.name = model
        self.model: Any = self.load_model()

    def load_model(self) -> Any:  # noqa: ANN401 - of any library
        """Return the object that answers."""
        return self

    def generate(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as DeepEval's
        """Return the answer to a prompt."""
        raise NotImplementedError(f"{type(self).__name__} has no generate")

    async def a_generate(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as DeepEval's
        """Return the answer to a prompt; by default that of `generate`."""
        return self.generate(*args, **kwargs)

    def get_model_name(self) -> str:
        """Return the name of the model."""
        return self.name or type(self).__name__


__getattr__: _absent.Getter = _absent.getter(__name__)
