"""Limits shared by all requests of one judge, across threads and event loops.

Three independent gates: how many requests are in flight (`Slots`), whether the endpoint has asked everybody to wait
(`CoolDown`), and whether the tokens or the money are used up (`Budget`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import deque
from dataclasses import dataclass

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 60.0
_SPREAD = 0.1


class Slots:
    """A semaphore for all event loops of a process, first come, first served.

    `asyncio.Semaphore` belongs to one event loop.
    """

    def __init__(self, slots: int) -> None:
        """Create free slots."""
        self._free = slots
        self._lock = threading.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        """Take a slot, or wait for one."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            with self._lock:
                has_slot = turn not in self._waiting
                if not has_slot:
                    self._waiting.remove(turn)
            if has_slot:  # the slot arrived together with the cancellation: pass it on
                self._release()
            raise

    async def __aexit__(self, *_: object) -> None:
        """Give the slot to the longest-waiting request."""
        self._release()

    def _release(self) -> None:
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                with contextlib.suppress(RuntimeError):  # its loop is closed, so nobody waits there any more
                    turn.get_loop().call_soon_threadsafe(_resolve, turn)
                    return
            self._free += 1


def _resolve(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


class CoolDown:
    """A pause for all requests after the endpoint reports overload.

    Without a time from the endpoint, the pause doubles with each further refusal, from half a second to a minute, and
    starts over once a request succeeds. Refusals of requests that were sent before the pause began belong to the same
    overload, and do not double it.
    """

    def __init__(self) -> None:
        """Start without a pause."""
        self._lock = threading.Lock()
        self._began = float("-inf")
        self._until = float("-inf")
        self._refusals = 0

    def left(self) -> float:
        """Return the seconds until requests may be sent; 0 if they may now."""
        return max(0.0, self._until - time.monotonic())

    async def wait(self, deadline: float) -> bool:
        """Wait until requests may be sent; return false, at once, if the pause ends after the deadline.

        The deadline is a time of `time.monotonic()`.
        """
        while (left := self.left()) > 0:
            if time.monotonic() + left > deadline:
                return False
            # Spread out, or the first burst after the pause is refused like the one before it.
            await asyncio.sleep(left + random.uniform(0, min(left * _SPREAD, 1.0)))  # noqa: S311 - not a secret
        return True

    def refused(self, sent: float, retry_after: float | None) -> None:
        """Begin or prolong the pause after a request sent at `sent`, for the seconds that the endpoint asked for."""
        now = time.monotonic()
        with self._lock:
            # Refusals of one burst come in one after the other; only one after the pause makes it longer.
            if sent >= self._began:
                self._refusals += 1
                self._began = now
                wait = pause(self._refusals)
            else:
                wait = 0.0
            self._until = max(self._until, now + (wait if retry_after is None else retry_after))

    def accepted(self, sent: float) -> None:
        """Forget the refusals before a request that succeeded."""
        with self._lock:
            if sent >= self._began:
                self._refusals = 0


def pause(failures: int) -> float:
    """Return the seconds to wait after so many failures in a row, at least 1: doubling, with random jitter."""
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failures - 1, 32))
    return longest * random.uniform(0.75, 1.0)  # noqa: S311 - not a secret


@dataclass(frozen=True, slots=True)
class Spent:
    """Cost of requests.

    Attributes:
        tokens: Input and output tokens together.
        money: In the currency of the prices; 0 where they are unknown.
    """

    tokens: int = 0
    money: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        """Return the sum."""
        return Spent(self.tokens + other.tokens, self.money + other.money)

    def __sub__(self, other: Spent) -> Spent:
        """Return the difference."""
        return Spent(self.tokens - other.tokens, self.money - other.money)

    def __or__(self, other: Spent) -> Spent:
        """Return the maximum of each."""
        return Spent(max(self.tokens, other.tokens), max(self.money, other.money))


class Budget:
    """A limit on tokens and money; `None` for no limit.

    A request reserves its estimated cost before it is sent, so that parallel requests do not overspend together, and
    settles the real cost afterwards. The estimate is the highest cost of a request so far, or the caller's guess if
    that is higher. A single request can still cost more than any before it.
    """

    def __init__(self, tokens: int | None, money: float | None) -> None:
        """Start with nothing spent."""
        self._tokens: float = tokens or float("inf")
        self._money: float = money or float("inf")
        self.limited: bool = (tokens, money) != (None, None)
        self._lock = threading.Lock()
        self._spent = Spent()
        self._reserved = Spent()
        self._highest = Spent()

    @property
    def spent(self) -> Spent:
        """The settled cost so far."""
        return self._spent

    def reserve(self, guess: Spent) -> Spent | None:
        """Reserve the cost of a request; return it, to be settled, or `None` if the budget does not allow it."""
        with self._lock:
            estimate = guess | self._highest
            total = self._spent + self._reserved + estimate
            if total.tokens > self._tokens or total.money > self._money:
                return None
            self._reserved += estimate
            return estimate

    def settle(self, reserved: Spent, cost: Spent) -> None:
        """Replace a reservation by the real cost."""
        with self._lock:
            self._reserved -= reserved
            self._spent += cost
            self._highest |= cost
