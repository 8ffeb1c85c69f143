"""Required texts in what an agent said: whole words, and numbers and dates by value."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade.errors import LimitError
from toolgrade.metrics.text_search import TextIndex

#: Texts, required texts that each has, and required texts that it has not.
TABLE: list[tuple[str, list[str], list[str]]] = [
    ("Flight HAT136 (seat 112A) is unconfirmed.", ["HAT136", "112A", "is unconfirmed"], ["HAT1", "12A", "confirmed"]),
    ("Keep your eyes open to new\nyork.", ["eyes", "New  York"], ["yes", "newyork", "New York, NY"]),
    ("1.120,50 EUR", ["1120.5", "1,120.50", "€1120.50"], ["1.12", "120.5", "1", "$1,120.50"]),
    ("1,20,000", ["120000", "120 000"], ["20,000", "20", "1"]),
    ("120 000 km, 1'120.50 and 1\u202f000", ["120000", "1120.5", "1000", "120000 km"], ["120", "000", "50"]),
    ("1.120 Euro", ["1120", "1.12"], ["120"]),
    ("1,120 EUR", ["1120"], ["1.12", "120"]),
    ("12,50 and 1,125", ["12.5", "1.125"], ["1125"]),
    ("2.25 or 1.500", ["1.5"], ["1500"]),
    ("$120.00, 15 % off, -5 degrees", ["120", "$120", "120 USD", "15%", "-5"], ["20", "€120", "5", "5%"]),
    ("120EUR or USD130 or 120 EUR 140 USD", ["120", "130", "$130", "140 USD"], ["140 EUR", "130 EUR"]),
    ("from 5-10, or 1,2,3", ["5", "10", "2", "3"], ["-10", "2.3"]),
    ("version 1.2.3 of agent 007 at 10:30", ["1.2.3", "007", "10:30"], ["1.2", "7", "30"]),
    ("A-12, ORD-2024-001 and a 3-day, well-known trip", ["a-12", "3", "well"], ["12", "A-1", "ORD-2024", "2024"]),
    ("the user_id of __Ann__'s don\u2019t", ["user_id", "Ann", "don't"], ["user", "id"]),
    ("Mail Mary.Ann@Example.com.", ["mary.ann@example.com", "example.com"], ["Ann@example.com", "mary@example.com"]),
    ("See https://x.com/a/4711.", ["https://x.com/a/4711", "x.com", "4711"], ["https://x.com/a", "https://x.com"]),
    ("on 3 May 2024.", ["2024-05-03", "May 3, 2024", "3 May", "May 2024", "2024"], ["3", "3 May 2023", "13 May 2024"]),
    ("3. Mai 2024", ["3 May 2024"], ["2024-03-05"]),
    ("3 de mayo de 2024", ["2024-05-03"], ["2024-05-30"]),
    ("2024-05-03T10:00:00Z", ["May 3rd, 2024", "10:00"], ["5", "2024-05", "0:00"]),
    ("25/05/2024 or 05/26/2024 or 03.05.2024", ["2024-05-25", "2024-05-26", "2024-05-03"], ["2024-03-05"]),
    ("03/05/2024", ["3/5/2024"], ["2024-05-03", "2024-03-05", "05/03/2024"]),
    ("31/02/2024, which you may do", ["31/02/2024", "may"], ["2024-02-29"]),
    ("予約が完了しました。3個、2024年5月3日", ["予約", "完了", "3", "2024-05-03"], ["予完", "5"]),
    ("서울에서 हिन्दी में cafe\u0301", ["서울", "हिन्दी", "café"], ["हिन्द", "caf", "cafe"]),
    ("con\u00adfirmed", ["confirmed", ""], ["firmed"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "inside", "outside"), TABLE, ids=[row[0][:20] for row in TABLE])
def test_the_table(text: str, inside: list[str], outside: list[str]) -> None:
    """No text stands inside a word, a number, a date, an id or an address."""
    index = TextIndex(["first", text])

    assert [one for one in inside if not index.contains(one)] == []
    assert [one for one in outside if index.contains(one)] == []


def grouped(whole: str, separator: str, size: int = 3) -> str:
    """The digits of a number in groups: the last has three, the others `size`."""
    head, groups = whole[:-3], [whole[-3:]]
    while head:
        head, groups = head[:-size], [head[-size:], *groups]
    return separator.join(groups)


def spellings(number: Decimal) -> list[str]:
    """A number with two decimals in the forms of locales, which no other number has."""
    whole, cents = f"{number:.2f}".split(".")
    forms = [(",", "."), (".", ","), (" ", ","), ("'", "."), ("", "."), ("", ",")]
    return [grouped(whole, thousands) + point + cents for thousands, point in forms] + [
        f"{grouped(whole, ',', 2)}.{cents}"
    ]


def spelled_dates(day: datetime.date) -> list[str]:
    """A date in the forms of locales, which no other date has."""
    month, year = day.strftime("%B"), day.year
    return [day.isoformat(), f"{day.day} {month} {year}", f"{month} {day.day}, {year}", f"{day.day}.{day.month}.{year}"]


WORDS = [
    "HAT1",
    "HAT13",
    "HAT136",
    "1A",
    "12A",
    "112A",
    "yes",
    "eyes",
    "A-1",
    "A-12",
    "BA-12",
    "12",
    "1",
    "112",
    "予約",
]
numbers = st.decimals(0, 10**7, places=2)
dates = st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))
things = st.lists(st.sampled_from(WORDS) | numbers | dates, min_size=1, max_size=5)


def spelled(thing: object, data: st.DataObject) -> str:
    """A word, number or date in one of its spellings."""
    if isinstance(thing, Decimal):
        return data.draw(st.sampled_from(spellings(thing)))
    return data.draw(st.sampled_from(spelled_dates(thing))) if isinstance(thing, datetime.date) else str(thing)


@given(things, things, st.data())
def test_a_text_has_what_is_in_it_and_nothing_else(
    said: list[object], others: list[object], data: st.DataObject
) -> None:
    """However each word, number and date is spelled, on either side."""
    index = TextIndex(["; ".join(spelled(one, data) for one in said)])
    values = {Decimal(one) if isinstance(one, str) and one.isdigit() else one for one in said}

    for one in (*said, *others):
        value = Decimal(one) if isinstance(one, str) and one.isdigit() else one
        assert index.contains(spelled(one, data)) == (value in values)


@given(st.text(max_size=60), st.text(max_size=20))
def test_any_text_is_found_next_to_others(text: str, before: str) -> None:
    """A text is in itself, also with other words around it."""
    assert TextIndex([text]).contains(text)
    assert TextIndex([f"say :: {text} :: end"]).contains(text)
    assert isinstance(TextIndex([before]).contains(text), bool)


def test_texts_are_bounded() -> None:
    """What cannot be searched in a moment is not measured."""
    with pytest.raises(LimitError, match="a search in texts"):
        TextIndex(["1" * 600_000]).contains("2")
