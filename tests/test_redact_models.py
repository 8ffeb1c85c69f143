"""Redaction of cases, runs and calls: searched fields and preserved fields."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import assume, given

import strategies
from toolgrade import LLMTestCase, MLLMImage, MLLMTestCase, ToolCall, ToolSpec, calls, cases
from toolgrade._internal.model import Model
from toolgrade.cases import Run
from toolgrade.expect import ContainsAll
from toolgrade.redact import _UNREDACTED_FIELDS, DEFAULT, DEFAULT_KEYS, OFF, REDACTED, Redactor

M = REDACTED
TOKEN = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PLAIN: Any = {"password": "hunter2", "q": f"see {TOKEN}"}
CLEAN: Any = {"password": M, "q": f"see {M}"}


def test_every_text_and_value_of_a_case_is_redacted() -> None:
    """Arguments, outputs, errors, texts and metadata, at every level; what names things stays."""
    name = TOKEN
    execution = {
        "requested_parameters": json.dumps(PLAIN),
        "model_output": str(PLAIN),
        "artifact": [PLAIN],
        "error": f"ValueError: {name}",
        "agent": name,
        "children": [{"name": name, "output": PLAIN}],
    }
    call = {
        "name": name,
        "id": name,
        "input_parameters": PLAIN,
        "output": PLAIN,
        "reasoning": name,
        "execution": execution,
    }
    run = {"input": name, "calls": [call], "run_id": name, "error": name, "warnings": [name], "usage": {"token": 5}}
    run["instructions"] = f"A1 {name}"
    texts = dict.fromkeys(("id", "input", "actual_output", "expected_output"), name)
    case = LLMTestCase(**texts, metadata=PLAIN, tags=[name], expected_tools=[call], tools_called=[call], run=run)

    redacted = DEFAULT.model(case)

    (call_out,) = redacted.tools_called or ()
    assert call_out == (redacted.expected_tools or [])[0] == redacted.run.calls[0]  # type: ignore[union-attr]
    assert (
        call_out.name,
        call_out.id,
        call_out.input_parameters,
        call_out.output,
        call_out.reasoning,
    ) == (
        name,
        name,
        CLEAN,
        CLEAN,
        M,
    )
    assert call_out.execution is not None
    assert call_out.execution.requested_parameters == json.dumps(CLEAN)
    assert call_out.execution.model_output == str(CLEAN)
    assert call_out.execution.artifact == [CLEAN]
    assert (call_out.execution.error, call_out.execution.agent) == (f"ValueError: {M}", name)
    assert call_out.execution.children == [ToolCall(name=name, output=CLEAN)]
    assert (redacted.id, redacted.input, redacted.actual_output, redacted.expected_output) == (name, M, M, M)
    assert (redacted.metadata, redacted.tags) == (CLEAN, [M])
    assert redacted.run is not None
    assert (redacted.run.input, redacted.run.error, redacted.run.warnings) == (M, M, [M])
    assert (redacted.run.run_id, redacted.run.usage, redacted.run.instructions) == (name, {"token": 5}, f"A1 {M}")
    assert case.tools_called == [ToolCall(**call)]


def test_images_and_their_texts_are_redacted() -> None:
    """Texts and addresses; the bytes of an image stay what they are."""
    case = MLLMTestCase(input=["see", TOKEN, MLLMImage(url="https://u:p@h/i.png"), MLLMImage(data=b"\x00sk")])

    assert DEFAULT.model(case).input == ["see", M, MLLMImage(url=f"https://u:{M}@h/i.png"), MLLMImage(data=b"\x00sk")]


def test_images_of_a_recorded_input_are_redacted_as_those_of_a_case() -> None:
    """Texts and addresses of the input; positions of failed handoffs stay, whatever a hook returns."""
    image = MLLMImage(data=b"\x00sk")
    run = Run(input=TOKEN, input_parts=["see", TOKEN, MLLMImage(url="https://u:p@h/i.png"), image])

    redacted = DEFAULT.model(run)

    assert redacted.input_parts == ["see", M, MLLMImage(url=f"https://u:{M}@h/i.png"), image]
    assert DEFAULT.model(Run(input_parts=["see", image])).input_parts == ["see", image]
    shifted = Redactor(hook=lambda _, value: 7 if value == 0 else value).model(Run(failed_handoffs=[0]))
    assert shifted.failed_handoffs == [0]


def test_a_schema_names_arguments() -> None:
    """In it `password` is the name of an argument, not a password; but a token in an example is a token."""
    schema = {"properties": {"password": {"type": "string", "examples": [TOKEN]}}}
    spec = DEFAULT.model(ToolSpec(name="log_in", description=f"with {TOKEN}", input_schema=schema))

    assert spec.input_schema == {"properties": {"password": {"type": "string", "examples": [M]}}}
    assert spec.description == f"with {M}"


@given(strategies.case_fields.map(lambda fields: LLMTestCase(**fields)) | strategies.calls)
def test_a_model_with_nothing_to_hide_stays(model: Model) -> None:
    """Equal, with the same fields set, in every object inside; the original is not changed either way."""
    text = re.sub(r"[\W_]", "", model.to_json()).lower()
    assume(not any(key.replace("_", "") in text for key in DEFAULT_KEYS))  # Hypothesis finds them in the source
    assert DEFAULT.model(model) == model
    assert DEFAULT.model(model).to_json() == model.to_json()


def test_a_redacted_model_has_the_same_fields_set() -> None:
    """A field that was never set is not set by hiding another."""
    call = DEFAULT.model(ToolCall(name="t", input_parameters=PLAIN, execution={"error": TOKEN}))

    assert call.model_fields_set == {"name", "input_parameters", "execution"}
    assert call.execution is not None
    assert call.execution.model_fields_set == {"error"}
    assert DEFAULT.model(call) is call


def test_paths_of_models_begin_at_the_field() -> None:
    """So that a hook can distinguish arguments from outputs."""
    visited: list[Any] = []
    redactor = Redactor(hook=lambda path, value: visited.append(path) or value)  # type: ignore[func-returns-value]
    redactor.model(LLMTestCase(tools_called=[ToolCall(name="t", input_parameters={"ssn": 5})]))

    assert visited == [("tools_called", 0, "input_parameters", "ssn")]


def test_every_preserved_field_exists() -> None:
    """The list has no outdated name."""
    models = [
        item
        for module in (cases, calls)
        for item in vars(module).values()
        if isinstance(item, type(Model)) and issubclass(item, Model)  # Python 3.10 takes `dict[str, int]` for a class
    ]

    assert {name for model in models for name in model.model_fields} >= _UNREDACTED_FIELDS
    assert Run in models


def test_a_matcher_of_the_answer_holds_no_secret() -> None:
    """A matcher with a secret becomes its redacted JSON text; others stay matchers."""
    token = "sk-live0123456789abcdefghijklmnop"
    case = LLMTestCase(expected_output=ContainsAll("a", f"x {token}"), required_texts=[token], agent_texts=[token])
    redacted = DEFAULT.model(case)
    harmless = LLMTestCase(expected_output=ContainsAll("a"))

    assert token not in redacted.to_json()
    assert '"$is": "contains_all"' in str(redacted.expected_output)
    assert LLMTestCase.from_json(redacted.to_json()) == redacted
    assert DEFAULT.model(harmless) is harmless
    assert OFF.model(case) is case
