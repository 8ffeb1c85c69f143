"""toolgrade's metrics as evaluators of pydantic-evals; `test_pydantic_evaluator.py` has the rest."""

from __future__ import annotations

from pathlib import Path

from library_examples import printed_by


def test_the_example_is_scored(tmp_path: Path) -> None:
    """As a program."""
    printed = printed_by("runners/with_pydantic_evals.py", tmp_path)

    assert printed == "tool_correctness(input_parameters): 1. 1 matched / 1 expected = 1 (passed at 0.5).\n"
