"""Run health: a metric of whether a run looks as if it went well, for logs that state nothing to compare with."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar, Final, NamedTuple

from toolgrade._internal.text import number_text, printable, shorten
from toolgrade.calls import ToolCall
from toolgrade.cases import TestCase
from toolgrade.failed_calls import has_succeeded, is_error, is_unrecorded, looks_failed
from toolgrade.metrics.base import Details, Measurement, Metric, result_of
from toolgrade.metrics.called_tools import (
    call_finding,
    check_case,
    identity_key,
    inferred_success_warnings,
    omission_warnings,
    recorded_run,
    text_of,
)
from toolgrade.metrics.task_success import recorded_texts
from toolgrade.metrics.tool_effects import is_hand_over
from toolgrade.metrics.tool_efficiency import outcome_key
from toolgrade.metrics.tool_recovery import UNRECOVERED, episode_finding, failure_episodes
from toolgrade.result import Finding, MetricResult, redact_at_path
from toolgrade.verdict import run_end, wrong_end

_LONGEST_QUOTE = 120
_LONGEST_SUBJECT = 40
"""Characters before `was unable to` in which its subject is looked for."""

_TASKS: Final = r"""(?:\w{1,12}ly\ )?(?:access|answer|book|calculate|carry|complete|compute|confirm|connect|continue
    |create|determine|download|execute|extract|fetch|find|finish|fulfill?|gather|generate|get|identify|load|locate|obtain|open|perform|proceed
    |process|provide|reach|read|resolve|retrieve|search|send|verify)\b"""
"""Verbs of what agents fail to do; not those of what rules forbid, such as `I cannot refund`, `change` or `offer`."""

_INABILITY: Final = re.compile(
    rf"""\b(?:
      (?:(?:was|were|been)\ (?:\w{{1,12}}\ )?(?:unable|not\ able)|wasn't\ able|weren't\ able|failed)\ to\b
    | could(?:n't|\ not)\b
    | (?:unable\ to|not\ able\ to|can't|cannot|can\ not)\ {_TASKS}
    | (?:do|did)(?:n't|\ not)\ (?:\w{{1,12}}\ )?have\ (?:\w{{1,12}}\ ){{0,2}}
        (?:access|ability|enough|permission|sufficient|tools?)\b
    | (?:encountered|experienc(?:ed|ing)|ran\ into)\ (?:\w{{1,12}}\ ){{0,3}}(?:difficult|issue|limitation|problem)
    )""",
    re.VERBOSE,
)
_BY_THE_AGENT: Final = re.compile(r"(?:\A|[.!?\n])[^\w.!?\n]{0,3}\Z|\b(?:i|we)\b[^.!?\n]*\Z")
"""Before an inability: a sentence begins there, or is about the agent."""

_TROUBLE: Final = re.compile(
    r"""\b(?:
      could(?:n't|\ not)\ be\ (?:found|\w{2,20}ed)\b
    | sorry,?\ but\b
    | something\ went\ wrong\b|having\ trouble\ \w{2,20}ing\b
    | (?:request|call|connection|tool|server)\ (?:has\ )?timed\ out\b
    | (?:have|has)(?:n't|\ not)\ been\ able\ to\b
    | an?\ (?:\w{1,12}\ ){0,2}(?:error|exception)\ (?:has\ )?occurred\b
    | (?:encountered|resulted\ in|returned|threw)\ an?\ (?:\w{1,12}\ ){0,2}error\b
    | there\ (?:is|was|were|(?:appears|seems)\ to\ (?:be|have\ been))\ (?:an?|some)\ (?:\w{1,12}\ )?
        (?:error|issue|problem)s?\ (?:access|connect|fetch|prevent|process|retriev|when|while|with)
    | try\ again\ (?:later|shortly|in\ a)\b
    | due\ to\ (?:an?\ |some\ )?(?:api|connect\w{1,6}|internal|network|server|technical)\ (?:\w{1,12}\ )?
        (?:difficult|error|failure|issue|limitation|problem)
    | stopped\ due\ to\b|need\ more\ steps\ to\b
    | (?:exceeded|reached)\ (?:the\ )?max(?:imum)?\ (?:number\ of\ )?(?:iteration|step|turn)s\b
    | leider\ (?:kann|konnte)\b|ich\ konnte\ [^.!?\n]{0,40}\bnicht\b|ein\ (?:\w{1,20}\ )?fehler\ aufgetreten\b
    | je\ n'ai\ pas\ (?:pu|réussi|trouvé)\b|une\ erreur\ (?:est\ survenue|s'est\ produite)\b
    | no\ (?:he\ podido|pude|fue\ posible)\b|(?:ha\ ocurrido|ocurrió|se\ produjo)\ un\ error\b
    | não\ (?:consegui|foi\ possível)\b
    )|我无法|未能|发生错误|出现错误""",
    re.VERBOSE,
)
"""What agents and their frameworks say of a run that failed, whoever the subject is."""

_REQUEST_TEXT: Final = re.compile(
    r"""["']action["']\s{0,9}:\s{0,9}["']|["']action_input["']\s{0,9}:|^Action\ Input:|\[TOOL_CALLS\]
    |<(?:tool_call|function_calls?|\|python_tag\||function=\w+)>""",
    re.VERBOSE | re.MULTILINE,
)
"""How models and frameworks write the request for a tool, where it was not read as one."""


_WITHOUT_CONTENT: Final = re.compile(
    r"(?:\s|[\u200b-\u200f\u2060\ufeff]|<think>[^<]{0,10000}</think>|none|null|\{\}|\[\])*", re.IGNORECASE
)
"""An answer that says nothing: white space, characters of no width, thoughts, and values that stand for nothing."""


@dataclass(frozen=True, eq=False)
class RunHealthMetric(Metric):
    """Looks for signs that a run did not go well, in what was recorded of it. It needs no golden.

    - `answered`: 1 if the run came to its end with an answer, else 0. An empty text is none, and neither is a request
      for a tool that the model wrote as text. A run that hands the conversation over at its end needs no answer.
    - `recovered`: 1 - failed calls that the agent did not recover from / calls whose outcome is known; failures are
      those of `ToolSuccessRate`, recoveries those of `ToolRecoveryMetric`.
    - `no_admission`: 0 if the answer admits that the agent failed (`I was unable to find`, `an error occurred`), else
      1. A refusal by rules (`I cannot refund this ticket`) is no admission.
    - `no_loop`: 0 if an identical call was made again and had the same answer or error, else 1.

    The score is the mean of the checks. What was not recorded is left out with a warning, and without calls the two
    about calls are; a case of which nothing can be checked is skipped. See docs/metrics.md.

    The score does not say whether an answer is right; `TaskSuccessMetric` does, where a case states what it must be.

    Args:
        threshold: The lowest score that passes, in [0, 1]. At 1 a run with any sign fails, at 0.75 one with two.
        strict_mode: Threshold 1, and any score below 1 becomes 0.
        include_reason: Put the arithmetic and the findings into words.
        verbose_mode: Print the result of each measured case.

    Raises:
        ConfigurationError: An option is out of range.

    Example:
        >>> from toolgrade import LLMTestCase, RunHealthMetric, ToolCall
        >>> calls = [ToolCall(name="search", output="Error: 503"), ToolCall(name="search", output="no rooms")]
        >>> case = LLMTestCase(tools_called=calls, actual_output="I was unable to find a room.")
        >>> result = RunHealthMetric().measure(case)
        >>> print(result.score, [finding.kind for finding in result.findings])
        0.75 ['admits_failure']
    """

    _name: ClassVar[str] = "run_health"

    threshold: float = 1.0
    strict_mode: bool = False
    include_reason: bool = True
    verbose_mode: bool = False

    def _compute(self, case: TestCase) -> MetricResult:
        check_case(case, type(self).__name__)
        answer, calls = _final_text(case), case.tools_called or ()
        checks = [_answered(case, answer), *_checks_of_calls(calls), *_no_admission(answer)]
        parts = {check.name: check.value for check in checks if check.value is not None}
        scores = {"total": fmean(parts.values())} if parts else {}
        terms = " + ".join(f"{name} {number_text(value)}" for name, value in parts.items())
        details = Details(
            {name: f"({terms}) / {len(parts)} = {number_text(score)}" for name, score in scores.items()},
            parts=parts,
            findings=[finding for check in checks for finding in check.findings],
            warnings=[
                *(["the calls were not recorded"] if case.tools_called is None else ()),
                *(warning for check in checks for warning in check.warnings),
                *inferred_success_warnings(calls),
            ],
        )
        measurement = Measurement(scores, details, skip_reason="nothing could be checked")
        return result_of(self, self._with_notes_and_turns(case, measurement))


class _Check(NamedTuple):
    """One check of a run."""

    name: str
    value: float | None
    """In [0, 1]; `None` if what it needs was not recorded."""
    findings: Sequence[Finding] = ()
    warnings: Sequence[str] = ()


def _final_text(case: TestCase) -> str | None:
    """Return the final answer, empty if there is none; `None` if it is unknown. An image counts as a text."""
    if case.actual_output is not None:
        has_image = any(not isinstance(part, str) for part in case.actual_output)
        return text_of(case.actual_output).strip() or "(image)" * has_image
    texts, run = recorded_texts(case), recorded_run(case)
    # Messages that end with the answer of a tool may be those of one request, and a run may only have an id.
    is_open = run is not None and (
        run_end(case)[0] is None or run.model_fields_set.isdisjoint({"status", "actual_output"})
    )
    if texts is None or is_open:
        return None
    return texts[-1].strip() if texts else ""


def _answered(case: TestCase, answer: str | None) -> _Check:
    name, last = "answered", case.tools_called[-1] if case.tools_called else None
    needs_answer = case.ends in {None, "ok"}
    if wrong_end(case) is not None:
        text = "The run did not come to its own end." if needs_answer else f"The run did not end with {case.ends!r}."
        return _Check(name, 0.0, [Finding("not_ended", text, "")])
    if not needs_answer and run_end(case)[0] is not None:
        return _Check(name, 1.0)
    if last is not None and is_hand_over(last.name) and has_succeeded(last):
        return _Check(name, 1.0)
    if answer is None:
        return _Check(name, None, warnings=["the answer was not recorded"])
    if _WITHOUT_CONTENT.fullmatch(answer):
        return _Check(name, 0.0, [Finding("no_answer", "The run has no answer.", "")])
    if _REQUEST_TEXT.search(answer):
        text = "The run has no answer: its last text is a request for a tool."
        return _Check(name, 0.0, [Finding("no_answer", text, "")])
    return _Check(name, 1.0)


def _no_admission(answer: str | None) -> list[_Check]:
    if not answer:
        return []
    quote = answer.split("\n", 1)[0] if is_error(answer) else _admission(answer)
    if quote is None:
        return [_Check("no_admission", 1.0)]
    safe = shorten(printable(str(redact_at_path(quote, None))), _LONGEST_QUOTE)
    return [_Check("no_admission", 0.0, [Finding("admits_failure", f"The answer admits a failure: {safe!r}.", "")])]


def _admission(answer: str) -> str | None:
    """Return the line of an answer, from the words on, that admits that the agent failed; `None` if there is none."""
    lines = [" ".join(line.split()) for line in answer.replace("\u2019", "'").splitlines()]
    text = "\n".join(filter(None, lines))  # one space between words, so that no expression has to repeat it
    lower = text.lower()
    match = _TROUBLE.search(lower)
    for inability in () if match else _INABILITY.finditer(lower):
        start = inability.start()
        if _BY_THE_AGENT.search(lower[max(0, start - _LONGEST_SUBJECT) : start]):
            match = inability
            break
    if match is None:
        return None
    quoted = text if len(text) == len(lower) else lower  # a few letters are longer in lower case
    return quoted[match.start() :].split("\n", 1)[0]


def _checks_of_calls(calls: Sequence[ToolCall]) -> list[_Check]:
    decided = {index for index, call in enumerate(calls) if _has_known_outcome(call)}
    warnings = omission_warnings(sum(map(is_unrecorded, calls)), "their outcome was not recorded")
    if not decided:
        return [_Check("recovered", None, warnings=warnings)]
    left = [episode for episode in sorted(failure_episodes(calls)) if episode.outcome in UNRECOVERED]
    share = (len(decided) - sum(len(episode.failures) for episode in left)) / len(decided)
    recovered = _Check("recovered", share, [episode_finding(calls, episode) for episode in left], warnings)
    return [recovered, _no_loop(calls, sorted(decided))]


def _has_known_outcome(call: ToolCall) -> bool:
    return looks_failed(call) or (has_succeeded(call) and not is_unrecorded(call))


def _no_loop(calls: Sequence[ToolCall], decided: Iterable[int]) -> _Check:
    first: dict[Hashable, int] = {}
    findings: list[Finding] = []
    keys = {index: identity_key(calls[index]) for index in decided}
    for index, key in keys.items():
        call = calls[index]
        if key is not None and (call.captured("output") or looks_failed(call)):
            earlier = first.setdefault((key, outcome_key(call)), index)
            if earlier != index:
                detail = f", the same as #{earlier + 1}, and with the same answer"
                findings.append(call_finding("loop", "Loop", call, index, detail))
    warnings = omission_warnings(list(keys.values()).count(None), "their arguments were not recorded or are redacted")
    return _Check("no_loop", float(not findings) if first else None, findings, warnings)
