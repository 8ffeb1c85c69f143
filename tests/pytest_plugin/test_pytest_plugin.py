"""The pytest plugin, in runs of pytest of their own: what a failure shows, the summary, goldens, and what it costs."""

from __future__ import annotations

import importlib.metadata
import json
import pickle
import re
import sys
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from processes import ROOT, Finished, assert_golden, run_python
from processes import run_pytest as run
from toolgrade import (
    Golden,
    LLMTestCase,
    MetricAssertionError,
    Report,
    ToolCall,
    ToolCorrectnessMetric,
    UserTurn,
    assert_test,
    compare,
)
from toolgrade import pytest_plugin as plugin
from toolgrade._pytest import fixtures
from toolgrade._pytest.fixtures import file_name
from toolgrade.evaluation import read_results
from toolgrade.report.markdown import render_markdown

CASES = """
from toolgrade import LLMTestCase, Run, ToolCall, ToolCorrectnessMetric, assert_test

METRICS = [ToolCorrectnessMetric(evaluation_params=["input_parameters"], threshold=1)]


def refund(*names, order=18):
    return LLMTestCase(
        id="refund",
        input="Refund order 18.",
        tools_called=[ToolCall(name=name, input_parameters={"order": order}) for name in names],
        expected_tools=[ToolCall(name="search"), ToolCall(name="refund", input_parameters={"order": 18})],
    )
"""


def write(folder: Path, text: str, name: str = "test_agent.py") -> None:
    """Writes a file of tests."""
    (folder / name).write_text(CASES + text, encoding="utf-8")


def goldens(folder: Path) -> dict[str, Any]:
    """Return the goldens next to the tests, by name."""
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("__toolgrade__/*")}


MIXED = """
def test_plain():
    assert_test(refund("search", "refund", order=17), METRICS)


def test_fixture(toolgrade):
    toolgrade(refund("search", "mail"), METRICS)


def test_passing(toolgrade):
    assert toolgrade.assert_test(refund("search", "refund"), METRICS)[0].score == 1


def test_report(toolgrade):
    report = toolgrade.evaluate([refund("refund"), LLMTestCase(tools_called=[])], METRICS)
    assert [result.score for _, result in report.results()] == [0.5, None]


def test_nothing_of_toolgrade():
    pass
"""


# Terminal output


def test_output_of_a_run(tmp_path: Path) -> None:
    """A failure shows the test's line, the reasons and the calls side by side; the summary has counts."""
    write(tmp_path, MIXED)
    done = run(tmp_path, "--tb=short")

    assert done.code == 1
    assert_golden("pytest-plugin.txt", re.sub(r"=+ (.*) in [\d.]+s =+", r"\1", done.out))


@pytest.mark.parametrize("style", ["--tb=long", "--tb=short"])
def test_own_frames_are_hidden(tmp_path: Path, style: str) -> None:
    """A failure shows the test's code with any way of measuring."""
    write(
        tmp_path,
        """
import asyncio
def test_plain():
    assert_test(refund(), METRICS)
def test_called(toolgrade):
    toolgrade(refund(), METRICS)
def test_method(toolgrade):
    toolgrade.assert_test(refund(), METRICS)
def test_awaited(toolgrade):
    async def inside():
        await toolgrade.a_assert_test(refund(), METRICS)
    asyncio.run(inside())
def test_golden(toolgrade_golden):
    toolgrade_golden(refund("a"), name="x")
    toolgrade_golden(refund("b"), name="x")
""",
    )
    done = run(tmp_path, style)

    assert done.out.count("- toolgrade -") == 5
    assert "5 failed" in done.out
    assert "evaluation.py" not in done.out
    assert "checks.py" not in done.out


def test_quiet_is_quiet(tmp_path: Path) -> None:
    """With -q, or without a measured case, there is no summary."""
    write(tmp_path, MIXED)
    quiet, unused = run(tmp_path, "-q", "-k", "passing or report"), run(tmp_path, "-k", "nothing")

    assert (quiet.code, unused.code) == (0, 0)
    assert "toolgrade" not in quiet.out
    assert "= toolgrade =" not in unused.out


def test_the_short_summary_has_the_finding(tmp_path: Path) -> None:
    """In place of the name of the error; other errors stay as they are."""
    write(
        tmp_path,
        """
def test_finding(toolgrade):
    toolgrade(refund("search", "refund", order=17), METRICS)
def test_without_finding(toolgrade):
    toolgrade(LLMTestCase(tools_called=[]), METRICS)
def test_other(toolgrade):
    toolgrade.evaluate([refund()], METRICS)
    raise ValueError("broken")
""",
    )
    out = run(tmp_path, COLUMNS="150").out

    assert "test_finding - c2 refund: args.order 17, expected 18\n" in out
    assert "test_without_finding - ToolCorrectnessMetric needs expected_tools; give the calls, or [] for none\n" in out
    assert "test_other - ValueError: broken\n" in out


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no groups of exceptions")
def test_failures_in_a_group_are_shown(tmp_path: Path) -> None:
    """Each failure in an exception group has its side-by-side view."""
    write(
        tmp_path,
        """
import asyncio
def test_tasks(toolgrade):
    async def inside():
        async with asyncio.TaskGroup() as group:
            group.create_task(toolgrade.a_assert_test(refund("search"), METRICS))
    asyncio.run(inside())
""",
    )
    done = run(tmp_path)

    assert done.code == 1
    assert "(not called)" in done.out
    assert "tool_correctness(input_parameters): mean 0.5 over 1 case; 0 passed, 1 failed" in done.out


def test_an_error_of_another_is_left_alone(tmp_path: Path) -> None:
    """Errors that carry something named `report` are not ours."""
    write(
        tmp_path,
        """
class Other(Exception):
    report = "mine"
def test_other(toolgrade):
    toolgrade(refund("search", "refund"), METRICS)
    raise Other
""",
    )
    done = run(tmp_path)

    assert "- toolgrade -" not in done.out
    assert done.code == 1
    assert "INTERNALERROR" not in done.out


def test_the_error_knows_its_report_in_another_process_too() -> None:
    """It is pickled with its results."""
    with pytest.raises(MetricAssertionError) as raised:
        assert_test(LLMTestCase(tools_called=[], expected_tools=[ToolCall(name="a")]), [ToolCorrectnessMetric()])
    copy = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - our own

    assert isinstance(copy.report, Report)
    assert str(copy) == str(raised.value)
    assert copy.report.to_dict() == raised.value.report.to_dict()  # type: ignore[attr-defined]


def test_value_that_is_not_a_case_fails_the_test(tmp_path: Path) -> None:
    """It is named, and the run continues."""
    write(
        tmp_path,
        """
import pytest
@pytest.mark.parametrize("thing", ["text", None, {"turns": []}, 3.5])
def test_thing(toolgrade, thing):
    toolgrade(thing, METRICS)
def test_metric(toolgrade):
    toolgrade(refund(), [])
""",
    )
    done = run(tmp_path)

    assert done.code == 1
    assert "5 failed" in done.out
    for kind in ("str", "NoneType", "dict", "float"):
        assert f"ToolCorrectnessMetric measures an LLMTestCase or MLLMTestCase, got {kind}\n" in done.out
    assert "metrics must be a list of at least one metric" in done.out


# What is written


def test_the_report_has_every_result(tmp_path: Path) -> None:
    """In the form of a report, each case with its test; sums over all of them, not measured being no zero."""
    write(tmp_path, MIXED)
    run(tmp_path, "--toolgrade-report", "out.json")
    plain = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))

    (summary,) = plain["metrics"]
    assert summary == {
        "metric": "tool_correctness(input_parameters)",
        "threshold": 1,
        "mean": 2 / 3,
        "mean_interval": [0, 1],
        "rate": 1 / 3,
        "rate_interval": [pytest.approx(0.0615, abs=1e-4), pytest.approx(0.7923, abs=1e-4)],
        "passed": 1,
        "failed": 2,
        "skipped": 1,
        "errored": 0,
    }
    assert [(case["index"], case["test"].partition("::")[2], case.get("id")) for case in plain["cases"]] == [
        (0, "test_fixture", "refund"),
        (1, "test_passing", "refund"),
        (2, "test_report", "refund"),
        (3, "test_report", "test_agent.py::test_report #2"),
    ]
    assert [case["results"][0].get("score") for case in plain["cases"]] == [0.5, 1, 0.5, None]
    assert [case["outcome"] for case in plain["cases"]] == ["failed", "passed", "failed", "not_measured"]
    assert plain["cases"][0]["results"][0]["alignment"]["called_count"] == 2
    markdown = render_markdown(read_results(tmp_path / "out.json"), title="tests")
    assert " =  1 search                               1 search" in markdown


def test_thresholds_are_not_mixed(tmp_path: Path) -> None:
    """One metric with two thresholds has two summaries."""
    write(
        tmp_path,
        """
def test_two(toolgrade):
    toolgrade.evaluate([refund("refund")], [ToolCorrectnessMetric()])
    toolgrade.evaluate([refund("refund")], [ToolCorrectnessMetric(threshold=0.75)])
""",
    )
    out = run(tmp_path).out

    assert "tool_correctness: mean 0.5 over 1 case; 1 passed, 0 failed (at 0.5)" in out
    assert "tool_correctness: mean 0.5 over 1 case; 0 passed, 1 failed (at 0.75)" in out


RECORDED = """
from toolgrade import Golden, Run, ToolCall, ToolCorrectnessMetric
from toolgrade import observe
from toolgrade.capture import record

@observe(tool=True)
def look(city):
    return city

@observe
def travel(city):
    return look(city)

async def agent(question, conversation):
    return Run(input=question, calls=[ToolCall(name="look")])

def recorded(city):
    with record() as recorder:
        travel(city)
    return recorder.test_case(expected_tools=[ToolCall(name="look")])

def test_one(toolgrade):
    toolgrade(recorded("Rome"), [ToolCorrectnessMetric()])

def test_two(toolgrade):
    toolgrade.evaluate([recorded("Oslo"), recorded("Bern")], [ToolCorrectnessMetric()])
    toolgrade(recorded("Lima"), [ToolCorrectnessMetric()])

def test_trials(toolgrade):
    goldens = [Golden(input="a", expected_tools=[]), Golden(input="b", expected_tools=[])]
    toolgrade.evaluate(goldens=goldens, agent=agent, metrics=[ToolCorrectnessMetric()], trials=2)
"""


def test_two_runs_of_a_suite_have_the_same_cases(tmp_path: Path) -> None:
    """The test identifies a recorded case without an id, because the id of its run is new each time."""
    write(tmp_path, RECORDED)
    for name in ("a.json", "b.json"):
        assert run(tmp_path, "--toolgrade-report", name).code == 0
    a, b = (json.loads((tmp_path / name).read_text(encoding="utf-8"))["cases"] for name in ("a.json", "b.json"))
    changes = compare(tmp_path / "a.json", tmp_path / "b.json")

    assert [case["id"].partition("::")[2] for case in a] == [
        "test_one",
        *["test_trials"] * 2,
        *["test_trials #2"] * 2,
        *["test_two", "test_two #2", "test_two #3"],
    ]
    assert [case["id"] for case in a] == [case["id"] for case in b]
    assert all(one["run_id"] != other["run_id"] for one, other in zip(a, b, strict=True) if "run_id" in one)
    assert sum("run_id" in case for case in a) == 4
    assert (changes.in_both, changes.only_a, changes.only_b) == (8, (), ())
    assert not any("without an id" in note for note in changes.notes)


DIFFERENT_METRICS = """
def test_names(toolgrade):
    toolgrade(refund("search", "refund"), [ToolCorrectnessMetric()])


def test_both(toolgrade):
    toolgrade(refund("search", "refund"), [ToolCorrectnessMetric(), *METRICS])


def test_golden(toolgrade_golden):
    toolgrade_golden(refund("search"))
"""


def test_a_report_of_tests_with_different_metrics_can_be_read(tmp_path: Path) -> None:
    """Each case has the results of its own test, and counts for no other metric."""
    write(tmp_path, DIFFERENT_METRICS)
    run(tmp_path)  # records the golden
    assert run(tmp_path, "--toolgrade-report", "out.json").code == 0
    report = read_results(tmp_path / "out.json")

    assert [len(case.own_results) for case in report.cases] == [2, 1, 1]  # in the order of the names of the tests
    assert [(summary.passed, summary.skipped) for summary in report.summaries] == [(2, 0), (1, 0), (1, 0)]
    assert [metric.both_passed for metric in compare(report, report).metrics] == [2, 1, 1]


def test_a_report_without_results_is_written(tmp_path: Path) -> None:
    """Whoever reads it next finds that nothing was measured."""
    write(tmp_path, MIXED)
    run(tmp_path, "-k", "nothing", "--toolgrade-report", "out.json")

    plain = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert (plain["metrics"], plain["cases"]) == ([], [])
    assert plain["about"]["started_at"]


BROKEN = """
@pytest.fixture
def broken():
    raise ValueError("no key")


def test_agent(toolgrade):
    raise RuntimeError("401 key=sk-abcdefghijklmnopqrstuvwxyz0123")


def test_fixture(broken, toolgrade):
    pass


@pytest.fixture
def no_end():
    yield
    raise ValueError("no end")


def test_end(no_end, toolgrade):
    toolgrade(refund("search", "refund"), METRICS)


def test_good(toolgrade):
    toolgrade(refund("search", "refund"), METRICS)


def test_later(toolgrade):
    toolgrade(refund("search", "refund"), METRICS)
    assert not "measured already"


def test_left_out(toolgrade):
    pytest.skip("another day")


@pytest.mark.xfail
def test_known(toolgrade):
    raise RuntimeError("known")
"""


@pytest.mark.parametrize("processes", [(), ("-p", "xdist", "-n", "2")], ids=["one", "two"])
def test_a_test_that_breaks_is_in_the_report(tmp_path: Path, processes: tuple[str, ...]) -> None:
    """As an agent error beside what it measured, so that a report is not green where pytest is red."""
    if processes and not find_spec("xdist"):
        pytest.skip("pytest-xdist is not installed")
    write(tmp_path, "import pytest\n" + BROKEN)
    done = run(tmp_path, "--toolgrade-report", "out.json", *processes)
    report = read_results(tmp_path / "out.json")
    whys = [case.wrong_end.why for case in report.cases if case.wrong_end is not None]

    assert [case.outcome for case in report.cases] == [
        *("agent_error", "passed", "agent_error", "agent_error", "passed", "passed", "agent_error")
    ]
    assert whys[0].startswith("the test ended before it measured: RuntimeError: 401 key=[redacted")
    assert whys[1] == "the test ended after it measured: ValueError: no end"
    assert whys[2] == "the test ended before it measured: ValueError: no key"
    assert whys[3].startswith("the test ended after it measured: AssertionError: ")
    assert "3 passed, 0 failed, 0 not measured, 4 agent errors" in done.out
    assert not report.passed


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("def test_b(toolgrade):\n    pytest.exit('enough')\n", ()),
        ("def test_b(toolgrade):\n    raise KeyboardInterrupt\n", ()),
        ("def test_b(toolgrade):\n    os._exit(3)\n", ()),
        ("def test_b(toolgrade):\n    os._exit(3)\n", ("-p", "xdist", "-n", "1")),
        ("import no_such_module\n", ("--continue-on-collection-errors",)),
    ],
)
def test_a_run_that_is_not_complete_is_not_green(tmp_path: Path, text: str, options: tuple[str, ...]) -> None:
    """Also if the process dies: the report of an earlier run does not stay."""
    if "xdist" in options and not find_spec("xdist"):
        pytest.skip("pytest-xdist is not installed")
    good = "def test_a(toolgrade):\n    toolgrade(refund('search', 'refund'), METRICS)\n"
    write(tmp_path, good, "test_a.py")
    assert run(tmp_path, "--toolgrade-report", "out.json").code == 0
    assert read_results(tmp_path / "out.json").passed
    write(tmp_path, "import os, pytest\n" + text, "test_b.py")
    run(tmp_path, "--toolgrade-report", "out.json", *options)

    report = read_results(tmp_path / "out.json")
    assert (report.passed, report.interrupted) == (False, True)


def test_a_test_of_a_golden_must_measure(tmp_path: Path) -> None:
    """One that only measures by itself, or not at all, would be green whatever its golden expects."""
    (tmp_path / "g.jsonl").write_text('{"id": "one", "input": "q", "expected_tools": []}\n', encoding="utf-8")
    write(
        tmp_path,
        """
import pytest


@pytest.mark.toolgrade_goldens("g.jsonl")
def test_agent(toolgrade, golden):
    METRICS[0].measure(refund("search"))
""",
    )
    done = run(tmp_path, "--toolgrade-report", "out.json")

    assert done.code == 1
    assert "the test of a golden measured nothing; call toolgrade(case, metrics)" in done.out
    assert [(case.name, case.outcome) for case in read_results(tmp_path / "out.json").cases] == [("one", "failed")]


def test_unwritable_report_is_reported_first(tmp_path: Path) -> None:
    """Before the first test."""
    write(tmp_path, MIXED)
    done = run(tmp_path, "--toolgrade-report", "nowhere/out.json")

    assert done.code == 4
    assert "--toolgrade-report: there is no folder" in done.err
    assert "passed" not in done.out


def test_junit_has_the_scores(tmp_path: Path) -> None:
    """As properties of the test, by case and metric; and the difference in the text of the failure."""
    write(tmp_path, MIXED)
    run(tmp_path, "--junitxml=out.xml")
    tests = {test.get("name"): test for test in ET.parse(tmp_path / "out.xml").iter("testcase")}  # noqa: S314 - our own
    properties = {
        name: [(each.get("name"), each.get("value")) for each in test.iter("property")] for name, test in tests.items()
    }

    label = "tool_correctness(input_parameters)"
    assert properties["test_fixture"] == [
        (f"toolgrade.score[refund: {label}]", "0.5"),
        (f"toolgrade.passed[refund: {label}]", "false"),
    ]
    assert properties["test_report"][-1] == (f"toolgrade.status[#2: {label}]", "skipped")
    assert properties["test_nothing_of_toolgrade"] == []
    (failure,) = tests["test_fixture"].iter("failure")
    assert "(not called)" in str(failure.text)


def test_tests_that_measure_are_marked(tmp_path: Path) -> None:
    """`-m toolgrade` selects tests that use a fixture and those with the marker."""
    write(tmp_path, MIXED + "import pytest\n@pytest.mark.toolgrade\ndef test_marked():\n    pass\n")
    done = run(tmp_path, "-m", "toolgrade", "--strict-markers", "--collect-only", "-q")

    assert re.findall(r"::(\w+)", done.out) == ["test_fixture", "test_passing", "test_report", "test_marked"]
    assert "@pytest.mark.toolgrade:" in run(tmp_path, "--markers").out


# Goldens

SNAPSHOT = """
import json, os
def test_refund(toolgrade_golden):
    names = os.environ["CALLED"].split()
    toolgrade_golden(refund(*names, order=json.loads(os.environ.get("ORDER", "18"))))
"""
FILE = "test_agent.test_refund.json"


def test_a_golden_is_recorded_compared_and_updated(tmp_path: Path) -> None:
    """The first run writes it; later ones compare and leave it alone; an update shows what it changes."""
    write(tmp_path, SNAPSHOT)
    first = run(tmp_path, CALLED="search refund")
    recorded = goldens(tmp_path)
    same, other = run(tmp_path, CALLED="search refund"), run(tmp_path, CALLED="search mail")
    stored = goldens(tmp_path)
    update = run(tmp_path, "-q", "--toolgrade-update", CALLED="search mail")
    again = run(tmp_path, CALLED="search mail")

    arguments = {"input_parameters": {"order": 18}}
    assert recorded == {
        FILE: {
            "input": "Refund order 18.",
            "expected_tools": [{"name": "search", **arguments}, {"name": "refund", **arguments}],
        }
    }
    assert [done.code for done in (first, same, other, update, again)] == [0, 0, 1, 0, 0]
    assert f"golden recorded: __toolgrade__/{FILE}" in first.out
    assert "golden" not in same.out
    assert f"The golden is __toolgrade__/{FILE}; pytest --toolgrade-update rewrites it." in other.out
    assert " +    (not expected)                       2 mail\n" in other.out
    assert stored == recorded
    assert f"golden updated: __toolgrade__/{FILE}\n" in update.out
    assert "   -  2 refund                                 (not called)\n" in update.out
    assert [call["name"] for call in goldens(tmp_path)[FILE]["expected_tools"]] == ["search", "mail"]


def test_a_golden_wants_the_same_calls(tmp_path: Path) -> None:
    """Another order, another argument, one call more or none at all: each fails."""
    write(tmp_path, SNAPSHOT)
    others = [("refund search", "18"), ("search refund", "17"), ("search refund refund", "18"), ("", "18")]

    assert run(tmp_path, CALLED="search refund").code == 0
    assert [run(tmp_path, CALLED=called, ORDER=order).code for called, order in others] == [1] * 4


@pytest.mark.parametrize("value", ["NaN", '"NaN"', '{"$is": "ignore"}', "null"])
def test_recorded_golden_passes_again(tmp_path: Path, value: str) -> None:
    """With any arguments, the same calls pass in the next run."""
    write(tmp_path, SNAPSHOT)

    assert run(tmp_path, CALLED="refund", ORDER=value).code == 0
    assert run(tmp_path, CALLED="refund", ORDER=value).code == 0
    assert run(tmp_path, CALLED="refund", ORDER="-1").code == 1


def test_nothing_is_recorded_in_ci(tmp_path: Path) -> None:
    """A missing golden fails with instructions; an explicit update records it."""
    write(tmp_path, SNAPSHOT)
    missing = run(tmp_path, CALLED="search", CI="true")
    stored = goldens(tmp_path)
    updated, there = (
        run(tmp_path, "--toolgrade-update", CALLED="search", CI="1"),
        run(tmp_path, CALLED="search", CI="1"),
    )

    assert stored == {}
    assert (missing.code, updated.code, there.code) == (1, 0, 0)
    assert f"golden __toolgrade__/{FILE} does not exist" in missing.out
    assert "run this test once on your machine, review the file, and commit it" in missing.out
    assert run(tmp_path, CALLED="search", CI="false").code == 0


def test_golden_hides_custom_secrets(tmp_path: Path) -> None:
    """With a custom redactor; hidden values are not compared."""
    write(
        tmp_path,
        """
import os
from toolgrade.redact import Redactor
def test_lookup(toolgrade_golden):
    call = ToolCall(name="look_up", input_parameters={"iban": os.environ["IBAN"], "all": True})
    toolgrade_golden([call], redactor=Redactor(keys={"iban"}))
""",
    )

    assert run(tmp_path, IBAN="DE02").code == 0
    (call,) = goldens(tmp_path)["test_agent.test_lookup.json"]["expected_tools"]["plan"]
    assert call["input_parameters"] == {"iban": {"$is": "ignore"}, "all": True}
    assert run(tmp_path, IBAN="DE03").code == 0


def test_a_golden_may_be_edited_into_a_plan(tmp_path: Path) -> None:
    """The file is read like any expectation, and an update leaves it alone where it is met."""
    write(tmp_path, SNAPSHOT)
    run(tmp_path, CALLED="search refund")
    plan = {"expected_tools": [{"expect": "search", "optional": True}, {"expect": "refund"}, {"forbid": "delete"}]}
    (tmp_path / "__toolgrade__" / FILE).write_text(json.dumps(plan), encoding="utf-8")

    assert run(tmp_path, CALLED="refund").code == 0
    assert run(tmp_path, "--toolgrade-update", CALLED="search refund").code == 0
    assert goldens(tmp_path)[FILE] == plan
    assert run(tmp_path, CALLED="refund delete").code == 1


def test_an_update_keeps_matchers_and_refuses_rules(tmp_path: Path) -> None:
    """Of a plan that the calls break, what still matches stays; rules that they break are for a person."""
    write(tmp_path, SNAPSHOT)
    run(tmp_path, CALLED="search refund")
    search = {"expect": "search", "input_parameters": {"order": {"$is": "approx", "value": 17, "abs": 5}}}
    golden = tmp_path / "__toolgrade__" / FILE
    golden.write_text(json.dumps({"expected_tools": [search, {"expect": "refund"}]}), encoding="utf-8")

    assert run(tmp_path, "--toolgrade-update", CALLED="search mail").code == 0
    assert goldens(tmp_path)[FILE]["expected_tools"] == {
        "plan": [search, {"name": "mail", "input_parameters": {"order": 18}}]
    }
    golden.write_text(json.dumps({"expected_tools": [{**search, "times": [2, 3]}]}), encoding="utf-8")
    refused = run(tmp_path, "--toolgrade-update", CALLED="search mail")
    assert refused.code == 1
    assert "the calls break the plan that the golden expects; change the golden by hand" in refused.out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "cannot be read: not JSON"),
        ('{"input": "x"}', "has no expected_tools"),
        ('{"expected_tools": [{"nam": "a"}]}', "$.expected_tools[0]"),
    ],
)
def test_a_golden_that_cannot_be_read_is_named(tmp_path: Path, text: str, problem: str) -> None:
    """It fails the test with path and problem; an update replaces it, with a note."""
    write(tmp_path, SNAPSHOT)
    (tmp_path / "__toolgrade__").mkdir()
    (tmp_path / "__toolgrade__" / FILE).write_text(text, encoding="utf-8")
    broken = run(tmp_path, CALLED="search")
    stored = (tmp_path / "__toolgrade__" / FILE).read_text(encoding="utf-8")
    mended = run(tmp_path, "--toolgrade-update", CALLED="search")

    assert (broken.code, mended.code) == (1, 0)
    assert f"the golden __toolgrade__/{FILE}" in broken.out
    assert problem in broken.out
    assert problem in mended.out
    assert stored == text
    assert [call["name"] for call in goldens(tmp_path)[FILE]["expected_tools"]] == ["search"]


def test_unusable_cases_are_not_recorded(tmp_path: Path) -> None:
    """A broken run, a case without known calls, and a value without calls."""
    write(
        tmp_path,
        """
def test_broken(toolgrade_golden):
    toolgrade_golden(Run(calls=[ToolCall(name="a")], status="error", error="ValueError: lost"))
def test_unknown(toolgrade_golden):
    toolgrade_golden(LLMTestCase(input="x"))
def test_text(toolgrade_golden):
    toolgrade_golden("search")
def test_method(toolgrade_golden):
    toolgrade_golden(Run().to_test_case)
""",
    )
    done = run(tmp_path)

    assert "4 failed" in done.out
    assert "the run ended with an error, and is not approved (ValueError: lost)" in done.out
    assert "the case has no tools_called" in done.out
    assert "expected a Run, a case or a list of ToolCall, got str" in done.out
    assert "got method; pass a recorded run, such as recorder.last_run" in done.out
    assert goldens(tmp_path) == {}


def test_every_golden_has_a_file_of_its_own(tmp_path: Path) -> None:
    """Several of one test, those of parameters, classes and other files; names that no file can have get a hash."""
    text = """
import pytest
@pytest.mark.parametrize("city", ["paris", "a/b", "a:b"])
def test_city(toolgrade_golden, city):
    toolgrade_golden([ToolCall(name=city)])
class TestClass:
    def test_two(self, toolgrade_golden):
        toolgrade_golden([ToolCall(name="first")])
        toolgrade_golden([ToolCall(name="second")])
        toolgrade_golden(Run(calls=[ToolCall(name="third")]), name="named")
"""
    write(tmp_path, text)
    write(tmp_path, text, "test_other.py")

    assert (run(tmp_path).code, run(tmp_path, CI="1").code) == (0, 0)
    names = sorted(goldens(tmp_path))
    assert len(names) == 12
    assert [name for name in names if name.startswith("test_agent.TestClass")] == [
        "test_agent.TestClass.test_two.2.json",
        "test_agent.TestClass.test_two.json",
        "test_agent.TestClass.test_two.named.json",
    ]
    assert "test_agent.test_city[paris].json" in names
    assert all(re.fullmatch(r"[\w.\[\]-]+", name) for name in names)


def test_names_of_files_are_short_and_distinct() -> None:
    """Whatever they are made from."""
    texts = ["x" * 300, "x" * 301, "a b", "a\tb", "\ud800", "é"]
    names = list(map(file_name, texts))

    assert len(set(names)) == len(texts)
    assert all(len(name) <= 140 and name.isascii() for name in names)
    assert file_name("test_a[b-1].x") == "test_a[b-1].x"


def test_metrics_of_ones_own_compare(tmp_path: Path) -> None:
    """Here any order will do."""
    write(
        tmp_path,
        """
import os
def test_any_order(toolgrade_golden):
    toolgrade_golden(refund(*os.environ["CALLED"].split()), METRICS)
""",
    )

    assert [run(tmp_path, CALLED=names).code for names in ("search refund", "refund search", "refund")] == [0, 0, 1]


# With other plugins


@pytest.mark.skipif(not find_spec("xdist"), reason="pytest-xdist is not installed")
def test_with_xdist_everything_arrives(tmp_path: Path) -> None:
    """Several processes write the same goldens, the same report and the same summary as one."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, MIXED + SNAPSHOT)
    options = ["--toolgrade-report", "out.json", "--junitxml=out.xml"]
    alone = run(tmp_path / "one", *options, CALLED="search")
    spread = run(tmp_path / "two", *options, "-p", "xdist", "-n", "2", CALLED="search")

    def summary(done: Finished) -> str:
        return done.out[done.out.index("= toolgrade =") : done.out.index("= short test summary")]

    assert "2 workers" in spread.out
    assert summary(alone) == summary(spread)
    assert spread.out.count("(not called)") == alone.out.count("(not called)") == 1
    one, two = (json.loads((tmp_path / name / "out.json").read_text("utf-8")) for name in ("one", "two"))
    assert one | {"about": None} == two | {"about": None}
    assert goldens(tmp_path / "one") == goldens(tmp_path / "two") != {}
    assert "toolgrade.score[" in (tmp_path / "two" / "out.xml").read_text("utf-8")


@pytest.mark.skipif(not find_spec("anyio"), reason="anyio is not installed")
def test_in_asynchronous_tests(tmp_path: Path) -> None:
    """Both ways of measuring and goldens work while a loop is running."""
    write(
        tmp_path,
        """
import pytest
@pytest.fixture
def anyio_backend():
    return "asyncio"
@pytest.mark.anyio
async def test_awaited(toolgrade):
    await toolgrade.a_assert_test(refund("search", "refund"), METRICS)
    report = await toolgrade.a_evaluate([refund("refund")], METRICS)
    assert not report.passed
@pytest.mark.anyio
async def test_called(toolgrade, toolgrade_golden):
    toolgrade_golden(refund("search"))
    toolgrade(refund("search"), METRICS)
""",
    )
    done = run(tmp_path, "-p", "anyio")

    assert "1 failed, 1 passed" in done.out
    assert "tool_correctness(input_parameters): mean 0.6667 over 3 cases; 1 passed, 2 failed" in done.out


# What it costs


def test_the_classes_of_the_fixtures_can_be_annotated() -> None:
    """The plugin has their names, and no others, without loading them first."""
    assert plugin.Checks is fixtures.Checks
    assert plugin.GoldenChecks is fixtures.GoldenChecks
    with pytest.raises(AttributeError, match="has no attribute 'GoldenPlace'"):
        _ = plugin.GoldenPlace


GOLDEN_TESTS = """
import pytest


@pytest.mark.toolgrade_goldens("data/goldens.jsonl")
def test_golden(toolgrade, golden):
    calls = [ToolCall(name=golden.input)]
    toolgrade(LLMTestCase(id=golden.id, tools_called=calls, expected_tools=golden.expected_tools), METRICS)
"""


def test_a_file_of_goldens_makes_a_test_of_each(tmp_path: Path) -> None:
    """Named after their ids; the path is relative to the file of the test."""
    (tmp_path / "data").mkdir()
    lines = ['{"id": "first", "input": "a", "expected_tools": [{"name": "a"}]}', '{"input": "a", "expected_tools": []}']
    (tmp_path / "data" / "goldens.jsonl").write_text("\n".join(lines), encoding="utf-8")
    write(tmp_path, GOLDEN_TESTS)
    done = run(tmp_path, "-v")

    assert done.code == 1
    assert re.search(r"test_golden\[first\] PASSED", done.out)
    assert re.search(r"test_golden\[golden2\] FAILED", done.out)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@pytest.mark.toolgrade_goldens('absent.jsonl')\ndef test_x(golden): pass", "absent.jsonl"),
        (
            "@pytest.mark.toolgrade_goldens('bad.jsonl')\ndef test_x(golden): pass",
            "a golden must have exactly one of input, turns, user, got none",
        ),
        ("@pytest.mark.toolgrade_goldens('bad.jsonl')\ndef test_x(): pass", "must have the argument 'golden'"),
        ("@pytest.mark.toolgrade_goldens()\ndef test_x(golden): pass", "must have one argument, the path of a file"),
    ],
    ids=["missing", "bad", "no-argument", "no-path"],
)
def test_a_wrong_marker_of_goldens_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    """When tests are collected, with the name of the test."""
    (tmp_path / "bad.jsonl").write_text("{}", encoding="utf-8")
    write(tmp_path, f"import pytest\n{text}\n")
    done = run(tmp_path)

    assert done.code != 0
    assert message in done.out + done.err
    assert "test_x" in done.out + done.err


def test_a_run_that_does_not_use_it_loads_nothing(tmp_path: Path) -> None:
    """Only the plugin and its package are loaded."""
    write(tmp_path, "", "unused.py")
    (tmp_path / "test_plain.py").write_text("def test_plain():\n    assert True\n", encoding="utf-8")
    program = """
import json, sys, pytest
code = pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:], "test_plain.py"])
print(json.dumps([code, sorted(sys.modules)]))
"""
    loaded: list[set[str]] = []
    for options in (["-p", "toolgrade.pytest_plugin"], []):
        settings = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
        done = run_python(["-c", program, *options], tmp_path, settings=settings)
        code, modules = json.loads(done.out.splitlines()[-1])
        assert code == 0
        loaded.append(set(modules))

    assert loaded[0] - loaded[1] == {
        "toolgrade",
        "toolgrade._internal",
        "toolgrade._internal.lazy_imports",
        "toolgrade.pytest_plugin",
    }


def test_pytest_finds_the_plugin() -> None:
    """The distribution names it, and the name can be loaded."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(r'^\[project\.entry-points\.pytest11\]\n(\w+) = "([\w.]+)"$', text, re.MULTILINE)

    assert match
    assert match[1] == "toolgrade"
    assert importlib.metadata.EntryPoint("toolgrade", match[2], "pytest11").load().__name__ == "toolgrade.pytest_plugin"


def test_plugin_page_is_consistent(tmp_path: Path) -> None:
    """It lists all options, and its failure example is the output of the tests."""
    page = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```\n(test_agent\.py:.*?)^```$", page, re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([\w./-]+)", page)
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    options = [set(re.findall(r"--toolgrade-\w+", text)) for text in (run(tmp_path, "--help").out, page, guide)]

    every = {"--toolgrade-update", "--toolgrade-report", "--toolgrade-record"}
    assert options == [every, every, every]
    assert len(examples) == 1
    assert examples[0] in (ROOT / "tests" / "golden" / "pytest-plugin.txt").read_text(encoding="utf-8")
    assert links
    assert all((ROOT / "docs" / link).is_file() for link in links)


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    """With an agent, its tests pass, and the golden is written."""
    page = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
    agent = """
from toolgrade import observe

@observe(tool=True)
def search(): ...

@observe(tool=True)
def refund(): ...

@observe
def answer(question):
    search()
    refund()
"""
    prelude = """
from my_project import answer
from toolgrade.capture import record

with record() as recorder:
    answer("Refund it.")

"""
    blocks = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "my_project.py").write_text(agent, encoding="utf-8")
    (tmp_path / "test_agent.py").write_text("\n".join(blocks[:2]), encoding="utf-8")
    (tmp_path / "test_goldens.py").write_text(prelude + blocks[2], encoding="utf-8")
    line = '{"id": "q", "input": "Refund it.", "expected_tools": [{"name": "search"}, {"name": "refund"}]}\n'
    (tmp_path / "goldens.jsonl").write_text(line, encoding="utf-8")
    done = run(tmp_path)

    assert len(blocks) == 3
    assert "3 passed" in done.out, done.out
    assert goldens(tmp_path).keys() == {"test_goldens.test_refund.json"}


RERUN = """
from pathlib import Path


def test_flaky(toolgrade):
    attempts = Path("attempts")
    attempts.write_text("x" + (attempts.read_text() if attempts.exists() else ""))
    toolgrade(refund("search", "refund", order=18 if len(attempts.read_text()) > 2 else 17), METRICS)


def test_steady(toolgrade):
    toolgrade(refund("search", "refund"), METRICS)
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_only_the_last_attempt_of_a_test_is_reported(tmp_path: Path, workers: int) -> None:
    """In JUnit XML, in the summary and in the report; attempts before it would look passed in XML."""
    write(tmp_path, RERUN)
    plugins = ["-p", "rerunfailures", "-p", "xdist", "-n", str(workers)]
    done = run(tmp_path, *plugins, "--reruns", "3", "--junitxml", "x.xml", "--toolgrade-report", "r.json")

    assert done.code == 0, done.out
    assert "2 passed, 0 failed, 0 not measured, 0 agent errors" in done.out
    suite = ET.parse(tmp_path / "x.xml").getroot()[0]  # noqa: S314 - our own
    assert suite.get("tests") == "2"
    assert sorted(str(case.get("name")) for case in suite.iter("testcase")) == ["test_flaky", "test_steady"]
    assert {one.get("value") for one in suite.iter("property")} == {"1", "true"}
    assert read_results(tmp_path / "r.json").verdict.cases == 2


TALK_TEST = """
import os
from toolgrade import ConversationalTestCase, ToolCall, Turn

def test_talk(toolgrade_golden):
    book = ToolCall(name="book", input_parameters={"seats": int(os.environ["SEATS"])})
    turns, said = [], [("Find.", [ToolCall(name="find")]), ("Book.", [book]), ("Bye.", [])]
    for text, calls in said[: int(os.environ["TURNS"])]:
        turns += [Turn(role="user", content=text), Turn(role="assistant", content="ok", tools_called=calls)]
    toolgrade_golden(ConversationalTestCase(id="trip", turns=turns))
"""


def test_a_golden_of_a_conversation(tmp_path: Path) -> None:
    """It has the turns; a difference names its turn, and another number of turns is one."""
    settings = {"SEATS": "1", "TURNS": "2"}
    write(tmp_path, TALK_TEST)
    assert "golden recorded" in run(tmp_path, **settings).out
    (golden,) = Golden.load(next((tmp_path / "__toolgrade__").iterdir()))
    assert [turn.content for turn in golden.turns or () if isinstance(turn, UserTurn)] == ["Find.", "Book."]
    assert run(tmp_path, **settings).code == 0

    settings["SEATS"] = "2"
    failed = run(tmp_path, "--junitxml=junit.xml", **settings)
    assert failed.code == 1
    assert "test_talk - turn 2 c2 book: args.seats 2, expected 1" in failed.out
    assert re.search(r"turn 1  passed 1\n.*turn 2  FAILED 0\n +user: Book\.", failed.out, re.DOTALL)
    assert "turn 2  FAILED 0" in (tmp_path / "junit.xml").read_text(encoding="utf-8")
    settings["TURNS"] = "3"
    longer = run(tmp_path, **settings)
    assert "its golden has 2 turns, and the conversation 3: turn 3 was not scored" in longer.out
    assert run(tmp_path, "--toolgrade-update", **settings).code == 0
    assert run(tmp_path, **settings).code == 0


def test_a_golden_holds_no_secret(tmp_path: Path) -> None:
    """Neither in arguments nor in the question; a hidden value is not compared later, the others are."""
    write(
        tmp_path,
        """
import os
def test_login(toolgrade_golden):
    arguments = {"password": os.environ["WORD"], "user": os.environ["NAME"]}
    call = ToolCall(name="login", input_parameters=arguments)
    toolgrade_golden(LLMTestCase(input="use ghp_0123456789abcdefghijABCDEFGHIJ012345", tools_called=[call]))
""",
    )
    first = run(tmp_path, WORD="hunter2", NAME="ann")
    text = (tmp_path / "__toolgrade__" / "test_agent.test_login.json").read_text(encoding="utf-8")

    assert first.code == 0
    assert "hunter2" not in text
    assert "ghp_" not in text
    assert run(tmp_path, WORD="another", NAME="ann").code == 0
    failed = run(tmp_path, WORD="hunter3", NAME="bob")
    assert failed.code == 1
    assert "hunter3" not in failed.out


def test_a_test_that_is_run_again_counts_once(tmp_path: Path) -> None:
    """What plugins that repeat tests report of earlier attempts has the outcome "rerun"."""
    write(tmp_path, MIXED)
    (tmp_path / "conftest.py").write_text(
        """
import pytest
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        report.outcome = "rerun"
    return report
""",
        encoding="utf-8",
    )
    done = run(tmp_path, "-k", "fixture or passing")

    assert "mean 1 over 1 case; 1 passed, 0 failed" in done.out
