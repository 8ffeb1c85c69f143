"""When may a request be sent? What all requests of one judge share, whichever thread or event loop they come from.

Three gates, each on its own: how many requests are under way (`Slots`), whether the endpoint has asked everybody to
wait (`CoolDown`), and whether the tokens and the money are used up (`Budget`).
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
    """A number of places; who finds none waits for its turn, first come, first served.

    `asyncio.Semaphore` belongs to one event loop; these places are shared by all loops of a process.
    """

    def __init__(self, places: int) -> None:
        """All places are free."""
        self._free = places
        self._lock = threading.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        """Take a place, or wait for one."""
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
                given = turn not in self._waiting
                if not given:
                    self._waiting.remove(turn)
            if given:  # the place came together with the cancellation: it is the next one's
                self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        """Give the place to whoever waits longest."""
        self._leave()

    def _leave(self) -> None:
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                with contextlib.suppress(RuntimeError):  # its loop is closed, and nobody waits there any more
                    turn.get_loop().call_soon_threadsafe(_give, turn)
                    return
            self._free += 1


def _give(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


class CoolDown:
    """A pause for everybody, after an endpoint said that it is asked too much.

    Without a time from the endpoint, the pause doubles with each further refusal, from half a second to a minute, and
    begins anew once a request got through. Refusals of requests that were sent before the pause began are news of the
    same trouble, and do not double it.
    """

    def __init__(self) -> None:
        """No pause."""
        self._lock = threading.Lock()
        self._began = float("-inf")
        self._until = float("-inf")
        self._refusals = 0

    def left(self) -> float:
        """Seconds until requests may be sent; 0 if they may."""
        with self._lock:
            return max(0.0, self._until - time.monotonic())

    async def wait(self, deadline: float) -> bool:
        """Wait until requests may be sent.

        Args:
            deadline: Until when, as `time.monotonic()` counts.

        Returns:
            Whether they may; false, at once, where the pause ends after the deadline.
        """
        while (left := self.left()) > 0:
            if time.monotonic() + left > deadline:
                return False
            # Not all at the same moment, or the first burst after the pause is refused like the one before it.
            await asyncio.sleep(left + random.uniform(0, min(left * _SPREAD, 1.0)))  # noqa: S311 - no secret
        return True

    def refused(self, sent: float, retry_after: float | None) -> None:
        """Begin or prolong the pause.

        Args:
            sent: When the refused request was sent, as `time.monotonic()` counts.
            retry_after: Seconds that the endpoint asked for.
        """
        now = time.monotonic()
        with self._lock:
            if sent >= self._began:
                self._refusals += 1
                self._began = now
                own = now + pause(self._refusals)
            else:
                own = self._until
            self._until = max(self._until, own if retry_after is None else now + retry_after)

    def accepted(self, sent: float) -> None:
        """Forget the refusals before a request that got through."""
        with self._lock:
            if sent >= self._began:
                self._refusals = 0


def pause(failures: int) -> float:
    """Return the seconds to wait after so many failures in a row, at least 1: doubling, shortened at random."""
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failures - 1, 32))
    return longest * random.uniform(0.75, 1.0)  # noqa: S311 - no secret


@dataclass(frozen=True, slots=True)
class Spent:
    """What requests cost.

    Attributes:
        tokens: Input and output tokens together.
        money: In the currency of the prices; 0 where none are known.
    """

    tokens: int = 0
    money: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        """Return both together."""
        return Spent(self.tokens + other.tokens, self.money + other.money)

    def __sub__(self, other: Spent) -> Spent:
        """Return what is left without the other."""
        return Spent(self.tokens - other.tokens, self.money - other.money)


class Budget:
    """Tokens and money that may be spent.

    A request sets its estimate aside before it is sent, so that requests at the same time do not overspend together,
    and settles what it really cost afterwards. The estimate is the greatest cost of a request so far, or what the
    caller thinks of its own where that is more. One request can still cost more than anything before it.
    """

    def __init__(self, tokens: int | None, money: float | None) -> None:
        """Nothing is spent.

        Args:
            tokens: The most tokens; `None` for no limit.
            money: The most money; `None` for no limit.
        """
        self._limits = (tokens, money)
        self._lock = threading.Lock()
        self._spent = Spent()
        self._reserved = Spent()
        self._greatest = Spent()

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return self._limits != (None, None)

    @property
    def spent(self) -> Spent:
        """What was settled so far."""
        with self._lock:
            return self._spent

    def reserve(self, guess: Spent) -> Spent | None:
        """Set the cost of a request aside.

        Args:
            guess: What it may cost.

        Returns:
            What was set aside, to be settled; `None` where the budget does not allow it.
        """
        tokens, money = self._limits
        with self._lock:
            estimate = Spent(max(guess.tokens, self._greatest.tokens), max(guess.money, self._greatest.money))
            total = self._spent + self._reserved + estimate
            if (tokens is not None and total.tokens > tokens) or (money is not None and total.money > money):
                return None
            self._reserved += estimate
            return estimate

    def settle(self, reserved: Spent, cost: Spent) -> None:
        """Replace what was set aside by what it cost."""
        with self._lock:
            self._reserved -= reserved
            self._spent += cost
            self._greatest = Spent(max(self._greatest.tokens, cost.tokens), max(self._greatest.money, cost.money))
