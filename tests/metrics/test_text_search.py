"""Required texts in what an agent said: whole words, and numbers and dates by value; an answer and the expected one."""

from __future__ import annotations

import datetime
import unicodedata
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade.errors import LimitError
from toolgrade.metrics.text_search import TextIndex, compare_answer

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


# Answers

ORDER = "The total price of the order is 1060 dollars"
FLIGHT = "Your flight HAT136 to New York on May 3, 2024 at 3:30 pm"

#: Expected texts, answers that fit, and answers that do not, each with the values that it lacks.
ANSWERS: list[tuple[str, list[str], list[tuple[str, list[str]]]]] = [
    (ORDER, ["It is $1,060.00.", "1060", "USD 1.060,00", "US$1060", "1,060 US dollars", "one thousand and sixty"],
     [("The total price of the order is 1,050 dollars", ["1060 dollars"]), ("1,060 euros", ["1060 dollars"])]),
    ("That is 1,060", ["€1060", "1060 pounds", "12,50 of 1,060"], [("1061", ["1,060"])]),
    (FLIGHT, ["HAT136, new york: 2024-05-03, 15:30"],
     [("HAT13, New York, 3 May 2024, 3 am", ["hat136", "15:30"]), ("HAT136 in York, 3:30 pm", ["new", "may 3, 2024"])]),
    ("Yes, flight 123 is refundable", ["Yes, 123 is."], [("No, flight 123 is not refundable", ["yes"])]),
    ("No, I can't move flight 123", ["No: 123 can not move", "No. 123 doesn't."], [("Yes, 123", ["no", "not"])]),
    ("It takes 5 days", ["five days", "5"], [("5 hours", ["5 days"])]),
    ("The rate rose by 15% to $2.5 million", ["15 percent, $2,500,000"], [("15 days, 2.5", ["15%", "$2500000"])]),
    ("Barack Obama was born in 1961", ["Barack Obama, 1961"], [("Michelle Obama, 1961", ["barack"])]),
    ("Mr. Smith and the iPhone are in Graz", ["Smith, iPhone, Graz"], [("Jones in Graz", ["smith", "iphone"])]),
    ("The state is 'on hold' and «open»", ["on hold, open"], [("open", ["on", "hold"])]),
    ("Write to mary@example.com.", ["mary@example.com"], [("marc@example.com", ["mary@example.com"])]),
    ("السعر 5", ["السعر 5"], [("5", ["السعر"])]),
    ("The cost is five. Flights are cheap.", ["5"], [("6", ["5"])]),
    ("Only the one in room 7", ["7"], [("8", ["7"])]),
    ("It ends in 2024", ["May 3, 2024"], [("2023", ["2024"])]),
    ("Between one hundred and two hundred", ["from 100 to 200"], [("300", ["100", "200"])]),
    ("東京 駅", ["東京駅です"], [("東京", [])]),
    ("3 apples", ["There are three apples."], [("3 oranges", ["apples"]), ("4 apples", ["3"])]),
    ("30 minutes", ["half an hour, or 30 min"], [("30 hours", ["30 minutes"])]),
    ("EUR", ["in EUR"], [("in USD", [])]),
    ("left", ["Turn left."], [("right", [])]),
    ("Red", ["It is red."], [("It is blue.", [])]),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "right", "wrong"), ANSWERS, ids=[row[0][:20] for row in ANSWERS])
def test_answers_fit_by_their_values(expected: str, right: list[str], wrong: list[tuple[str, list[str]]]) -> None:
    """The words around the values play no part, except of two words."""
    assert [one for one in right if compare_answer(expected, one)[0] != 1] == []
    assert [compare_answer(expected, one)[2] for one, _ in wrong] == [missing for _, missing in wrong]
    assert [one for one, _ in wrong if compare_answer(expected, one)[0] > Fraction(9, 10)] == []


def test_credits() -> None:
    """The share of the values, or else of the words; never near 1 without a value, or without a word such as `not`."""
    many = " and ".join(f"A{number}" for number in range(50))
    words = " ".join(chr(97 + number % 26) * (number // 26 + 2) for number in range(50))

    assert compare_answer("It has 5 of Ann", "5")[:2] == (Fraction(1, 2), "1 of 2 numbers, ids and names")
    assert compare_answer("it is so red", "it is")[:2] == (Fraction(1, 2), "2 of 4 words")
    assert compare_answer(many, many.replace("A7 ", ""))[:2] == (Fraction(9, 10), "49 of 50 numbers, ids and names")
    assert compare_answer(words, words[3:])[0] == Fraction(49, 50)
    assert compare_answer(f"not {words}", words)[0] == Fraction(9, 10)


def in_english(number: int, joint: str = " and ") -> str:
    """A number below a million in words."""
    small = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    names = [*small.split(), "seventeen", "eighteen", "nineteen"]
    tens = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
    if number < 20:
        return names[number]
    if number < 100:
        return tens[number // 10 - 2] + (f"-{names[number % 10]}" if number % 10 else "")
    size, scale = (1000, "thousand") if number >= 1000 else (100, "hundred")
    rest = number % size
    head = f"{in_english(number // size, joint)} {scale}"
    return head + ((joint if rest < 100 else " ") + in_english(rest, joint) if rest else "")


NAMES = ["HAT136", "A-12", "mary@example.com", "Ann", "New York", "Zoë"]
values = st.sampled_from(NAMES) | numbers | dates
texts = st.text(max_size=20) | st.sampled_from(["It is not", "5 hours", "USD", "one", "a.m."])


@given(st.integers(0, 999_999), st.integers(0, 999_999), st.sampled_from([" and ", " "]))
def test_number_words(number: int, other: int, joint: str) -> None:
    """Words mean their number, and no other one."""
    text = in_english(number, joint)

    assert compare_answer(f"we have {number}", f"There are {text.upper()} of them.")[0] == 1
    assert compare_answer(f"we have {text} of them", f"{number:,}")[0] == 1
    assert (compare_answer(f"we have {text} of them", str(other))[0] == 1) is (number == other)


@given(texts | st.lists(values | texts).map(lambda parts: " is ".join(map(str, parts))), texts, texts)
def test_any_answer_fits_itself_with_any_text_around_it(text: str, before: str, after: str) -> None:
    """Whatever it is."""
    assert compare_answer(text, text)[0] == 1
    assert compare_answer(text, f"{before} :: {text} :: {after}")[0] == 1


@given(st.lists(values, min_size=1, max_size=5), st.data())
def test_another_spelling_of_the_values_fits(things: list[object], data: st.DataObject) -> None:
    """Of numbers, with or without currency and in its forms, and of dates; case and Unicode forms do not count."""
    money = st.sampled_from(["${}", "{} USD", "{} dollars", "US${}", "{}"])

    def spell(one: object) -> str:
        text = spelled(one, data)
        return data.draw(money).format(text) if isinstance(one, Decimal) else text

    expected, answer = (" holds ".join(["it", *map(spell, things)]) for _ in range(2))
    cases = data.draw(st.sampled_from([str, str.upper, str.lower]))

    assert compare_answer(expected, cases(answer))[0] == 1
    assert compare_answer(expected, unicodedata.normalize("NFD", answer))[0] == 1


@given(st.lists(numbers, min_size=2, max_size=40, unique=True), st.data())
def test_another_number_does_not_fit(amounts: list[Decimal], data: st.DataObject) -> None:
    """Whichever number of the expected text is replaced."""
    *stated, other = amounts
    place = data.draw(st.integers(0, len(stated) - 1))
    said = [*stated[:place], other, *stated[place + 1 :]]
    expected, answer = (" or ".join(["it costs", *(spelled(one, data) for one in them)]) for them in (stated, said))

    assert compare_answer(expected, answer)[0] <= Fraction(9, 10)


@given(things, things, st.lists(st.sampled_from([*NAMES, "not", "five", "12", "USD"])).map(" ".join), st.data())
def test_more_text_never_lowers_the_credit(
    stated: list[object], said: list[object], more: str, data: st.DataObject
) -> None:
    """If it does not show that a comma means something else."""
    expected, answer = ("; ".join(spelled(one, data) for one in them) for them in (stated, said))
    credit = compare_answer(expected, answer)[0]

    assert compare_answer(expected, f"{answer} :: {more}")[0] >= credit
    assert compare_answer(expected, f"{more} :: {answer}")[0] >= credit
