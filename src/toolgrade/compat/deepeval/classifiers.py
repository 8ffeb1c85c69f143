"""The names of `deepeval.classifiers`, which toolgrade has nothing for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolgrade.compat.deepeval import _absent

__getattr__: Callable[[str], Any] = _absent.getter(
    __name__,
    "AbstentionClassifier BaseClassifier ClarificationClassifier Classifier ClassifierTemplate DataLeakageClassifier "
    "EscalationClassifier ForbiddenCommitmentsClassifier InstructionCompletenessClassifier Label "
    "PromptInjectionClassifier RefusalClassifier RequiredDisclosureClassifier ResolutionClassifier "
    "ResponseLanguageClassifier ScopeAdherenceClassifier ToneAdherenceClassifier",
)
