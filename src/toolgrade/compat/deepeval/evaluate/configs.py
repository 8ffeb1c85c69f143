"""The names of `deepeval.evaluate.configs`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

from toolgrade.errors import ConfigurationError

__all__ = ["AsyncConfig", "CacheConfig", "DisplayConfig", "ErrorConfig"]


@dataclass
class AsyncConfig:
    """How many cases are measured at the same time: `max_concurrent`, or one if not `run_async`.

    `throttle_value`, seconds between two cases, has no effect: limits of a model are handled where it is asked.
    """

    run_async: bool = True
    throttle_value: float = 0
    max_concurrent: int = 20

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.max_concurrent < 1 or self.throttle_value < 0:
            numbers = f"max_concurrent={self.max_concurrent}, throttle_value={self.throttle_value}"
            raise ConfigurationError(f"max_concurrent must be at least 1 and throttle_value at least 0, got {numbers}")


@dataclass
class DisplayConfig:
    """What `evaluate` shows: a progress bar, and the report in the terminal.

    With `file_output_dir` the report is also written there, as `file_type` `"html"` (a page) or `"md"`. With
    `results_folder` the results are written there as `test_run_<time>.json`, without secrets. `display_option`,
    `truncate_passing_cases` and `inspect_after_run` have no effect.
    """

    show_indicator: bool = True
    print_results: bool = True
    verbose_mode: bool | None = None
    display_option: Any = None
    results_folder: str | os.PathLike[str] | None = None
    results_subfolder: str | None = None
    truncate_passing_cases: bool = True
    inspect_after_run: bool = True
    file_type: Literal["html", "md"] | None = None
    file_output_dir: str | os.PathLike[str] | None = None


@dataclass
class CacheConfig:
    """Without effect: replies of a model are cached where the model is configured, see `toolgrade.Judge`."""

    write_cache: bool = True
    use_cache: bool = False


@dataclass
class ErrorConfig:
    """What happens to a case that cannot be measured.

    By default `evaluate` measures and shows all cases, and then raises. With `ignore_errors` it returns them as errors.
    With `skip_on_missing_params` a metric is skipped for a case that lacks a field which it needs; one of a component
    is not.
    """

    ignore_errors: bool = False
    skip_on_missing_params: bool = False
