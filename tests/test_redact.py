"""Redaction: hidden values, unchanged values, and idempotence.

The secrets here are made up; each has the shape of a real one.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolgrade._internal.json import is_redacted
from toolgrade.redact import DEFAULT, REDACTED, Redactor

M = REDACTED
ALNUM = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
JWT = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{ALNUM}"
KEY_BLOCK = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEpAIBAAKCAQEA\nx/y+z==\n"
HEX = "0123456789abcdef" * 10
TOKENS = (
    f"sk-{ALNUM}",
    f"sk-proj-{ALNUM}-x_y",
    f"sk-ant-api03-{ALNUM}-{ALNUM}AA",
    f"ghp_{ALNUM}",
    f"github_pat_11ABCDEFG_{ALNUM}",
    f"glpat-{ALNUM}",
    f"xoxb-123456789012-{ALNUM}",
    f"sk_live_{ALNUM}",
    "AKIAIOSFODNN7EXAMPLE",
    f"AIzaSyA-{ALNUM}",
    f"ya29.{ALNUM}",
    f"hf_{ALNUM}",
    JWT,
    JWT.rpartition(".")[0],
    *(f"{prefix}{ALNUM}" for prefix in ("xai-", "gsk_", "pplx-", "nvapi-", "tvly-dev-", "fw_", "r8_", "pcsk_", "ABSK")),
    *(f"{prefix}{ALNUM}" for prefix in ("GOCSPX-", "hvs.", "ghs_", "glrt-", "glsa_", "dckr_pat_", "npm_", "lin_api_")),
    *(
        f"{prefix}{ALNUM}"
        for prefix in ("figd_", "ntn_", "phx_", "PMAK-", "NRAK-", "dp.pt.", "sntrys_", "1//0", "pypi-AgE")
    ),
    *(
        f"{prefix}{HEX[:32]}"
        for prefix in ("dapi", "shpat_", "SK", "key-", "lsv2_pt_", "lsv2_sk_", "sk-lf-", "sk-or-v1-")
    ),
    *(
        f"{prefix}{HEX[:40]}"
        for prefix in ("sbp_", "sb_secret_", "dop_v1_", "pul-", "rk_live_", "whsec_", "xoxe.xoxp-1-")
    ),
    *(
        f"SG.{ALNUM[:22]}.{ALNUM}",
        f"123456789:AA{ALNUM[:33]}",
        f"MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.{ALNUM}",
        f"ab~8Q~{ALNUM[:34]}",
    ),
    f"{KEY_BLOCK}-----END RSA PRIVATE KEY-----",
    KEY_BLOCK,
)


@pytest.mark.parametrize(
    "key",
    [
        *("api_key", "apiKey", "API-KEY", "x-api-key", "X-Api-Key", "apikey", "OPENAI_API_KEY", "Authorization"),
        *("proxy-authorization", "client_secret", "clientSecret", "access_token", "accessToken", "refresh_token"),
        *("id_token", "token", "Token", "session_token", "private_key", "password", "Password", "passwd", "pwd"),
        *("cookie", "Set-Cookie", "credentials", "secret", "aws_secret_access_key", "api key", "passphrase"),
        *("db_password", "stripe_api_key", "x-goog-api-key", "oauth_token", "slackBotToken", "cvv", "cardNumber"),
        *("db_pass", "SMTP_PASS", "OPENAI_KEY", "SecretString", "cvc2", "Ocp-Apim-Subscription-Key"),
        *("new_password", "webhook_secret", "consumer_key", "connectionString", "AccountKey", "user.password"),
    ],
)
def test_values_under_secret_keys_are_hidden(key: str) -> None:
    """With any spelling of the name and any value: text, number, list or object."""
    for value in ("x", 1234, 0, 1.5, ["x"], {"user": "x"}):
        assert DEFAULT({"a": [{key: value, "q": 1}]}) == {"a": [{key: M, "q": 1}]}


@pytest.mark.parametrize(
    "key",
    [
        *("max_tokens", "maxTokens", "page_token", "pageToken", "next_page_token", "token_count", "tokens"),
        *("tokenizer", "token_type", "secretary", "passwords_seen", "key", "keys", "author", "session_id", "user"),
        *("monkey", "continuation_token", "cookie_policy", "api_keys_url", "", "_", "ключ"),
    ],
)
def test_a_key_is_a_whole_name(key: str) -> None:
    """A name that only contains a secret one is another name."""
    assert DEFAULT({key: "x"}) == {key: "x"}


@pytest.mark.parametrize("value", [None, True, False, "", [], {}])
def test_empty_values_stay(value: Any) -> None:
    """Whether a password was set is not a secret."""
    assert DEFAULT({"password": value}) == {"password": value}


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token[:14])
def test_token_patterns_are_hidden_in_any_text(token: str) -> None:
    """Only the token is replaced."""
    for before, after in (("", ""), ("use ", " now"), ("(", ")"), ('key="', '"'), ("a,", "\n\nb")):
        redacted_text = DEFAULT(f"{before}{token}{after}")
        rest = "" if token is KEY_BLOCK else after  # what follows a block that never ends may still belong to it
        assert isinstance(redacted_text, str)
        assert redacted_text.startswith(f"{before}{M}"), redacted_text
        assert token is KEY_BLOCK or redacted_text == f"{before}{M}{rest}"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Authorization: Bearer abc123def456", f"Authorization: Bearer {M}"),
        ("authorization:basic dXNlcjpwYXNz, x", f"authorization:basic {M}, x"),
        ("send Bearer abcdefghijklmnopqrstuvwxyz", f"send Bearer {M}"),
        ("curl -H 'Authorization: Bearer s3cr3tt0ken' https://h", f"curl -H 'Authorization: Bearer {M}' https://h"),
        ("postgres://app:hunter2@db:5432/x?a=b", f"postgres://app:{M}@db:5432/x?a=b"),
        ("redis://:hunter2@h and https://u:p%40w@h/", f"redis://:{M}@h and https://u:{M}@h/"),
        ("https://h/x?page_token=a&access_token=b&q=c#d", f"https://h/x?page_token=a&access_token={M}&q=c#d"),
        ("https://h/x?api_key=b", f"https://h/x?api_key={M}"),
        (f"https://u:sk-{ALNUM}!x@h", f"https://u:{M}@h"),
        ("DB_PASSWORD=hunter2\nexport API_KEY='abc' X=1", f"DB_PASSWORD={M}\nexport API_KEY='{M}' X=1"),
        ("db:\n  password: hunter2  \n- token: 'a b'\n", f"db:\n  password: {M}  \n- token: '{M}'\n"),
        ("[db]\npassword = hunter2\nuser = x", f"[db]\npassword = {M}\nuser = x"),
        ("mysql --password=hunter2 --db-token abc -u root", f"mysql --password={M} --db-token {M} -u root"),
        ("curl -s -u ann:hunter2 https://h", f"curl -s -u ann:{M} https://h"),
        ("curl -H 'X-Api-Key: hunter2' h", f"curl -H 'X-Api-Key: {M}' h"),
        ("Cookie: sid=hunter2; b=c\nHost: h", f"Cookie: {M}\nHost: h"),
        ("Server=h;User Id=x;Password=hunter2;", f"Server=h;User Id=x;Password={M};"),
        ("login(user='a', password='hunter2')", f"login(user='a', password='{M}')"),
        ("https://hooks.slack.com/services/T0/B0/a1B2c3D4e5F6g7H8", f"https://hooks.slack.com/services/{M}"),
        ("db:\n  password: hunter2 # new\n  user: x", f"db:\n  password: {M} # new\n  user: x"),
        ("token: |\n  hunter2\n  3\nnext: x", f"token: |\n  {M}\nnext: x"),
        ("password:\n  hunter2\n", f"password:\n  {M}\n"),
        ("{password: hunter2, user: x}", f"{{password: {M}, user: x}}"),
        ("DB_PASSWORD=x)&;hunter2,(a # new", f"DB_PASSWORD={M} # new"),
        ("{'password': b'hunter2', 'n': 1}", f"{{'password': b'{M}', 'n': 1}}"),
        ("os.environ['API_KEY'] = 'hunter2'", f"os.environ['API_KEY'] = '{M}'"),
        ("postgres://u:p@hunter2@db/x", f"postgres://u:{M}@db/x"),
        ("<db><password>hunter2</password></db>", f"<db><password>{M}</password></db>"),
        ("ENV API_KEY hunter2\nmachine h login a password hunter2", f"ENV API_KEY {M}\nmachine h login a password {M}"),
        ("CREATE USER x IDENTIFIED BY 'hunter2'", f"CREATE USER x IDENTIFIED BY '{M}'"),
        ("mysql -u root -phunter2 db; sshpass -p hunter2 ssh h", f"mysql -u root -p{M} db; sshpass -p {M} ssh h"),
        ("Authorization=Bearer hunter2", f"Authorization=Bearer {M}"),
        ("DB_PASSWORD=hunter2secret", f"DB_PASSWORD={M}"),
        ("DB_PASSWORD=hunter(2)", f"DB_PASSWORD={M}"),
        ("password: supersecret1secret", f"password: {M}"),
        ("login(password='mypassword', token='get_token(2)')", f"login(password='{M}', token='{M}')"),
        ("mysql --password=root_password", f"mysql --password={M}"),
        ("{'password': '$ecret'} password=%40x", f"{{'password': '{M}'}} password={M}"),
        ("postgres://u:%40x@h and redis://:$ecret@h", f"postgres://u:{M}@h and redis://:{M}@h"),
        (f"{TOKENS[3]} {TOKENS[3]}", f"{M} {M}"),
        (f"héllo {TOKENS[3]}", f"héllo {M}"),
    ],
)
def test_only_the_secret_part_of_a_pattern_is_hidden(text: str, redacted: str) -> None:
    """Scheme, user, host and parameter names stay."""
    assert DEFAULT(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        *("task-management-and-scheduling-tools", "sk-learn-compatible-estimators", "a risk-free-trial-period-2024x"),
        *("bearer of bad news", "the bearer responsibilities", "Authorization: required", "basic understanding"),
        *("http://host:8080/a@b", "http://host:8080?mail=a@b", "mail me@example.com", "git@github.com:a/b.git"),
        *("eyJ", "eyJhbGciOiJIUzI1NiJ9", "AKIA", "AKIAIOSFODNN7EXAMPLES", "ghp_short", "-----BEGIN CERTIFICATE-----"),
        *(
            "Token: none",
            "a password: hunter2",
            "token=get_token(5)",
            "api_key=$KEY",
            "password: <yours>",
            "the 'password' is",
            '"token"',
            "?",
            "&=",
            "https://h/?q=token",
        ),
        *('{"max_tokens": 5}', ' { "a" : [1.50, "\\u00e9"] } ', '{"a": 1, "a": 2}', "[1, 2", "{", "[]", '"x"', "1e5"),
        *('{"password": null, "token": ""}', '{"password": true', "'token': None, 'secret': ''", "'cookies': {}, 'a'"),
    ],
)
def test_text_that_resembles_a_secret_stays(text: str) -> None:
    """Without a secret nothing changes, not even whitespace or number formats."""
    assert DEFAULT(text) == text
    assert DEFAULT({"a": [text]}) == {"a": [text]}


def test_json_text_is_redacted_inside() -> None:
    """Raw arguments, and answers as text: the text is written anew, and stays JSON."""
    assert DEFAULT('{"password": "x", "n": 1.0}') == f'{{"password": "{M}", "n": 1.0}}'
    assert DEFAULT(' [{"apiKey": 5}, "é"]') == f'[{{"apiKey": "{M}"}}, "é"]'
    assert DEFAULT('{"a": "\\u00e9", "pwd": 1}') == f'{{"a": "\\u00e9", "pwd": "{M}"}}'
    assert DEFAULT('{"a": "line\nbreak", "pwd": 1}') == f'{{"a": "line\\nbreak", "pwd": "{M}"}}'
    assert DEFAULT(json.dumps({"a": TOKENS[3]})) == json.dumps({"a": M})


def test_json_inside_json_is_redacted_too() -> None:
    """However often it was written as text."""
    text = json.dumps({"a": [json.dumps({"b": json.dumps({"password": "hunter2"})})]})
    quoted = json.dumps(json.dumps({"password": "hunter2"}))

    for hidden in map(DEFAULT, (text, quoted)):
        assert "hunter2" not in str(hidden)
        assert is_redacted(hidden)
    assert json.loads(json.loads(DEFAULT(quoted))) == {"password": M}  # type: ignore[arg-type]


def test_duplicate_keys_hide_both_values() -> None:
    """Readers use the last one, but the text contains the first as well."""
    assert DEFAULT('{"token": "hunter2", "token": ""}') == f'{{"token": "{M}", "token": ""}}'
    assert DEFAULT('{"a": {"token": "hunter2"}, "a": 1}') == f'{{"a": {{"token": "{M}"}}, "a": 1}}'


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ('{"password": "x", "n": ', f'{{"password": "{M}", "n": '),
        ('{"password": "x', f'{{"password": "{M}'),
        ('{"password": "a\\"b", }', f'{{"password": "{M}", }}'),
        ('{"password" : 1234, }', f'{{"password" : {M}, }}'),
        ("{'password': 'x', 'max_tokens': 5}", f"{{'password': '{M}', 'max_tokens': 5}}"),
        ("{'credentials': {'user': 'x'}, 'n': 1}", f"{{'credentials': {M}"),
        ('{"token"=>"x"}', f'{{"token"=>"{M}"}}'),
        ('log: {\\"password\\": \\"x\\"}', f'log: {{\\"password\\": \\"{M}\\"}}'),
        ('{"a": 1}\n{"password": "x"}\n', f'{{"a": 1}}\n{{"password": "{M}"}}\n'),
        (f'{{"n": {"9" * 5000}, "token": "x"}}', f'{{"n": {"9" * 5000}, "token": "{M}"}}'),
    ],
    ids=range(10),
)
def test_broken_json_is_searched_for_secret_keys(text: str, redacted: str) -> None:
    """Invalid or truncated JSON, JSON lines and Python literals still have keys."""
    assert DEFAULT(text) == redacted


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 500 + '{"password": "x"}' + "]" * 500])
def test_too_deeply_nested_values_are_hidden(text: str) -> None:
    """Their content was not checked."""
    assert DEFAULT(text) in {M, text.replace("x", M)}
    assert "x" not in str(DEFAULT(text))


def test_values_too_deep_are_hidden() -> None:
    """For values that are not text."""
    value: Any = {"password": "x"}
    for _ in range(100_000):
        value = [value]

    assert DEFAULT(value) == M


@pytest.mark.parametrize(
    ("keys", "value", "expected"),
    [
        (("input_parameters", "city"), "Oslo", "Oslo"),
        (("input_parameters", "token"), "abc", REDACTED),
        (("token", "city"), "Oslo", REDACTED),
        (("token",), None, None),
        (("token", "is_set"), None, REDACTED),
        ((), {"token": "abc"}, {"token": REDACTED}),
    ],
)
def test_a_value_is_redacted_where_it_stands(keys: tuple[str, ...], value: Any, expected: Any) -> None:
    """Each of the keys above a value may be secret, as if the whole object were redacted."""
    assert Redactor().at(keys, value) == expected
    whole = value
    for key in reversed(keys):
        whole = {key: whole}
    redacted: Any = Redactor()(whole)
    for key in keys:
        redacted = redacted if redacted == REDACTED else redacted[key]
    assert redacted == expected
    assert Redactor(enabled=False).at(keys, value) == value
