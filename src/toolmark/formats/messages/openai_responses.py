"""What do the items of OpenAI's Responses API say about calls?

An item is one entry of `Response.output`, or of the `input` that a program sends back. `read_responses_call` and
`read_responses_answer` read one of them; both take a plain object or the SDK's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

from toolmark._internal.json import json_text, short_repr
from toolmark.calls import ToolCallType, ToolSpec
from toolmark.capture import Request
from toolmark.errors import InvalidDataError
from toolmark.formats.messages.detect import sign_of
from toolmark.formats.messages.field_readers import arguments_of, as_object, output_of, plain, read_text
from toolmark.formats.messages.offered_tools import offered_tools
from toolmark.formats.messages.transcript import Answer, Entry, Telling
from toolmark.matching.json_compare import ABSENT

__all__ = ["Answer", "read_responses_answer", "read_responses_call"]

_Fields: TypeAlias = Mapping[str, object]

_UNFINISHED = frozenset({"queued", "in_progress", "searching", "interpreting", "generating", "calling"})
_FAILED = frozenset({"failed", "incomplete", "cancelled"})

_SILENT = frozenset({"reasoning", "tool_search_call", "tool_search_output", "configuration_update"})
_ELSEWHERE = frozenset({"item_reference", "compaction", "compaction_trigger"})
_TOOL_LISTS = frozenset({"mcp_list_tools", "additional_tools"})

_NO_CALLS = frozenset({"tool_search_call"})
"""Types that end like a call's: the model looked for tools, and used none."""


def read_responses_call(item: object) -> Request | None:
    """Return the call that an item asks for or reports, `None` if it is none.

    Names: functions, custom tools and MCP tools have their own; the provider's tools are `web_search`, `file_search`,
    `code_interpreter`, `image_generation`, `computer_use_preview`, `local_shell`, `shell`, `apply_patch` and `program`.
    Any other type that ends in `_call` is a call of the name before that, with the item's own fields as arguments. A
    search for tools (`tool_search_call`) is no call of a tool. A namespace stands in `server`, where it is not the name
    of the tool itself.

    What the provider ran has its `result` or `failure` at once. A status of `failed`, `incomplete` or `cancelled` is a
    failure, whatever else the item holds; while it is under way there is neither.

    Args:
        item: The item; anything that is no object, or names no type, is no call.
    """
    fields = as_object(item)
    kind = None if fields is None else fields.get("type")
    if fields is None or not isinstance(kind, str) or kind in _NO_CALLS:
        return None
    read = _CALLS.get(kind) or (_unknown_call if kind.endswith("_call") else None)
    if read is None:
        return None
    caller = as_object(fields.get("caller"))
    return replace(read(fields), caller=_text(caller.get("caller_id")) if caller is not None else None)


def read_responses_answer(item: object) -> Answer | None:
    """Return what an item answers to a call, `None` if it answers none.

    These are the types that end in `_call_output`, `program_output`, and `mcp_approval_response`. What the provider ran
    itself answers in the item of the call, which `read_responses_call` reads.

    Args:
        item: The item; anything that is no object, or names no type, is no answer.
    """
    fields = as_object(item)
    kind = None if fields is None else fields.get("type")
    if fields is None or not isinstance(kind, str):
        return None
    if kind == "mcp_approval_response":
        approved = fields.get("approve") is True
        content = _text(fields.get("reason")) or ABSENT
        return Answer(_text(fields.get("approval_request_id")), None, content, failed=not approved, approved=approved)
    if kind != "program_output" and not kind.endswith("_call_output"):
        return None
    given = fields.get("result" if kind == "program_output" else "output")
    content = ABSENT if given is None else output_of(given)
    failed = fields.get("status") in _FAILED
    return Answer(
        _text(fields.get("call_id")) or (_text(fields.get("id")) if kind == "local_shell_call_output" else None),
        _text(fields.get("name")),
        content,
        failed=failed,
        error=_failure_text(content, fields) if failed else None,
    )


def tell_items(items: Iterable[Entry], telling: Telling) -> None:
    """Tell what items say; what is wrong goes into the notes, with its path.

    Items of the model that stand together are one message: a list does not show where a response ends.
    """
    message = _Message(telling)
    for path, item in items:
        fields = as_object(item)
        if fields is None:
            telling.notes.problem(path, f"expected an item (an object with a role or a type), got {short_repr(item)}")
        else:
            _tell_item(fields, path, message)
    message.end()


class _Message:
    """The items of the model that stand together."""

    def __init__(self, telling: Telling) -> None:
        self.telling = telling
        self.hosted: set[str | None] = set()
        """Ids of the calls whose tools the provider runs."""
        self._parts: list[str | Request] = []
        self._approvals: list[str] = []

    def add(self, part: str | Request, *, for_approval: bool = False) -> None:
        """One more item of the message."""
        self._parts.append(part)
        if isinstance(part, Request) and part.type is ToolCallType.HOSTED:
            self.hosted.add(part.id)
        if isinstance(part, Request) and part.id and for_approval:
            self._approvals.append(part.id)

    def end(self) -> None:
        """Something else comes next."""
        if self._parts:
            self.telling.model(self._parts, approvals=self._approvals)
        self._parts, self._approvals = [], []


def _tell_item(fields: _Fields, path: str, message: _Message) -> None:
    notes, kind, role = message.telling.notes, fields.get("type"), fields.get("role")
    sign, request, answer = sign_of(fields), read_responses_call(fields), read_responses_answer(fields)
    if sign is not None and sign.sure and sign.format != "openai-responses":
        notes.problem(path, f"expected an item of OpenAI's Responses API; this looks like {sign.phrase}")
    elif request is not None:
        if not request.name:
            notes.problem(f"{path}.name", f"a call needs the name of its tool, got {short_repr(fields.get('name'))}")
            return
        if kind not in _CALLS:
            notes.warn(path, f"the type {kind!r} is not known; it was read as a call of {request.name!r}")
        message.add(replace(request, source=path), for_approval=kind == "mcp_approval_request")
    elif answer is not None:
        message.end()
        message.telling.answer(replace(answer, ran=answer.call_id in message.hosted), path)
    elif role is not None and kind in (None, "message"):
        _tell_message(fields, path, message)
    elif kind in _TOOL_LISTS:
        server = _text(fields.get("server_label"))
        message.telling.offered(_listed(fields.get("tools"), server, path, message), all_known=False)
    elif kind in _ELSEWHERE:
        notes.warn(path, f"{kind!r} stands for items that are not here; calls among them are not in the record")
    elif kind not in _SILENT:
        told = f"the type {short_repr(kind)} is not known" if kind is not None else "it has neither a role nor a type"
        notes.warn(path, f"{told}; the item was left out")


def _tell_message(fields: _Fields, path: str, message: _Message) -> None:
    role, notes = fields.get("role"), message.telling.notes
    if role in ("system", "developer"):
        return
    if role not in ("user", "assistant"):
        notes.problem(f"{path}.role", f"expected one of user, assistant, system, developer, got {short_repr(role)}")
        return
    text = read_text(fields.get("content"), f"{path}.content", notes)
    if role == "assistant":
        message.add(text or "")
    elif text is not None:
        message.end()
        message.telling.user(text)


def _listed(tools: object, server: str | None, path: str, message: _Message) -> list[ToolSpec]:
    if not isinstance(tools, (list, tuple)):
        message.telling.notes.problem(f"{path}.tools", f"expected a list of tools, got {short_repr(tools)}")
        return []
    specs, _ = offered_tools("openai-responses", tools)
    return specs if server is None else [spec.model_copy(update={"type": ToolCallType.MCP}) for spec in specs]


def _function_call(fields: _Fields) -> Request:
    return _asked(fields, fields.get("arguments"), id=fields.get("call_id"), type=ToolCallType.FUNCTION)


def _asked(
    fields: _Fields, arguments: object, *, id: object, type: ToolCallType | None = None, server: object = None
) -> Request:
    """Return a request by name, whose arguments are an object or the text of one."""
    name, group = _text(fields.get("name")) or "", _text(server or fields.get("namespace"))
    read: object = arguments
    reason = None
    with suppress(InvalidDataError):  # too deep to be kept: the builder says so, and keeps the call
        read, reason = arguments_of(arguments)
    return Request(
        name,
        read if reason is None else arguments,
        _text(id),
        type,
        None if group == name and server is None else group,  # a tool that is loaded late is its own namespace
        error=reason,
    )


def _custom_call(fields: _Fields) -> Request:
    given = {} if fields.get("input") is None else {"input": fields["input"]}
    return _asked(fields, given, id=fields.get("call_id"), type=ToolCallType.CUSTOM)


def _computer_call(fields: _Fields) -> Request:
    actions = fields.get("actions")
    given = _object(fields.get("action")) if actions is None else {"actions": plain(actions)}
    return Request("computer_use_preview", given, _text(fields.get("call_id")), ToolCallType.FUNCTION)


def _local_shell_call(fields: _Fields) -> Request:
    call_id = _text(fields.get("call_id")) or _text(fields.get("id"))
    return Request("local_shell", _object(fields.get("action")), call_id, ToolCallType.FUNCTION)


def _shell_call(fields: _Fields) -> Request:
    where = _object(fields.get("environment")).get("type", "local")
    kind = ToolCallType.FUNCTION if where == "local" else ToolCallType.HOSTED
    return Request("shell", _object(fields.get("action")), _text(fields.get("call_id")), kind)


def _apply_patch_call(fields: _Fields) -> Request:
    call_id = _text(fields.get("call_id"))
    return Request("apply_patch", _object(fields.get("operation")), call_id, ToolCallType.FUNCTION)


def _program(fields: _Fields) -> Request:
    return Request("program", _some(fields, "code"), _text(fields.get("call_id")), ToolCallType.HOSTED)


def _web_search_call(fields: _Fields) -> Request:
    action = _object(fields.get("action"))
    sources = action.pop("sources", None)
    return _hosted("web_search", action, sources, fields)


def _file_search_call(fields: _Fields) -> Request:
    return _hosted("file_search", _some(fields, "queries"), fields.get("results"), fields)


def _code_interpreter_call(fields: _Fields) -> Request:
    return _hosted("code_interpreter", _some(fields, "code"), fields.get("outputs"), fields)


def _image_generation_call(fields: _Fields) -> Request:
    asked = _some(fields, "action", "revised_prompt", "background", "output_format", "quality", "size")
    return _hosted("image_generation", asked, fields.get("result"), fields)


def _hosted(name: str, arguments: dict[str, Any], result: object, fields: _Fields) -> Request:
    request = Request(name, arguments, _text(fields.get("id")), ToolCallType.HOSTED)
    return _with_result(request, result, fields)


def _mcp_call(fields: _Fields) -> Request:
    request = _mcp_request(fields)
    output = fields.get("output")
    request = replace(request, replaces=_text(fields.get("approval_request_id")))
    return _with_result(request, None if output is None else output_of(output), fields)


def _mcp_request(fields: _Fields) -> Request:
    server, call_id = fields.get("server_label"), fields.get("id")
    return _asked(fields, fields.get("arguments"), id=call_id, type=ToolCallType.MCP, server=server)


def _unknown_call(fields: _Fields) -> Request:
    """Read a call of a type that came later than this reader: nothing of it is lost."""
    about = ("type", "id", "call_id", "name", "status", "arguments", "caller", "created_by", "error")
    outputs = ("output", "outputs", "result", "results")
    call_id, kind = _text(fields.get("call_id")), str(fields["type"])
    given = fields.get("arguments")
    if given is None:
        given = {key: value for key, value in fields.items() if key not in (*about, *outputs)}
    named = {"name": _text(fields.get("name")) or kind.removesuffix("_call")}
    if call_id:
        return _asked(named, given, id=call_id)
    result = next((fields[key] for key in outputs if fields.get(key) is not None), None)
    return _with_result(_asked(named, given, id=fields.get("id"), type=ToolCallType.HOSTED), result, fields)


def _with_result(request: Request, result: object, fields: _Fields) -> Request:
    """Return a request with what became of it, as the item of a provider-run tool says."""
    status, error = fields.get("status"), fields.get("error")
    content = ABSENT if result is None else plain(result)
    if status in _FAILED or error:
        return replace(request, ran=True, failure=_failure_text(content, fields))
    return request if status in _UNFINISHED else replace(request, ran=True, result=content)


def _failure_text(content: object, fields: _Fields) -> str:
    """Return the error of a call that failed: its own, else what it printed, else its status."""
    error = fields.get("error")
    known = as_object(error)
    if known is not None:
        error = _text(known.get("message")) or (output_of(known.get("content")) if known.get("content") else known)
    if error:
        return error if isinstance(error, str) else json_text(plain(error))
    if isinstance(content, list):
        chunks = [as_object(chunk) or {} for chunk in content]
        content = "\n".join(str(chunk[key]) for chunk in chunks for key in ("stdout", "stderr") if chunk.get(key))
    return content if isinstance(content, str) and content else f"status: {fields.get('status')}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _object(value: object) -> dict[str, Any]:
    """Return an object without its nulls, which the SDK's objects have for every field that was not given."""
    return {key: plain(item) for key, item in (as_object(value) or {}).items() if item is not None}


def _some(fields: _Fields, *keys: str) -> dict[str, Any]:
    return {key: plain(fields[key]) for key in keys if fields.get(key) is not None}


_CALLS: dict[str, Callable[[_Fields], Request]] = {
    "function_call": _function_call,
    "custom_tool_call": _custom_call,
    "computer_call": _computer_call,
    "local_shell_call": _local_shell_call,
    "shell_call": _shell_call,
    "apply_patch_call": _apply_patch_call,
    "program": _program,
    "web_search_call": _web_search_call,
    "file_search_call": _file_search_call,
    "code_interpreter_call": _code_interpreter_call,
    "image_generation_call": _image_generation_call,
    "mcp_call": _mcp_call,
    "mcp_approval_request": _mcp_request,
}
