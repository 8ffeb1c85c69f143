"""How does a reply read in OpenAI's Decisions API?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolmark._internal.json import JsonObject, parse_json
from toolmark.errors import ConfigurationError, InvalidDataError
from toolmark.testing.fake_openai.http import ReceivedRequest
from toolmark.testing.fake_openai.replies import Reply, count_tokens

PATH = "/v1/decisions"


def decision(reply: Reply, request: ReceivedRequest) -> JsonObject:
    """Return the body of an answer.

    The reply's text is JSON: by the name of each question, the probabilities of its options, such as
    `{"q1": {"yes": 0.9, "no": 0.1}}`; an option that is not named has 0. Of a question without options it is a number.
    A refusal refuses each question.

    Raises:
        ConfigurationError: The text says nothing about a question.
    """
    if reply.failure is not None:
        return {"error": {"message": reply.failure, "type": "server_error", "param": None, "code": None}}
    told: Any = {}
    if reply.refusal is None:
        try:
            told = parse_json(reply.text or "")
        except InvalidDataError as error:
            raise ConfigurationError(f"the text of a reply to {PATH} must be JSON: {error}") from None
    questions = request.body.get("questions")
    answers = [_answer(question, told) for question in (questions if isinstance(questions, list) else [])]
    asked, answered = reply.usage or (count_tokens(request.text), len(answers))
    usage = {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + answered,
    }
    return {"model": request.model, "answers": answers, "usage": usage}


def _answer(question: Mapping[str, Any], told: Mapping[str, Any]) -> JsonObject:
    name = f"{question.get('name')}"
    if not told:
        return {"type": "refusal", "name": name}
    if name not in told:
        raise ConfigurationError(f"the reply says nothing about the question {name!r}, only about {sorted(told)}")
    shares = told[name]
    if question.get("type") == "predicate":
        return {"type": "predicate", "name": name, "probability": shares}
    options = [choice["value"] for choice in question.get("choices", [])]
    listed = [{"value": option, "probability": shares.get(option, 0.0)} for option in options]
    best = max(listed, key=lambda entry: entry["probability"])
    confidence = best["probability"]
    return {"type": "choice", "name": name, "choice": best["value"], "confidence": confidence, "probabilities": listed}
