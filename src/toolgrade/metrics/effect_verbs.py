"""Guesses of a tool's effect (`read` or `write`) from the verb in its name, where the verb is clear.

A name is split into words. A part before a double underscore or a dot names a server or a set of tools and is ignored.
The verb is the first word, or a later one if the first is not a verb (`orders_cancel`); words such as `bulk` are
skipped. Verbs after `and` or `or` count too (`get_or_create`). The tables hold verbs of general English and of common
APIs and shells. A verb that is used for both effects, such as `open`, `run` or `load`, is in neither table: an unknown
effect costs less than a wrong one. Handing the conversation over to another agent or person is a read.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from toolgrade.calls import ToolEffect


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READS: Final = _words(
    """
    get fetch retrieve read list find search query lookup look browse view show display see peek describe preview
    inspect examine check verify validate locate discover enumerate poll ask
    is are has have does can exists who what when where which how
    think reason reflect analyze analyse summarize summarise explain compare calculate calc compute count sum average
    estimate predict forecast evaluate measure convert translate parse extract detect identify classify recommend
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
    email exchange fix flag forecast fuel fund head invoice issue label like link list lock log mail mark match
    measure message offer order patch pin place post query rate record refund release rent report reset return reward
    schedule set share ship sort star start stop store swap switch tag tail text top trade transfer upgrade view vote
    """
)
"""Verbs that are also nouns; not a verb after the first word: `data_set`."""

_THINGS: Final = _words(
    """
    alert award bid bill book charge claim close comment credit debit deposit email exchange fund invoice issue label
    link log mail message offer order patch post rate record refund release rent report schedule share ship store tag
    text trade transfer vote
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

_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Word boundaries in camelCase."""
_WORD: Final = re.compile(r"[^\W\d_]+")


def guess_effect(name: str) -> ToolEffect | None:
    """Return the effect that the verb of a tool's name suggests; `None` if it has no verb, or none that is clear.

    The name is in snake_case, kebab-case or camelCase, with or without the name of a server (`shop__get_order`,
    `shop.get_order`).
    """
    words = split_name(name)
    while len(words) > 1 and words[0] in _MODIFIERS:
        words = words[1:]
    if any(word in _CONJUNCTIONS and _verb_effect(verb) is ToolEffect.WRITE for word, verb in pairwise(words)):
        return ToolEffect.WRITE
    return _main_effect(words) if words else None


def is_hand_over(name: str) -> bool:
    """Return whether a tool's name suggests that it hands the conversation over to another agent or person."""
    return _hands_over(split_name(name))


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
        return _first_effect(others)  # `ticket_get_owner`, `orders_cancel`
    return _effect_on_thing(others, effect) if first in _THINGS else effect


def _effect_on_thing(others: list[str], effect: ToolEffect) -> ToolEffect | None:
    """Return the effect of a name whose first word is a verb or a thing, from its other words."""
    if others[-1] in _STATES and _first_effect(others) is None:
        return None
    return _first_effect([others[0], others[-1]]) or effect  # `order_cancel`, `message_read`


def _first_effect(words: list[str]) -> ToolEffect | None:
    """Return the effect of the first word that is clearly a verb."""
    effects = (_verb_effect(word) for word in words if word not in _NOUNS)
    return next(filter(None, effects), None)


def _verb_effect(word: str) -> ToolEffect | None:
    """Return the effect of a verb, with or without a prefix such as `re`; `None` if the tables do not have it."""
    forms = [word, *map(word.removeprefix, _PREFIXES)]
    return next(filter(None, [_COMMANDS.get(word), *map(_VERBS.get, forms)]), None)
