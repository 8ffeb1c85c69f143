"""Statistics against those of statsmodels, which toolgrade itself never imports."""

from __future__ import annotations

import random
import warnings

import pytest

from toolgrade.stats import mean_interval

_WHY = "the core is tested alone here, without the library that its statistics are compared with"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # warnings of their own imports do not matter
    linear = pytest.importorskip("statsmodels.api", reason=_WHY)


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
