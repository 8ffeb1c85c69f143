"""Does the name of a tool say whether it changes something? A guess from its verb, and only where that is clear.

A name is split into words; what stands before a double underscore or a dot is the name of a server or of a set of tools
and does not count. The verb is the first word, or a later one where the first is none (`orders_cancel`); words such as
`bulk` are left aside. Verbs joined to it count too (`get_or_create`). The tables hold verbs of general English and of
the usual APIs and shells; a verb that is used for both, such as `open`, `run` or `load`, is in neither. Nothing is
decided then: an unknown effect costs less than a wrong one. To hand the conversation over to somebody else changes
nothing but who talks, so it reads.
"""

from __future__ import annotations

import re
from typing import Final

from toolmark.calls import ToolEffect


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
"""To look something up; to ask whether, who or how; to think and to compute."""

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
"""To make and unmake, to change, to switch, to buy and book, to tell others, to decide."""

_COMMANDS: Final = {
    **dict.fromkeys(_words("head ls dir cat tail grep wc du df diff sort pwd stat whoami ping"), ToolEffect.READ),
    **dict.fromkeys(_words("mkdir rmdir rm mv cp touch chmod chown tee patch"), ToolEffect.WRITE),
}
"""The usual commands of shells, and methods of HTTP."""

_NOUNS: Final = _words(
    """
    alert award bid bill block book change charge checkout claim comment copy credit debit deposit display dispatch
    email exchange fix flag forecast fuel fund head invoice issue label like link list lock log mail mark match
    measure message offer order patch pin place post query rate record refund release rent report reset return reward
    schedule set share ship sort star start stop store swap switch tag tail text top trade transfer upgrade view vote
    """
)
"""Verbs that are nouns as well, and say nothing at the end of a name: `data_set`."""

_THINGS: Final = _words(
    """
    alert award bid bill book charge claim close comment credit debit deposit email exchange fund invoice issue label
    link log mail message offer order patch post rate record refund release rent report schedule share ship store tag
    text trade transfer vote
    """
)
"""Verbs that are also things which have a state: `order_status` orders nothing."""

_STATES: Final = _words(
    """
    status state detail details info information history summary count list lookup rate rates price prices statistics
    stats availability balance total id number login logout
    """
)
"""What ends the name of a look-up after such a thing, if it is one."""

_ASIDE: Final = _words(
    """
    api async auto automatically batch bulk do fast force internal mass mcp multi please quick quickly safe safely
    silent soft hard the tool try
    """
)
"""Words before the verb that say how, and not what."""

_AND: Final = frozenset({"and", "or", "then"})

_HANGS: Final = {"check": frozenset({"in", "out"}), "sign": frozenset({"in", "out"})}
"""Verbs whose meaning is another one before these words: `check_in`."""

_HAND_OVER: Final = _words(
    """
    transfer handoff handover hand pass route redirect escalate forward connect switch delegate
    """
)
_TALK: Final = _words(
    """
    to off over call chat conversation session user customer caller
    """
)
_PEOPLE: Final = _words(
    """
    agent agents human humans person people representative rep operator specialist supervisor advisor adviser
    assistant staff support team department desk
    """
)
"""`transfer_to_billing_agent` hands the conversation over: it changes who talks, and nothing else."""

_AGAIN: Final = ("re", "un")
"""Beginnings that leave a verb's effect as it is: what `book` changes, `rebook` changes too."""

_BOUND: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where a word of camelCase begins."""
_WORD: Final = re.compile(r"[^\W\d_]+")


def guess_effect(name: str) -> ToolEffect | None:
    """Return what the verb of a tool's name says of its effect; `None` where it says nothing, or nothing clear.

    Args:
        name: In snake_case, kebab-case or camelCase; before it, if anything, the name of a server (`shop__get_order`,
            `shop.get_order`).
    """
    words = split_name(name)
    while len(words) > 1 and words[0] in _ASIDE:
        words = words[1:]
    if not words:
        return None
    effects = [_of_verb(words), *_joined(words)]
    if ToolEffect.WRITE in effects:
        return ToolEffect.WRITE
    return effects[0]


def split_name(name: str) -> list[str]:
    """Return the words of a tool's own name in lower case, without that of its server, and without numbers."""
    own = [part for part in re.split(r"__+|[./:]", name) if part.strip("_-")]
    return [word.lower() for word in _WORD.findall(_BOUND.sub(" ", own[-1]))] if own else []


def _of_verb(words: list[str]) -> ToolEffect | None:
    """Return what the verb says, wherever it stands."""
    first, last = words[0], words[-1]
    effect = _effect(first)
    if len(words) == 1:
        return effect
    if words[1] in _HANGS.get(first, ()):
        return None
    if first in _HAND_OVER and words[1] in _TALK and last in _PEOPLE:
        return ToolEffect.READ
    clear = [_effect(word) for word in words[1:] if word not in _NOUNS]
    if effect is None:
        return next((found for found in clear if found is not None), None)  # `ticket_get_owner`, `orders_cancel`
    if first in _THINGS:
        if last in _STATES and not any(clear):
            return None
        second = [_effect(word) for word in (words[1], last) if word not in _NOUNS]
        return next((found for found in second if found is not None), effect)  # `order_cancel`, `message_read`
    return effect


def _joined(words: list[str]) -> list[ToolEffect | None]:
    return [_effect(words[index + 1]) for index, word in enumerate(words[:-1]) if word in _AND]


def _effect(word: str) -> ToolEffect | None:
    """Return what a verb says, with or without a beginning such as `re`; `None` of what is no verb of the tables."""
    if word in _COMMANDS:
        return _COMMANDS[word]
    for form in (word, *(word.removeprefix(start) for start in _AGAIN if word.startswith(start))):
        if form in _READS:
            return ToolEffect.READ
        if form in _WRITES:
            return ToolEffect.WRITE
    return None
