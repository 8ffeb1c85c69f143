"""Reports of several agents: the part of one agent, the comparison of two, and their table."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports import METRIC, agent_report, agents_report
from toolgrade import (
    ConfigurationError,
    ConversationalTestCase,
    LLMTestCase,
    Report,
    ToolCall,
    ToolSuccessRate,
    Turn,
    compare,
    evaluate,
)
from toolgrade.evaluation.reading import report_of
from toolgrade.report import CaseResult
from toolgrade.report.junit import render_junit
from toolgrade.report.text.agent_table import GoldenRow, agent_table

AGENTS = {
    "gpt-4o": {"refund": "p", "parcel": "f", "hello": "p", "weather": "e"},
    "mini": {"refund": "f", "parcel": "f", "hello": "p", "weather": "p"},
}
"""Outcomes that differ on two of four goldens."""
TRIALS = {
    "gpt-4o": {"refund": "ppp", "parcel": "fff", "hello": "ppp"},
    "mini": {"refund": "pfp", "parcel": "ppp", "hello": "ppp"},
    "nano": {"refund": "eee", "parcel": "fff", "hello": "ppp"},
}
NAMES = st.sampled_from(["gpt-4o", "mini", "nano"])


def outcomes(trials: int) -> st.SearchStrategy[dict[str, dict[str, str]]]:
    """Outcomes of some agents on the same goldens."""
    letters = st.text("pfe", min_size=trials, max_size=trials)
    goldens = st.lists(st.sampled_from(["refund", "parcel", "hello", "weather"]), min_size=1, unique=True)
    return goldens.flatmap(
        lambda names: st.dictionaries(NAMES, st.fixed_dictionaries(dict.fromkeys(names, letters)), min_size=1)
    )


# The part of one agent


@given(st.data(), st.none() | st.integers(1, 3))
def test_the_part_of_an_agent_is_its_evaluation(data: st.DataObject, trials: int | None) -> None:
    """As if nobody else had been asked: cases, totals, pass^k and JSON are equal."""
    by_agent = data.draw(outcomes(trials or 1))
    report = agents_report(by_agent, trials)

    assert report.agents == tuple(by_agent)
    for name, rows in by_agent.items():
        alone = agent_report(rows, trials)
        assert report.of_agent(name) == alone
        assert report.of_agent(name).to_dict() == alone.to_dict()
    assert report.passed == all(agent_report(rows, trials).passed for rows in by_agent.values())


@given(outcomes(2), st.sets(st.integers(0, 20), max_size=3))
def test_positions_survive_an_interruption(by_agent: dict[str, dict[str, str]], missing: set[int]) -> None:
    """Cases that were not measured leave gaps, as in a file of one agent."""
    report = agents_report(by_agent, 2)
    left = replace(report, cases=tuple(case for case in report.cases if case.index not in missing))

    for name in left.agents:
        rows = [case for case in left.cases if case.agent == name]
        alone = {(case.golden, case.trial): case.index for case in report.of_agent(name).cases}
        assert [case.index for case in left.of_agent(name).cases] == [alone[case.golden, case.trial] for case in rows]


def test_a_single_agent_shows_the_same_numbers_as_alone() -> None:
    """One named agent is not several: there is nothing to put side by side."""
    named, alone = agents_report({"mini": TRIALS["mini"]}, 3), agent_report(TRIALS["mini"], 3)

    assert (named.summaries, named.trial_summaries, str(named)) == (alone.summaries, alone.trial_summaries, str(alone))
    assert agent_table(named) is None
    assert named.comparisons == ()
    assert [case.label for case in named.cases][:2] == ["refund (mini, trial 1)", "refund (mini, trial 2)"]


def test_an_unknown_agent_is_refused() -> None:
    """The message has the names that exist."""
    with pytest.raises(ConfigurationError, match="agent must be one of gpt-4o, mini, got 'nano'"):
        agents_report(AGENTS).of_agent("nano")


def test_components_stay_rows_of_their_golden() -> None:
    """A golden with two rows keeps its position, which then says that they belong together."""
    cases = tuple(
        CaseResult(place, LLMTestCase(id="refund"), (), apart=frozenset({0}), golden=0, agent=name)
        for place, name in enumerate(["a", "a", "b", "b"])
    )
    part = Report((), cases).of_agent("b")

    assert [(case.index, case.golden, case.agent) for case in part.cases] == [(0, 0, None), (1, 0, None)]


# Comparison


@given(st.data(), st.none() | st.integers(1, 3))
def test_agents_are_compared_as_evaluations_are(data: st.DataObject, trials: int | None) -> None:
    """Each with the first, in the order of the agents."""
    report = agents_report(data.draw(outcomes(trials or 1)), trials)
    first, *others = report.agents

    expected = [compare(report.of_agent(first), report.of_agent(name)) for name in others]
    assert list(report.comparisons) == expected


def test_goldens_without_an_id_are_paired_though_the_conversations_differ() -> None:
    """A simulated user says other things to each agent."""
    talks = [ConversationalTestCase(turns=[Turn(role="user", content=text)]) for text in ("hi", "a", "oh", "b")]
    measured = evaluate(talks, [ToolSuccessRate()], show_progress=False)
    cases = [
        replace(case, golden=case.index % 2, agent=name)
        for case, name in zip(measured.cases, ["x", "x", "y", "y"], strict=True)
    ]
    (comparison,) = Report(measured.metrics, tuple(cases)).comparisons

    assert (comparison.in_both, comparison.only_a, comparison.only_b) == (2, (), ())


def test_two_reports_of_several_agents_are_compared_agent_by_agent() -> None:
    """The order of the agents does not matter, and labels name them."""
    before = agents_report(AGENTS)
    after = agents_report({"mini": AGENTS["mini"], "gpt-4o": {**AGENTS["gpt-4o"], "hello": "f"}})
    comparison = compare(before, after)

    assert [change.case for change in comparison.metrics[0].regressions] == ["hello (gpt-4o)"]
    assert comparison.metrics[0].improvements == ()
    assert comparison.repeated  # the answers to one golden are one cluster


def test_several_agents_are_not_compared_with_one() -> None:
    """The message says how to take the part of one."""
    report = agents_report(AGENTS)

    with pytest.raises(ConfigurationError, match=r"by their ids and agents; Report\.of_agent returns the part"):
        compare(agent_report(AGENTS["mini"]), report)


def test_an_agent_that_was_never_asked_is_not_compared() -> None:
    """After an interruption, agents may have no golden in common."""
    report = agents_report(AGENTS)
    left = replace(report, cases=(report.cases[0], report.cases[5]), interrupted=True)
    table = agent_table(left)

    assert table is not None
    assert table.metrics[0].cells[1][-1] == "nothing to compare"
    assert [[cell.text for cell in row.cells] for row in table.goldens] == [
        ["not asked", "failed"],
        ["passed", "not asked"],
    ]


# JSON and JUnit


@pytest.mark.parametrize(("by_agent", "trials"), [(AGENTS, None), (TRIALS, 3)], ids=["once", "trials"])
def test_json_has_the_agents_and_is_read_again(by_agent: dict[str, dict[str, str]], trials: int | None) -> None:
    """With the agent of each case."""
    report = agents_report(by_agent, trials)
    plain = json.loads(report.to_json())
    read = report_of(plain, "report")

    assert read.agents == report.agents
    assert read.comparisons == report.comparisons


def test_rows_for_tables_have_the_agent() -> None:
    """`None` without agents."""
    assert [row["agent"] for row in agents_report(AGENTS).to_rows()] == ["gpt-4o"] * 4 + ["mini"] * 4
    assert {row["agent"] for row in agent_report(AGENTS["mini"]).to_rows()} == {None}


def test_junit_has_a_test_case_for_each_agent() -> None:
    """No server takes the answers of two agents for one test."""
    text = render_junit(agents_report(AGENTS), title="x")

    assert '<testcase name="refund (gpt-4o)"' in text
    assert '<testcase name="refund (mini)"' in text


# The table


def test_the_text_has_lines_for_each_agent() -> None:
    """What happened, the totals, and the differences."""
    name = METRIC.label
    lines = str(agents_report({"a": {"x": "p", "y": "p"}, "b": {"x": "f", "y": "p"}})).splitlines()

    assert lines == [
        "Failed: 1 of 4 cases failed.",
        "By agent: a passed 2 of 2 cases, b passed 1 of 2 cases.",
        "Most often wrong: 'pay' in 1 of 1 failed case (1 missing).",
        f"a: {name}: mean 1 over 2 cases; 2 passed, 0 failed (at 1), 0 skipped, 0 errored",
        f"b: {name}: mean 0.75 over 2 cases; 1 passed, 1 failed (at 1), 0 skipped, 0 errored",
        f"b against a: {name}: -0.25 over 2 cases; 1 worse, 0 better, p 1",
    ]


@pytest.mark.parametrize(
    ("worse", "lines"),
    [
        (6, ["-0.30, p = 0.031"]),
        (5, ["-0.25, p = 0.062", "may be chance"]),
        (0, ["0.00, p = 1.000"]),
    ],
)
def test_a_difference_has_its_p(worse: int, lines: list[str]) -> None:
    """Above 0.05 it may be chance; where nothing differs there is nothing to explain."""
    goldens = [f"golden {number}" for number in range(10)]
    first, second = dict.fromkeys(goldens, "p"), {name: "f" if at < worse else "p" for at, name in enumerate(goldens)}
    table = agent_table(agents_report({"a": first, "b": second}))

    assert table is not None
    assert table.metrics[0].cells[0] == ("mean 1.00", "10 of 10 passed")
    assert list(table.metrics[0].cells[1][2:]) == lines


@given(outcomes(2).filter(lambda by_agent: len(by_agent) > 1))
def test_goldens_where_agents_differ_come_first(by_agent: dict[str, dict[str, str]]) -> None:
    """Each golden has one row with an outcome of each agent, whose worst row it names."""
    report = agents_report(by_agent, 2)
    table = agent_table(report)

    assert table is not None
    differ = [row.differs for row in table.goldens]
    assert differ == sorted(differ, reverse=True)
    assert sorted(row.name for row in table.goldens) == sorted(next(iter(by_agent.values())))
    labels = {case.index: case.agent for case in report.cases}
    for row in table.goldens:
        assert [labels[cell.case] for cell in row.cells if cell.case is not None] == list(report.agents)


def test_trials_of_a_golden_are_counted() -> None:
    """One word if they all ended alike."""
    table = agent_table(agents_report(TRIALS, 3))

    assert table is not None
    assert table.golden_title == "3 goldens; the agents differ on 2"
    assert table.metrics[0].cells[0] == ("mean 0.83", "6 of 9 passed", "pass^3 0.67")
    assert {row.name: texts(row) for row in table.goldens} == {
        "refund": ["passed", "2 of 3 passed", "not measured"],
        "parcel": ["failed", "passed", "failed"],
        "hello": ["passed", "passed", "passed"],
    }


def texts(row: GoldenRow) -> list[str]:
    """The words of a row."""
    return [cell.text for cell in row.cells]


def test_the_worst_metric_decides() -> None:
    """A golden is passed if every metric passes it; what a metric skips does not count."""
    look = ToolCall(name="look")
    cases = [LLMTestCase(id="x", tools_called=[look], expected_tools=[look])]
    measured = evaluate(cases, [METRIC, ToolSuccessRate()], show_progress=False)
    passed, failed = measured.cases[0], agent_report({"x": "f"}).cases[0].results
    rows = [
        replace(passed, golden=0, agent="a"),
        replace(passed, index=1, golden=0, agent="b", results=(failed[0], passed.results[1])),
    ]
    table = agent_table(Report(measured.metrics, tuple(rows)))

    assert table is not None
    assert texts(table.goldens[0]) == ["passed", "failed"]
