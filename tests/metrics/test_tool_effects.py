"""Tests of tool effects: declared in options, in tool descriptions, and guessed from names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade import ConfigurationError, ToolCall, ToolSpec
from toolgrade.calls import ToolEffect
from toolgrade.metrics.tool_effects import (
    ToolEffects,
    guess_effect,
    is_hand_over,
    read_effects,
    shared_prefix,
    split_name,
)

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
    hand_off_to_agent acme_list_orders acme_view_cart my_shop_list_orders wish_list_items filesystem-list_directory
    feature_flag_get bus_stop_search acme_list_files_in_folder acme_transfer_to_human_agents list_orders_to_delete
"""
WRITES = """
    create_order createOrder CREATE_ORDER delete-file update_user book_flight cancel_order send_email modify_address
    transfer_money transfer_funds_to_account set_status add_item remove_item pay exchange_items return_item make_payment
    post_comment refund rename mkdir rm move_file mv enable_roaming toggle_wifi turn_on_light lockDoor startEngine
    submit_form order_cancel orders_cancel orderUpdate event_create email_send bulk_delete async_update safely_remove
    get_or_create find_and_replace check_and_update search_then_book unsubscribe unlock_door rebook reorder retweet
    shop__cancel_order read.delete escalate_ticket forward_email_to_manager grant_access approve_request
    acme_book_flight acmeBookFlight my_shop_set_price acme_set_search_mode acme_mark_as_read todo_list_add
    wish_list_remove_item list_create list_items_delete view_delete query_save poll_send filter_create review_approve
    ticket_escalate_to_team
"""
UNDECIDED = """
    frobnicate weather x open_file run_code execute process load cd echo login logout track_package request_refund
    order_status exchange_rate message_list data_set check_in_passenger check_out sign_in_user design react
    gallon_to_liter 42 __ _ retail_shop user_list wish_list_share todo_list_reset playlist_list_play populate_list_items
    execute_query_plan open_view_settings air_filter_on web_view_click_button acme_check_in_guest acme_sort_items
    acme_list_issue_types ticket_transfer_to_team generate_report_pdf place_details api
"""

SERVER_READS = """
    get_me get_teams get_commit list_commits list_branches get_tag list_tags get_file_contents get_latest_release
    list_releases search_code search_repositories search_users issue_read list_issues list_issue_types get_label
    pull_request_read list_pull_requests list_workflows list_workflow_runs get_job_logs list_code_scanning_alerts
    get_discussion list_gists list_notifications list_starred_repositories get_repository_tree projects_list actions_get
    slack_list_channels slack_get_channel_history slack_get_thread_replies slack_get_users slack_get_user_profile
    channels_list conversations_history conversations_replies conversations_search_messages slack_read_thread
    read_file read_text_file read_media_file read_multiple_files list_directory list_directory_with_sizes directory_tree
    search_files get_file_info list_allowed_directories
    notion-search notion-fetch notion-get-comments notion-get-users notion-query-data-sources API-get-user
    API-post-search API-get-block-children API-retrieve-a-block API-retrieve-a-page API-retrieve-a-database
    API-post-database-query
    list_customers list_products list_invoices list_payment_intents list_subscriptions list_disputes retrieve_balance
    search_stripe_documentation fetch_stripe_resources get_stripe_account_info
    jira_get_issue jira_search jira_get_worklog jira_get_transitions jira_search_fields jira_get_project_issues
    jira_get_agile_boards jira_get_sprint_issues jira_get_link_types jira_batch_get_changelogs getJiraIssue
    getTransitionsForJiraIssue lookupJiraAccountId searchJiraIssuesUsingJql getVisibleJiraProjects atlassianUserInfo
    getJiraIssueRemoteIssueLinks confluence_search confluence_get_page confluence_get_labels
    browser_console_messages browser_network_requests browser_snapshot browser_take_screenshot browser_tab_list
    browser_verify_element_visible browser_verify_text_visible
    list_schemas list_objects get_object_details explain_query analyze_db_health get_top_queries query list_tables
    list_migrations get_logs search_docs
    search_emails read_email list_email_labels list_filters get_filter download_attachment search_gmail_messages
    list-calendars list-events search-events get-event list-colors get-freebusy get-current-time
    search_drive_files get_doc_content inspect_doc_structure read_sheet_values maps_search_places maps_place_details
    git_status git_log git_show read_graph search_nodes resolve-library-id kubectl_get kubectl_describe
"""
SERVER_WRITES = """
    create_branch create_or_update_file push_files delete_file create_repository fork_repository issue_write
    add_issue_comment sub_issue_write assign_copilot_to_issue remove_sub_issue reprioritize_sub_issue
    create_pull_request update_pull_request merge_pull_request request_copilot_review pull_request_review_write
    add_comment_to_pending_review submit_pending_pull_request_review run_workflow cancel_workflow_run rerun_failed_jobs
    actions_run_trigger label_write dismiss_notification mark_all_notifications_read manage_notification_subscription
    star_repository projects_write
    slack_post_message slack_reply_to_thread slack_add_reaction conversations_add_message slack_schedule_message
    write_file edit_file create_directory move_file
    notion-create-pages notion-update-page notion-move-pages notion-duplicate-page notion-create-comment
    API-patch-block-children API-update-a-block API-delete-a-block API-patch-page API-post-page
    create_customer create_payment_link finalize_invoice create_refund cancel_subscription update_dispute
    jira_create_issue jira_batch_create_issues jira_delete_issue jira_add_comment jira_link_to_epic
    jira_transition_issue editJiraIssue transitionJiraIssue addCommentToJiraIssue confluence_add_label
    browser_close browser_handle_dialog browser_evaluate browser_file_upload browser_fill_form browser_press_key
    browser_type browser_navigate browser_click browser_select_option browser_tabs browser_tab_new browser_tab_close
    browser_run_code browser_start_tracing evaluate_script puppeteer_evaluate playwright_evaluate
    execute_sql apply_migration restore_project merge_branch reset_branch rebase_branch write_query
    send_email draft_email modify_email get_or_create_label batch_modify_emails create_filter delete_filter
    manage_gmail_label create-event update-event delete-event respond-to-event
    share_drive_file modify_doc_text find_and_replace_doc batch_update_doc format_sheet_range
    git_commit git_add git_reset git_create_branch git_checkout kubectl_apply kubectl_scale kubectl_patch exec_in_pod
"""
"""Tools of MCP servers: GitHub, Slack, files, Notion, Stripe, Jira, browsers, databases, mail, calendars and others."""


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


def with_prefix(prefix: str, name: str) -> str:
    """A name after a prefix; one without a sign at its end is followed by a capital letter."""
    return prefix + (name[0].upper() + name[1:] if prefix[-1].isalnum() else name)


@pytest.mark.parametrize("prefix", ["", "acme_", "acme-", "acme", "acme.", "mcp_acme_", "mcp__acme__"])
def test_tools_of_known_servers(prefix: str) -> None:
    """No tool that writes is taken for a read, whatever its prefix; two that read are taken for writes."""
    reads, writes = (
        {name: guess_effect(with_prefix(prefix, name) if prefix else name) for name in names.split()}
        for names in (SERVER_READS, SERVER_WRITES)
    )

    assert [name for name, effect in writes.items() if effect is READ] == []
    assert [name for name, effect in reads.items() if effect is WRITE] == [
        "API-post-database-query",
        "resolve-library-id",
    ]
    assert sum(effect is None for effect in (*reads.values(), *writes.values())) < 0.25 * len(reads | writes)


@given(
    st.text("xzqj", min_size=1, max_size=6),
    st.sampled_from(["_", "-", ".", "__", ""]),
    st.sampled_from([*READS.split(), *WRITES.split(), *SERVER_READS.split(), *SERVER_WRITES.split()]),
)
def test_a_prefix_makes_no_write_a_read(word: str, sign: str, name: str) -> None:
    """A word without a meaning in front leaves the guess as it is, or unknown; some reads become writes."""
    effect = guess_effect(with_prefix(word + sign, name))

    assert effect in {guess_effect(name), None} or (guess_effect(name), effect) == (READ, WRITE)


SHOP = """
    book_room calculate cancel_order exchange_delivered_order_items find_user get_order get_user list_all_rooms
    search_rooms think transfer_to_human_agents update_order weather
"""
PREFIXES = (
    *("acme_", "acme-", "acme.", "acme__", "acme", "my_shop_", "mcp_", "mcp__my_shop__", "orders_", "mail_", "book_"),
    *("get_", "set_", "search_", "send_grid_", "book_store_", "order-service-", "todo_list_", "cancel."),
)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_of_all_tools_changes_nothing(prefix: str) -> None:
    """Even if it is a verb itself; a case takes the prefix from its tools and from both its sides."""
    names = SHOP.split()
    called, expected, available = (
        calls(*(with_prefix(prefix, name) for name in names[start::3])) for start in range(3)
    )
    effects = ToolEffects({}, ([tool(call.name, None) for call in available],), guess=True).among(expected, called)

    assert [effects.of(with_prefix(prefix, name)) for name in names] == [guess_effect(name) for name in names]


@pytest.mark.parametrize(
    "names",
    [
        "",
        "get_user",
        "get_user get_order get_update_history",
        "create_search_index create_update_job create_filter",
        "set_search_mode set_update_interval set_filter",
        "add_get_route add_delete_route add_post_route",
        "get get_find_x get_list_y get_cancel_z",
        "mail_get_x mail_list_y mail_send_z think",
    ],
)
def test_no_prefix(names: str) -> None:
    """A verb that tools share is their verb, unless what follows shows that it cannot be."""
    assert shared_prefix(frozenset(names.split())) == ""


def test_a_prefix_is_not_looked_for_without_the_guess() -> None:
    """Nothing would use it."""
    names = [f"mail_{name}" for name in SHOP.split()]

    assert ToolEffects({}).among(calls(*names)).prefix == ""
    assert ToolEffects({}, guess=True).among(calls(*names)).prefix == "mail_"


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *(("transfer_to_billing_agent", True), ("acme_transfer_to_human", True), ("ticket_transfer_to_team", False)),
        *(("acme_list_agents", False), ("cancel_transfer_to_human", False)),
    ],
)
def test_hand_overs(name: str, is_one: bool) -> None:
    """After a prefix only those to a human: tickets are transferred, too."""
    assert is_hand_over(name) is is_one


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


@pytest.mark.parametrize(
    "name",
    ["find_replace", "fetch_delete", "search_index_delete", "check_list_add", "is_admin_grant", "recommend_create"],
)
def test_a_read_with_a_verb_that_writes_is_unknown(name: str) -> None:
    """It is reported, and does not pass as a read."""
    assert guess_effect(name) is None
    assert guess_effect(f"acme_{name}") is not ToolEffect.READ
