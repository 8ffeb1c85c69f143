"""Shorthand to feed a `RunBuilder` and to write the expected calls."""

from typing import Any

from toolgrade.capture import Request, RunBuilder

Plain = dict[str, Any]


def call(
    name: str, arguments: Plain | None = None, call_id: str | None = "c1", *, output: object = None, **execution: object
) -> Plain:
    """A recorded call as plain values; it ran once without an error, unless `execution` says otherwise."""
    how: Plain = {"status": "ok", "executed": True, "attempts": 1, "origin": "model", "children": []}
    how |= {"not_captured": [], **({"step": 0} if execution.get("origin") != "code" else {}), **execution}
    fields: Plain = {"name": name, "input_parameters": arguments or {}, "execution": how}
    fields |= {} if output is None else {"output": output}
    return fields if call_id is None else {**fields, "id": call_id}


def unrun(name: str, status: str, arguments: Plain | None = None, call_id: str | None = "c1", **more: object) -> Plain:
    """A recorded call whose tool was not seen to run."""
    return call(name, arguments, call_id, status=status, executed=False, **more)


def calls(builder: RunBuilder) -> list[Plain]:
    """The calls of the run as plain values."""
    return builder.build().to_dict()["calls"]  # type: ignore[no-any-return]


def builder_of(*requests: Request, offered: tuple[str, ...] = ()) -> RunBuilder:
    """Return a builder whose model requested these calls."""
    builder = RunBuilder()
    builder.started("hi")
    builder.offered({"name": name} for name in offered)
    builder.model_asked(requests)
    return builder


def ran(builder: RunBuilder, key: str, name: str, arguments: Plain, output: object, **more: Any) -> None:
    """A tool started and returned."""
    builder.tool_started(key, name, arguments, **more)
    builder.tool_ended(key, output)


def slow(x: int, call_id: str | None) -> Request:
    """A request for the tool `slow`."""
    return Request("slow", {"x": x}, call_id)
