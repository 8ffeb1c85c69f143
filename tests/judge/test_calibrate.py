"""A judge against people: rates and intervals, compared with scipy's, and the correction, compared with simulations."""

from __future__ import annotations

import random
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


def test_the_correction() -> None:
    """(p + q0 - 1) / (q0 + q1 - 1), held to [0, 1]."""
    agreement = calibrate(labels(90, 10, 20, 80))["arguments"]
    estimate = agreement.corrected(70, 100)

    assert estimate.value == pytest.approx((0.7 + 0.8 - 1) / (0.8 + 0.9 - 1))
    assert 0 <= estimate.low < estimate.value < estimate.high <= 1
    assert agreement.corrected(0, 100).value == 0
    assert agreement.corrected(100, 100).value == 1
    perfect = calibrate(labels(500, 0, 0, 500))["arguments"].corrected(300, 1000)
    assert perfect.value == pytest.approx(0.3)


@pytest.mark.parametrize("counts", [(5, 5, 5, 5), (1, 9, 1, 9), (0, 10, 10, 0)])
def test_a_judge_no_better_than_chance_corrects_nothing(counts: tuple[int, int, int, int]) -> None:
    """Where q0 + q1 <= 1 the correction is refused."""
    with pytest.raises(ConfigurationError, match="must be above 1 for a correction"):
        calibrate(labels(*counts))["arguments"].corrected(1, 2)


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
    """Confidence, counts, and labels of one kind only."""
    with pytest.raises(ConfigurationError, match="confidence"):
        calibrate(labels(1, 1, 1, 1), confidence=1)
    with pytest.raises(ConfigurationError, match="total at least 1"):
        calibrate(labels(9, 1, 1, 9))["arguments"].corrected(0, 0)
    with pytest.raises(ConfigurationError, match="labels of both kinds"):
        calibrate(labels(9, 1, 0, 0))["arguments"].corrected(1, 2)


@pytest.mark.parametrize(("truth", "q1", "q0"), [(0.8, 0.9, 0.85), (0.5, 0.75, 0.8), (0.95, 0.95, 0.7)])
def test_the_interval_of_the_correction_covers(truth: float, q1: float, q0: float) -> None:
    """Over simulated evaluations the 95 % interval holds the true share about that often; the raw share is off."""
    draw = random.Random(11)
    covered = raw = 0
    runs = 200
    for _ in range(runs):
        right = sum(draw.random() < q1 for _ in range(60))
        wrong = sum(draw.random() < q0 for _ in range(60))
        agreement = calibrate(labels(right, 60 - right, 60 - wrong, wrong))["arguments"]
        yes = sum(draw.random() < (q1 if draw.random() < truth else 1 - q0) for _ in range(300))
        estimate = agreement.corrected(yes, 300)
        covered += estimate.low <= truth <= estimate.high
        raw += abs(yes / 300 - truth) < 0.02

    assert covered / runs > 0.92
    assert raw / runs < 0.6
