"""Tests of tool effects: declared in options, in tool descriptions, and guessed from names."""

from __future__ import annotations

import pytest

from toolgrade import ConfigurationError, ToolCall, ToolSpec
from toolgrade.calls import ToolEffect
from toolgrade.metrics.tool_effects import ToolEffects, guess_effect, read_effects, split_name

READ, WRITE = ToolEffect.READ, ToolEffect.WRITE


def tool(name: str, effect: ToolEffect | None) -> ToolSpec:
    """A tool of this effect."""
    return ToolSpec(name=name, effect=effect)


# Precedence


def test_an_exact_name_wins_and_then_the_first_pattern() -> None:
    """The order of the option decides among patterns, and no pattern wins over a name."""
    effects = ToolEffects(read_effects({"get_*": "read", "*": "write", "get_money": "write"}))

    assert [effects.of(name) for name in ("get_x", "get_money", "x", "GET_x")] == [READ, WRITE, WRITE, WRITE]


def test_the_order_of_the_sources() -> None:
    """The option, then the tools of the metric, then those of the case, then the guess."""
    metric = [tool("get_a", WRITE), tool("get_b", WRITE), tool("get_c", None)]
    case = [tool("get_b", READ), tool("get_c", WRITE)]
    effects = ToolEffects({"get_a": READ}, (metric, case), guess=True)

    assert [effects.of(f"get_{letter}") for letter in "abcd"] == [READ, WRITE, WRITE, READ]
    assert effects.of("frobnicate") is None
    assert ToolEffects({}).of("get_d") is None


def test_tools_that_contradict_each_other_decide_nothing() -> None:
    """Two tools of one name in one list: the next list decides."""
    first = [tool("f", READ), tool("f", WRITE)]

    assert ToolEffects({}, (first,)).of("f") is None
    assert ToolEffects({}, (first, [tool("f", READ)])).of("f") is READ


def calls(*names: str) -> list[ToolCall]:
    """Calls without arguments."""
    return [ToolCall(name=name) for name in names]


def test_guesses_are_reported() -> None:
    """The warning lists the tools whose names decided, by effect."""
    effects = ToolEffects({"get_a": WRITE}, guess=True)

    assert effects.warnings([], calls("get_a", "get_b", "find_c", "send_d", "frob", "get_b")) == [
        "effects guessed from the names of tools: read: 'get_b', 'find_c'; write: 'send_d'"
    ]
    assert effects.warnings([], calls("get_a", "frob")) == []
    assert ToolEffects({}).warnings([], calls("get_b")) == []


def test_warnings_list_ten_names() -> None:
    """A warning stays readable."""
    (text,) = ToolEffects({}, guess=True).warnings([], calls(*(f"get_{number}" for number in range(12))))

    assert text.endswith("'get_9' and 2 more")


@pytest.mark.parametrize(
    "value", [3, ["get"], "read", {"f": "perhaps"}, {"f": None}, {"f": []}, {3: "read"}, {"": "read"}]
)
def test_invalid_effects_are_refused(value: object) -> None:
    """The message shows the form."""
    with pytest.raises(ConfigurationError, match=r"\{'get_\*': 'read', 'book': 'write'\}"):
        read_effects(value)


def test_effects_as_texts_and_as_themselves() -> None:
    """In any case."""
    assert read_effects({"f": "Read", "g": WRITE}) == {"f": READ, "g": WRITE}


# Both sides of a case


def test_an_expected_tool_of_unknown_effect_is_a_write() -> None:
    """A tool that is only called keeps its unknown effect."""
    effects = ToolEffects({"look": READ})
    by_name = effects.by_name(calls("look", "frob"), calls("look", "frob", "jiggle"))

    assert by_name == {"look": READ, "frob": WRITE, "jiggle": None}
    (text,) = effects.warnings(calls("look", "frob", "frob"), [])
    assert text.startswith("2 expected calls of unknown effect counted as writes ('frob'); declare them with ")
    assert effects.warnings(calls("look"), []) == []


# The guess

READS = """
    get_weather getWeather get-weather GetWeather GETWeather fetchAll list_orders search find_user_id_by_email look_up
    lookup read_file check_stock verify_identity calculate compute_tax think convert_currency is_open has_access
    whoWorksHere count_rows describe_table explain show ls grep pwd cat_file shop__get_order shop.get_order a/b/get_x
    server__tools__list_all web_search price_check order_get user_can_book ticket_get_owner bulk_get api_fetch do_list
    message_read schedule_get post_count recheck review_contract get2 get_update_history list_orders_to_cancel
    transfer_to_human transfer_to_human_agents transfer_to_billing_agent transfer_call_to_support escalate_to_supervisor
    hand_off_to_agent
"""
WRITES = """
    create_order createOrder CREATE_ORDER delete-file update_user book_flight cancel_order send_email modify_address
    transfer_money transfer_funds_to_account set_status add_item remove_item pay exchange_items return_item make_payment
    post_comment refund rename mkdir rm move_file mv enable_roaming toggle_wifi turn_on_light lockDoor startEngine
    submit_form order_cancel orders_cancel orderUpdate event_create email_send bulk_delete async_update safely_remove
    get_or_create find_and_replace check_and_update search_then_book unsubscribe unlock_door rebook reorder retweet
    shop__cancel_order read.delete escalate_ticket forward_email_to_manager grant_access approve_request
"""
UNDECIDED = """
    frobnicate weather x open_file run_code execute process load cd echo login logout track_package request_refund
    order_status exchange_rate message_list data_set check_in_passenger check_out sign_in_user design react
    gallon_to_liter 42 __ _ retail_shop
"""


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        pytest.param(name, effect, id=name)
        for names, effect in ((READS, READ), (WRITES, WRITE), (UNDECIDED, None))
        for name in names.split()
    ],
)
def test_effects_guessed_from_names(name: str, effect: ToolEffect | None) -> None:
    """The verb decides at any position and in any spelling; ambiguous verbs do not."""
    assert guess_effect(name) is effect


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("get_user_2", ["get", "user"]),
        ("getHTTPPage", ["get", "http", "page"]),
        ("mcp__shop__buy-now", ["buy", "now"]),
        ("a.b/c:find", ["find"]),
        ("find__", ["find"]),
        ("suche_größe", ["suche", "größe"]),
        ("查询", ["查询"]),
        ("", []),
    ],
)
def test_words_of_a_name(name: str, words: list[str]) -> None:
    """Names of servers, numbers and signs are left out."""
    assert split_name(name) == words
