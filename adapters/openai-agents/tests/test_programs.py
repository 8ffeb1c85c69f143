"""Random programs of many agents, played on the SDK's runner and compared with their truth."""

from __future__ import annotations

from typing import Any, ClassVar

import test_contract
from agents import RunConfig
from oa_versions import ENFORCES_IDS, FEATURES

import programs
from programs import check_programs

MISSING = {
    "repeated ids": ENFORCES_IDS,
    "unknown tools": not FEATURES["not_found"].is_due(),
    "approvals": not FEATURES["approvals"].is_due(),
}
"""What a program may have, and whether the installed release cannot do it."""

PLAYED = programs.FEATURES - {feature for feature, is_missing in MISSING.items() if is_missing}


class Continuing(test_contract.TestContract):
    """Plays scenes in which a call of an unknown tool does not end the run."""

    run_config: ClassVar[Any] = (
        None if MISSING["unknown tools"] else RunConfig(tool_not_found_behavior="return_error_to_model")
    )


def test_random_programs() -> None:
    """What was recorded of a program is what its script and its tools say."""
    check_programs(Continuing(), PLAYED)
