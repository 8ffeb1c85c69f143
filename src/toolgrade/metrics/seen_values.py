"""What an agent saw in a run, and where the values that it wrote can come from.

All texts and JSON values are taken apart once into leaves, and these into chunks of letters and digits: `order-18A` has
the chunks `order` and `18a`. A value that was copied is looked up by its chunks; only for others the numbers and dates
of all leaves are read, and sums are tried.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from functools import cached_property
from itertools import combinations, islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from toolgrade._internal.json import MAX_DEPTH, is_number, json_items
from toolgrade._internal.text import contains_whole
from toolgrade.matching.json_compare import Path, json_forms
from toolgrade.metrics.text_search import plain_text, readings_of, tokens_of

EventKind: TypeAlias = Literal["user", "system", "schema", "tool", "call"]
_Date: TypeAlias = "tuple[int | None, int | None, int | None]"
"""Year, month and day; `None` for what is not known."""

_CHUNK: Final = re.compile(r"[a-z0-9]+|[^\W_a-z0-9]+")
"""Other letters are apart: Chinese words have no spaces around an id."""
_DATA: Final = re.compile(r"\S{1000,}")
"""Text without spaces that nobody reads, such as encoded bytes; to take it apart could take long."""
_ADDRESS: Final = re.compile(r"[^\s<>\"'(),;:]+@[^\s<>\"'(),;:@]+")
"""E-mail addresses with letters that `text_search` does not expect in one."""
_WORD: Final = re.compile(r"\w[\w@#+./-]*\w")
_NUMBER: Final = re.compile(
    r"(?<!\w)(?:\d{1,3}(?:[ ']\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)*)(?=\b(?!\w)|(?:usd|eur|gbp)\b)"
)
_MONEY: Final = re.compile(r"[$€£¥₹]|\b(?:usd|eur|gbp|dollars?|euros?|pounds?)\b")
_NESTED: Final = ("{", "[", '"')
"""How a JSON text begins that may hold several values."""
_LARGEST_COMMON: Final = 10
"""Whole numbers up to this one are seen everywhere, so they need no source."""
_LARGEST_NUMBER: Final = 10**15
"""Numbers from this one on are compared as they are written."""
_LEAST_WORDS: Final = 3
"""Words of a text, such as the subject of a message, that nobody guesses."""
_LEAST_ID: Final = 5
"""Digits of a number that is an id."""
_LEAST_PART: Final = 4
"""Characters of a part of a longer chunk, such as the last four digits of a card."""
_LEAST_JOINED: Final = 3
"""Characters of a chunk with digits that is joined with others, and of a word with digits that has a source."""
_LARGEST_GROUP: Final = 20
"""Numbers of a group in which sums count: of a few hundred numbers, any number is a sum of two."""
_MOST_ALIKE: Final = 500
"""Texts among which the closest one is looked for."""
_LONGEST_CLOCK: Final = 100
"""Characters of an output that is hardly more than a date, and so says which day it is."""

_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY: Final = re.compile(rf"\b(?:{'|'.join(f'{day}|{day[:3]}' for day in _WEEKDAYS)})\b")
_RELATIVE: Final = re.compile(
    r"\b(?:today|tonight|now|tomorrow|yesterday|(?:next|last|this|past|coming)\s(?P<unit>week|month|year|weekend)"
    r"|(?P<number>\d{1,3}|an?|one|two|three|four|five|six)\s(?P<units>day|week|month|year)s?)\b"
)
_COUNTS: Final = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_DAYS: Final = {"day": 1, "week": 7, "month": 31, "year": 366}
_NEAR_WEEKDAY: Final = 14
_EDGE_DAYS: Final = (None, 1, 28, 29, 30, 31)
"""Days of a month that a date in another form may lack."""
_MAY_BE_DATE: Final = re.compile(
    r"\d[-/.年]\d|jan|feb|mar|mär|apr|avr|abr|may|mai|maj|jun|jui|jul|aug|aoû|ago|sep|set|oct|okt|out|nov|dec|dez|déc|dic"
)


# Compared by identity: its content may be an object.
@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """Something that the agent saw: words of the user, the system prompt, a schema, an output; or its own call.

    Attributes:
        kind: What it is.
        content: A text or a JSON value.
        tool: The name of the tool.
        turn: The turn of the user, from 1.
        call: The position of the call.
        echo: Values that a failed call was called with: what its error says of them is no source.
    """

    kind: EventKind
    content: Any
    tool: str = ""
    turn: int | None = None
    call: int | None = None
    echo: frozenset[str] = frozenset()


Admits: TypeAlias = Callable[[Event], bool]
"""Whether a value may come from an event."""


class Leaf(NamedTuple):
    """A text, a number or a key in an event; `text` is searched: without case and Unicode forms."""

    event: Event
    path: Path
    text: str
    value: str | float


class Value(NamedTuple):
    """A value that must come from somewhere; `kind` and `meaning` are those of a token of `text_search`."""

    kind: str
    text: str
    meaning: Any = None


def values_of(content: object) -> list[Value]:
    """Return the ids, numbers, dates and addresses of an argument or an answer that chance would not hit.

    This depends on the content alone. Left out are true, false and null, whole numbers up to 10, times of day, words
    with a digit of less than three characters, and all other words.

    Example:
        >>> from toolgrade.metrics.seen_values import values_of
        >>> [value.text for value in values_of("Refund $40.50 for HAT136 to ann@example.com by May 20, 2 pm.")]
        ['40.50', 'hat136', 'ann@example.com', 'may 20']
    """
    if is_number(content):
        return [Value("number", _number_text(content), [content])] if _is_distinctive_number(content) else []
    plain = _DATA.sub(" ", plain_text(content)).strip() if isinstance(content, str) else ""
    foreign = [] if plain.isascii() else [address for address in _ADDRESS.findall(plain) if not address.isascii()]
    return [Value("address", address) for address in foreign] + [
        Value(token.kind, plain[token.start : token.end].strip(), token.value)
        for token in tokens_of(plain)
        if _is_distinctive(token.kind, token.value)
    ]


def _is_distinctive(kind: str, meaning: Any) -> bool:  # noqa: ANN401 - depends on the kind
    if kind == "number":
        return any(map(_is_distinctive_number, meaning))
    if kind == "word":
        return len(meaning) >= _LEAST_JOINED and _has_digit(meaning)
    return kind != "symbol"


def is_id(content: object) -> bool:
    """Return whether an argument is one id, and not a date, a number of a few digits or a text with words."""
    values = values_of(content)
    is_whole = len(values) == 1 and len(str(content).split()) == 1
    is_long = is_whole and values[0].text.isdigit() and len(values[0].text) >= _LEAST_ID
    return is_long or (is_whole and values[0].kind in ("id", "word", "address"))


def _plain(text: str) -> str:
    return text.lower().strip() if text.isascii() else plain_text(text)


def _is_distinctive_number(number: Any) -> bool:  # noqa: ANN401 - a whole number need not fit into a float
    return abs(number) > _LARGEST_COMMON or (isinstance(number, float) and not number.is_integer())


def _has_digit(word: str) -> bool:
    """Return whether a word has a digit, and is no time of day."""
    return any(map(str.isdigit, word)) and ":" not in word


def _number_text(number: float) -> str:
    return str(number).removesuffix(".0").lower()


class SeenValues:
    """An index of all that an agent saw in one run."""

    def __init__(self, events: Iterable[Event], days: Iterable[date] = ()) -> None:
        """Take the events apart; `days` are known to be that of the run."""
        self.leaves: list[Leaf] = []
        self._by_chunk: dict[str, list[Leaf]] = {}
        self._days = frozenset(days)
        for event in events:
            self._add(event)
        self._knows_prompt = any(leaf.event.kind == "system" for leaf in self.leaves)

    def _add(self, event: Event) -> None:
        keys: set[str] = set()
        stack: list[tuple[Path, Any]] = [((), event.content)]
        while stack:
            path, value = stack.pop()
            form = json_forms(value)[-1] if isinstance(value, str) and value.lstrip()[:1] in _NESTED else value
            if isinstance(form, (dict, list)) and len(path) < MAX_DEPTH:
                stack.extend(((*path, key), item) for key, item in reversed([*json_items(form)]))
                for key in form if isinstance(form, dict) else ():
                    if key not in keys:
                        keys.add(key)
                        self._add_leaf(Leaf(event, (*path, key), _plain(key), key))
            elif isinstance(value, str):
                self._add_leaf(Leaf(event, path, _plain(value), value))
            elif is_number(value):
                self._add_leaf(Leaf(event, path, _number_text(value), value))

    def _add_leaf(self, leaf: Leaf) -> None:
        self.leaves.append(leaf)
        by_chunk = self._by_chunk
        for chunk in (leaf.text,) if leaf.text.isalnum() and leaf.text.isascii() else _CHUNK.findall(leaf.text):
            leaves = by_chunk.get(chunk)
            if leaves is None:
                by_chunk[chunk] = [leaf]
            elif leaves[-1] is not leaf:
                leaves.append(leaf)

    def source(self, value: Value, admits: Admits, *, joins: bool = True) -> Leaf | None:
        """Return where a value can come from; `None` for nowhere.

        It is copied, written in another form, or with `joins` joined of parts, or a part itself.
        """
        leaf = self._copied(value, admits)
        if leaf is None and value.kind == "number":
            leaf = self._same_number(value, admits)
        if leaf is None and value.kind == "date":
            return self._same_date(value, admits) or self._relative_date(value, admits)
        return leaf or (self._joined(value, admits) if joins else None)

    def explains(self, content: object) -> bool:
        """Return whether an argument, or the words of a longer text, can come from what was seen at any time.

        Amounts count as explained: they may be computed from any number of others.
        """
        values = [one for one in values_of(content) if one.kind != "number" or is_id(content)]
        if not values and isinstance(content, str) and len(content.split()) >= _LEAST_WORDS:
            values = [Value("text", plain_text(content))]
        return all(self.source(one, _is_given) for one in values)

    def _copied(self, value: Value, admits: Admits) -> Leaf | None:
        """Return a leaf that has the text of the value, and not as a part of a longer word or number."""
        places = [self._by_chunk.get(chunk, ()) for chunk in _CHUNK.findall(value.text)]
        leaves = (leaf for leaf in min(places, key=len, default=()) if admits(leaf.event))
        return next((leaf for leaf in leaves if contains_whole(leaf.text, value.text)), None)

    def _same_number(self, value: Value, admits: Admits) -> Leaf | None:
        """Return a leaf with the number in another form: also a percentage, or money in cents."""
        for number in (abs(one) for one in value.meaning if abs(one) < _LARGEST_NUMBER):
            leaf = _first(self._numbers.get(number, ()), admits)
            cents = [one for one in self._numbers.get(number / 100, ()) if _MONEY.search(one.text)]
            if leaf or (leaf := _first(cents, admits)):
                return leaf
        return None

    @cached_property
    def _numbers(self) -> Mapping[float, Sequence[Leaf]]:
        numbers: dict[float, list[Leaf]] = {}
        for leaf in self.leaves:
            for number in _numbers_in(leaf):
                leaves = numbers.setdefault(number, [])
                if not leaves or leaves[-1] is not leaf:
                    leaves.append(leaf)
        return numbers

    def _joined(self, value: Value, admits: Admits) -> Leaf | None:
        """Return the last of the leaves that have the parts of a value; a part may begin or end a longer chunk."""
        if "@" in value.text:  # joining a name and a domain is how addresses are invented
            return None
        address = re.match(r"\w+://[^/?#]+", value.text)
        if address and self._copied(Value("address", address[0]), admits) is None:
            return None
        leaf: Leaf | None = None
        chunks = _CHUNK.findall(value.text)
        for chunk in chunks:
            is_short = value.kind == "number" or (len(chunk) < _LEAST_JOINED and not chunk.isalpha())
            leaf = None if is_short else _first(self._by_chunk.get(chunk, ()), admits)
            leaf = leaf or self._longer_chunk(chunk, admits)
            if leaf is None or (value.kind == "number" and len(chunks) > 1):
                return None
        return leaf

    def _longer_chunk(self, chunk: str, admits: Admits) -> Leaf | None:
        """Return a leaf with a longer chunk that begins or ends with this one, such as an id without its letters."""
        if len(chunk) < _LEAST_PART or chunk.isalpha():
            return None
        for reverse, chunks in enumerate(self._long_chunks):
            part = chunk[::-1] if reverse else chunk
            for one in islice(chunks, bisect_left(chunks, part), bisect_left(chunks, part + "\U0010ffff")):
                leaf = _first(self._by_chunk[one[::-1] if reverse else one], admits)
                if leaf is not None:
                    return leaf
        return None

    @cached_property
    def _long_chunks(self) -> tuple[list[str], list[str]]:
        """The chunks that are more than a word, sorted by their beginnings, and written backwards by their ends."""
        chunks = [chunk for chunk in self._by_chunk if len(chunk) > _LEAST_PART and not chunk.isalpha()]
        return sorted(chunks), sorted(chunk[::-1] for chunk in chunks)

    @cached_property
    def _dates(self) -> Sequence[tuple[_Date, Leaf]]:
        return [
            (reading, leaf)
            for leaf in self.leaves
            if isinstance(leaf.value, str) and _MAY_BE_DATE.search(leaf.text)
            for token in tokens_of(_DATA.sub(" ", leaf.text).strip())
            if token.kind == "date"
            for reading in _readings_of_date(token.value)
        ]

    def _same_date(self, value: Value, admits: Admits) -> Leaf | None:
        """Return a leaf with the date in another form. It may lack the day, if that is the first or last of the month.

        It may also lack the year, if that was seen elsewhere, or if the system prompt, which was not recorded, may have
        had it.
        """
        seen = [(other, leaf) for other, leaf in self._dates if admits(leaf.event)]
        years = {year for (year, _, _), _ in seen} | {day.year for day in self._days}
        for year, month, day in _readings_of_date(value.meaning):
            any_year = year in {*years, None} or not self._knows_prompt
            any_day = day in _EDGE_DAYS
            for (other_year, other_month, other_day), leaf in seen:
                if month == other_month and _fits(year, other_year, any_year) and _fits(day, other_day, any_day):
                    return leaf
        return None

    def _relative_date(self, value: Value, admits: Admits) -> Leaf | None:
        """Return words of the user, such as `next Friday`, that can mean a date as seen from a known day.

        Days are known from the start of the run, from the system prompt, and from outputs that are hardly more than a
        date. If none is known, as the system prompt was not recorded, the words can mean any day.
        """
        days = self._days.union(self._dates_of_clocks(admits))
        any_day = not days and not self._knows_prompt
        words = [leaf for leaf in self.leaves if leaf.event.kind == "user" and admits(leaf.event)]
        for meant in filter(None, map(_whole_date, _readings_of_date(value.meaning))):
            for leaf in words:
                span, weekdays = _relative_days(leaf.text)
                if meant.weekday() in weekdays:
                    span = max(span, _NEAR_WEEKDAY)
                if (any_day and span >= 0) or any(abs((meant - one).days) <= span for one in days):
                    return leaf
        return None

    def _dates_of_clocks(self, admits: Admits) -> Iterator[date]:
        for reading, leaf in self._dates:
            day = _whole_date(reading)
            is_clock = leaf.event.kind == "tool" and len(str(leaf.event.content)) <= _LONGEST_CLOCK
            if day and (is_clock or leaf.event.kind == "system") and admits(leaf.event):
                yield day

    def derived(self, value: Value, sources: Iterable[Leaf], admits: Admits) -> Leaf | None:
        """Return a leaf whose number gives a number by a sum or a difference; `None` if none does.

        The numbers are those of one object, list or text with at most 20 numbers, or those beside the `sources` of the
        other values of the call. Counted are sums and differences of two, the sum of all, and that of all of one key.
        """
        if value.kind != "number":
            return None
        places = dict.fromkeys((leaf.event, leaf.path[:-1]) for leaf in sources if leaf.path)
        beside = [one for place in places for one in self._groups.get(place, ())]
        near = _sums_of([beside])
        for number in (_rounded(abs(one)) for one in value.meaning if abs(one) < _LARGEST_NUMBER):
            leaf = _first(near.get(number, ()), admits) or _first(self._sums.get(number, ()), admits)
            if leaf is not None:
                return leaf
        return None

    @cached_property
    def _groups(self) -> Mapping[tuple[Event, Path], Sequence[tuple[float, Leaf]]]:
        """The numbers of each object and list, at any depth in it, and of each text."""
        groups: dict[tuple[Event, Path], list[tuple[float, Leaf]]] = {}
        for leaf in self.leaves:
            numbers = [(number, leaf) for number in _numbers_in(leaf)]
            if len(numbers) > 1:
                groups[leaf.event, (*leaf.path, "")] = numbers
            for end in range(len(leaf.path)) if len(numbers) == 1 else ():
                groups.setdefault((leaf.event, leaf.path[:end]), []).extend(numbers)
        return groups

    @cached_property
    def _sums(self) -> Mapping[float, Sequence[Leaf]]:
        return _sums_of(self._groups.values())

    def closest(self, value: Value, admits: Admits) -> tuple[str, Leaf] | None:
        """Return what is most like a value without a source, and its leaf; `None` if nothing is."""
        if value.kind == "number":
            target = min(abs(next(iter(value.meaning))), _LARGEST_NUMBER)
            seen = ((number, leaf) for number, leaves in self._numbers.items() if (leaf := _first(leaves, admits)))
            nearest = min(seen, key=lambda entry: abs(entry[0] - target), default=None)
            return None if nearest is None else (_number_text(nearest[0]), nearest[1])
        sizes = range(len(value.text) // 2, 2 * len(value.text) + 1)
        words = {
            word: leaf
            for leaf in reversed(self.leaves)
            if admits(leaf.event)
            for word in _WORD.findall(leaf.text)
            if len(word) in sizes and (_has_digit(word) or "@" in word)
        }
        for word in get_close_matches(value.text, [*words][:_MOST_ALIKE], 1):
            content = str(words[word].value)
            begin = max(content.lower().find(word), 0)
            return content[begin : begin + len(word)], words[word]
        return None


def _is_given(event: Event) -> bool:
    return event.kind != "call"


def _first(leaves: Iterable[Leaf], admits: Admits) -> Leaf | None:
    return next((leaf for leaf in leaves if admits(leaf.event)), None)


def _numbers_in(leaf: Leaf) -> Iterator[float]:
    """Yield the numbers of a leaf, without signs and in all readings; a percentage also as a share of 1."""
    if not isinstance(leaf.value, str):
        if abs(leaf.value) < _LARGEST_NUMBER:
            yield abs(leaf.value)
        return
    for match in _NUMBER.finditer(leaf.text):
        whole = readings_of(match[0])
        # `1,2,3` is a list, and `100 200` may be two numbers.
        parts = [] if whole and " " not in match[0] else re.split("[ ,']", match[0])
        for number in {*whole.values(), *(one for part in parts for one in readings_of(part).values())}:
            if number >= _LARGEST_NUMBER:
                continue
            yield number
            if leaf.text[match.end() : match.end() + 2].lstrip().startswith("%"):
                yield number / 100


def _rounded(number: float) -> float:
    """Return a number as sums are compared: without the last bits of a floating sum."""
    return round(number, 6)


def _sums_of(groups: Iterable[Sequence[tuple[float, Leaf]]]) -> dict[float, list[Leaf]]:
    """Return a leaf of each sum and difference; groups with too many numbers have none."""
    sums: dict[float, list[Leaf]] = {}
    for group in groups:
        if len(group) > _LARGEST_GROUP:
            continue
        by_key: dict[Any, list[float]] = {None: [number for number, _ in group]}
        for number, leaf in group:
            by_key.setdefault(leaf.path[-1:], []).append(number)
        totals = [sum(numbers) for numbers in by_key.values() if len(numbers) > 1]
        pairs = [(one, other) for (one, _), (other, _) in combinations(group, 2)]
        for total in {*totals, *(one + other for one, other in pairs), *(abs(one - other) for one, other in pairs)}:
            sums.setdefault(_rounded(total), []).append(group[0][1])
    return sums


def _readings_of_date(meaning: tuple[Any, Any, Any]) -> set[_Date]:
    """Return the dates that a token can be: month and day are texts if it is not known which is which."""
    year, *others = meaning
    month, day = (int(one) if isinstance(one, str) else one for one in others)
    return {(year, month, day), (year, day, month)} if isinstance(others[0], str) else {(year, month, day)}


def _fits(part: int | None, other: int | None, may_lack: bool) -> bool:
    """Return whether parts of two dates are equal, or one date may lack it and does."""
    return part == other or (may_lack and None in (part, other))


def _whole_date(reading: _Date) -> date | None:
    year, month, day = reading
    return date(year, month, day) if year and month and day else None


def _relative_days(text: str) -> tuple[int, set[int]]:
    """Return how many days relative dates of a text can be away, -1 without any, and the weekdays that it names."""
    spans = [-1]
    for match in _RELATIVE.finditer(text):
        number, units, unit = match["number"], match["units"], match["unit"]
        if units:
            spans.append((_COUNTS.get(number) or int(number)) * _DAYS[units] + 1)
        else:
            spans.append(2 * _DAYS[unit.replace("weekend", "week")] if unit else 1)
    names = tuple(_WEEKDAY.findall(text))
    return max(spans), {index for index, day in enumerate(_WEEKDAYS) if any(map(day.startswith, names))}
