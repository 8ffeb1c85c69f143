"""The last result of a metric is local to the thread or task that measured it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from toolgrade import (
    LLMTestCase,
    Metric,
    MetricResult,
    MissingFieldError,
    NotMeasuredError,
    ResultStatus,
    ToolCall,
    ToolCorrectnessMetric,
    evaluate,
    evaluate_async,
)


def case(score: float) -> LLMTestCase:
    """Return a case that scores this many hundredths."""
    hits = round(score * 100)
    expected = [ToolCall(name="a")] * 100
    return LLMTestCase(tools_called=expected[:hits], expected_tools=expected)


def nothing_measured(metric: Metric) -> bool:
    """Whether a metric has nothing to show here."""
    try:
        _ = metric.result
    except NotMeasuredError:
        return True
    return False


def test_the_last_result_wins() -> None:
    """A metric shows its last result, and each metric its own, also where two have equal options."""
    one, other = ToolCorrectnessMetric(), ToolCorrectnessMetric()
    one.measure(case(0.1))
    other.measure(case(0.9))
    assert (one.score, other.score) == (0.1, 0.9)
    one.measure(case(0.2))
    assert (one.score, other.score) == (0.2, 0.9)


@pytest.mark.parametrize("name", ["result", "score", "reason", "success"])
def test_where_nothing_is_visible(name: str) -> None:
    """Where nothing was measured, every way to look at it raises and points to the returned result."""
    metric = ToolCorrectnessMetric()
    with pytest.raises(NotMeasuredError, match=r"measured nothing in this thread or task.*evaluate returned"):
        getattr(metric, name)
    with pytest.raises(NotMeasuredError):
        metric.is_successful()


def test_threads_do_not_see_each_other() -> None:
    """Threads that share one metric each see their own result, and none sees that of the thread that began."""
    metric = ToolCorrectnessMetric()
    metric.measure(case(1))
    threads = 8
    together = threading.Barrier(threads)

    def work(number: int) -> tuple[bool, list[float | None], list[str | None]]:
        together.wait()
        fresh = contextvars.Context().run(nothing_measured, metric)
        scores, reasons = [], []
        for step in range(10):
            metric.measure(case((number * 10 + step) / 100))
            scores.append(metric.score)
            reasons.append(metric.reason)
        return fresh, scores, reasons

    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(work, range(threads)))
    for number, (fresh, scores, reasons) in enumerate(results):
        assert fresh
        assert scores == [(number * 10 + step) / 100 for step in range(10)]
        assert all(f"{number * 10 + step} matched" in str(reason) for step, reason in enumerate(reasons) if step)
    assert metric.score == 1


def test_tasks_do_not_see_each_other() -> None:
    """Concurrent tasks that share one metric each see their own score and reason, however their steps interleave."""
    metric = ToolCorrectnessMetric()

    async def work(number: int) -> None:
        for step in range(5):
            score = (number * 5 + step) / 100
            await metric.a_measure(case(score))
            await asyncio.sleep(0)
            assert metric.score == score
            assert str(metric.reason).startswith(f"{number * 5 + step} matched") or score == 0

    async def main() -> None:
        await asyncio.gather(*(work(number) for number in range(20)))
        assert nothing_measured(metric)

    asyncio.run(main())


def test_child_tasks_inherit_and_do_not_overwrite() -> None:
    """A task sees what its parent had measured; what it measures itself is its own and its children's."""
    metric = ToolCorrectnessMetric()

    async def grandchild() -> float | None:
        return metric.score

    async def child() -> tuple[float | None, float | None, float | None]:
        inherited = metric.score
        metric.measure(case(0.75))
        return inherited, metric.score, await asyncio.create_task(grandchild())

    async def main() -> None:
        metric.measure(case(0.5))
        assert await asyncio.create_task(child()) == (0.5, 0.75, 0.75)
        assert metric.score == 0.5
        assert await asyncio.to_thread(lambda: metric.score) == 0.5
        await asyncio.to_thread(metric.measure, case(0.25))
        assert metric.score == 0.5

    asyncio.run(main())


def test_evaluate_leaves_no_result_on_the_metric() -> None:
    """After `evaluate` the results are in the report; the metric shows what it showed before."""
    metric, fresh = ToolCorrectnessMetric(), ToolCorrectnessMetric()
    metric.measure(case(0.5))
    evaluate([case(1), case(0)], [metric, fresh], show_progress=False)
    assert metric.score == 0.5
    assert nothing_measured(fresh)

    async def main() -> bool:
        await evaluate_async([case(1)], [fresh], show_progress=False)
        return nothing_measured(fresh)

    assert asyncio.run(main())


def test_a_measure_that_raised_leaves_the_metric_as_it_was() -> None:
    """A case that cannot be measured has no result to remember."""
    metric = ToolCorrectnessMetric()
    with pytest.raises(MissingFieldError):
        metric.measure(LLMTestCase())
    assert nothing_measured(metric)


def test_metrics_are_forgotten() -> None:
    """An unreferenced metric is collected, with its result in every task."""
    remaining = ToolCorrectnessMetric()
    gone = [ToolCorrectnessMetric() for _ in range(5)]
    references = [weakref.ref(metric) for metric in gone]
    for metric in (remaining, *gone):
        metric.measure(case(0.5))
    del metric
    gone.clear()
    gc.collect()
    assert [reference() for reference in references] == [None] * 5
    assert remaining.score == 0.5


@dataclass(frozen=True)
class Skipping(Metric):
    """A third-party metric with equality by value that does not apply."""

    threshold: float = 0.5

    @property
    def label(self) -> str:
        """Its name."""
        return "skipping"

    def _compute(self, case: object) -> MetricResult:
        return MetricResult(metric=self.label, status=ResultStatus.SKIPPED, threshold=self.threshold, reason=repr(case))


def test_a_skipped_result_has_no_score() -> None:
    """What was not measured is not zero: score and success are None, float() raises, and it has not passed."""
    metric = Skipping()
    result = metric.measure("case")
    assert (metric.score, metric.success, metric.reason, metric.is_successful()) == (None, None, "'case'", False)
    with pytest.raises(NotMeasuredError, match=r"skipping has no score: it was skipped \('case'\)"):
        float(result)
