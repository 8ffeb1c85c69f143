"""The table of features is true of the installed version of the framework."""

import pytest
from li_versions import FEATURES


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_is_there_if_and_only_if_it_is_due(name: str) -> None:
    """A scenario is left out for lack of a feature only if the feature is absent."""
    FEATURES[name].check()
