"""Passive reader of HTTP/1.1: the messages in the bytes of one direction of a connection, while these pass by."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final, Protocol, TypeAlias

_MAX_HEAD: Final = 1 << 18
_END_OF_HEAD: Final = b"\r\n\r\n"
_Steps: TypeAlias = Generator[None, None, None]


class NotHttpError(ValueError):
    """The bytes are not messages of HTTP/1.1."""


class Receiver(Protocol):
    """Receives the messages of one direction, in their order."""

    def begin(self, line: str, headers: Mapping[str, str]) -> bool:
        """Receive the first line and the headers, their names in lower case; return whether a body may follow."""
        ...

    def body(self, data: bytes) -> None:
        """Receive a piece of the body."""
        ...

    def end(self) -> None:
        """Receive the end of the message, or of the connection inside of it."""
        ...


class HttpReader:
    """Reads one direction of a connection. What has no length is a body until the connection ends, if it is a response.

    Attributes:
        is_stopped: The bytes are no longer read: they are not HTTP, or no longer since the protocol was switched.
    """

    def __init__(self, receiver: Receiver, *, of_responses: bool) -> None:
        """Start at the beginning of a connection."""
        self.is_stopped = False
        self._receiver = receiver
        self._of_responses = of_responses
        self._buffer = bytearray()
        self._is_closed = False
        self._steps = self._messages()
        next(self._steps)

    def feed(self, data: bytes) -> None:
        """Read further bytes.

        Raises:
            NotHttpError: They are not HTTP; later ones are ignored.
        """
        if self.is_stopped:
            return
        self._buffer += data
        try:
            next(self._steps)
        except StopIteration:
            self.is_stopped = True
        except BaseException:
            self.is_stopped = True
            raise

    def close(self) -> None:
        """Read the end of the connection."""
        self._is_closed = True
        self.feed(b"")

    def _messages(self) -> Generator[None, None, None]:
        """Read messages; each `yield` waits for further bytes."""
        yield
        while True:
            head = yield from self._until(_END_OF_HEAD)
            if head is None:
                return
            line, *fields = head.decode("latin-1").lstrip("\r\n").split("\r\n")
            headers = _headers(fields)
            has_body = self._receiver.begin(line, headers)
            if line.partition(" ")[2].startswith("101"):
                return
            if has_body:
                yield from self._body(headers)
            self._receiver.end()

    def _body(self, headers: Mapping[str, str]) -> _Steps:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            yield from self._chunks()
        elif "content-length" in headers:
            yield from self._pass_on(_number(headers["content-length"], 10))
        elif self._of_responses:
            while not self._is_closed:
                yield from self._pass_on(len(self._buffer))
                yield
            yield from self._pass_on(len(self._buffer))

    def _chunks(self) -> _Steps:
        while (size := (yield from self._until(b"\r\n"))) is not None:
            length = _number(size.partition(b";")[0].decode("latin-1"), 16)
            if length == 0:
                break
            yield from self._pass_on(length)
            yield from self._until(b"\r\n")
        while (yield from self._until(b"\r\n")):  # trailers
            pass

    def _until(self, mark: bytes) -> Generator[None, None, bytes | None]:
        """Return the bytes before a mark, and drop both; `None` at the end of the connection."""
        start = 0
        while (end := self._buffer.find(mark, start)) < 0:
            if len(self._buffer) > _MAX_HEAD:
                raise NotHttpError("a head is too long")
            if self._is_closed:
                return None
            start = max(0, len(self._buffer) - len(mark) + 1)
            yield
        before = bytes(self._buffer[:end])
        del self._buffer[: end + len(mark)]
        return before

    def _pass_on(self, count: int) -> _Steps:
        """Hand so many bytes of a body to the receiver, fewer if the connection ends."""
        while count:
            if not self._buffer:
                if self._is_closed:
                    return
                yield
                continue
            data = bytes(self._buffer[:count])
            del self._buffer[: len(data)]
            count -= len(data)
            self._receiver.body(data)


def _headers(fields: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for field in fields:
        name, colon, value = field.partition(":")
        if not colon:
            raise NotHttpError("a header has no colon")
        headers[name.strip().lower()] = value.strip()
    return headers


def _number(text: str, base: int) -> int:
    """Return a length, which has nothing but digits."""
    try:
        number = int(text, base)
    except ValueError as error:
        raise NotHttpError(f"a length is not a number: {text!r}") from error
    if number < 0:
        raise NotHttpError("a length is negative")
    return number
