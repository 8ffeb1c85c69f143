"""Effects of tools (`read` or `write`), from options, from tool descriptions or, if allowed, guessed from names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise, takewhile
from typing import Final, NamedTuple

from toolgrade._internal.json import short_repr
from toolgrade._internal.text import join_first, plural, printable, shared_length
from toolgrade._internal.tool_names import first_match
from toolgrade.calls import ToolCall, ToolEffect, ToolSpec
from toolgrade.errors import ConfigurationError

MAX_LISTED = 10
"""Names or calls that a warning lists."""


def read_effects(value: object) -> dict[str, ToolEffect]:
    """Return the effects that an option declares, by name or pattern, in their order.

    Raises:
        ConfigurationError: The value does not map names or patterns to `read` or `write`.
    """
    if not isinstance(value, Mapping) or not all(map(_is_entry, value.items())):
        expected = "effects must map names or patterns of tools to 'read' or 'write'"
        example = "{'get_*': 'read', 'book': 'write'}"
        raise ConfigurationError(f"{expected}, as in {example}; got {short_repr(value)}")
    return {name: ToolEffect(effect.lower()) for name, effect in value.items()}


def _is_entry(entry: tuple[object, object]) -> bool:
    name, effect = entry
    return isinstance(name, str) and name != "" and isinstance(effect, str) and effect.lower() in ("read", "write")


class ToolEffects(NamedTuple):
    """The effect of each tool of one case.

    The first of these decides: the exact name among the declared effects; the first declared pattern that matches; the
    tools of the metric; those of the case; the guess, if it is on. Tools of one list that share a name and contradict
    each other decide nothing. A guess does not look at the prefix.
    """

    declared: Mapping[str, ToolEffect]
    tools: Sequence[Sequence[ToolSpec]] = ()
    guess: bool = False
    prefix: str = ""

    def among(self, *calls: Iterable[ToolCall]) -> ToolEffects:
        """Return the same effects with the prefix that these calls and the available tools share."""
        names = {call.name for call in chain.from_iterable(calls)} if self.guess else set[str]()
        return self._replace(prefix=shared_prefix(frozenset(names | self.tool_names))) if names else self

    def of(self, name: str) -> ToolEffect | None:
        """Return the effect of a tool; `None` if it is unknown."""
        effect = self._declared_effect(name)
        return self._guess(name) if effect is None and self.guess else effect

    def of_any(self, names: Iterable[str]) -> ToolEffect:
        """Return the effect of a call of one of these tools: a read only if there are any and all of them read."""
        return ToolEffect.READ if set(map(self.of, names)) == {ToolEffect.READ} else ToolEffect.WRITE

    @property
    def tool_names(self) -> set[str]:
        """The names of the available tools."""
        return {spec.name for spec in chain.from_iterable(self.tools)}

    def _guess(self, name: str) -> ToolEffect | None:
        return guess_effect(name.removeprefix(self.prefix))

    def _declared_effect(self, name: str) -> ToolEffect | None:
        pattern = name if name in self.declared else first_match(name, self.declared)
        if pattern is not None:
            return self.declared[pattern]
        for specs in self.tools:
            effects = {spec.effect for spec in specs if spec.name == name} - {None}
            if len(effects) == 1:
                return effects.pop()
        return None

    def by_name(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> dict[str, ToolEffect | None]:
        """Return the effect of each tool of a case; an expected tool of unknown effect counts as a write."""
        effects = {call.name: self.of(call.name) for call in called}
        effects.update((call.name, self.of(call.name) or ToolEffect.WRITE) for call in expected)
        return effects

    def warnings(self, expected: Sequence[ToolCall], called: Sequence[ToolCall]) -> list[str]:
        """Return warnings about effects that were guessed, and about expected calls of unknown effect."""
        names = dict.fromkeys(call.name for call in (*expected, *called))
        warnings = self._guess_warnings(names) if self.guess else []
        unknown = [call.name for call in expected if self.of(call.name) is None]
        if unknown:
            amount = plural(len(unknown), "expected call")
            advice = "declare them with effects=, or in available_tools"
            warnings.append(f"{amount} of unknown effect counted as writes ({list_names(unknown)}); {advice}")
        return warnings

    def _guess_warnings(self, names: Iterable[str]) -> list[str]:
        """Return the warning which effects were guessed."""
        guesses: dict[ToolEffect | None, list[str]] = defaultdict(list)
        for name in names:
            if self._declared_effect(name) is None:
                guesses[self._guess(name)].append(name)
        groups = [f"{effect.value}: {list_names(guesses[effect])}" for effect in ToolEffect if guesses[effect]]
        return [f"effects guessed from the names of tools: {'; '.join(groups)}"] if groups else []


def list_names(names: Iterable[str]) -> str:
    """Return the distinct names in quotes; of many, the first ten and how many more there are."""
    return join_first([repr(printable(name)) for name in dict.fromkeys(names)], MAX_LISTED, count_rest=True)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READS: Final = _words(
    """
    get fetch retrieve read list find search query lookup look browse view review show display see peek describe preview
    inspect examine check verify validate locate discover enumerate poll ask
    is are has have does can exists who what when where which how
    think reason reflect analyze analyse summarize summarise explain compare calculate calc compute count sum average
    estimate predict forecast measure convert translate parse extract detect identify classify recommend
    suggest match rank filter round infer simulate
    """
)
"""Verbs of looking up, asking, thinking and computing."""

_WRITES: Final = _words(
    """
    create make add insert append prepend register deregister enroll enrol init initialize initialise install define
    delete remove destroy erase clear purge wipe drop truncate discard dismiss uninstall cancel revoke terminate abort
    kill
    update modify edit change alter amend adjust set assign replace overwrite rename move migrate copy duplicate clone
    merge split swap put write save store upsert increment decrement increase decrease raise lower reduce extend
    upgrade downgrade renew reset restore recover revert rollback undo configure customize customise tag label mark
    flag pin star attach detach link connect disconnect archive sync import upload fill apply fix repair restrict
    enable disable activate deactivate turn toggle switch start stop pause resume suspend restart reboot shutdown
    launch deploy provision trigger lock mute block ban press release engage close fuel
    book reserve order buy purchase sell trade checkout pay charge bill invoice refund reimburse compensate credit
    debit deduct withdraw deposit transfer exchange return redeem donate lend borrow rent hire fund place bid award
    reward issue give grant offer ship deliver dispatch schedule postpone
    send post publish mail email message text notify alert remind invite reply respond forward share tweet comment
    vote rate like dislike follow subscribe escalate submit report log record sign
    confirm approve disapprove accept reject decline deny authorize authorise allow disallow permit complete finalize
    finalise finish resolve join leave claim
    """
)
"""Verbs of creating, deleting, changing, switching, trading, messaging and deciding."""

_VERBS: Final = {**dict.fromkeys(_WRITES, ToolEffect.WRITE), **dict.fromkeys(_READS, ToolEffect.READ)}

_COMMANDS: Final = {
    **dict.fromkeys(_words("head ls dir cat tail grep wc du df diff sort pwd stat whoami ping"), ToolEffect.READ),
    **dict.fromkeys(_words("mkdir rmdir rm mv cp touch chmod chown tee patch"), ToolEffect.WRITE),
}
"""Shell commands and HTTP methods."""

_NOUNS: Final = _words(
    """
    alert award bid bill block book change charge checkout claim comment copy credit debit deposit display dispatch
    email exchange filter fix flag forecast fuel fund head invoice issue label like link list lock log mail match
    measure message offer order patch pin place poll post query rate record refund release rent report reset return
    review reward schedule set share ship sort star start stop store swap switch tag tail text top trade transfer
    upgrade view vote
    """
)
"""Verbs that are also nouns; not a verb at the end of a name: `data_set`."""

_LOOK_UPS: Final = _words("list query view filter forecast")
"""Nouns among them that read after a prefix: `acme_list_orders`."""

_GETTERS: Final = _words("get fetch retrieve find")
"""Verbs that are never a part of a noun phrase, as in `set_search_mode`."""

_SEARCHES: Final = _words("find search read fetch peek")
"""Verbs before one that writes what was found: `find_replace_all`."""

_LINKS: Final = _words("to by for from in on of with who that which")
"""Words after which a name says of what: `list_orders_to_cancel` lists."""

_THINGS: Final = _words(
    """
    alert award bid bill book charge claim close comment credit debit deposit email exchange fund invoice issue label
    link log mail message offer order patch place post rate record refund release rent report schedule share ship store
    tag text trade transfer vote
    """
)
"""Verbs that are also things with a state: `order_status` orders nothing."""

_STATES: Final = _words(
    """
    status state detail details info information history summary count list lookup rate rates price prices statistics
    stats availability balance total id number login logout
    """
)
"""Last words that make a name a look-up after such a thing."""

_MODIFIERS: Final = _words(
    """
    api async auto automatically batch bulk do fast force internal mass mcp multi please quick quickly safe safely
    silent soft hard the tool try
    """
)
"""Words before the verb that do not name the action."""

_UNCLEAR: Final = _words(
    """
    run rerun execute exec eval evaluate perform process handle manage operate call invoke request require begin end
    open load reload refresh render rerender print echo draw paint plot design compile build rebuild generate
    regenerate compose draft type click tap hover drag scroll zoom pan rotate resize crop trim flip shuffle center hide
    unhide reveal expand collapse select choose pick navigate go goto visit jump focus push commit fork rebase stash
    flush populate broadcast stream emit produce consume feed train test tune debug clean cleanse empty prune compact
    dedupe deduplicate expire evict invalidate optimize optimise index reindex promote demote elevate allocate
    distribute rearrange arrange organize organise sort group ungroup combine concat concatenate mix prepare force
    commence conclude exit quit hand pass take give bring play replay watch track trace crawl scrape download export
    backup dump encrypt decrypt encode decode zip unzip pack unpack wrap unwrap mount unmount bind unbind map use fly
    park eat cook login logout authenticate sanitize sanitise normalize normalise format translate transition triage
    propose nominate negotiate on off up down
    """
)
"""Words of unclear effect: `execute_query_plan`, `air_filter_on`."""

_CONJUNCTIONS: Final = frozenset({"and", "or", "then"})

_PARTICLES: Final = {"check": frozenset({"in", "out"}), "sign": frozenset({"in", "out"})}
"""Verbs with another meaning before these words: `check_in`."""

_HAND_OVER: Final = _words(
    "transfer handoff handover hand pass route redirect escalate forward connect switch delegate"
)
_TALK: Final = _words("to off over call chat conversation session user customer caller")
_PEOPLE: Final = _words(
    """
    agent agents human humans person people representative rep operator specialist supervisor advisor adviser
    assistant staff support team department desk
    """
)
"""`transfer_to_billing_agent` hands the conversation over; it changes only who talks."""

_PREFIXES: Final = ("re", "un")
"""Prefixes that do not change a verb's effect: `book`, `rebook`."""

_PREFIX_WORDS: Final = 2
"""Words without an effect that are skipped before a verb that is also a noun: `my_shop_book_room`."""

_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Word boundaries in camelCase."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_START: Final = re.compile(rf"(?<=[^\W_])[\W_]+|{_BOUNDARY.pattern}")
"""Starts of words after the first one."""
_MOST_STARTS: Final = 5
"""Words that a prefix is looked for in: `mcp__my_shop__`."""
_LONGEST: Final = 200
"""Characters after it that are looked at."""


@lru_cache(maxsize=256)
def shared_prefix(names: frozenset[str]) -> str:
    """Return what all names begin with, if it is no part of what the tools do; else an empty text.

    `send_grid_` is such a prefix, and the `get_` of `get_user` and `get_order` is not: what follows must begin with two
    verbs that read, one of them such as `get`, and one that writes.
    """
    first = min(names, default="")
    shared = shared_length(first, max(names, default=""))
    starts = [match.end() for match in islice(_START.finditer(first), _MOST_STARTS) if match.end() <= shared]
    for start in reversed(starts):
        rests = (_action(name[start : start + _LONGEST]) for name in names)
        verbs = {words[0]: _verb_effect(words[0]) for words in rests if words}
        reads = {verb for verb, effect in verbs.items() if effect is ToolEffect.READ}
        if len(reads) > 1 and reads & _GETTERS and ToolEffect.WRITE in verbs.values():
            return first[:start]
    return ""


def guess_effect(name: str) -> ToolEffect | None:
    """Return the effect that the verb of a tool's name suggests; `None` if it has no verb, or none that is clear.

    The name is in snake_case, kebab-case or camelCase, with or without the name of a server (`shop__get_order`,
    `shop.get_order`, `shop_get_order`).
    """
    words = _action(name)
    if any(word in _CONJUNCTIONS and _verb_effect(verb) is ToolEffect.WRITE for word, verb in pairwise(words)):
        return ToolEffect.WRITE
    return _main_effect(words) if words else None


def is_hand_over(name: str) -> bool:
    """Return whether a tool's name suggests that it hands the conversation over to another agent or person."""
    words = _action(name)
    return _hands_over(words) or _hands_over_after_prefix(words)


def _hands_over_after_prefix(words: list[str]) -> bool:
    """Return whether words without an effect stand before a hand-over to a human: `ticket_transfer_to_team` is none."""
    rest = words[_verb_place(words) :]
    return _hands_over(rest) and not {"human", "humans"}.isdisjoint(rest)


def _action(name: str) -> list[str]:
    """Return the words of a name without modifiers at its start."""
    words = split_name(name)
    last = len(words) - 1
    return words[next((place for place in range(last) if words[place] not in _MODIFIERS), last) :]


def _verb_place(words: list[str]) -> int:
    """Return the position of the first word with an effect; 0 if it is not near the start."""
    places = (place for place, word in enumerate(words[: _PREFIX_WORDS + 1]) if _verb_effect(word))
    return next(places, 0)


def _hands_over(words: list[str]) -> bool:
    return len(words) > 1 and words[0] in _HAND_OVER and words[1] in _TALK and words[-1] in _PEOPLE


def split_name(name: str) -> list[str]:
    """Return the words of a tool's name in lower case, without the name of its server and without numbers."""
    parts = [part for part in re.split(r"__+|[./:]", name) if part.strip("_-")]
    return [word.lower() for word in _WORD.findall(_BOUNDARY.sub(" ", parts[-1]))] if parts else []


def _main_effect(words: list[str]) -> ToolEffect | None:
    """Return the effect of the verb, which may be any of the words."""
    first, *others = words
    effect = _verb_effect(first)
    if not others:
        return effect
    if others[0] in _PARTICLES.get(first, ()):
        return None
    if _hands_over(words):
        return ToolEffect.READ
    if effect is None:
        return _effect_after_prefix(words)
    if effect is ToolEffect.READ and first in _NOUNS:  # `list_create`
        return _first_effect([*takewhile(lambda word: word not in _LINKS, others)], ToolEffect.WRITE) or effect
    if effect is ToolEffect.READ and _may_write(first, others):
        return None
    return _effect_on_thing(others, effect) if first in _THINGS else effect


def _may_write(first: str, others: list[str]) -> bool:
    """Return whether a verb that writes ends a name that begins with one that reads, or follows a search at once."""
    words = [*takewhile(lambda word: word not in _LINKS, others)]
    ends = words[-1:] if len(words) == len(others) else []
    verbs = ends + (words[:1] if first in _SEARCHES else [])
    return any(word not in _NOUNS and _verb_effect(word) is ToolEffect.WRITE for word in verbs)


def _effect_after_prefix(words: list[str]) -> ToolEffect | None:
    """Return the effect of a name whose first word has none: the name of a server, or the thing that is acted on."""
    effect = _first_effect(words[1:])  # `ticket_get_owner`, `orders_cancel`
    place = _verb_place(words)
    verb, *others = words[place:]
    if not place or not others:
        return effect
    if effect is ToolEffect.READ and _may_write(verb, others):
        return None
    if effect is ToolEffect.WRITE or verb not in _NOUNS:
        return effect
    if effect is None:
        return _effect_of_noun(words, place)
    # `feature_flag_get`, but `acme_set_search_mode`
    is_thing = verb in _THINGS or others[0] in _GETTERS or _first_effect(others[-1:])
    return effect if is_thing else _verb_effect(verb)


def _effect_of_noun(words: list[str], place: int) -> ToolEffect | None:
    """Return the effect of a name whose only verb may be a noun, and is at this place."""
    verb, *others = words[place:]
    if not _UNCLEAR.isdisjoint(words[:place]):
        return None
    if _verb_effect(verb) is ToolEffect.WRITE:  # `acme_book_flight`
        is_unclear = _hands_over(words[place:]) and not _hands_over_after_prefix(words)
        return None if is_unclear else _main_effect(words[place:])
    is_unclear = any(word in _UNCLEAR or _verb_effect(word) is ToolEffect.WRITE for word in others)
    return None if is_unclear or verb not in _LOOK_UPS else ToolEffect.READ  # not `wish_list_share`


def _effect_on_thing(others: list[str], effect: ToolEffect) -> ToolEffect | None:
    """Return the effect of a name whose first word is a verb or a thing, from its other words."""
    if others[-1] in _STATES and _first_effect(others) is None:
        return None
    return _first_effect([others[0], others[-1]]) or effect  # `order_cancel`, `message_read`


def _first_effect(words: Sequence[str], only: ToolEffect | None = None) -> ToolEffect | None:
    """Return the effect of the first word that is clearly a verb, or a verb of `only` this effect."""
    pairs = zip(words, [*words[1:], ""], strict=False)
    verbs = (word for word, after in pairs if word not in _NOUNS and after not in _PARTICLES.get(word, ()))
    effects = map(_verb_effect, verbs)
    return next((effect for effect in effects if effect is not None and only in (None, effect)), None)


def _verb_effect(word: str) -> ToolEffect | None:
    """Return the effect of a verb, with or without a prefix such as `re`; `None` if the tables do not have it."""
    forms = [word, *map(word.removeprefix, _PREFIXES)]
    return next(filter(None, [_COMMANDS.get(word), *map(_VERBS.get, forms)]), None)
