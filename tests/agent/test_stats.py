"""Statistics against reference numbers of scipy and of the papers, and in the cases where formulas break down."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from agent.stats import (
    compare_all,
    far_off,
    finite,
    holm,
    holm_levels,
    mean,
    sd,
    seeds_needed,
    t_interval,
    trend,
    welch,
)

A, B = [0.951, 0.955, 0.960], [0.64, 0.60, 0.70]
VALUES = st.lists(st.floats(-1e3, 1e3).map(lambda v: round(v, 6)), min_size=2, max_size=6)


def test_mean_sd_and_t_interval_are_those_of_scipy() -> None:
    low, high = reference.t.interval(0.95, 2, loc=np.mean(A), scale=reference.sem(A))

    assert mean(A) == pytest.approx(np.mean(A))
    assert sd(A) == pytest.approx(np.std(A, ddof=1))
    assert t_interval(A) == pytest.approx((low, high))


def test_one_seed_has_a_mean_but_no_spread_and_no_interval() -> None:
    assert (mean([0.5]), sd([0.5]), t_interval([0.5])) == (0.5, None, None)
    assert (mean([]), sd([]), t_interval([])) == (None, None, None)


def test_equal_values_have_no_spread_at_all() -> None:
    """0.1 three times sums to 0.30000000000000004: rounding must not pass for spread."""
    assert sd([0.1] * 3) == 0
    assert t_interval([0.1] * 3) == (0.1, 0.1)


def test_finite_drops_what_is_no_number() -> None:
    assert finite([0.5, None, math.nan, math.inf, 1]) == [0.5, 1.0]


@pytest.mark.filterwarnings("ignore:Precision loss")
@given(VALUES, VALUES)
@settings(max_examples=60, deadline=None)
def test_welch_is_that_of_scipy(a: list[float], b: list[float]) -> None:
    d = welch(a, b)
    assert d is not None
    if d.p is None:
        return
    scipy = reference.ttest_ind(a, b, equal_var=False)
    low, high = scipy.confidence_interval(0.95)

    assert d.p == pytest.approx(scipy.pvalue, abs=1e-9)
    assert (d.low, d.high) == pytest.approx((low, high), rel=1e-6, abs=1e-6)


def test_welch_needs_two_values_on_each_side() -> None:
    assert welch([0.9], B) is None
    assert welch(A, []) is None


def test_without_any_spread_there_is_no_test() -> None:
    d = welch([0.9] * 3, [0.8] * 3)

    assert d is not None
    assert (d.p, d.significant, d.low) == (None, False, d.high)


def test_spread_on_one_side_is_enough_for_a_test() -> None:
    d = welch([0.9] * 3, [0.80, 0.81, 0.79])

    assert d is not None
    assert d.p == pytest.approx(reference.ttest_1samp([0.80, 0.81, 0.79], 0.9).pvalue)


def test_holm_gives_the_textbook_numbers() -> None:
    """R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_levels_and_adjusted_p_values_decide_alike(p_values: list[float]) -> None:
    for p, adjusted, level in zip(p_values, holm(p_values), holm_levels(p_values), strict=True):
        if abs(adjusted - 0.05) > 1e-12:
            assert (p < level) == (adjusted < 0.05)


def test_adjusted_intervals_exclude_zero_exactly_where_holm_rejects() -> None:
    rng = np.random.default_rng(4)
    samples = [list(0.02 * i + 0.01 * rng.standard_normal(4)) for i in range(5)]
    result = compare_all(samples)

    assert set(result) == set(combinations(range(5), 2))
    assert {d.significant for d in result.values()} == {True, False}
    for d in result.values():
        assert d.p_adjusted is not None
        assert d.significant == (d.p_adjusted < 0.05) == (d.low > 0 or d.high < 0)


def test_points_with_one_seed_are_left_out_of_the_comparisons() -> None:
    assert set(compare_all([A, [0.9], B])) == {(0, 2)}


def test_seeds_needed_is_that_of_the_power_tables() -> None:
    """Cohen 1988: 26 a group for d = 0.8 at 80 % power, 0.05 two-sided; 17 for d = 1 (G*Power)."""
    assert seeds_needed(0.8, 1, 1) == 26
    assert seeds_needed(1.0, 1, 1) == 17
    assert seeds_needed(0.1, 1, 1) is None
    assert seeds_needed(0, 1, 1) is None
    assert seeds_needed(1, 0, 0) is None
    assert seeds_needed(100, 0.1, 0.1) == 2


@pytest.mark.parametrize("higher", [True, False])
def test_only_a_value_far_on_the_worse_side_is_far_off(higher: bool) -> None:
    values = [0.95, 0.951, 0.1] if higher else [0.05, 0.052, 2.3]

    assert far_off(values, higher) == [2]
    assert far_off(values, not higher) == []
    assert far_off([0.95, 0.951, 0.93], True) == []
    assert far_off(values[1:], higher) == []


RISING = [[(1, 0.50), (2, 0.70), (3, 0.80)], [(1, 0.52), (2, 0.69), (3, 0.82)], [(1, 0.5), (2, 0.72), (3, 0.81)]]


def test_three_rising_epochs_are_still_improving() -> None:
    heading, slope = trend(RISING, higher=True)

    assert heading == "improving"
    assert slope == pytest.approx(np.mean([0.15, 0.15, 0.155]))
    assert trend(RISING, higher=False)[0] == "worsening"


def test_a_curve_that_bent_over_is_flat() -> None:
    assert trend([[(1, 0.9), (2, 0.95), (3, 0.951)]] * 3, True)[0] == "flat"


def test_a_falling_loss_is_still_improving() -> None:
    assert trend([[(e, 2 - 0.1 * e) for e in range(1, 10)]], False)[0] == "improving"


def test_too_few_epochs_tell_no_trend() -> None:
    assert trend([], True) == (None, None)
    assert trend([[(1, 0.9)]] * 3, True) == (None, None)
    assert trend([[(1, 0.9), (2, 0.95)]], True) == (None, None)
    assert trend([[(1, None), (2, math.nan), (3, 0.5)]], True) == (None, None)


def test_noise_around_a_level_seldom_passes_for_a_trend() -> None:
    """The test is one-sided at 0.05 in each direction."""
    rng = np.random.default_rng(0)
    noise = 0.9 + 0.01 * rng.standard_normal((300, 3, 30))
    headings = [trend([list(enumerate(map(float, seed))) for seed in point], True)[0] for point in noise]

    assert headings.count("improving") <= 0.08 * 300
    assert headings.count("worsening") <= 0.08 * 300
