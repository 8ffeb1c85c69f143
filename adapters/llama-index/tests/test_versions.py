"""The table of what a version of the framework cannot have is true of the version that is installed."""

import pytest
from li_versions import FEATURES


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_is_there_if_and_only_if_it_is_due(name: str) -> None:
    """A scenario may be left out for want of a feature only where the feature really is absent."""
    feature = FEATURES[name]

    if feature.is_due():
        feature.probe()
    else:
        with pytest.raises((ImportError, AttributeError, LookupError)):
            feature.probe()
