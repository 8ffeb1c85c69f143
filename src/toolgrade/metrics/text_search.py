"""Search for required texts in what an agent said: by whole words, by numbers and dates by value.

A text becomes tokens, each a word, a number, a date or a symbol, and a text contains another one whose tokens stand in
it one after the other. So `HAT1` is not in `HAT136`, `120` is neither in `1,120` nor in `120 000`, and `2026-05-03` is
in `on May 3, 2026`. Case, white space and Unicode forms do not count. Scripts without white space between words, such
as Chinese, have one token for each character.

An answer is compared with the expected one by the numbers, ids and names of the expected one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib import import_module
from itertools import product
from typing import Any, Final, NamedTuple

from toolgrade._internal.budget import current_budget
from toolgrade.expect.value_matchers import folded_text

_MONTHS: Final = (
    "january jan januar janvier enero gennaio janeiro",
    "february feb februar février febrero febbraio fevereiro",
    "march mar märz mars marzo março",
    "april apr avril abril aprile",
    "may mai mayo maggio maio",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août agosto",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre diciembre dicembre dezembro",
)
_MONTH_NUMBERS: Final = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_CODES: Final = "aud|brl|cad|chf|cny|dkk|eur|gbp|inr|jpy|krw|mxn|nok|nzd|pln|sek|sgd|usd|zar"
_CURRENCIES: Final = {
    **{code: code for code in _CODES.split("|")},
    **dict.fromkeys(("$", "us$", "dollar", "dollars"), "usd"),
    **dict.fromkeys(("€", "euro", "euros"), "eur"),
    **{"£": "gbp", "¥": "jpy", "₹": "inr"},  # noqa: PIE800 - as above
}
_UNITS: Final = rf"(?:{_CODES}|[ckm]m|[km]g|ml|[kmgt]b|ms|hrs?|min|am|pm|st|nd|rd|th)"
"""Suffixes that are written without a space behind a number, as in `120EUR` and `3rd`; `12A` is one word."""

_SOLO: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Scripts in which words are written without white space between them, or, as in Korean, with endings behind them."""
_W: Final = rf"[[\p{{L}}\p{{N}}\p{{M}}]--[{_SOLO}]]"
_NAME: Final = rf"(?P<name>{'|'.join(sorted(_MONTH_NUMBERS, key=len, reverse=True))})\.?"
_STARTS: Final = "|".join(sorted({name[:3] for name in _MONTH_NUMBERS}))
_YEAR: Final = r"(?P<y>(?:1[89]|2[01])\d\d)"
_SMALL: Final = rf"""
  (?P<number> (?:(?<![\p{{L}}\p{{N}}\p{{M}}_.)\]])[-+])?
    (?>(?<=\d,)\d+|(?:\d{{1,3}}(?:[\ ']\d{{3}})+(?!\d)|\d+|(?<![\p{{L}}\p{{N}}.])(?=\.\d))(?:[.,]\d+)*)
    (?={_UNITS}(?!{_W})|(?!{_W})) )
| (?P<word> (?:{_CODES})(?=\d) | [a-z]+'t(?!{_W}) | us\$ | {_W}+(?:_+{_W}+)* )
| (?P<symbol> \S )
"""
_FULL: Final = rf"""
  (?P<word> (?!{_STARTS})[a-z]+ )(?=[,;!?)]|\.?(?:\s|$))
| (?=[a-z0-9.+%-]{{1,64}}(?:@|://))(?P<address> [a-z][a-z0-9+.-]{{1,15}}://[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}}*/]
  | (?<![\w.+%-])[\w.+%-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,8}} )
| (?=\d|{_STARTS})(?P<date> (?<!{_W}|\d[./-])(?:
    (?P<y>\d{{4}})(?P<sep>[-/.])(?P<m>\d\d?)(?P=sep)(?P<d>\d\d?)
  | (?P<y>\d{{4}})年(?P<m>\d\d?)月(?P<d>\d\d?)日
  | (?P<a>\d\d?)(?P<sep>[-/.])(?P<b>\d\d?)(?P=sep)(?P<y>\d{{4}})
  | (?P<d>\d\d?)(?:st|nd|rd|th|er|º|\.)?[\s-](?:of\s|de\s)?{_NAME}(?:(?:,?\s|-)(?:de\s)?{_YEAR})?
  | {_NAME}\s(?P<d>\d\d?)(?:st|nd|rd|th)?(?:,?\s{_YEAR})?
  | {_NAME},?\s(?:of\s|de\s)?{_YEAR}
  )(?:t(?=\d\d:)|(?!{_W}|[./-]\d)) )
| (?P<time> (?P<h>\d\d?):(?P<min>\d\d)(?::(?P<s>\d\d))?(?![\d:]) )
| (?P<id> (?:{_W}|_)+(?:-(?:{_W}|_)+){{1,8}} )
| {_SMALL}
"""
_PATTERNS: Final = [rf"(?:{pattern})\s*" for pattern in (_FULL, _SMALL, r"(?P<number>\d+)")]
"""The patterns of tokens; where one finds none, the next does."""
_NUMBER_FORMS: Final = {
    ".": re.compile(r"[-+]?(\d*|\d{1,3}(?:,\d{2,3})*,\d{3}|\d{1,3}(?:[ ']\d{3})+)(\.\d+)?"),
    ",": re.compile(r"[-+]?(\d*|\d{1,3}(?:\.\d{3})+|\d{1,3}(?:[ ']\d{3})+)(,\d+)?"),
}
"""Numbers by their decimal separator. `1.120` is one in both forms."""
_LONGEST_NUMBER: Final = 300
_SAME_CHARACTERS: Final = {
    **dict.fromkeys(map(ord, "\u2018\u2019\u02bc"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d"), '"'),
    **dict.fromkeys(map(ord, "\u2010\u2011\u2212"), "-"),
}
"""Apostrophes, quotation marks and hyphens."""
_SHORT_WORD: Final = 3
_SMALL_NUMBER: Final = 10
_MOST_MONTHS: Final = 12

_UNIT_NAMES: Final = (
    *("gbp pound pounds", "jpy yen", "inr rupee rupees", "percent % pct", "second seconds sec"),
    *("minute minutes min mins", "hour hours hr hrs", "day days", "week weeks", "month months", "year years"),
)
_MEASURES: Final = _CURRENCIES | {name: names.split()[0] for names in _UNIT_NAMES for name in names.split()}
_ONES: Final = "zero|one|two|three|four|five|six|seven|eight|nine"
_TEENS: Final = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS: Final = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_SCALES: Final = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_NUMBER_WORDS: Final = _SCALES | dict(
    zip(f"{_ONES}|{_TEENS}|{_TENS}".split("|"), (*range(20), *range(20, 100, 10)), strict=True)
)
_BELOW_100: Final = rf"(?:(?:{_TENS})(?:[\s-](?:{_ONES}))?|{_TEENS}|{_ONES})\b"
_BELOW_1000: Final = rf"(?:(?:{_BELOW_100}\s)?hundred\b(?:\s(?:and\s)?{_BELOW_100}(?!\shundred))?|{_BELOW_100})"
_OTHER_SPELLINGS: Final = rf"""
  \b(?: (?!one\b(?<=\b(?:the|this|that|no|any|each|every|which|another)\sone))
    (?P<words> {_BELOW_1000}(?:\s(?:thousand|million|billion)\b(?:\s(?:and\s)?{_BELOW_1000})?)* )
  | (?<![\d.,])(?P<factor>\d{{1,3}}(?:\.\d{{1,6}})?)\s(?P<words>{"|".join(_SCALES)})\b
  | (?<![\d:.,])(?P<hour>1[0-2]|0?[1-9])(?P<minutes>(?::[0-5]\d){{0,2}})\s?(?P<half>[ap])(?:m\b|\.m\.)
  | (?P<dollars>(?:us|u\.s\.)\sdollars?)\b )
| (?<=[a-z])n't\b | (?<=\bcan)not\b
"""
"""Number words, times with am or pm, US dollars, and forms of `not`."""
_FIRST: Final = r"""(?:\A|\n|(?<!\b\p{Lu}\p{Ll}{0,2}\.)(?<=[.!?]["”)\]]?)\s)[^\p{L}\p{N}"“«]{0,9}"""
_NAMES: Final = rf"""
  ["“«]\b[^"”»\n]{{1,40}}["”»] | (?<!{_W})['\u2018]\b[^'\u2019\n]{{1,40}}['\u2019](?!{_W})
| (?<!{_W}) (?!I\b) (?: {_W}+\p{{Lu}}{_W}* | \p{{Lu}}{_W}*+
    (?<!\b(?:The|This|That|These|There|It|Your|My|Our|He|She|We|You|They|In|On|At|For|From|To|By|With|When|After|And|But
      |If|As|So|Is|Are|Sorry|Please|Dear|Hello|Hi|However|See|Mr|Mrs|Ms|Dr))
    (?: (?<!{_FIRST}{_W}+) | (?=(?:,?\s(?:and\s|of\s|&\s)?|-)(?!I\b)\p{{Lu}}\p{{L}}*(?!{_W})) ) )
"""
"""Quoted texts, and words with capital letters, but not the first of a sentence unless another such word follows it."""
_POLARITY: Final = frozenset({"yes", "no", "not", "never", "none", "neither"})
_MOST_SHORT: Final = 2
_MOST_INCOMPLETE: Final = Fraction(9, 10)


class _Token(NamedTuple):
    start: int
    end: int
    """Where the next token may start."""
    kind: str
    value: Any
    """Of a number all its readings, of a date the year, month and day with `None` for what it lacks, else a text."""

    def means(self, other: _Token) -> bool:
        """Return whether a token of a text means this required one."""
        if self.kind != other.kind:
            return False
        if self.kind == "date":
            return all(one in (None, part) for one, part in zip(self.value, other.value, strict=True))
        if self.kind == "amount":
            return self.value[1] == other.value[1] and not self.value[0].isdisjoint(other.value[0])
        return not self.value.isdisjoint(other.value) if self.kind == "number" else bool(self.value == other.value)


@cache
def _compiled(pattern: str) -> Any:  # noqa: ANN401 - the package has no types
    regex = import_module("regex")  # loaded with the first text
    return regex.compile(pattern, regex.VERBOSE | regex.VERSION1)


class TextIndex:
    """The tokens of some texts, in which required texts are looked for.

    Example:
        >>> from toolgrade.metrics.text_search import TextIndex
        >>> said = TextIndex(["Flight HAT136 costs 1.120,50 EUR."])
        >>> said.contains("HAT1"), said.contains("1120.5"), said.contains("120")
        (False, True, False)
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """Prepare the texts; one is scanned when it may contain a required text."""
        self._texts = list(map(plain_text, texts))
        self._scanned: dict[str, Mapping[int, Sequence[_Token]]] = {}

    @property
    def numbers(self) -> list[int | float]:
        """All readings of all numbers."""
        return [value for token in self._tokens("number") for value in token.value]

    def contains(self, required: str) -> bool:
        """Return whether one of the texts contains a required text."""
        tokens = _with_amounts(tokens_of(plain_text(required)))
        words = [token.value for token in tokens if token.kind == "word" and token.value.isalpha()]
        return any(all(word in text for word in words) and _is_in(tokens, self._edges(text)) for text in self._texts)

    def _tokens(self, kind: str) -> Iterator[_Token]:
        for text in self._texts:
            for tokens in self._edges(text).values():
                yield from (token for token in tokens if token.kind == kind)

    def _edges(self, text: str) -> Mapping[int, Sequence[_Token]]:
        if text not in self._scanned:
            current_budget().spend(2 * len(text), "a search in texts")
            self._scanned[text] = _edges(text)
        return self._scanned[text]


def values_in(text: str) -> list[str]:
    """Return the dates, times, ids, addresses and numbers above 10 of a text, in lower case."""
    plain = plain_text(text)
    return [plain[token.start : token.end].strip() for token in tokens_of(plain) if _is_value(token)]


def _is_value(token: _Token) -> bool:
    if token.kind == "number":
        return any(abs(value) > _SMALL_NUMBER for value in token.value)
    return token.kind not in ("word", "symbol") or any(map(str.isdigit, token.value))


class _Fact(NamedTuple):
    token: _Token
    keys: frozenset[Any]
    """An answer says what is expected if the two have a common key."""
    text: str


def compare_answer(expected: str, answer: str) -> tuple[Fraction, str, list[str]]:
    """Return how far an answer fits the expected text, how many of how many it has, and which values it lacks.

    The numbers, dates, ids, addresses and names of the expected text are its values. If it has some, they and words
    such as `not` are compared, else all words, and all of a text of two words. The first result is the share of those
    that the answer has, at most 0.9 if it lacks a value or a word such as `not`.
    """
    current_budget().spend(2 * len(answer), "a search in texts")
    facts, has_values = _required_facts(expected)
    if not facts:
        credit = Fraction("".join(plain_text(expected).split()) in "".join(plain_text(answer).split()))
        return credit, f"{credit} of 1 texts", []
    answer_keys = {key for fact in _facts(answer, is_answer=True) for key in fact.keys}
    absent = [one for one in facts if one.keys.isdisjoint(answer_keys)]
    share = 1 - Fraction(len(absent), len(facts))
    if any(has_values or one.token.value in _POLARITY for one in absent):
        share = min(share, _MOST_INCOMPLETE)
    terms = f"{len(facts) - len(absent)} of {len(facts)} {'numbers, ids and names' if has_values else 'words'}"
    return share, terms, [one.text for one in absent if has_values]


def _required_facts(expected: str) -> tuple[list[_Fact], bool]:
    """Return what an answer must say, and whether there are values in it; then only words such as `not` count, too."""
    matches = _compiled(_NAMES).findall(expected)
    names = {token.value for name in matches for token in tokens_of(plain_text(name))} - _MEASURES.keys()
    facts = list({one.keys: one for one in _facts(expected)}.values())
    values = {one.token.value for one in facts if _decides(one.token, names)}
    if values:
        facts = [one for one in facts if one.token.value not in _MEASURES]
        if len(facts) > _MOST_SHORT:
            values |= _POLARITY
            facts = [one for one in facts if one.token.value in values]
    return facts, bool(values)


def _decides(token: _Token, names: set[str]) -> bool:
    """Return whether a token is a value; in a script without capital letters each word may be a name."""
    return token.kind != "word" or token.value in names or token.value == token.value.upper() or _is_value(token)


def _facts(text: str, *, is_answer: bool = False) -> Iterator[_Fact]:
    """Yield what a text says, token by token, but for its symbols."""
    plain = _compiled(_OTHER_SPELLINGS).sub(_usual_spelling, plain_text(text))
    tokens = tokens_of(plain)
    edge = _Token(0, 0, "", "")
    for before, token, after in zip((edge, *tokens), tokens, (*tokens[1:], edge), strict=False):
        for part in (token, *(_parts(plain, token) if is_answer else ())):
            near = [part]
            if part.kind == "number":
                near = [*[before] * (before.value in _CURRENCIES), part, *[after] * (after.value in _MEASURES)]
            if part.kind != "symbol":
                units = {_MEASURES[one.value] for one in near if one is not part}
                keys = _keys(part, plain, units, is_answer=is_answer)
                yield _Fact(part, keys, plain[near[0].start : near[-1].end].strip())


def _keys(token: _Token, plain: str, units: set[str], *, is_answer: bool) -> frozenset[Any]:
    """Return all that an answer says by a token with these units, or what an expected token asks for."""
    values = {token.value}
    if token.kind == "number":
        values = {*token.value, plain[token.start : token.end].strip()}  # other numbers may change the readings
    elif token.kind == "date" and is_answer:
        values = set(product(*((one, None) for one in token.value)))
    # A unit fits itself and none, and what is expected without a unit fits any.
    marks = {"any", *(units or {""})} if is_answer else {"", *units} if units else {"any"}
    return frozenset(product(values, marks))


def _usual_spelling(match: Any) -> str:  # noqa: ANN401 - the package has no types
    if match["words"]:
        number = Decimal(match["factor"] or 0)
        for word in filter(_NUMBER_WORDS.get, re.findall("[a-z]+", match["words"])):  # without `and`
            factor = number % _SCALES[word] if word in _SCALES else 0
            number += (factor or 1) * _NUMBER_WORDS[word] - factor
        return f"{number.normalize():f}"
    if match["half"]:
        return f"{int(match['hour']) % 12 + 12 * (match['half'] == 'p')}{match['minutes'] or ':00'}"
    return "usd" if match["dollars"] else " not"


def _is_in(required: Sequence[_Token], edges: Mapping[int, Sequence[_Token]]) -> bool:
    """Return whether tokens stand one after the other in a text, whose tokens are listed by where they start."""
    places = set(edges)
    for one in required:
        places = {token.end for place in places for token in edges.get(place, ()) if one.means(token)}
    return bool(places) or not required


def _edges(plain: str) -> dict[int, list[_Token]]:
    """Return the tokens of a plain text by where they start, with amounts of money and with the parts of some tokens.

    The parts of an address are its words and numbers, of an id and a date its words, and of a date with a name of a
    month its year.
    """
    tokens = tokens_of(plain)
    edges: defaultdict[int, list[_Token]] = defaultdict(list)
    for place, token in enumerate(tokens):
        for one in (token, *_parts(plain, token)):
            edges[one.start].append(one)
        before, after = tokens[place - 1 : place], tokens[place + 1 : place + 2]
        amount = _amount(token, after[0]) if after else None
        if amount and (token.kind == "number" or not before or before[0].kind != "number"):
            edges[token.start].append(amount)
    return edges


def _parts(plain: str, token: _Token) -> Iterator[_Token]:
    """Yield the tokens inside of an address, an id or a date that count on their own."""
    if token.kind in ("word", "number", "symbol"):
        return
    has_name = re.search(r"[^\W\d_]{3}", plain[token.start : token.end])
    for part in _resolved(_scan(plain, token.start, token.end, _PATTERNS[1:])):
        is_year = token.kind == "date" and part.kind == "number" and part.value == {token.value[0]}
        is_word = part.kind == "word" and part.value.isalpha() and len(part.value) >= _SHORT_WORD
        if token.kind == "address" or is_word or (is_year and has_name):
            yield part


def _with_amounts(tokens: Sequence[_Token]) -> list[_Token]:
    """Return tokens with one in place of each number and its currency."""
    merged: list[_Token] = []
    for token in tokens:
        amount = _amount(merged[-1], token) if merged else None
        merged[len(merged) - bool(amount) :] = [amount or token]
    return merged


def _amount(one: _Token, other: _Token) -> _Token | None:
    """Return the amount of money that two tokens next to each other are, if they are."""
    number, name = (one, other) if one.kind == "number" else (other, one)
    if number.kind != "number" or name.kind not in ("word", "symbol") or name.value not in _CURRENCIES:
        return None
    return _Token(one.start, other.end, "amount", (number.value, _CURRENCIES[name.value]))


def plain_text(text: str) -> str:
    """Return a text without case, Unicode forms, characters of no width, and white space around it."""
    folded = folded_text(text).strip()
    return folded if folded.isascii() else str(_compiled(r"\p{Cf}+").sub("", folded).translate(_SAME_CHARACTERS))


def tokens_of(plain: str) -> list[_Token]:
    """Return the tokens of a plain text that stand one after the other."""
    return _resolved(_scan(plain, 0, len(plain), _PATTERNS))


def _scan(text: str, start: int, stop: int, patterns: Sequence[str]) -> Iterator[_Token]:
    """Yield the tokens of a part of a text; a number has its readings by their decimal separator."""
    while start < stop:
        token = _first_token(text, start, stop, patterns)
        yield token
        start = token.end


def _first_token(text: str, start: int, stop: int, patterns: Sequence[str]) -> _Token:
    match = _compiled(patterns[0]).match(text, start, stop)
    kind, value = _kind_and_value(match)
    if value is None:  # it is no id, date or number after all, and begins with a smaller token
        return _first_token(text, start, stop, patterns[1:])
    return _Token(start, match.end(), kind, value)


def _kind_and_value(match: Any) -> tuple[str, Any]:  # noqa: ANN401 - the package has no types
    """Return the kind and the value of a token; the value is `None` if it is none of this kind."""
    kind, text = match.lastgroup, match[match.lastgroup]
    if kind == "date":
        return kind, _date(match.groupdict())
    if kind == "time":
        return "word", f"{int(match['h'])}:{match['min']}:{match['s'] or '00'}"
    if kind == "id":
        return "id", text if _is_id(text.split("-")) else None
    if kind == "number":
        readings = readings_of(text)
        return (kind, readings) if readings else ("word", None if "," in text else text)
    return kind, text


def _is_id(parts: Sequence[str]) -> bool:
    """Return whether words with hyphens between them are an id, as `A-12`, and not words, as `3-day`, or a range."""
    mixed = [part for part in parts if not part.isdigit() and not re.fullmatch(rf"\d*{_UNITS}", part)]
    has_digit = any(map(str.isdigit, "".join(parts)))
    return has_digit and any(at is parts[0] or len(at) < _SHORT_WORD or not at.isalpha() for at in mixed)


def _date(parts: Mapping[str, Any]) -> tuple[Any, Any, Any] | None:
    """Return the year, the month and the day of a date, as texts if it is not known which is which."""
    year, month, day = parts["y"], parts["m"] or _MONTH_NUMBERS.get(parts["name"]), parts["d"]
    if parts["a"]:
        day, month = parts["a"], parts["b"]
        if parts["sep"] != ".":
            if int(month) > _MOST_MONTHS:
                day, month = month, day
            elif 0 < int(day) <= _MOST_MONTHS and 0 < int(month) != int(day):
                return int(year), day.lstrip("0"), month.lstrip("0")
    year, month, day = (None if part is None else int(part) for part in (year, month, day))
    with suppress(ValueError):
        # A leap year, if it is not stated.
        date(year or 2000, 1 if month is None else month, 1 if day is None else day)
        return year, month, day
    return None


def readings_of(text: str) -> dict[str, int | float]:
    """Return the numbers that a text can be, by their decimal separator; those with leading zeros are none."""
    readings: dict[str, int | float] = {}
    for separator, form in _NUMBER_FORMS.items():
        match = form.fullmatch(text) if len(text) <= _LONGEST_NUMBER else None
        if match:
            whole, fraction = re.sub(r"\D", "", match[1]), (match[2] or "")[1:]
            if whole in ("", "0") or whole[0] != "0":
                sign = -1 if text[0] == "-" else 1
                readings[separator] = sign * (float(f"{whole}.{fraction}") if fraction else int(whole))
    return readings


def _resolved(tokens: Iterable[_Token]) -> list[_Token]:
    """Return tokens whose numbers have the set of their readings.

    `1.120` and `1,120` have two. What another number of the text shows of decimal separators decides; if none does, a
    comma before three digits separates thousands, and a point may do both.
    """
    tokens = list(tokens)
    separators = {next(iter(one.value)) for one in tokens if one.kind == "number" and len(one.value) == 1}
    return [one._replace(value=_values(one.value, separators)) if one.kind == "number" else one for one in tokens]


def _values(readings: Mapping[str, int | float], separators: set[str]) -> frozenset[int | float]:
    if len(readings) > 1 and len(separators) == 1:
        return frozenset(readings[separator] for separator in separators)
    if len(readings) > 1 and isinstance(readings["."], int):  # `1,120`
        return frozenset([readings["."]])
    return frozenset(readings.values())
