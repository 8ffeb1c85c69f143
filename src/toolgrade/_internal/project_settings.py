"""Settings of a project: the table `[tool.toolgrade]` of the nearest `pyproject.toml`.

A folder with data may bring such a file along, so a setting neither runs code nor sends anything, and the paths in it
stay inside of its folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from toolgrade.errors import ConfigurationError

_FILE = "pyproject.toml"


class ProjectSettings(NamedTuple):
    """The table of a project, and the file that has it."""

    file: Path
    table: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The file as messages name it: relative to the working directory."""
        return os.path.relpath(self.file)

    def error(self, key: str, message: str) -> ConfigurationError:
        """Return an error about one key, such as `score.threshold`."""
        return ConfigurationError(f"{self.name}: tool.toolgrade.{key} {message}")

    def path(self, key: str, value: object) -> str:
        """Return the path that a setting names, relative to the working directory.

        Raises:
            ConfigurationError: It is not text, or not a path inside of the folder of the file.
        """
        if not isinstance(value, str):
            raise self.error(key, f"must be the path of a file as text, got {value!r}")
        folder = self.file.parent.resolve()
        path = Path(os.path.realpath(folder / value))
        inside = path.relative_to(folder).parts if path.is_relative_to(folder) else ()
        if value == "-" or not inside or any(part.startswith(".") for part in inside):
            requirement = "must be a file in the folder of this pyproject.toml, and not a hidden one"
            raise self.error(key, f"{requirement}, got {value!r}; name other files on the command line")
        return os.path.relpath(folder / value)

    def unknown(self, key: str, word: str, options: Iterable[str]) -> ConfigurationError:
        """Return the error of an unknown key, with the option that is close to its last word, if there is one."""
        import difflib  # noqa: PLC0415 - loaded with the first wrong key

        near = difflib.get_close_matches(word, list(options), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "remove it; docs/settings.md says what can be set"
        return self.error(key, f"is not a setting; {hint}")


def _nearest_file() -> Path | None:
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # the working directory was deleted
        return None
    paths = [place / _FILE for place in (folder, *folder.parents)]
    return next((path for path in paths if os.path.isfile(path)), None)  # noqa: PTH113 - no error for a closed folder


def read_project_settings() -> ProjectSettings | None:
    """Return the settings of the nearest `pyproject.toml`, from the working directory upwards; `None` without any.

    Raises:
        ConfigurationError: The file is not TOML, or `tool.toolgrade` is not a table.
    """
    file = _nearest_file()
    if file is None:
        return None
    try:
        data = file.read_bytes()
        if b"toolgrade" not in data:  # most projects have no settings, and many have long files
            return None
        # Loaded by name, because type checkers run on one Python only and find one of the two.
        toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        tool = toml.loads(data.decode("utf-8")).get("tool")
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{os.path.relpath(file)} cannot be read as TOML: {reason}") from None
    table = tool.get("toolgrade") if isinstance(tool, dict) else None
    if table is None:
        return None
    settings = ProjectSettings(file, table)
    if not isinstance(table, dict):
        raise ConfigurationError(f"{settings.name}: tool.toolgrade must be a table, got {table!r}")
    return settings
