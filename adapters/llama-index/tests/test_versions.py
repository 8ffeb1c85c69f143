"""The table of features is true of the installed version of the framework."""

import pytest
from li_versions import FEATURES


@pytest.mark.parametrize("name", FEATURES)
def test_features_match_the_installed_release(name: str) -> None:
    """A scenario is skipped for a missing feature only if the feature is absent."""
    FEATURES[name].check()
