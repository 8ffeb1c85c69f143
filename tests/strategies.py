"""What the property tests draw, and a pool of awkward values.

Small pools on purpose: laws about equality say little when no two drawn values are ever equal.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from toolgrade import CallStatus, ToolCall, ToolCallType
from toolgrade.calls import CallOrigin
from toolgrade.matching.alignment import CallItem
from toolgrade.matching.json_compare import ABSENT

#: For laws that are checked on many kinds of things: a quarter of the examples each.
few = settings(max_examples=max(settings.default.max_examples // 4, 10))

NAN = float("nan")
INFINITY = float("inf")

#: Values that are equal in Python and not in JSON, or in JSON and not as text, or that are hard to write.
AWKWARD: tuple[Any, ...] = (
    *(None, False, True, 0, 1, -1, 0.0, -0.0, 1.0, 1.5, NAN, INFINITY, -INFINITY),
    *(2**53, 2**53 + 1, float(2**53), 10**30, 1e30, 5e-324),
    *("", "1", "1.0", "true", "null", "NaN", '"1"', "[1]", '{"a": 1}', " 1"),
    *("é", "e\u0301", "\x1b[31m", "\u202e", "\0"),
)

# JSON values


def json_values(scalars: Iterable[Any] | None = None, max_leaves: int = 6) -> st.SearchStrategy[Any]:
    """Any JSON value, or one whose scalars come from a pool."""
    leaves: st.SearchStrategy[Any] = (
        st.sampled_from(AWKWARD) | st.integers() | st.floats() | st.text(max_size=4)
        if scalars is None
        else st.sampled_from(tuple(scalars))
    )
    keys = st.text(max_size=3) if scalars is None else st.sampled_from(("a", "b", "c"))
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=max_leaves,
    )


#: Values with frequent equal pairs.
twins = json_values((None, True, 1, 1.0, 2, "1", NAN), max_leaves=4)


def objects(scalars: Iterable[Any], *, levels: int = 0, max_size: int = 3) -> st.SearchStrategy[dict[str, Any]]:
    """Draw argument objects with few keys and values, nested up to this many levels."""
    values: st.SearchStrategy[Any] = st.sampled_from(tuple(scalars))
    for _ in range(levels):
        values = values | st.dictionaries(st.sampled_from(("a", "b")), values, max_size=2)
    return st.dictionaries(st.sampled_from(("a", "b", "c")), values, max_size=max_size)


flat_objects = objects((1, 2, True, "1"))
nested_objects = objects((1, 1.0, True, "1", None), levels=2)


def finite_json_values(max_leaves: int = 6) -> st.SearchStrategy[Any]:
    """Draw JSON values without NaN and infinities, as in files."""
    scalars = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=4)
        | st.sampled_from([value for value in AWKWARD if value == value and value not in {INFINITY, -INFINITY}])  # noqa: PLR0124
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=max_leaves,
    )


finite_objects = st.dictionaries(st.text(max_size=3), finite_json_values(), max_size=3)

# Values that need conversion to JSON

_keys = st.text(max_size=3) | st.integers(0, 9) | st.booleans() | st.none() | st.tuples(st.integers(0, 2))
python_values = st.recursive(
    st.sampled_from(AWKWARD)
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.dates()
    | st.datetimes()
    | st.times()
    | st.sampled_from(CallStatus)
    | st.fractions(max_denominator=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(_keys, inner, max_size=3)
        | st.frozensets(st.integers() | st.text(max_size=2) | st.dates(), max_size=3)
    ),
    max_leaves=6,
)

# Calls as the algorithms see them

_arguments = objects((0, 1), max_size=2) | st.sampled_from(
    ({}, {"a": {"x": 0, "y": 0}}, {"a": {"x": 0, "y": 1}}, {"a": {"x": 1, "y": 1}, "b": 0}, {"a": True}, {"a": 0.0})
)
_outputs = st.sampled_from((None, 1, 1.0, "1", "1.0", '"1"', "null", [1], "[1]", "[1.0]", True))
_broken = st.sampled_from(("", "{a: 1", "{"))
"""Argument texts that are not JSON objects."""
_names = st.sampled_from(("look_up", "look_up", "book"))
_turns = st.sampled_from((None, None, 1, 2))

expected_items = st.builds(
    CallItem,
    _names,
    st.sampled_from((None, None, "function", "mcp")),
    st.just(ABSENT) | _arguments | _broken,
    st.just(ABSENT) | _outputs,
    _turns,
)
called_items = st.builds(
    CallItem,
    _names,
    st.sampled_from((None, "function", "mcp", ABSENT)),
    _arguments | st.just(ABSENT) | _broken,
    _outputs | st.just(ABSENT),
    _turns,
)
#: Calls with every field set, usable on either side.
full_items = st.builds(
    CallItem, _names, st.sampled_from(("function", "mcp")), _arguments | _broken, _outputs, st.just(1)
)
#: Calls whose outputs are texts, some in the JSON form of others.
text_items = st.builds(
    CallItem,
    st.just("look_up"),
    st.none(),
    st.just({}),
    st.sampled_from(("1", '"1"', ' "1"', '"\\"1\\""', "[1]", "[1.0]", "1 a")),
    st.none(),
)
#: Calls of one tool that differ in their arguments only.
argument_items = st.builds(CallItem, st.just("look_up"), st.none(), _arguments, st.just(ABSENT), st.none())


def sides(
    expected: st.SearchStrategy[CallItem] = expected_items,
    called: st.SearchStrategy[CallItem] = called_items,
    size: int = 5,
) -> st.SearchStrategy[tuple[list[CallItem], list[CallItem]]]:
    """Expected and called tools, at most `size` of each."""
    return st.tuples(st.lists(expected, max_size=size), st.lists(called, max_size=size))


# Calls as people write them

_UNSET = object()


def fields(
    always: dict[str, st.SearchStrategy[Any]], sometimes: dict[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[dict[str, Any]]:
    """Keyword arguments: some always given, of the others about half."""
    unset = st.just(_UNSET)
    return st.fixed_dictionaries({**always, **{name: unset | values for name, values in sometimes.items()}}).map(
        lambda chosen: {name: value for name, value in chosen.items() if value is not _UNSET}
    )


_zones = st.none() | st.just(datetime.timezone.utc) | st.just(datetime.timezone(datetime.timedelta(hours=-3)))
_moments = st.datetimes(timezones=_zones).map(lambda moment: moment.replace(fold=0))  # ISO text knows no fold
_texts = st.none() | st.text(max_size=5)
_seconds = st.none() | st.floats(0, 1e6)

_execution_fields: dict[str, st.SearchStrategy[Any]] = {
    "status": st.sampled_from(CallStatus),
    "executed": st.booleans(),
    "error": _texts,
    "attempts": st.integers(0, 3),
    "replayed": st.booleans(),
    "requested_parameters": finite_json_values(),
    "model_output": finite_json_values(),
    "artifact": finite_json_values(),
    "agent": _texts,
    "server": _texts,
    "step": st.none() | st.integers(0, 3),
    "origin": st.sampled_from(CallOrigin),
    "started_at": st.none() | _moments,
    "duration": _seconds,
    "not_captured": st.lists(st.sampled_from(("input_parameters", "output", "type")), max_size=2),
    "source": _texts,
}


def call_fields(levels: int = 1) -> st.SearchStrategy[dict[str, Any]]:
    """Draw keyword arguments of a `ToolCall` with any fields set, with child calls up to this many levels."""
    execution = dict(_execution_fields)
    if levels:
        execution["children"] = st.lists(call_fields(levels - 1), min_size=1, max_size=2)
    return fields(
        {"name": st.text(min_size=1, max_size=4)},
        {
            "type": st.none() | st.sampled_from(ToolCallType),
            "description": _texts,
            "reasoning": _texts,
            "input_parameters": finite_objects | st.none(),
            "output": finite_json_values(),
            "id": _texts,
            "turn": st.none() | st.integers(1, 3),
            "execution": fields({}, execution) | st.none(),
        },
    )


calls = call_fields().map(lambda chosen: ToolCall(**chosen))


def _few(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw None, no items, or mostly one or two."""
    return st.lists(items, min_size=1, max_size=2) | st.sampled_from((None, []))


_spec_fields = fields(
    {"name": st.text(min_size=1, max_size=4)},
    {
        "description": st.text(max_size=5),
        "input_schema": finite_objects,
        "type": st.sampled_from([kind.value for kind in ToolCallType]),
    },
)
_case_fields: dict[str, st.SearchStrategy[Any]] = {
    "id": _texts,
    "name": _texts,
    "available_tools": _few(_spec_fields),
    "tags": st.lists(st.text(max_size=3), max_size=2),
    "metadata": finite_objects,
}
_call_lists = _few(call_fields(0))
_text_lists = st.lists(st.text(max_size=3), max_size=2)
_stated: dict[str, st.SearchStrategy[Any]] = {
    "required_texts": _text_lists,
    "ends": st.sampled_from(["ok", "interrupted", "any"]),
}
_recorded = {"agent_texts": st.none() | _text_lists, "ended": st.sampled_from((None, True, False))}
_run_fields: dict[str, st.SearchStrategy[Any]] = {
    "input": _texts,
    "actual_output": _texts,
    "agent_texts": _text_lists,
    "calls": st.lists(call_fields(0), min_size=1, max_size=2),
    "handoffs": st.lists(
        fields({}, {"call": st.none() | st.integers(0, 2), "from_agent": _texts, "to_agent": _texts}),
        max_size=2,
    ),
    "failed_handoffs": st.lists(st.integers(0, 2), max_size=2),
    "instructions": _texts,
    "available_tools": _case_fields["available_tools"],
    "status": st.sampled_from(("ok", "error", "interrupted", "stopped")),
    "error": _texts,
    "models": st.lists(st.text(max_size=3), max_size=2),
    "usage": st.none() | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    "conversation_id": _texts,
    "run_id": _texts,
    "tags": _case_fields["tags"],
    "metadata": finite_objects,
    "started_at": st.none() | _moments,
    "duration": _seconds,
    "warnings": st.lists(st.text(max_size=3), max_size=2),
}
run_fields = fields({}, _run_fields)
case_fields = fields(
    {},
    {
        **_case_fields,
        "input": _texts,
        "actual_output": _texts,
        "expected_output": _texts,
        **_stated,
        **_recorded,
        "tools_called": _call_lists,
        "expected_tools": _call_lists,
        "run": run_fields | st.none(),
    },
)
_of_users: dict[str, st.SearchStrategy[Any]] = {"expected_tools": _call_lists, "required_texts": _text_lists}
conversation_fields = fields(
    {
        "turns": st.lists(
            fields(
                {"role": st.just("assistant"), "content": st.text(max_size=4)},
                {"tools_called": _call_lists, "metadata": finite_objects},
            )
            | fields(
                {"role": st.just("user"), "content": st.text(max_size=4)}, {**_of_users, "metadata": finite_objects}
            ),
            max_size=2,
        )
    },
    {
        **_case_fields,
        **_stated,
        "expected_tools": _call_lists,
        "expected_output": _texts,
        "user_error": _texts,
        "instructions": _texts,
    },
)
_user_turns = st.text(max_size=4) | fields({"content": st.text(max_size=4)}, _of_users)
_answers = st.sampled_from(({"approve": True}, {"reject": ""}, {"reject": "why"})).map(dict)
_askers: dict[str, st.SearchStrategy[Any]] = {
    "input": st.text(max_size=4),
    "turns": st.builds(lambda first, more: [first, *more], _user_turns, st.lists(_user_turns | _answers, max_size=2)),
    "user": fields(
        {"goal": st.text(min_size=1, max_size=4)},
        {"facts": finite_objects, "stop": _texts, "max_turns": st.integers(1, 3)},
    ),
}
_golden_fields: dict[str, st.SearchStrategy[Any]] = {
    **{name: _case_fields[name] for name in ("id", "available_tools", "tags", "metadata")},
    "expected_tools": _call_lists,
    "expected_output": _texts,
    **_stated,
}
golden_fields = st.one_of([fields({name: asker}, _golden_fields) for name, asker in _askers.items()])
_images = st.one_of(
    fields({"url": st.text(max_size=4)}, {"mime_type": _texts}),
    fields({"path": st.text(max_size=4)}, {}),
    fields({"data": st.binary(max_size=4)}, {"path": st.none()}),
)
_parts = _texts | st.lists(st.text(max_size=4) | _images, max_size=2)
image_case_fields = fields(
    {},
    {
        **_case_fields,
        "input": _parts,
        "actual_output": _parts,
        "expected_output": _parts,
        **_stated,
        **_recorded,
        "tools_called": _call_lists,
        "expected_tools": _call_lists,
    },
)
