"""What is told of a run as a whole: its texts, its end, its labels, its models; the base of `RunBuilder`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from toolmark._internal.json import to_json_value
from toolmark.capture.records import Observed
from toolmark.cases import RunStatus
from toolmark.errors import InvalidDataError
from toolmark.matching.json_compare import ABSENT


class RunFacts:
    """What is known of the run itself, and how values of any kind are kept."""

    def __init__(self, *, run_id: str | None = None, conversation_id: str | None = None) -> None:
        """Begin with nothing known."""
        self.run_id = run_id
        self.conversation_id = conversation_id
        self.tags: list[str] = []
        self.metadata: dict[str, Any] = {}
        self.warnings: list[str] = []
        self._models: dict[str, None] = {}
        self._usage: dict[str, int] = {}
        self._input: str | None = None
        self._output: str | None = None
        self._status = RunStatus.OK
        self._error: str | None = None
        self._started_at: datetime | None = None
        self._ended_at: datetime | None = None
        self._ended = False
        self._may_wait = False

    def labelled(self, *, tags: Iterable[str] = (), metadata: dict[str, Any] | None = None) -> None:
        """The run carries these tags and this metadata; values that are no JSON values are kept as text."""
        self.tags += [tag for tag in tags if tag not in self.tags]
        self.metadata.update(self._object(metadata or {}, "metadata") or {})

    def started(self, input: str | None = None, *, at: datetime | None = None) -> None:
        """The run began, with this text of the user."""
        self._input = self._input if input is None else input
        self._started_at = self._started_at or at

    def ended(
        self,
        output: str | None = None,
        *,
        status: RunStatus = RunStatus.OK,
        error: str | None = None,
        may_wait: bool = False,
        at: datetime | None = None,
    ) -> None:
        """The run ended.

        Args:
            output: The final answer, if there is one.
            status: How it ended.
            error: `"TypeName: text"` of the exception, or the text that says what stopped it.
            may_wait: The framework suspends runs by ending them, so calls that the last model message asked for and
                that nobody answered are waiting, and the run is interrupted.
            at: When.
        """
        self._ended = True
        self._output, self._status, self._error, self._may_wait = output, status, error, may_wait
        self._ended_at = at or self._ended_at

    def resumed(self) -> None:
        """The run goes on after an interruption; what is seen from here on belongs to it."""
        self._ended = False
        self._output, self._status, self._error, self._may_wait = None, RunStatus.OK, None, False

    @property
    def is_open(self) -> bool:
        """Whether the run has not ended, or was resumed."""
        return not self._ended

    def warn(self, text: str) -> None:
        """Something could not be understood; every score of this run will say so. Repetitions are dropped."""
        if text not in self.warnings:
            self.warnings.append(text)

    def model_used(self, model: str | None = None, usage: dict[str, int] | None = None) -> None:
        """A model answered; token counts are summed by name."""
        if model:
            self._models[model] = None
        for name, amount in (usage or {}).items():
            self._usage[name] = self._usage.get(name, 0) + amount

    def _object(self, value: dict[str, Any], what: str = "arguments") -> dict[str, Any] | None:
        plain = self._plain_with(value, what)
        return plain if isinstance(plain, dict) else None

    def _plain_with(self, value: object, what: str) -> Any:  # noqa: ANN401 - a JSON value
        plain, doubts = json_value(value)
        for doubt in doubts:
            self.warn(f"{what}: {doubt}")
        return None if plain is ABSENT else plain

    def _plain(self, value: object, call: Observed, field: str) -> Any:  # noqa: ANN401 - a JSON value
        plain, doubts = json_value(value)
        self._note(call, field, plain, doubts)
        return plain

    def _kept(self, artifact: object, call: Observed) -> Any:  # noqa: ANN401 - a JSON value
        plain = None if artifact is None else self._plain(artifact, call, "artifact")
        return None if plain is ABSENT else plain

    def _note(self, call: Observed, field: str, plain: object, doubts: list[str]) -> None:
        for doubt in doubts:
            self.warn(f"{field} of {call.name!r}: {doubt}")
        if plain is ABSENT and doubts and field not in call.not_captured:
            call.not_captured.append(field)


def json_value(value: object) -> tuple[Any, list[str]]:
    """Return a value as a JSON value, and what is to be said about that; `ABSENT` if it cannot be kept."""
    doubts: list[str] = []
    if value is ABSENT:
        return ABSENT, doubts
    try:
        return to_json_value(value, doubts), doubts
    except InvalidDataError as error:
        return ABSENT, [*doubts, f"it could not be kept: {error}"]
