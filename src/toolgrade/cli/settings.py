"""Options of commands that a project sets in `[tool.toolgrade]` of its `pyproject.toml`; see docs/settings.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from toolgrade._internal.project_settings import ProjectSettings, read_project_settings
from toolgrade._internal.text import printable
from toolgrade.cli.io import stop
from toolgrade.errors import ConfigurationError

COMMANDS = ("approve", "compare", "convert", "lint", "report", "score", "validate")
"""Commands whose options a project may set. A command that sends something does not belong here."""

ONLY_ON_COMMAND_LINE = frozenset({"cache", "comment", "judge", "judge-url", "open", "yes"})
"""Options of these commands that a project may not set: they send something, start a browser or confirm."""


def settings_for(name: str, load: Callable[[str], click.Command]) -> dict[str, Any]:
    """Return the values that the project sets for the options of a command, by the names of click's parameters.

    Exits with a message if a setting is unknown or has the wrong type or value. `load` returns the command of a name.
    """
    if name not in COMMANDS:
        return {}
    try:
        settings = read_project_settings()
        if settings is None:
            return {}
        options = options_of(load(name))
        values = _values(settings, name, options, load)
    except ConfigurationError as error:
        stop(str(error))
    if values:
        text = ", ".join(option for option, param in options.items() if param.name in values)
        click.echo(printable(f"settings of {settings.name}: {text}"), err=True)
    return values


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command that a project may set, by their long names without dashes."""
    options: dict[str, click.Option] = {}
    for param in command.params:
        if isinstance(param, click.Option):
            name = next(text for text in param.opts if text.startswith("--")).removeprefix("--")
            if name not in ONLY_ON_COMMAND_LINE:
                options[name] = param
    return options


def _values(
    settings: ProjectSettings, name: str, options: Mapping[str, click.Option], load: Callable[[str], click.Command]
) -> dict[str, Any]:
    """Return the values of the shared settings, and those of the command's own table, which win."""
    tables = {key: value for key, value in settings.table.items() if key in COMMANDS and isinstance(value, Mapping)}
    shared = {key: value for key, value in settings.table.items() if key not in tables}
    own = {key: value for key, value in shared.items() if _name_of(key) in options}
    if len(own) < len(shared):
        _check_others(settings, shared.keys() - own.keys(), load)
    return _converted(settings, "", own, options) | _converted(settings, f"{name}.", tables.get(name, {}), options)


def _check_others(settings: ProjectSettings, keys: Iterable[str], load: Callable[[str], click.Command]) -> None:
    """Raise if a shared setting is not an option of any command; this loads all of them."""
    options = {option for command in COMMANDS for option in options_of(load(command))}
    for key in sorted(keys):
        if key in COMMANDS and key not in options:
            raise settings.error(key, f"must be a table, got {settings.table[key]!r}")
        if _name_of(key) not in options:
            raise settings.unknown(key, _name_of(key), {*options, *COMMANDS})


def _converted(
    settings: ProjectSettings, prefix: str, table: Mapping[str, Any], options: Mapping[str, click.Option]
) -> dict[str, Any]:
    """Return the checked values of a table by the names of the parameters."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        option = options.get(_name_of(key))
        if option is None:
            raise settings.unknown(f"{prefix}{key}", _name_of(key), options)
        if option.name in values:
            raise settings.error(f"{prefix}{key}", "is set twice, with '-' and with '_'; remove one of them")
        values[str(option.name)] = _checked(settings, f"{prefix}{key}", value, option)
    return values


def _name_of(key: str) -> str:
    return key.replace("_", "-")


def _checked(settings: ProjectSettings, key: str, value: Any, option: click.Option) -> object:  # noqa: ANN401 - of TOML
    """Return the value of a setting if the option accepts it; paths become relative to the working directory."""
    if isinstance(option.type, click.Path):
        return settings.path(key, value)
    if option.multiple and not isinstance(value, list):
        raise settings.error(key, f"must be a list, got {value!r}")
    if not all(isinstance(one, (bool, int, float, str)) for one in (value if option.multiple else [value])):
        raise settings.error(key, f"must be text, a number, true or false, got {value!r}")
    try:
        option.process_value(click.Context(click.Command(None)), value)
    except click.BadParameter as error:
        raise settings.error(key, f"is wrong: {error.message.rstrip('.')}") from None
    return value
