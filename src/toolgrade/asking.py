"""Asking of agents: from a golden to the case with its runs, also if the agent breaks or is late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from toolgrade._internal.model import drop_none, set_fields
from toolgrade._internal.sync_bridge import GRACE, call
from toolgrade._internal.text import error_text
from toolgrade.agents import AgentCallable, Conversation
from toolgrade.calls import is_pending
from toolgrade.capture.conversations import conversation as conversation_of
from toolgrade.capture.conversations import joined
from toolgrade.capture.doubles import Cursor, run_of
from toolgrade.cases import NOT_ASKED, ConversationalTestCase, LLMTestCase, Run, RunStatus, Turn
from toolgrade.dataset import ANSWERS, Golden
from toolgrade.errors import ConfigurationError, ToolgradeError
from toolgrade.expect.fields import is_silence
from toolgrade.expect.turns import in_one_turn
from toolgrade.metrics.tool_policy import APPROVED
from toolgrade.report.text.phrases import USER_MODEL
from toolgrade.user_turns import Approve, Reject, SimulatedUser, TurnItem, UserFunction, UserInput, UserTurn, item_json

if TYPE_CHECKING:
    from toolgrade.judge import Judge
    from toolgrade.simulated_user import PlayedUser

_MOST_INPUTS: Final = 200
"""The most that a function as user says, since it may have no end."""

_OF_GOLDEN: Final = (
    *("id", "expected_tools", "expected_output", "required_texts", "ends", "available_tools", "tags", "metadata"),
)


class Limits(NamedTuple):
    """Seconds for each call of an agent, and for a whole golden; `None` for no limit."""

    timeout: float | None = None
    golden_timeout: float | None = None

    @property
    def of_question(self) -> float | None:
        """The seconds for a golden of one question, whose only call both bound."""
        return min(drop_none(self._asdict()).values(), default=None)


NO_LIMITS: Final = Limits()


async def run_golden(golden: Golden, agent: AgentCallable, limit: float | None = None) -> LLMTestCase:
    """Run an agent on a golden of one question in a new conversation, and return the case.

    If the agent raises, or has not answered after `limit` seconds, the run of the case says so. Its called tools are
    then unknown, unless the agent has stored them in `Conversation.unfinished`. The id of the golden becomes that of
    the case.
    """
    late = f"TimeoutError: no answer within {limit:g} s" if limit is not None else ""
    with run_of(golden) as cursor:
        run = await _run_agent(agent, golden.question, Conversation(), limit, late)
    return _case(golden, run if cursor is None else cursor.checked(run))


async def run_conversation(
    golden: Golden,
    agent: AgentCallable,
    limits: Limits = NO_LIMITS,
    user_model: Judge | None = None,
    on_turn: Callable[[], None] = lambda: None,
) -> ConversationalTestCase:
    """Let the user of a golden talk to an agent in a new conversation, and return the case.

    A run that does not end well ends the conversation, unless it waits for a person and the user answers it, in the
    same turn. If the user breaks, the case has a `user_error`. `user_model` plays a simulated user, and `on_turn` is
    called after each answer of the agent.
    """
    with run_of(golden) as cursor:
        talk = _Talk(golden, agent, limits, user_model, cursor)
        while await talk.goes_on():
            on_turn()
    return talk.case()


@dataclass
class _SpokenTurn:
    """What the user said in a turn, and the run in answer to all of it; `answers` are those to a run that waited."""

    item: UserTurn
    run: Run
    answers: tuple[UserInput, ...] = ()


class _Talk:
    """A conversation of the user of a golden with an agent."""

    def __init__(
        self, golden: Golden, agent: AgentCallable, limits: Limits, user_model: Judge | None, cursor: Cursor | None
    ) -> None:
        self._golden = golden
        self._cursor = cursor
        self._agent = agent
        self._limits = limits
        self._began = asyncio.get_running_loop().time()
        self._conversation = Conversation()
        self._turns: list[_SpokenTurn] = []
        self._inputs = count(1)
        self._user_error: str | None = None
        self._approved: list[str] = []
        self._played: PlayedUser | None = None
        if isinstance(golden.user, SimulatedUser):
            from toolgrade.simulated_user import PlayedUser  # noqa: PLC0415 - loads the judge

            if user_model is None:
                raise ConfigurationError("a SimulatedUser needs user_model, the model that plays it")
            self._played = PlayedUser(golden.user, user_model)
        self._script: Iterator[object] = iter(golden.turns or ())

    async def goes_on(self) -> bool:
        """Let the user say something and the agent answer; return whether the conversation goes on."""
        item = await self._next()
        if item is None:
            return False
        waiting = self._waiting
        if isinstance(item, (Approve, Reject)) and waiting is None:
            self._end_unasked(item)
            return False
        texts = [waiting.item, item] if waiting is not None and isinstance(item, UserTurn) else []
        if any(is_silence(text.expected_tools) for text in texts):
            self._script = chain([item], self._script)  # one text expects no call, so the other is no answer to it
            return False
        content = item.content if isinstance(item, UserTurn) else item
        run = await _run_agent(self._agent, content, self._conversation, *self._limit())
        run = run if self._cursor is None else self._cursor.checked(run)
        if waiting is None:
            self._turns.append(_SpokenTurn(cast("UserTurn", item), run))
        else:
            self._continue(waiting, item, run)
        return self._turns[-1].run.status in {RunStatus.OK, RunStatus.INTERRUPTED}

    def _continue(self, waiting: _SpokenTurn, item: TurnItem, run: Run) -> None:
        """Add what the user said to a run that waited, and the run that goes on with it."""
        if isinstance(item, Approve):
            self._approved += [one.id for one in waiting.run.calls if one.id and is_pending(one)]
        waiting.run = joined(waiting.run, run, goes_on=True) or run
        waiting.answers += (item.content if isinstance(item, UserTurn) else item,)
        if isinstance(item, UserTurn):
            waiting.item = _with_expectations(waiting.item, item)

    @property
    def _waiting(self) -> _SpokenTurn | None:
        """The last turn if its run waits for a person."""
        last = self._turns[-1] if self._turns else None
        return last if last is not None and last.run.status is RunStatus.INTERRUPTED else None

    async def _next(self) -> TurnItem | None:
        """Return what the user says next; `None` at the end, or if the user breaks."""
        if self._golden.turns is not None:
            return cast("TurnItem | None", next(self._script, None))
        user = cast("UserFunction", self._played or self._golden.user)
        seconds, _ = self._limit(whole=True)
        try:
            item, error = await asyncio.wait_for(call(user, self.case()), seconds)
        except (TimeoutError, asyncio.TimeoutError):
            item, error = None, ToolgradeError(f"the user said nothing within {self._limits.golden_timeout:g} s")
        problem = _problem_of(item, error) or self._misplaced(item)
        if problem is not None:
            self._user_error = f"in turn {len(self._turns) + (self._waiting is None)}, {problem}"
            return None
        return UserTurn(item) if isinstance(item, str) else cast("TurnItem | None", item)

    def _misplaced(self, item: object) -> str | None:
        """Return why the user cannot say this now; `None` if it can."""
        if item is None:
            return None if self._turns else "the user said nothing"
        if isinstance(item, (Approve, Reject)) and self._waiting is None:
            return f"the user returned {type(item).__name__}(), but the agent does not wait for a person"
        if self._played is None and next(self._inputs) > _MOST_INPUTS:
            return f"the user did not stop after {_MOST_INPUTS} texts; return None at the end"
        return None

    def _limit(self, *, whole: bool = False) -> tuple[float | None, str]:
        """Return the seconds that the agent has now, and the error if it is late; if `whole`, those of the golden."""
        timeout, golden_timeout = self._limits
        if golden_timeout is not None:
            left = max(self._began + golden_timeout - asyncio.get_running_loop().time(), 0.0)
            if whole or timeout is None or left < timeout:
                return left, f"TimeoutError: the whole golden took longer than {golden_timeout:g} s"
        return (None, "") if whole or timeout is None else (timeout, f"TimeoutError: no answer within {timeout:g} s")

    def _end_unasked(self, item: Approve | Reject) -> None:
        """End the conversation where the golden has an answer for a run that should have waited, and did not."""
        last, name = self._turns[-1], type(item).__name__
        error = f"turn {len(self._turns)} should have waited for {name}(), and the agent did not wait for a person"
        last.run = last.run.model_copy(update={"status": RunStatus.STOPPED, "error": error})

    def case(self) -> ConversationalTestCase:
        """Return the conversation so far."""
        golden = self._golden
        runs = [turn.run.model_copy(update={"input": turn.item.content}) for turn in self._turns]
        recorded = conversation_of(runs)
        turns: list[Turn] = []
        for turn, run in zip(self._turns, runs, strict=True):
            turns += [_user_turn(turn), _agent_turn(run)]
        for item in self._script:  # what was never asked was not answered, and its calls were not made
            if isinstance(item, UserTurn):
                turns += [Turn(role="user", **set_fields(item)), NOT_ASKED]
        tags = [*golden.tags, *dict.fromkeys(chain.from_iterable(run.tags for run in runs))]
        # A golden of a conversation that was played before has what that one used.
        metadata = dict(golden.metadata)
        metadata.pop(USER_MODEL, None)
        if self._played is not None:
            metadata[USER_MODEL] = self._played.used
        if self._approved:
            metadata[APPROVED] = [*metadata.get(APPROVED, []), *self._approved]
        fields = {
            "available_tools": recorded.available_tools,
            "instructions": recorded.instructions,
            **{name: value for name, value in set_fields(golden).items() if name in _OF_GOLDEN},
            "tags": tags or None,
            "metadata": metadata or None,
            "user_error": self._user_error,
        }
        return ConversationalTestCase(turns=turns, **drop_none(fields))


def _problem_of(item: object, error: BaseException | None) -> str | None:
    """Return what is wrong with what a user said; `None` if it can be said."""
    if error is not None:
        return str(error) if isinstance(error, ToolgradeError) else f"the user raised {error_text(error)}"
    if item is not None and not isinstance(item, (str, Approve, Reject)):
        return f"the user must return text, Approve(), Reject() or None, got {type(item).__name__}"
    return "the user said nothing" if isinstance(item, str) and not item.strip() else None


def _with_expectations(item: UserTurn, answer: UserTurn) -> UserTurn:
    """Return what the user said in a turn, with what a text in answer to its waiting run states."""
    expected = in_one_turn([item.expected_tools, answer.expected_tools])
    texts = [*item.required_texts, *answer.required_texts]
    return UserTurn(item.content, expected_tools=expected, required_texts=texts or None)


def _user_turn(turn: _SpokenTurn) -> Turn:
    fields = set_fields(turn.item)
    if turn.answers:
        fields["metadata"] = {ANSWERS: [one if isinstance(one, str) else item_json(one) for one in turn.answers]}
    return Turn(role="user", **fields)


def _agent_turn(run: Run) -> Turn:
    fields = set_fields(conversation_of([run]).turns[-1])
    fields["metadata"] = {"status": run.status.value, **fields.get("metadata", {})}  # also a good end is known
    if _has_unknown_calls(run):
        del fields["tools_called"]
    return Turn(**fields)


def _has_unknown_calls(run: Run) -> bool:
    """Return whether the calls of a run are unknown, which differs from no calls."""
    return run.status is not RunStatus.OK and "calls" not in run.model_fields_set


async def _run_agent(
    agent: AgentCallable, item: UserInput, conversation: Conversation, limit: float | None, late: str
) -> Run:
    """Return the run of an agent in answer to what the user said; if the agent breaks or is late, it says so.

    `late` is the error of one that takes longer than `limit` seconds.
    """
    # The agent has a task of its own: what it does to its context or its task concerns no other question.
    asking = asyncio.ensure_future(_answer(agent, item, conversation))
    try:
        await asyncio.wait({asking}, timeout=limit)
        is_late = not asking.done()
    finally:
        if not asking.done():
            asking.cancel()
            await asyncio.wait({asking}, timeout=GRACE)
    run = asking.result() if asking.done() and not asking.cancelled() else None
    if run is None or is_late:
        conversation.unfinished = conversation.unfinished or run
        run = _broken_run(item, conversation, RunStatus.STOPPED, late if is_late else "CancelledError")
    if run.status is RunStatus.STOPPED and run.error is None:  # a list of messages may not know, but the agent does
        run = run.model_copy(update={"error": "the run was stopped"})
    if run.error is not None:
        run = run.model_copy(update={"error": " ".join(run.error.split())})  # reports show it on one line
    return run


async def _answer(agent: AgentCallable, item: UserInput, conversation: Conversation) -> Run:
    """Return the run of an agent; if it raises or returns something else, a run with the error."""
    conversation.unfinished = None
    result, error = await call(agent, item, conversation)
    if error is None and isinstance(result, Run):
        return result
    text = f"the agent must return a Run, got {type(result).__name__}" if error is None else error_text(error)
    return _broken_run(item, conversation, RunStatus.ERROR, text)


def _broken_run(item: UserInput, conversation: Conversation, status: RunStatus, error: str) -> Run:
    """Return the run of an agent that did not return one, with unknown calls unless it has stored them."""
    run = conversation.unfinished or Run(
        input=item if isinstance(item, str) else None,
        conversation_id=conversation.id,
        warnings=["the agent failed without a run, so its calls are unknown"],
    )
    return run.model_copy(update={"status": status, "error": error, "actual_output": None})


def _case(golden: Golden, run: Run) -> LLMTestCase:
    """Return the case of a golden and its run.

    The golden's input replaces that of the run, and so do its available tools unless they are `None`. Tags are joined
    and metadata is merged; for a key in both, the golden's value counts.
    """
    case = run.to_test_case(
        expected_tools=golden.expected_tools,
        expected_output=golden.expected_output,
        required_texts=golden.required_texts or None,
        ends=golden.ends,
        id=golden.id,
    )
    # A field that is set, even to an empty value, is written to files; without tags or metadata it should not be.
    changed = {
        "input": golden.input,
        "tags": [*golden.tags, *case.tags] or None,
        "metadata": {**case.metadata, **golden.metadata} or None,
        "available_tools": golden.available_tools,
    }
    fields = set_fields(case) | drop_none(changed)
    if _has_unknown_calls(run):
        del fields["tools_called"]
    return LLMTestCase(**fields)
