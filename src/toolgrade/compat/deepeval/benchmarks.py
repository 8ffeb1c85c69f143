"""The names of `deepeval.benchmarks`, which toolgrade has nothing for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolgrade.compat.deepeval import _absent

__getattr__: Callable[[str], Any] = _absent.getter(
    __name__,
    "ARC BBQ BigBenchHard BoolQ DROP EquityMedQA GSM8K HellaSwag HumanEval IFEval LAMBADA LogiQA MMLU MathQA SQuAD "
    "TruthfulQA Winogrande",
)
