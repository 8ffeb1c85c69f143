"""`toolgrade approve`: which cases become goldens, without secrets, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from command_runner import RUNNER
from toolgrade import (
    Approve,
    ConversationalTestCase,
    Golden,
    LLMTestCase,
    Run,
    ToolCall,
    ToolCorrectnessMetric,
    Turn,
    UserTurn,
    evaluate,
    write_cases,
)
from toolgrade.cases import RunStatus
from toolgrade.cli.main import main
from toolgrade.dataset import ANSWERS

SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
GOOD = Run(
    input=f"Log in with {SECRET}.",
    run_id="r1",
    calls=[
        ToolCall(name="login", input_parameters={"password": "hunter2", "user": "ann"}, output={"ok": True}, id="c1"),
        ToolCall(name="read"),
    ],
    tags=["smoke"],
)


def approve(folder: Path, *cases: LLMTestCase | ConversationalTestCase) -> tuple[Result, list[dict[str, Any]] | None]:
    """Return the command's output for these cases and the goldens it wrote."""
    write_cases(folder / "runs.jsonl", cases)
    out = folder / "goldens.jsonl"
    done = RUNNER.invoke(main, ["approve", str(folder / "runs.jsonl"), "--out", str(out)])
    return done, [json.loads(line) for line in out.read_text("utf-8").splitlines()] if out.exists() else None


def test_called_tools_become_expected_tools(tmp_path: Path) -> None:
    """Names and arguments, without answers, ids and secrets; earlier expectations are ignored."""
    done, goldens = approve(tmp_path, GOOD.to_test_case(id="r1", expected_tools=[ToolCall(name="other")]))

    assert done.exit_code == 0
    assert "1 golden written" in done.stderr
    assert goldens == [
        {
            "input": "Log in with [redacted by toolgrade].",
            "id": "r1",
            "expected_tools": {
                "plan": [
                    {"expect": "login", "input_parameters": {"password": {"$is": "ignore"}, "user": "ann"}},
                    {"name": "read", "input_parameters": {}},
                ]
            },
            "tags": ["smoke"],
        }
    ]


@pytest.mark.parametrize(
    ("execution", "reason"),
    [
        (
            {"status": "invalid_arguments", "requested_parameters": "{a: "},
            "the arguments of called #2 'f' are not a JSON object",
        ),
        ({"not_captured": ["input_parameters"]}, "the arguments of called #2 'f' were not recorded"),
    ],
)
def test_a_case_without_known_arguments_is_left_out(tmp_path: Path, execution: Any, reason: str) -> None:
    """Its golden could only accept any arguments."""
    calls = [ToolCall(name="e"), ToolCall(name="f", execution=execution)]
    done, goldens = approve(tmp_path, LLMTestCase(id="a", input="x", tools_called=calls))

    assert (done.exit_code, goldens) == (2, None)
    assert done.stderr.splitlines() == [f"left out a: {reason}", "error: no case can be approved; nothing was written"]


def test_what_a_person_should_know_is_noted(tmp_path: Path) -> None:
    """Redacted arguments, also in lists, and calls that failed."""
    execution: Any = {"status": "error", "error": "TimeoutError: 30 s"}
    call = ToolCall(
        name="pay", input_parameters={"to": [{"token": "t0ps3cret", "city": "Rome"}, 1]}, execution=execution
    )
    done, goldens = approve(tmp_path, LLMTestCase(id="a", input="x", tools_called=[call]))

    assert done.stderr.splitlines()[:2] == [
        "note on a: called #1 'pay' failed (error: TimeoutError: 30 s), and is expected all the same",
        "note on a: pay: $.input_parameters.to[0].token is redacted; Ignore() is expected",
    ]
    assert [golden["expected_tools"] for golden in goldens or []] == [
        {"plan": [{"expect": "pay", "input_parameters": {"to": [{"token": {"$is": "ignore"}, "city": "Rome"}, 1]}}]}
    ]


def case(name: str | None, order: int, question: str = "Refund it") -> LLMTestCase:
    """Return a case with one call."""
    call = ToolCall(name="refund", input_parameters={"order": order})
    return LLMTestCase(id=name, input=question, tools_called=[call])


def test_equal_runs_are_one_golden(tmp_path: Path) -> None:
    """With the id of the first; also without ids."""
    _, goldens = approve(tmp_path, case("a", 7), case("b", 7), case("a", 7), case(None, 8, "?"), case(None, 8, "?"))

    assert [(golden.get("id"), golden["input"]) for golden in goldens or []] == [("a", "Refund it"), (None, "?")]


def test_conflicting_runs_are_left_out(tmp_path: Path) -> None:
    """All of them: no golden is picked by its position."""
    done, goldens = approve(
        tmp_path, case("a", 7), case("a", 8), case("b", 1), case(None, 1, "?"), case(None, 2, "?"), case("c", 1, "!")
    )

    assert done.exit_code == 1
    assert [golden["id"] for golden in goldens or []] == ["b", "c"]
    assert [line.split(":")[0] for line in done.stderr.splitlines()[:4]] == [
        "left out a",
        "left out a",
        "left out line 4",
        "left out line 5",
    ]
    assert "cases with the same id or input made 2 different lists of calls; approve one" in done.stderr


def test_goldens_with_one_input_are_ambiguous_without_an_id(tmp_path: Path) -> None:
    """A case that fits both is an error that names them."""
    _, goldens = approve(tmp_path, case("a", 7), case("b", 8))
    write_cases(tmp_path / "next.jsonl", [case("c", 7), case("b", 8)])
    scored = RUNNER.invoke(main, ["score", str(tmp_path / "next.jsonl"), "--goldens", str(tmp_path / "goldens.jsonl")])
    write_cases(tmp_path / "next.jsonl", [case("c", 7)])
    alone = RUNNER.invoke(main, ["score", str(tmp_path / "next.jsonl"), "--goldens", str(tmp_path / "goldens.jsonl")])

    assert len(goldens or []) == 2
    text = "its golden is ambiguous: 'a', 'b' of"
    assert f"case c: {text}" in scored.stderr
    assert text in " ".join(scored.stdout.split())
    assert alone.exit_code == 2
    assert text in alone.stderr


def update(folder: Path, golden: Any, *cases: LLMTestCase) -> list[dict[str, Any]]:
    """Return the goldens after these cases updated the file with one golden."""
    write_cases(folder / "runs.jsonl", cases)
    out = folder / "goldens.jsonl"
    out.write_text(json.dumps(golden) + "\n", encoding="utf-8")
    done = RUNNER.invoke(main, ["approve", str(folder / "runs.jsonl"), "--out", str(out), "--update", "--yes"])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


def test_an_update_keeps_what_still_matches(tmp_path: Path) -> None:
    """Whole calls, matchers inside of changed ones, optional calls, rules for tools, and all else of the golden."""
    plan = [
        {"expect": "find", "input_parameters": {"name": {"$is": "ignore_case", "value": "ann"}}},
        {"expect": "log", "optional": True},
        {
            "expect": "refund",
            "input_parameters": {"order": 7, "why": {"$is": "present"}, "at": {"$is": "approx", "value": 5, "abs": 1}},
            "at": {"note": {"$is": "ignore"}},
        },
        {"forbid": "delete"},
    ]
    golden = {"id": "a", "input": "?", "expected_tools": plan, "required_texts": ["done"], "comments": "by hand"}
    calls = [
        ToolCall(name="hello"),
        ToolCall(name="find", input_parameters={"name": "ANN"}),
        ToolCall(name="refund", input_parameters={"order": 8, "why": "late", "at": 9}),
    ]
    new, other = update(tmp_path, golden, LLMTestCase(id="a", input="?", tools_called=calls), case("b", 1))

    assert new == golden | {
        "expected_tools": {
            "plan": [
                {"name": "hello", "input_parameters": {}},
                plan[0],
                plan[1],
                {
                    "expect": "refund",
                    "input_parameters": {
                        "order": 8,
                        "why": {"$is": "present"},
                        "at": 9,
                        "note": {"$is": "ignore"},
                    },
                },
                plan[3],
            ]
        }
    }
    assert other["id"] == "b"


def test_an_update_leaves_plans_with_rules_to_a_person(tmp_path: Path) -> None:
    """One that the calls follow stays; one that they break is left out, and stays too."""
    plan = [{"one_of": [{"expect": "refund"}, {"expect": "pay"}]}]
    golden = {"id": "a", "input": "?", "expected_tools": plan}
    followed = update(tmp_path, golden, case("a", 1, "?"), case("b", 1))
    other = LLMTestCase(id="a", input="?", tools_called=[ToolCall(name="cancel")])
    write_cases(tmp_path / "runs.jsonl", [other, case("c", 3, "!")])
    out = tmp_path / "goldens.jsonl"
    done = RUNNER.invoke(main, ["approve", str(tmp_path / "runs.jsonl"), "--out", str(out), "--update", "--yes"])

    assert followed[0]["expected_tools"] == {"plan": plan}
    assert done.exit_code == 1
    assert "left out a: the calls break the plan that the golden expects; change the golden by hand" in done.stderr
    assert [golden["id"] for golden in map(json.loads, out.read_text("utf-8").splitlines())] == ["a", "b", "c"]


def test_a_file_changes_only_after_it_was_shown(tmp_path: Path) -> None:
    """Without a terminal `--yes` is needed; the same goldens need nothing."""
    approve(tmp_path, case("a", 7))
    same, _ = approve(tmp_path, case("a", 7))
    refused, goldens = approve(tmp_path, case("a", 8))
    allowed = RUNNER.invoke(
        main, ["approve", str(tmp_path / "runs.jsonl"), "--out", str(tmp_path / "goldens.jsonl"), "--yes"]
    )

    assert same.exit_code == 0
    assert "has these goldens already; nothing was written" in same.stderr
    assert refused.exit_code == 2
    assert '-        "order": 7' in refused.stderr
    assert '+        "order": 8' in refused.stderr
    assert "pass --yes to change it, or name another file" in refused.stderr
    assert (goldens or [])[0]["expected_tools"][0]["input_parameters"] == {"order": 7}
    assert allowed.exit_code == 0
    assert '"order":8' in (tmp_path / "goldens.jsonl").read_text("utf-8").replace(" ", "")


def test_a_file_of_something_else_is_not_overwritten(tmp_path: Path) -> None:
    """Whatever is confirmed."""
    (tmp_path / "goldens.jsonl").write_text('{"tools_called": []}\n', encoding="utf-8")
    done, goldens = approve(tmp_path, case("a", 7))

    assert done.exit_code == 2
    assert "has calls that were made, not goldens" in done.stderr
    assert goldens == [{"tools_called": []}]


def test_unusable_cases_are_left_out_and_reported(tmp_path: Path) -> None:
    """Broken runs and cases without input or calls are named, with an exit code."""
    broken = GOOD.model_copy(update={"status": RunStatus.ERROR, "error": "ValueError: lost", "run_id": "r2"})
    done, goldens = approve(
        tmp_path,
        GOOD.to_test_case(id="r1"),
        broken.to_test_case(id="r2"),
        LLMTestCase(tools_called=[]),
        LLMTestCase(name="silent", input="x"),
        LLMTestCase(id="none", input="x", tools_called=[]),
    )

    assert done.exit_code == 1
    assert [golden["id"] for golden in goldens or []] == ["r1", "none"]
    assert (goldens or [])[1]["expected_tools"] == []
    assert done.stderr.splitlines() == [
        "note on r1: login: $.input_parameters.password is redacted; Ignore() is expected",
        "left out r2: the run ended with an error, and is not approved (ValueError: lost)",
        "left out line 3: the input of the case must be text, which a golden needs",
        "left out silent: the case has no tools_called; set [] if nothing was called",
        f"2 goldens written to {tmp_path / 'goldens.jsonl'}",
    ]


def test_a_run_that_waits_for_a_person_is_expected_to_wait(tmp_path: Path) -> None:
    """Else its own golden would call the next such run broken."""
    waiting = GOOD.model_copy(update={"status": RunStatus.INTERRUPTED, "run_id": "r2"})
    _, goldens = approve(tmp_path, waiting.to_test_case(id="r2"), GOOD.to_test_case(id="r1"))

    assert [golden.get("ends") for golden in goldens or []] == ["interrupted", None]


def test_without_a_golden_nothing_is_written(tmp_path: Path) -> None:
    """An existing file stays unchanged."""
    (tmp_path / "goldens.jsonl").write_text('{"input": "kept"}\n', encoding="utf-8")
    done, goldens = approve(tmp_path, LLMTestCase(name="silent", input="x"))

    assert done.exit_code == 2
    assert "no case can be approved; nothing was written" in done.stderr
    assert goldens == [{"input": "kept"}]


def _talk(*answers: list[ToolCall] | None, **fields: Any) -> ConversationalTestCase:
    """A conversation whose turns are answered by these calls; the first text has a secret, and waits for a yes."""
    texts = [f"Log in with {SECRET}.", "Book two.", "Thanks."]
    turns: list[Turn] = []
    for text, calls in zip(texts, answers, strict=False):
        metadata = {} if turns else {ANSWERS: [{"approve": True}]}
        turns.append(Turn(role="user", content=text, metadata=metadata, expected_tools=[ToolCall(name="other")]))
        turns += [] if calls is None else [Turn(role="assistant", content="ok", tools_called=calls)]
    return ConversationalTestCase(turns=turns, **fields)


LOGIN = ToolCall(name="login", input_parameters={"password": "hunter2"})
BOOK = ToolCall(name="book", input_parameters={"seats": 2}, output="done", id="c1")


def test_a_conversation_becomes_a_golden_with_turns(tmp_path: Path) -> None:
    """Each turn expects its calls, without secrets; answers to a run that waited stay. So do several runs of one."""
    done, goldens = approve(tmp_path, _talk([LOGIN], [BOOK], [], id="trip", tags=["smoke"]))

    hidden = {"expect": "login", "input_parameters": {"password": {"$is": "ignore"}}}
    assert done.exit_code == 0, done.output
    assert goldens == [
        {
            "turns": [
                {
                    "content": "Log in with [redacted by toolgrade].",
                    "expected_tools": {"plan": [hidden]},
                },
                {"approve": True},
                {"content": "Book two.", "expected_tools": [{"name": "book", "input_parameters": {"seats": 2}}]},
                {"content": "Thanks.", "expected_tools": []},
            ],
            "id": "trip",
            "tags": ["smoke"],
        }
    ]
    (tmp_path / "goldens.jsonl").unlink()
    runs = [Run(input=text, calls=[BOOK], conversation_id="c").to_test_case() for text in ("Book.", "Again.")]
    done, goldens = approve(tmp_path, *runs)
    assert [[turn["content"] for turn in golden["turns"]] for golden in goldens or ()] == [["Book.", "Again."]]


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (_talk([LOGIN], None), "1 of 2 turns were answered"),
        (_talk([LOGIN], [ToolCall(name="book", execution={"not_captured": ["input_parameters"]})]), "turn 2: the arg"),
        (_talk([LOGIN], user_error="the user said nothing"), "the user said nothing"),
    ],
)
def test_a_conversation_that_is_no_model_is_left_out(tmp_path: Path, case: ConversationalTestCase, reason: str) -> None:
    """The reason names the turn."""
    done, goldens = approve(tmp_path, case)

    assert goldens is None
    assert reason in done.stderr


def test_an_update_of_a_conversation_keeps_what_is_not_stated(tmp_path: Path) -> None:
    """A turn that states nothing stays so; a golden that states the whole conversation still does."""
    target, source = tmp_path / "goldens.jsonl", tmp_path / "runs.jsonl"
    turns = [f"Log in with {SECRET}.", Approve(), UserTurn("Book two.", expected_tools=[ToolCall(name="b")]), "Thanks."]
    write_cases(source, [_talk([LOGIN], [BOOK], [], id="trip"), _talk([LOGIN], [BOOK], id="whole")])
    whole = Golden(id="whole", turns=["Log in.", "Book."], expected_tools=[ToolCall(name="login")])
    write_cases(target, [Golden(id="trip", turns=turns), whole])
    done = RUNNER.invoke(main, ["approve", str(source), "--out", str(target), "--update", "--yes"])

    assert done.exit_code == 0, done.output
    trip, second = Golden.load(target)
    stated = [turn.expected_tools for turn in trip.turns or () if isinstance(turn, UserTurn)]
    assert stated == [None, [ToolCall(name="book", input_parameters={"seats": 2})], None]
    assert [getattr(call, "name", None) for call in second.expected_tools or ()] == ["login", "book"]
    assert second.turns == whole.turns


def test_ids_that_an_earlier_output_contains_are_proposed_as_from(tmp_path: Path) -> None:
    """The golden keeps the id; the person who approves decides. Ids of the user and other values are not named."""
    calls = [
        ToolCall(
            name="create", input_parameters={"item": "SKU-77001"}, output={"order": {"id": "A-1702"}, "total": 40}
        ),
        ToolCall(name="pay", input_parameters={"order": "A-1702", "item": "SKU-77001", "amount": 40}, output="paid"),
    ]
    done, goldens = approve(tmp_path, Run(input="Buy SKU-77001.", calls=calls).to_test_case(id="r1"))

    assert goldens is not None
    assert goldens[0]["expected_tools"][1]["input_parameters"]["order"] == "A-1702"
    proposals = [line for line in done.stderr.splitlines() if "From(" in line]
    assert len(proposals) == 1
    assert proposals[0].endswith(
        "called #2 'pay': order = \"A-1702\", from create.order.id: if it is new in each run, "
        "expect From(call='create', path='$.order.id')"
    )


def test_an_update_keeps_from(tmp_path: Path) -> None:
    """As every matcher that still fits."""
    create = ToolCall(name="create", output={"id": "A-1703"})
    pay = ToolCall(name="pay", input_parameters={"order": "A-1703", "amount": 41})
    origin = {"$is": "from", "call": "create", "path": "$.id"}
    plan = {"plan": [{"name": "create"}, {"expect": "pay", "input_parameters": {"order": origin, "amount": 40}}]}
    golden = {"id": "r1", "input": "Buy.", "expected_tools": plan}
    (tmp_path / "goldens.jsonl").write_text(json.dumps(golden) + "\n", "utf-8")
    write_cases(tmp_path / "runs.jsonl", [Run(input="Buy.", calls=[create, pay]).to_test_case(id="r1")])
    files = [str(tmp_path / name) for name in ("runs.jsonl", "goldens.jsonl")]
    done = RUNNER.invoke(main, ["approve", files[0], "--out", files[1], "--update", "--yes"])

    assert done.exit_code == 0
    written = json.loads((tmp_path / "goldens.jsonl").read_text("utf-8"))
    assert written["expected_tools"]["plan"][1]["input_parameters"] == {"order": origin, "amount": 41}


def test_the_run_itself_passes_its_golden(tmp_path: Path) -> None:
    """And another argument does not."""
    _, goldens = approve(tmp_path, GOOD.to_test_case(id="r1"))
    golden = Golden.model_validate((goldens or [])[0])
    other = GOOD.model_copy(update={"calls": [ToolCall(name="login", input_parameters={"user": "bob"}), GOOD.calls[1]]})
    report = evaluate(
        [run.to_test_case(expected_tools=golden.expected_tools) for run in (GOOD, other)],
        [ToolCorrectnessMetric(evaluation_params=["input_parameters"], should_exact_match=True)],
    )

    assert [result.score for _, result in report.results()] == [1, 0]
