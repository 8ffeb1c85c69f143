"""When does a run begin and end, and which recording is it? Roots, resumptions, groups, and faults in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final
from uuid import UUID

from toolmark.capture import RunBuilder, RunStatus
from toolmark_langchain import _states
from toolmark_langchain._messages import error_text
from toolmark_langchain._runs import Node, Recording, Runs

_THREAD_KEYS: Final = ("thread_id", "session_id", "conversation_id")
_INTERNAL: Final = ("langgraph_", "ls_", "lc_", "checkpoint_", "__")
_MINOR: Final = frozenset({"prompt", "parser", "retriever"})


def now() -> datetime:
    """Return the time; callbacks carry none."""
    return datetime.now(timezone.utc)


class Roots:
    """Begins and ends recordings. Called under the recorder's lock; its errors are the recorder's to catch."""

    def __init__(self, runs: Runs) -> None:
        """Begin with nothing seen."""
        self.runs = runs
        self._finished: list[Recording] = []

    def begin(
        self,
        run_id: UUID,
        parent_run_id: UUID | None,
        name: str | None,
        *,
        tool: bool = False,
        root: Recording | None = None,
    ) -> Node | None:
        """Add a run; `None` where it belongs to a recording that was taken out."""
        parent = self.runs.find(parent_run_id)
        recording = root if parent is None else parent.recording
        if recording is None:
            self.runs.forget(run_id)
            return None
        recording.built = None
        return self.runs.begin(run_id, parent, recording, name, tool=tool)

    def is_root(self, parent_run_id: UUID | None) -> bool:
        """Return whether a run with this parent begins something new."""
        return self.runs.find(parent_run_id) is None and not self.runs.is_gone(parent_run_id)

    def root(
        self,
        run_id: UUID,
        inputs: object,
        *,
        label: str | None,
        group: Recording | None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        kind: str = "chain",
    ) -> Recording:
        """Return the recording of a new root: its own, that of its group, or the interrupted one it goes on with."""
        if group is not None:
            self.ask(group, None if kind == "tool" else _states.question_of(inputs))
            return group
        about = metadata or {}
        found = next((about[key] for key in _THREAD_KEYS if about.get(key)), None)
        thread = None if found is None else str(found)
        earlier = self.runs.newest_of(thread)
        resumes = kind == "chain" and thread is not None and _states.is_resumption(inputs)
        if resumes and earlier is not None and not earlier.builder.is_open:
            earlier.builder.resumed()
            earlier.interrupted = False
            return earlier
        recording = Recording(
            RunBuilder(run_id=str(run_id), conversation_id=label or thread),
            label or thread,
            thread,
            minor=kind in _MINOR,
        )
        if resumes and earlier is None:
            recording.guessed = set()
        self.runs.add(recording)
        try:
            self._describe(recording, inputs, tags, about, kind, earlier=earlier, resumes=resumes)
        except Exception as error:  # noqa: BLE001 - a run that cannot be described is recorded all the same, and says so
            recording.builder.warn(f"the recorder failed at the beginning of the run: {error_text(error)}")
        return recording

    def _describe(
        self,
        recording: Recording,
        inputs: object,
        tags: Sequence[str] | None,
        about: Mapping[str, Any],
        kind: str,
        *,
        earlier: Recording | None,
        resumes: bool,
    ) -> None:
        """Note what is known of a run when it begins."""
        builder = recording.builder
        kept = {key: value for key, value in about.items() if not key.startswith(_INTERNAL)}
        builder.labelled(tags=[tag for tag in tags or () if not tag.startswith("seq:step")], metadata=kept)
        if earlier is not None and earlier.builder.is_open:
            builder.warn(f"another run of conversation {recording.thread!r} was still open when this one began")
        if resumes and earlier is None:
            builder.warn("this run goes on with an earlier one that this recorder does not have")
        builder.started(at=now())
        self.ask(recording, None if kind == "tool" else _states.question_of(inputs))

    @staticmethod
    def ask(recording: Recording, question: str | None) -> None:
        """Note the text of the user, if it is the first that was found."""
        if question is not None and not recording.asks:
            recording.asks = True
            recording.builder.started(question)

    def end(self, run_id: UUID) -> Node | None:
        """Take out a run that ended; `None` where it was never seen to begin, or is gone."""
        node = self.runs.end(run_id)
        if node is not None:
            node.recording.built = None
        return node

    def finish(
        self,
        node: Node,
        answer: str | None = None,
        *,
        status: RunStatus = RunStatus.OK,
        error: str | None = None,
        may_wait: bool = False,
    ) -> None:
        """End the recording, if this was its root."""
        recording = node.recording
        if node.parent is not None:
            return
        recording.held.clear()
        if recording.grouped:
            recording.answer = answer if answer is not None else recording.answer
            return
        self.end_recording(recording, answer, status=status, error=error, may_wait=may_wait)

    def end_recording(
        self,
        recording: Recording,
        answer: str | None,
        *,
        status: RunStatus = RunStatus.OK,
        error: str | None = None,
        may_wait: bool = False,
    ) -> None:
        """End a recording."""
        recording.built = None
        if recording.interrupted and status is RunStatus.OK:
            status, answer = RunStatus.INTERRUPTED, None
        recording.builder.ended(answer, status=status, error=error, may_wait=may_wait, at=now())
        if recording.thread is None:
            recording.known.clear()
        if recording.minor and not recording.run().calls:
            self.runs.drop(recording)
        else:
            self._finished.append(recording)

    def take_finished(self) -> list[Recording]:
        """Return the recordings that ended since this was asked last."""
        finished, self._finished = self._finished, []
        return finished

    def mend(self, run_id: UUID, node: Node | None, *, began: bool) -> None:
        """Keep the tree whole after an error in the callback of a run.

        Args:
            run_id: The run.
            node: It, or its parent, if either was known.
            began: It began; otherwise it ended.
        """
        if began:
            if node is None:
                self.runs.forget(run_id)  # what comes of it is not taken for a run of its own
            elif self.runs.find(run_id) is None:
                self.runs.begin(run_id, node, node.recording, None, tool=False)
            return
        self.runs.end(run_id)
        if node is not None and node.run_id == run_id and node.parent is None and node.recording.builder.is_open:
            node.recording.builder.ended(at=now())
