"""The names of `deepeval.dataset`: goldens that can be changed, and datasets of goldens and test cases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from toolgrade._internal.options import require
from toolgrade._internal.sync_bridge import is_in_asyncio
from toolgrade.capture.observation.spans import ObserveRecorder
from toolgrade.compat.deepeval import _absent
from toolgrade.compat.deepeval._conversion import as_golden
from toolgrade.compat.deepeval._files import read_file, write_file
from toolgrade.compat.deepeval._goldens import ConversationalGolden, Golden
from toolgrade.compat.deepeval._traces import RecordedApp
from toolgrade.compat.deepeval.evaluate import (
    AsyncConfig,
    CacheConfig,
    DisplayConfig,
    ErrorConfig,
    EvaluationResult,
    run_suite,
)
from toolgrade.compat.deepeval.evaluate import evaluate as evaluate_cases
from toolgrade.compat.deepeval.test_case import ConversationalTestCase, LLMTestCase
from toolgrade.errors import ConfigurationError

__all__ = ["ConversationalGolden", "EvaluationDataset", "Golden", "get_current_golden"]

_current: ContextVar[Any] = ContextVar("toolgrade_current_golden", default=None)


def get_current_golden() -> Any:  # noqa: ANN401 - a golden of any kind
    """Return the golden that `evals_iterator` is at; `None` outside of it."""
    return _current.get()


class EvaluationDataset:
    """Goldens and test cases of one evaluation.

    Attributes:
        goldens: Questions to ask.
        test_cases: Answers to measure.
        result: What `evals_iterator` measured, after its loop.

    Example:
        >>> from toolgrade.compat.deepeval.dataset import EvaluationDataset, Golden
        >>> from toolgrade.compat.deepeval.evaluate import DisplayConfig
        >>> from toolgrade.compat.deepeval.metrics import ToolCorrectnessMetric
        >>> from toolgrade.compat.deepeval.test_case import ToolCall
        >>> from toolgrade.compat.deepeval.tracing import observe
        >>> @observe(type="tool")
        ... def get_weather(city):
        ...     return "sunny"
        >>> @observe(type="agent")
        ... def agent(question):
        ...     return get_weather("Paris")
        >>> dataset = EvaluationDataset(
        ...     [Golden(input="Weather in Paris?", expected_tools=[ToolCall(name="get_weather")])]
        ... )
        >>> quiet = DisplayConfig(show_indicator=False, print_results=False)
        >>> for golden in dataset.evals_iterator(metrics=[ToolCorrectnessMetric()], display_config=quiet):
        ...     answer = agent(golden.input)
        >>> dataset.result.test_results[0].metrics_data[0].score
        1.0
    """

    def __init__(self, goldens: Iterable[Any] = (), test_cases: Iterable[Any] = ()) -> None:
        """Copy the lists."""
        self.goldens: list[Any] = list(goldens)
        self.test_cases: list[Any] = list(test_cases)
        self.result: EvaluationResult | None = None
        self._tasks: list[tuple[int, Any]] = []
        self._place = 0

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the test cases."""
        return iter(self.test_cases)

    def __len__(self) -> int:
        """Return the number of test cases."""
        return len(self.test_cases)

    @property
    def _multi_turn(self) -> bool:
        """Whether it is about conversations, as DeepEval's pages ask."""
        return any(isinstance(one, ConversationalGolden | ConversationalTestCase) for one in [*self.goldens, *self])

    def add_golden(self, golden: Any) -> None:  # noqa: ANN401 - a golden
        """Add a question."""
        self.goldens.append(golden)

    def add_test_case(self, test_case: Any) -> None:  # noqa: ANN401 - a case
        """Add an answer."""
        self.test_cases.append(test_case)

    def evaluate(self, task: Any, **options: Any) -> Any:  # noqa: ANN401 - as DeepEval's
        """Inside `evals_iterator`: wait for a task or coroutine at its end. With a list of metrics: `evaluate`."""
        if isinstance(task, list | tuple):
            return evaluate_cases(self, task, **options)
        # Now, so that its calls belong to the current golden.
        self._tasks.append((self._place, asyncio.create_task(task) if asyncio.iscoroutine(task) else task))
        return None

    def evals_iterator(
        self,
        metrics: Sequence[Any] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        identifier: str | None = None,
        display_config: DisplayConfig | None = None,
        cache_config: CacheConfig | None = None,
        error_config: ErrorConfig | None = None,
        async_config: AsyncConfig | None = None,
    ) -> Generator[Any, None, EvaluationResult]:
        """Yield each golden, record the observed functions that the loop calls, and measure them at the end.

        The results are in `result` after the loop, and are shown as by `evaluate`. A loop that is left early measures
        nothing.

        Args:
            metrics: Metrics of each whole answer; those of `@observe(metrics=[...])` measure their component.
            hyperparameters: Without effect.
            identifier: See `evaluate`, as for the following ones.
            display_config: See `DisplayConfig`.
            cache_config: See `CacheConfig`.
            error_config: See `ErrorConfig`.
            async_config: See `AsyncConfig`.

        Raises:
            ConfigurationError: There is no golden, or a task was made in a running event loop and not awaited there.
        """
        if not self.goldens:
            raise ConfigurationError("evals_iterator needs goldens; add_golden adds one")
        _absent.warn_of({"hyperparameters": hyperparameters}, "evals_iterator")
        self._tasks, recorders = [], []
        with _tasks_without_loop(self._tasks, lambda: self._place, (async_config or AsyncConfig()).max_concurrent):
            for place, golden in enumerate(self.goldens):
                self._place = place
                recorder = ObserveRecorder()
                recorders.append(recorder)
                previous = _current.get()
                _current.set(golden)
                try:
                    with recorder.listening():
                        yield golden
                finally:
                    _current.set(previous)
        app = RecordedApp(recorders, dict(_errors_of(self._tasks)))
        goldens = [as_golden(golden) for golden in self.goldens]
        configs = (async_config, display_config, cache_config, error_config)
        self.result = run_suite(metrics, *configs, identifier, goldens=goldens, observed_callback=app)
        return self.result

    def add_goldens_from_json_file(self, file_path: Any, *columns: str, **names: Any) -> None:  # noqa: ANN401 - a path
        """Add the goldens of a file: a JSON array or JSON Lines.

        Args:
            file_path: The file.
            columns: Other names of `input`, `actual_output` and `expected_output`, in this order.
            names: Other names of keys or columns, such as `input_key_name="question"`, the delimiters of contexts in
                one text, `"|"` by default, such as `context_col_delimiter=";"`, and `encoding_type`.

        Raises:
            ConfigurationError: A name is not one of these.
            DataFileError: It cannot be read; the message has the place.
        """
        self.goldens += read_file(str(file_path), columns, names, ConversationalGolden, "scenario", Golden)

    add_goldens_from_jsonl_file = add_goldens_from_json_file

    def add_goldens_from_csv_file(self, file_path: Any, *columns: str, **names: Any) -> None:  # noqa: ANN401 - a path
        """Add the goldens of a CSV file, whose cells of calls, turns and metadata hold JSON."""
        kinds = (ConversationalGolden, "scenario", Golden)
        self.goldens += read_file(str(file_path), columns, names, *kinds, is_csv=True)

    def add_test_cases_from_json_file(
        self,
        file_path: Any,  # noqa: ANN401 - a path
        *columns: str,
        **names: Any,  # noqa: ANN401 - texts
    ) -> None:
        """Add the test cases of a file, as `add_goldens_from_json_file`."""
        self.test_cases += read_file(str(file_path), columns, names, ConversationalTestCase, "turns", LLMTestCase)

    def add_test_cases_from_csv_file(self, file_path: Any, *columns: str, **names: Any) -> None:  # noqa: ANN401 - a path
        """Add the test cases of a file, as `add_goldens_from_csv_file`."""
        kinds = (ConversationalTestCase, "turns", LLMTestCase)
        self.test_cases += read_file(str(file_path), columns, names, *kinds, is_csv=True)

    def save_as(
        self, file_type: str, directory: str, file_name: str | None = None, include_test_cases: bool = False
    ) -> str:
        """Write the goldens to a file that `add_goldens_from_json_file` and its kin read, and return its path.

        Args:
            file_type: `"json"`, `"jsonl"` or `"csv"`.
            directory: Where to write; it is made if it is missing.
            file_name: Name of the file without its type; by default the time.
            include_test_cases: Write the test cases as goldens, too.

        Raises:
            ConfigurationError: The type is none of these, or there is nothing to write.
        """
        listed = [*self.goldens, *(self.test_cases if include_test_cases else ())]
        require(file_type in ("json", "jsonl", "csv"), "file_type must be 'json', 'jsonl' or 'csv'", file_type)
        require(listed, "a dataset that is saved must have goldens", listed)
        name = file_name or f"{datetime.now(timezone.utc):%Y%m%d_%H%M%S}"
        path = Path(directory) / f"{name}.{file_type}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, listed)
        return str(path)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a method that is not here
        """Say that a method of DeepEval needs Confident AI or a synthesizer."""
        if name in _REMOTE:
            remedy = "save the goldens with DeepEval's save_as, and read them with add_goldens_from_json_file"
            raise ConfigurationError(
                f"{name} is not part of toolgrade, which has no server and no synthesizer; {remedy}"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_REMOTE = (
    *("push", "pull", "queue", "delete", "create_version", "get_versions", "update_golden", "delete_golden"),
    *("generate_goldens_from_docs", "generate_goldens_from_contexts", "generate_goldens_from_scratch"),
)


def _errors_of(tasks: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, BaseException]]:
    """Yield what tasks raised, with the positions of their goldens."""
    for place, task in tasks:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            yield place, error


@contextmanager
def _tasks_without_loop(
    tasks: list[tuple[int, Any]], place: Callable[[], int], limit: int
) -> Generator[None, None, None]:
    """Let the body of a loop make tasks with `asyncio.create_task` where no event loop runs, and run them at the end.

    DeepEval's documented form makes tasks in a script, where asyncio has no loop for them.
    """
    if is_in_asyncio():
        yield
        if not all(task.done() for _, task in tasks):
            raise ConfigurationError("in a running event loop, await each answer in the loop over evals_iterator")
        return
    loop, create_task = asyncio.new_event_loop(), asyncio.create_task
    slots = asyncio.Semaphore(limit)

    async def run(coroutine: Any) -> Any:  # noqa: ANN401 - of any function
        async with slots:
            return await coroutine

    def create(coroutine: Any, **options: Any) -> Any:  # noqa: ANN401 - as asyncio's
        if is_in_asyncio():  # in a function that the body calls, or in another thread
            return create_task(coroutine, **options)
        task = loop.create_task(run(coroutine), **options)
        tasks.append((place(), task))
        return task

    asyncio.create_task = create  # type: ignore[assignment]
    try:
        yield
        asyncio.create_task = create_task
        if tasks:
            loop.run_until_complete(asyncio.gather(*(task for _, task in tasks), return_exceptions=True))
    finally:
        asyncio.create_task = create_task
        loop.close()


__getattr__: _absent.Getter = _absent.getter(__name__)
