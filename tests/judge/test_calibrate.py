"""A judge against people: rates and their intervals."""

from __future__ import annotations

from typing import Any

import pytest

from toolgrade import ConfigurationError, InvalidDataError
from toolgrade.judge import Label, calibrate


def labels(yes_yes: int, yes_no: int, no_yes: int, no_no: int, undecided: int = 0) -> list[dict[str, Any]]:
    """So many labels of each kind."""
    pairs = [("yes", "yes")] * yes_yes + [("yes", "no")] * yes_no + [("no", "yes")] * no_yes + [("no", "no")] * no_no
    pairs += [("yes", "cannot_tell")] * undecided
    return [{"criterion": "arguments", "human": human, "judge": judge} for human, judge in pairs]


def test_kappa() -> None:
    """The worked example of textbooks: 20, 5, 10, 15 give 0.4."""
    agreement = calibrate(labels(20, 5, 10, 15))["arguments"]

    assert agreement.kappa is not None
    assert agreement.kappa.value == pytest.approx(0.4)
    assert agreement.kappa.low < 0.4 < agreement.kappa.high
    assert calibrate(labels(9, 0, 0, 0))["arguments"].kappa is None
    assert calibrate(labels(5, 0, 0, 5))["arguments"].kappa.value == 1  # type: ignore[union-attr]
    assert calibrate(labels(0, 5, 5, 0))["arguments"].kappa.value == -1  # type: ignore[union-attr]


def test_rates_by_criterion() -> None:
    """Each criterion has its own rates; undecided answers are counted and excluded."""
    label = [*labels(8, 2, 1, 9, undecided=4), Label(criterion="tool_selection", human="yes", judge="yes")]
    result = calibrate(label)
    agreement = result["arguments"]

    assert list(result) == ["arguments", "tool_selection"]
    assert (agreement.sensitivity.value, agreement.specificity.value) == (0.8, 0.9)  # type: ignore[union-attr]
    assert (agreement.undecided, agreement.sensitivity.count) == (4, 10)  # type: ignore[union-attr]
    assert result["tool_selection"].specificity is None


@pytest.mark.parametrize(
    ("label", "error"),
    [
        ([], ConfigurationError),
        ([3], ConfigurationError),
        ([{"criterion": "a", "human": "cannot_tell", "judge": "yes"}], InvalidDataError),
        ([{"criterion": "a", "human": "yes", "judge": "maybe"}], InvalidDataError),
    ],
)
def test_invalid_labels_are_refused(label: Any, error: type[Exception]) -> None:
    """The error lists the valid ones."""
    with pytest.raises(error):
        calibrate(label)


def test_options_out_of_range() -> None:
    """The confidence is below 1."""
    with pytest.raises(ConfigurationError, match="confidence"):
        calibrate(labels(1, 1, 1, 1), confidence=1)
