"""Adapters that are wrong, each in one way, and the rules of the contract that each of them breaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from toolgrade.agents import AgentCallable, Conversation
from toolgrade.calls import CallStatus
from toolgrade.capture import Request, RunBuilder, conversation
from toolgrade.capture.doubles import at
from toolgrade.cases import ConversationalTestCase, MLLMImage, Run, RunStatus
from toolgrade.testing import AskFor, HandOff, Recorded, Scene, Step
from toolgrade.user_turns import Approve, UserInput
from toy_framework import (
    Answered,
    Began,
    Ended,
    Instructed,
    Offered,
    Passed,
    Paused,
    PlainContract,
    Raised,
    Recorder,
    Resumed,
    Returned,
    Showed,
    Started,
    Structured,
    Tell,
    read,
)


class DropsFailedCalls(Recorder):
    """Keeps only what went well."""

    def run(self, run: str) -> Run:
        """Leave out calls that failed."""
        whole = super().run(run)
        calls = [call for call in whole.calls if call.execution and call.execution.status is not CallStatus.ERROR]
        return whole.model_copy(update={"calls": calls})


class CompletionOrder(Recorder):
    """Records a call when it ends, with its arguments at that time."""

    def __init__(self) -> None:
        """Remember what runs."""
        super().__init__()
        self.running: dict[str, Started] = {}

    def answered(self, builder: RunBuilder, event: Answered) -> None:
        """Pay no attention to what the model asks for."""

    def started(self, builder: RunBuilder, event: Started) -> None:  # noqa: ARG002 - it waits for the end
        """Wait for the end."""
        self.running[event.key] = event

    def returned(self, builder: RunBuilder, event: Returned) -> None:
        """Note the whole call."""
        super().started(builder, self.running[event.key])
        super().returned(builder, event)


class SharesState(Recorder):
    """Assigns events to the run that started last."""

    def __init__(self) -> None:
        """Begin without a current run."""
        super().__init__()
        self.current = ""

    def builder(self, run: str) -> RunBuilder:
        """Whatever happens belongs to the current run."""
        if run not in self.builders:
            self.current = run
        return super().builder(self.current)

    def run(self, run: str) -> Run:
        """What was recorded under this name."""
        return self.builders[run].build()


class LetsFaultsThrough(Recorder):
    """Disturbs the agent."""

    def failed(self, builder: RunBuilder, error: Exception) -> None:  # noqa: ARG002 - it notes nothing
        """Raise."""
        raise error


class KeepsFaultsToItself(Recorder):
    """Does not report lost data."""

    def failed(self, builder: RunBuilder, error: Exception) -> None:
        """Say nothing."""


class KeysByIdOnly(Recorder):
    """Takes ids for unique."""

    def __init__(self) -> None:
        """Remember which id is which execution."""
        super().__init__()
        self.ids: dict[str, str | None] = {}
        self.keys: dict[str | None, str] = {}

    def started(self, builder: RunBuilder, event: Started) -> None:
        """Remember the execution by its id."""
        self.ids[event.key], self.keys[event.call.id] = event.call.id, event.key
        super().started(builder, event)

    def returned(self, builder: RunBuilder, event: Returned) -> None:
        """Find the execution by its id."""
        super().returned(builder, replace(event, key=self.keys[self.ids[event.key]]))


class JoinsRepeatedIds(Recorder):
    """Takes a request whose id was seen before for the same request."""

    def __init__(self) -> None:
        """Remember ids."""
        super().__init__()
        self.requests: set[tuple[int, str | None]] = set()

    def answered(self, builder: RunBuilder, event: Answered) -> None:
        """Leave out requests whose id was seen."""
        calls = tuple(call for call in event.step.calls if (id(builder), call.id) not in self.requests)
        self.requests.update((id(builder), call.id) for call in calls)
        super().answered(builder, replace(event, step=replace(event.step, calls=calls)))


class JoinsEqualRequests(Recorder):
    """Takes a request that was made before for the same request."""

    def __init__(self) -> None:
        """Remember requests."""
        super().__init__()
        self.requests: list[AskFor | HandOff] = []

    def answered(self, builder: RunBuilder, event: Answered) -> None:
        """Leave out requests that were seen."""
        calls = tuple(call for call in event.step.calls if replace(call, id=None) not in self.requests)
        self.requests.extend(replace(call, id=None) for call in calls)
        super().answered(builder, replace(event, step=replace(event.step, calls=calls)))


class OneStepPerCall(Recorder):
    """Records each call as a separate message."""

    def answered(self, builder: RunBuilder, event: Answered) -> None:
        """Split a message into its calls."""
        for call in event.step.calls:
            super().answered(builder, replace(event, step=Step(calls=(call,))))


class AddsDefaults(Recorder):
    """Records the arguments with defaults."""

    def started(self, builder: RunBuilder, event: Started) -> None:
        """Fill in what the model left out."""
        defaults = {"b": 2} if event.call.name == "add" else {}
        super().started(builder, replace(event, arguments={**defaults, **event.arguments}))


class ForgetsTheTools(Recorder):
    """Does not record the offered tools."""

    def offered(self, builder: RunBuilder, event: Offered) -> None:
        """Look away."""


class TakesEachPrompt(Recorder):
    """Takes the system prompt of an agent inside a tool for that of the run."""

    def instructed(self, builder: RunBuilder, event: Instructed) -> None:
        """Forget where it was."""
        super().instructed(builder, replace(event, scope=None))


class RepairsArguments(Recorder):
    """Makes an object of arguments that are none."""

    def request(self, call: AskFor | HandOff) -> Request:
        """Replace what cannot be read."""
        if isinstance(call, AskFor) and read(call) is None:
            return Request(call.name, {}, call.id)
        return super().request(call)


class TakesErrorsForOutputs(Recorder):
    """Records the model output as the output, even for errors."""

    def raised(self, builder: RunBuilder, event: Raised) -> None:
        """Note that it returned."""
        builder.tool_ended(event.key, f"{event.error}")


class ForgetsWhatWasShown(Recorder):
    """Does not know what the model saw."""

    def showed(self, builder: RunBuilder, event: Showed) -> None:
        """Look away."""


class LosesUnfinishedRuns(Recorder):
    """Keeps a run when it ends well."""

    def ended(self, builder: RunBuilder, event: Ended) -> None:
        """Begin anew where it did not."""
        if event.error is not None:
            builder.__init__()  # type: ignore[misc]
        super().ended(builder, event)


class TakesCancellationForFailure(Recorder):
    """Knows no difference between an error and a cancellation."""

    def ended(self, builder: RunBuilder, event: Ended) -> None:
        """Say that it failed."""
        super().ended(builder, replace(event, error=event.error and RuntimeError(event.error)))


class RecordsTheAnswerAsACall(Recorder):
    """Takes the answer for a call."""

    def answered(self, builder: RunBuilder, event: Answered) -> None:
        """Add an extra call."""
        calls = event.step.calls or (AskFor("final_answer", {"text": event.step.text}),)
        super().answered(builder, replace(event, step=replace(event.step, calls=calls)))


class KnowsNoScopes(Recorder):
    """Puts everything on one level."""

    def answered(self, builder: RunBuilder, event: Answered) -> None:
        """Forget where it was."""
        super().answered(builder, replace(event, scope=None))

    def started(self, builder: RunBuilder, event: Started) -> None:
        """Forget where it was."""
        super().started(builder, replace(event, scope=None))


class TakesHandOffsForTools(Recorder):
    """Knows no hand-offs."""

    def passed(self, builder: RunBuilder, event: Passed) -> None:
        """Look away."""


class NoStream(PlainContract):
    """Does not listen to streams."""

    async def astream(self, scene: Scene) -> Recorded:
        """Record only the question and the answer."""
        recorded = await super().astream(scene)
        return replace(recorded, run=Run(input=recorded.run.input, actual_output=recorded.answer))


class RemembersHistory(PlainContract):
    """Counts the calls of earlier turns again."""

    def converse(self, scenes: Sequence[Scene]) -> ConversationalTestCase:
        """Give the last run all calls so far."""
        runs = [self.run(scene).run for scene in scenes]
        calls = [call for run in runs for call in run.calls]
        return conversation([*runs[:-1], runs[-1].model_copy(update={"calls": calls})])


class KnowsNoBranches(Recorder):
    """Takes everything for one branch, and an answer for that to the newest question."""

    def answered(self, builder: RunBuilder, event: Answered) -> None:
        """Forget which agent it was."""
        super().answered(builder, replace(event, agent="agent"))

    def started(self, builder: RunBuilder, event: Started) -> None:
        """Forget which agent it was."""
        super().started(builder, replace(event, agent="agent"))


class ResumesTheNewest(Recorder):
    """Takes whatever is resumed for the run that paused last."""

    def __init__(self) -> None:
        """Start without paused runs."""
        super().__init__()
        self.waiting: list[RunBuilder] = []
        self.instead: dict[int, RunBuilder] = {}

    def paused(self, builder: RunBuilder, event: Paused) -> None:
        """Remember the run."""
        super().paused(builder, event)
        self.waiting.insert(0, builder)

    def resumed(self, builder: RunBuilder, event: Resumed) -> None:
        """Resume another one."""
        self.instead[id(builder)] = self.waiting.pop()
        super().resumed(self.instead[id(builder)], event)

    def started(self, builder: RunBuilder, event: Started) -> None:
        """Note it where it was resumed."""
        super().started(self.instead.get(id(builder), builder), event)

    def returned(self, builder: RunBuilder, event: Returned) -> None:
        """Note it where it was resumed."""
        super().returned(self.instead.get(id(builder), builder), event)


class RecordsMessagesOfTheInput(Recorder):
    """Takes calls of earlier messages for calls of the run."""

    def began(self, builder: RunBuilder, event: Began) -> None:
        """Record them."""
        super().began(builder, event)
        for step in event.history:
            builder.model_asked([self.request(call) for call in step.calls])


class TakesAnswersForCalls(Recorder):
    """Knows no structured answers."""

    def structured(self, builder: RunBuilder, event: Structured) -> None:
        """Look away."""


class RecordsTwice(Recorder):
    """Lets each listener have a record of its own."""

    def listen(self, run: str) -> Tell:
        """Give the run another name each time."""
        return super().listen(f"{run} {len(self.builders)}" if run in self.builders else run)


class SeesItsOwnContext(Recorder):
    """Does not listen to other threads."""

    def listen_to_process(self) -> None:
        """Do nothing."""


class NamesNoThread(Recorder):
    """Loses the framework's name of the thread."""

    def began(self, builder: RunBuilder, event: Began) -> None:
        """Leave it out."""
        super().began(builder, replace(event, thread=None))


class DropsImages(Recorder):
    """Keeps only text."""

    def began(self, builder: RunBuilder, event: Began) -> None:
        """Leave out the images."""
        super().began(builder, replace(event, images=()))


class DropsImagesOfTools(Recorder):
    """Keeps only text of what tools return."""

    def returned(self, builder: RunBuilder, event: Returned) -> None:
        """Leave out the images."""
        output = "an image" if isinstance(event.output, MLLMImage) else event.output
        super().returned(builder, replace(event, output=output))


class KeepsTheRestOfATurn(PlainContract):
    """Returns only what came after the answer to a run that waited."""

    def as_agent(self, scene: Scene) -> AgentCallable:
        """Leave out the text of the user."""
        whole: Any = super().as_agent(scene)

        async def ask(said: UserInput, talk: Conversation) -> Run:
            run: Run = await whole(said, talk)
            is_rest = talk.memory.get("waited", False)
            talk.memory["waited"] = run.status is RunStatus.INTERRUPTED
            return run.model_copy(update={"input": None}) if is_rest else run

        return ask


class AllowsEverything(PlainContract):
    """Takes each answer for a yes."""

    def as_agent(self, scene: Scene) -> AgentCallable:
        """Approve."""
        whole: Any = super().as_agent(scene)

        async def ask(said: UserInput, talk: Conversation) -> Run:
            yes = Approve() if "waiting" in talk.memory else "yes"
            run: Run = await whole(said if isinstance(said, str) else yes, talk)
            return run

        return ask


class IgnoresTapes(PlainContract):
    """Lets its tools run, whatever is replayed."""

    async def aplay(self, *args: Any, **options: Any) -> Recorded:
        """Play as if all was part of a tool that may run."""
        with at(None):
            return await super().aplay(*args, **options)


class StaysChanged(PlainContract):
    """Answers from its last tape when that is closed."""

    answered: ClassVar[dict[str, Any]] = {}

    async def aplay(self, *args: Any, **options: Any) -> Recorded:
        """Remember what a tool returned, and return it doubled later."""
        recorded = await super().aplay(*args, **options)
        calls = [
            call.model_copy(update={"output": self.answered.get(call.name, call.output)}) for call in recorded.run.calls
        ]
        self.answered.update((call.name, "again") for call in calls)
        return replace(recorded, run=recorded.run.model_copy(update={"calls": calls}))


MUTANTS: dict[type[Recorder | PlainContract], list[str]] = {
    DropsFailedCalls: ["raising_tool", "raising_tool_that_ends_the_run", "arguments_that_the_tool_rejects"],
    CompletionOrder: ["parallel_calls", "changed_arguments", "raising_tool", "unknown_tool", "empty_ids"],
    SharesState: ["many_runs_at_once"],
    LetsFaultsThrough: ["recorder_fault"],
    KeepsFaultsToItself: ["recorder_fault"],
    KeysByIdOnly: ["id_repeated_in_one_message", "empty_ids"],
    JoinsRepeatedIds: ["id_repeated_in_a_later_message"],
    JoinsEqualRequests: ["steps", "failed_call_asked_again"],
    OneStepPerCall: ["parallel_calls", "steps", "streamed_run"],
    AddsDefaults: ["plain_run", "handoff"],
    ForgetsTheTools: ["plain_run", "unknown_tool", "nested_agent"],
    TakesEachPrompt: ["instructions"],
    RepairsArguments: ["arguments_that_are_no_object"],
    TakesErrorsForOutputs: ["raising_tool", "failed_call_asked_again", "arguments_that_the_tool_rejects"],
    LosesUnfinishedRuns: [
        *("raising_tool_that_ends_the_run", "model_that_crashes", "cancelled_run"),
        *("agent_that_breaks", "agent_that_is_late"),
    ],
    TakesCancellationForFailure: ["cancelled_run"],
    RecordsTheAnswerAsACall: ["run_without_calls", "conversation"],
    ForgetsWhatWasShown: ["raising_tool"],
    KnowsNoScopes: ["nested_agent", "agents_in_parallel"],
    TakesHandOffsForTools: ["handoff"],
    NoStream: ["streamed_run"],
    RemembersHistory: ["conversation"],
    KnowsNoBranches: ["fan_out"],
    ResumesTheNewest: ["resumed_runs_with_equal_questions"],
    RecordsMessagesOfTheInput: ["history_in_the_input"],
    TakesAnswersForCalls: ["structured_answer"],
    RecordsTwice: ["recorder_attached_twice"],
    SeesItsOwnContext: ["recorded_process"],
    NamesNoThread: ["conversation_of_processes"],
    DropsImages: ["images"],
    DropsImagesOfTools: ["images"],
    KeepsTheRestOfATurn: ["approved_run", "run_answered_by_text"],
    IgnoresTapes: [
        *("replayed_run", "replayed_parallel_calls", "replayed_equal_calls", "replayed_failure"),
        *("replayed_failure_that_ends_the_run", "replayed_sub_agent", "replayed_handoff", "replayed_stream"),
        *("replayed_images", "replayed_trials", "call_outside_the_recording", "planted_failure", "planted_output"),
        *("tool_in_a_plain_thread", "recorded_tape", "new_episodes"),
    ],
    StaysChanged: ["tools_run_again_after_a_replay"],
    AllowsEverything: ["rejected_run", "answer_to_a_run_that_does_not_wait"],
}
