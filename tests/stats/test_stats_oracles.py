"""Statistics against those of statsmodels and scikit-learn, which toolgrade itself never imports."""

from __future__ import annotations

import random
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrade.stats import holm, mean_interval

_WHY = "the core is tested alone here, without the libraries that its statistics are compared with"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of their own imports do not matter
    linear = pytest.importorskip("statsmodels.api", reason=_WHY)
    proportion = pytest.importorskip("statsmodels.stats.proportion", reason=_WHY)
    contingency = pytest.importorskip("statsmodels.stats.contingency_tables", reason=_WHY)
    multitest = pytest.importorskip("statsmodels.stats.multitest", reason=_WHY)
    metrics = pytest.importorskip("sklearn.metrics", reason=_WHY)

RATED = st.lists(st.tuples(st.sampled_from((0.0, 0.1, 0.3, 0.5, 0.9, 1.0)), st.booleans()), min_size=2, max_size=30)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holms_correction_is_statsmodels(p_values: list[float]) -> None:
    """Value by value."""
    expected = multitest.multipletests(p_values, method="holm")[1]

    assert holm(p_values) == pytest.approx(list(expected), abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_the_error_of_clusters_is_statsmodels(seed: int) -> None:
    """That of a regression on nothing but the mean, robust to clusters, which are of different sizes."""
    draw = random.Random(seed)
    clusters = [task for task in range(draw.randint(3, 12)) for _ in range(draw.randint(1, 6))]
    ease = [draw.random() for _ in range(20)]
    values = [min(1.0, max(0.0, draw.gauss(ease[task], 0.2))) for task in clusters]
    # Without the factor (N - 1) / (N - 1) for one parameter, which is 1, the correction is that for the clusters alone.
    fit = linear.OLS(values, [1.0] * len(values)).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": True}, use_t=True
    )
    (low, high), interval = fit.conf_int(0.05)[0], mean_interval(values, clusters)

    assert interval == pytest.approx((max(0.0, low), min(1.0, high)), abs=1e-9)
