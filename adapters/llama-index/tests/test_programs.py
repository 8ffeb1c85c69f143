"""Random programs of many agents, played on LlamaIndex's agents and workflows and compared with their truth."""

from __future__ import annotations

import test_contract
from li_versions import WORKFLOWS_2

from programs import FEATURES, check_programs

PLAYED = FEATURES if WORKFLOWS_2 else FEATURES - {"approvals"}


def test_random_programs() -> None:
    """What was recorded of a program is what its script and its tools say."""
    check_programs(test_contract.TestContract(), PLAYED)
