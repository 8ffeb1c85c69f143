"""Forms of replies: what may stand around the object is left out, and nothing inside of it is guessed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade.errors import JudgeError, JudgeOutcome
from toolgrade.judge import Reply
from toolgrade.judge.prompts import parse_reply
from toolgrade.judge.protocol import Decision
from toolgrade.testing import sample_prompt

OBJECT = {"evidence": ["c1"], "reasoning": "It says: ```json </think> {} \\ [1].", "verdict": "no"}
LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
WORDS = st.text(st.characters(exclude_characters="{}<"), max_size=30)
BEGINS = st.sampled_from(["", "<think>", "<THINKING>\n", "First {a: b} then {} fits"])
ENDS = st.sampled_from(["</think>", "</Think>", "</thinking>", "</ think >"])
FENCES = st.sampled_from(
    [("", ""), ("```json", "```"), ("```JSON", "```"), ("~~~", "~~~"), ("````json5", "````"), ("```", "")]
)


@st.composite
def replies(draw: st.DrawFn) -> str:
    """The object with a thought before it, a fence and words around it."""
    end = draw(LINE_ENDS)
    thought = draw(BEGINS) + draw(WORDS) + draw(ENDS) if draw(st.booleans()) else ""
    opening, closing = draw(FENCES)
    plain = {**OBJECT, "reasoning": "It fits."} if thought or opening else OBJECT
    text = json.dumps(plain, indent=draw(st.sampled_from([None, 2]))).replace("\n", end)
    parts = [thought, draw(WORDS), opening, text, closing, draw(WORDS)]
    return draw(st.sampled_from(["", "\ufeff"])) + draw(st.sampled_from(["", " ", end])).join(parts)


@given(replies())
def test_what_stands_around_the_object_is_left_out(text: str) -> None:
    """Whatever the spelling of thoughts, fences and line ends."""
    verdict = parse_reply(sample_prompt(), Reply(text=text))

    assert (verdict.decision, verdict.evidence) == (Decision.NO, ("c1",))


@given(st.text(st.sampled_from('{}[]":,\\ `~\n<>/thinkec1yes'), max_size=60))
def test_a_text_without_the_keys_is_malformed(text: str) -> None:
    """Whatever it is, and nothing else is raised."""
    with pytest.raises(JudgeError) as caught:
        parse_reply(sample_prompt(), Reply(text=text))

    assert caught.value.outcome is JudgeOutcome.MALFORMED


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"verdict": "Yes"}, r"\$\.verdict"),
        ({"verdict": True}, r"\$\.verdict"),
        ({"evidence": None}, r"\$\.evidence"),
        ({"evidence": "c1"}, r"\$\.evidence"),
        ({"evidence": ["[c1]"]}, "which the record did not issue"),
        ({"confidence": 0.9}, "expected the keys"),
    ],
)
def test_the_message_names_the_field(fields: dict[str, object], problem: str) -> None:
    """And no class of the code."""
    with pytest.raises(JudgeError, match=problem) as caught:
        parse_reply(sample_prompt(), Reply(text=json.dumps(OBJECT | fields)))

    assert "_ReplyFields" not in str(caught.value)
