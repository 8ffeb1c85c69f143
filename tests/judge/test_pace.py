"""When a request may be sent: the pause after refusals, and what may be spent."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from toolgrade.judge.openai.throttle import Budget, CoolDown, Slots, Spent, pause


def test_the_pause_doubles_up_to_a_minute() -> None:
    """Half a second, one, two, and never more than a minute, each shortened by at most a quarter."""
    expected = [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]

    for failures, longest in enumerate(expected, start=1):
        assert 0.75 * longest <= pause(failures) <= longest
    assert pause(10_000) <= 60


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time as the pause has it: a list of one number, which a test may change."""
    now = [1000.0]
    monkeypatch.setattr("toolgrade.judge.openai.throttle.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_refusals_of_one_burst_are_one(clock: list[float]) -> None:
    """Requests that were sent before the pause began do not make it longer."""
    gate = CoolDown()
    sent, clock[0] = clock[0], clock[0] + 1
    for _ in range(10):
        gate.refused(sent, None)

    assert 0.375 <= gate.left() <= 0.5


def test_refusals_one_after_the_other_double_it(clock: list[float]) -> None:
    """A request that was sent after the pause and refused makes the next one longer, and a success forgets that."""
    gate = CoolDown()
    for _ in range(3):
        clock[0] += 60
        gate.refused(clock[0], None)
    assert 1.5 <= gate.left() <= 2

    clock[0] += 60
    gate.accepted(clock[0])
    gate.refused(clock[0], None)
    assert gate.left() <= 0.5


def test_the_longest_wish_counts(clock: list[float]) -> None:
    """A shorter time that the endpoint asks for does not shorten a longer one."""
    gate = CoolDown()
    gate.refused(clock[0], 5.0)
    gate.refused(clock[0], 1.0)

    assert gate.left() == 5


def test_reservations_count() -> None:
    """Until they are settled; unused amounts become free."""
    budget = Budget(100, None)
    first = budget.reserve(Spent(60))

    assert first is not None
    assert budget.reserve(Spent(60)) is None
    budget.settle(first, Spent(30))
    assert budget.reserve(Spent(60)) == Spent(60)
    assert budget.spent == Spent(30)


def test_the_dearest_request_is_the_estimate() -> None:
    """A request is thought to cost at least what the dearest before it did."""
    budget = Budget(None, 1.0)
    first = budget.reserve(Spent(1, 0.1))
    assert first is not None
    budget.settle(first, Spent(10, 0.4))

    assert budget.reserve(Spent(1, 0.1)) == Spent(10, 0.4)
    assert budget.reserve(Spent(1, 0.1)) is None


@pytest.mark.parametrize("places", [1, 3])
def test_slots_are_granted_in_order(places: int) -> None:
    """First come, first served; unused slots become free."""
    order: list[int] = []

    async def use(slots: Slots, number: int) -> None:
        async with slots:
            order.append(number)
            await asyncio.sleep(0.001)

    async def main() -> None:
        slots = Slots(places)
        await asyncio.gather(*[use(slots, number) for number in range(10)])
        assert slots._free == places

    asyncio.run(main())
    assert order == list(range(10))
