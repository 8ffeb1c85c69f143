"""ragas' tool metrics do what its documentation says, also where ragas itself does not."""

import pytest

from peer_inputs import INPUTS, A, B, Calls, call, case
from toolgrade import CallStatus, Execution, ToolCall
from toolgrade.compat.ragas import ToolCallAccuracy, ToolCallF1
from toolgrade.redact import REDACTED

TWO_THIRDS = pytest.approx(2 / 3)

#: Accuracy, accuracy in any order, F1. In the comments: what ragas 0.4.3 gives where that differs.
TABLE = {
    "both empty": (1, 1, 1),  # F1 0
    "nothing expected": (0, 0, 0),
    "nothing called": (0, 0, 0),
    "an extra call": (0, 0, TWO_THIRDS),
    "reversed": (0, 1, 1),
    "twice and twice": (1, 1, 1),
    "once, called twice": (0, 0, TWO_THIRDS),  # F1 1
    "twice, called once": (0, 0, TWO_THIRDS),  # F1 1
    "1 and 1.0": (1, 1, 1),  # accuracy 0
    "1 and '1'": (0, 0, 0),  # accuracy 1
    "true and 1": (0, 0, 0),  # F1 1
    "case of letters": (0, 0, 0),
    "none and {}": (1, 1, 1),  # an error
    "an extra argument": (1, 1, 0),
    "one leaf of two": (0, 0, 0),
    "order of keys": (1, 1, 1),  # accuracy 0
    "order of a list": (0, 0, 0),
}


def scores(expected: Calls, called: Calls) -> tuple[float | None, ...]:
    """Accuracy, accuracy in any order, and F1."""
    metrics = (ToolCallAccuracy(), ToolCallAccuracy(strict_order=False), ToolCallF1())
    return tuple(metric.measure(case(expected, called)).score for metric in metrics)


@pytest.mark.parametrize("name", INPUTS)
def test_the_table(name: str) -> None:
    """Each metric has the documented score on each input."""
    assert scores(*INPUTS[name]) == TABLE[name]


def test_the_examples_of_the_documentation() -> None:
    """The examples with which ragas explains its metrics hold."""
    paris, london = call("weather", city="Paris"), call("weather", city="London")
    search = call("search", query="python", limit=10, sort="date")

    assert scores([paris, call("translate", text="hello")], [paris, call("translate", text="hello")]) == (1, 1, 1)
    assert scores([search], [call("search", query="python", limit=10, sort="relevance")])[0] == TWO_THIRDS
    assert scores([call("search"), call("filter")], [call("filter"), call("search")])[0] == 0
    assert scores([paris, london], [london, paris]) == (0, 1, 1)
    assert scores([paris, call("uv")], [paris, call("uv"), call("air")])[2] == 0.8
    assert scores([paris], [paris, call("uv")])[2] == TWO_THIRDS


def test_sequences_of_unequal_length_score_0() -> None:
    """As in ragas, whatever they share; its documentation promises a coverage penalty."""
    half = call("b", x=1, y=2)

    assert scores([A, half], [A, B])[:2] == (0.75, 0.75)
    assert scores([A, half, A, A], [A, B])[:2] == (0, 0)
    assert scores([A, B], [A, B, A])[:2] == (0, 0)
    assert scores([A, B, A], [A, B])[:2] == (0, 0)


def test_unaligned_sequences_score_0() -> None:
    """A call of another name makes the accuracy 0, however well the others fit."""
    assert scores([A, B, A], [A, call("c"), A])[:2] == (0, 0)
    assert scores([A, B], [B, A]) == (0, 1, 1)
    assert scores([A, A], [B, A])[:2] == (0, 0)


def test_arguments_beyond_the_expected_ones_are_free_unless_none_are_expected() -> None:
    """Accuracy checks the expected arguments; without any, it requires that none are called."""
    assert scores([call("a", x=1)], [call("a", x=1, y=2, z=3)])[0] == 1
    assert scores([call("a")], [call("a", x=1)])[0] == 0
    assert scores([call("a")], [call("a")])[0] == 1
    assert scores([ToolCall(name="a")], [call("a", x=1)]) == (1, 1, 1)


def test_calls_in_any_order_are_paired_best() -> None:
    """Not in the order of their sorted texts, which gives a worse sum here."""
    expected, called = [call("a", x=1, y=9), call("a", x=2, y=1)], [call("a", x=1, y=1), call("a", x=3, y=9)]

    assert scores(expected, called)[1] == 0.5


def test_f1_counts_the_most_equal_calls() -> None:
    """A call without specified arguments takes what no other can have, whichever is listed first."""
    anything, one = ToolCall(name="a"), call("a", x=1)

    assert scores([anything, one], [call("a", x=1), call("a", x=2)])[2] == 1
    assert scores([one, anything], [call("a", x=2), call("a", x=1)])[2] == 1


def test_redacted_arguments_count_on_neither_side() -> None:
    """Accuracy uses the visible arguments; without any, the call is correct."""
    expected = [call("a", key="k", x=1)]

    assert scores(expected, [call("a", key=REDACTED, x=2)])[0] == 0
    assert scores(expected, [call("a", key=REDACTED, x=1)]) == (1, 1, 1)
    assert scores([call("a", key="k")], [call("a", key=REDACTED, y=1)])[0] == 1


def test_status_of_a_call_does_not_matter() -> None:
    """A failed or waiting call is a call, as in ragas."""
    for status in set(CallStatus) - {CallStatus.INVALID_ARGUMENTS}:  # broken arguments equal no others
        calls_made = ToolCall(name="a", input_parameters={"x": 1}, execution=Execution(status=status))
        assert scores([A], [calls_made]) == (1, 1, 1)


def test_the_reason_shows_the_arithmetic() -> None:
    """The mean and its pairs; or why the sequences do not align."""
    assert str(ToolCallAccuracy().measure(case([call("b", x=1, y=2), A], [B, A])).reason).splitlines() == [
        "accuracy: mean argument accuracy of 2 pairs = 0.75 (passed at 0.5).",
        "'b' (expected #1, called #1): $.input_parameters.y is missing, expected 2.",
    ]
    measured = case([call("b", x=1, y=2), A], [B])
    assert str(ToolCallAccuracy().measure(measured).reason).splitlines() == [
        "accuracy: sequences of 2 expected and 1 called, of different lengths, do not align = 0 (failed at 0.5).",
        "'b' (expected #1, called #1): $.input_parameters.y is missing, expected 2.",
        "Missing: expected #2 'a' was not called.",
    ]
    assert str(ToolCallAccuracy().measure(case([A, B], [B, A])).reason).splitlines()[0] == (
        "accuracy: sequences of 2 expected and 2 called do not align (0 of 2 pairs of equal name) = 0 (failed at 0.5)."
    )
    assert str(ToolCallF1().measure(measured).reason).splitlines()[0] == (
        "f1: 2 x 0 matched / (2 expected + 1 called) = 0 (failed at 0.5)."
    )


def test_strict_mode_asks_for_everything() -> None:
    """The threshold is 1, and a score below it 0."""
    result = ToolCallF1(strict_mode=True).measure(case([A], [A, B]))

    assert (result.score, result.passed, result.threshold) == (0, False, 1)


def test_labels_name_the_options() -> None:
    """The label has the options that differ from the defaults."""
    assert ToolCallAccuracy().label == "ragas.tool_call_accuracy"
    assert ToolCallAccuracy(strict_order=False).label == "ragas.tool_call_accuracy(strict_order=False)"
    assert ToolCallF1(strict_mode=True).label == "ragas.tool_call_f1(strict)"
