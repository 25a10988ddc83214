"""Verdicts on made-up results: what is claimed, what is not, and why."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.points import PointData, Seed
from agent.stats import mean
from agent.verdict import MIN_SEEDS, judge
from agent.wording import Words, language_of
from lab.report import Outcome, Verdict

RISING = [0.5, 0.7, 0.8]


def point(
    label: str,
    values: Sequence[float | None],
    *,
    dataset: str | None = "digits",
    params: dict[str, float] | None = None,
    lost: Outcome = "diverged",
    curve: Sequence[float | None] = (),
    model: str | None = None,
    epochs: int = 3,
) -> PointData:
    """A point whose seeds came to `values`; None stands for a seed that was lost."""
    steps = tuple((float(i + 1), y) for i, y in enumerate(curve))
    seeds = tuple(
        Seed(f"exp-1/{i + 1}", i, v, "ok" if v is not None else lost, {"val_acc": steps} if steps else {})
        for i, v in enumerate(values)
    )
    return PointData(label, model or label, dataset, dict(params or {}), seeds, epochs)


def details(verdict: Verdict) -> str:
    return " ".join(verdict.details)


def test_a_winner_is_named_with_its_numbers() -> None:
    """Interval by hand: 0.30867 ± 4.18 x 0.02923 (Welch, df 2.03), as scipy.stats.ttest_ind gives it."""
    verdict = judge([point("efficientnet_b0", [0.64, 0.60, 0.70]), point("resnet50", [0.951, 0.955, 0.960])], "val_acc")

    assert verdict.winners == {"digits": "resnet50"}
    assert verdict.headline == (
        "resnet50 is better than efficientnet_b0 on digits after 3 epochs: val acc 0.96 against 0.65, "
        "difference 0.31 (95 % interval 0.19 to 0.43, 3 seeds each)"
    )


def test_a_tie_names_no_winner_and_says_what_would_settle_it() -> None:
    verdict = judge([point("a", [0.90, 0.91, 0.92]), point("b", [0.91, 0.92, 0.945])], "val_acc")

    assert verdict.winners == {}
    assert verdict.headline.startswith("No clear winner on digits after 3 epochs: b came out best, but is not")
    assert "about 17 seeds of each" in details(verdict)


def test_a_tie_that_no_number_of_seeds_would_settle_says_so() -> None:
    verdict = judge([point("a", [0.90, 0.91, 0.92]), point("b", [0.89, 0.91, 0.931])], "val_acc")

    assert "more than 50 seeds" in details(verdict)


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_seeds_never_win(n: int) -> None:
    verdict = judge([point("a", [0.95, 0.951][:n]), point("b", [0.10, 0.101][:n])], "val_acc")

    assert verdict.winners == {}
    assert verdict.headline.startswith("No winner can be named on digits after 3 epochs from")
    assert "at least 3 seeds of each" in details(verdict)


def test_lower_is_better_turns_the_verdict_round() -> None:
    verdict = judge([point("a", [0.20, 0.21, 0.22]), point("b", [0.50, 0.52, 0.51])], "val_loss")

    assert verdict.winners == {"digits": "a"}
    assert "val loss (lower is better) 0.210 against 0.510, difference 0.300" in verdict.headline


def test_still_improving_stands_in_the_headline() -> None:
    both = judge([point("a", [0.9, 0.91, 0.92], curve=RISING), point("b", [0.5, 0.51, 0.52], curve=RISING)], "val_acc")
    one = judge(
        [point("a", [0.9, 0.91, 0.92], curve=[0.9, 0.9, 0.9]), point("b", [0.5, 0.51, 0.52], curve=RISING)], "val_acc"
    )

    assert both.headline.endswith("; both were still improving")
    assert "6 epochs would tell more than 3" in details(both)
    assert one.headline.endswith("; b was still improving")


def test_a_gap_in_a_curve_does_not_hide_its_trend() -> None:
    verdict = judge([point("a", [0.9, 0.91, 0.92], curve=[0.1, None, 0.5, 0.6, float("nan"), 0.8])], "val_acc")

    assert verdict.headline.endswith("; it was still improving")


def test_survivors_alone_win_nothing_when_their_siblings_diverged() -> None:
    verdict = judge([point("a", [0.95, 0.951, 0.952, None]), point("b", [0.91, 0.90, 0.905, 0.91])], "val_acc")

    assert verdict.winners == {}
    assert "but 1 of its 4 seeds diverged" in verdict.headline
    assert "1 of 4 seeds of a diverged (seed 3) and is not in its mean" in details(verdict)


def test_a_winner_whose_rival_diverged_still_wins() -> None:
    """The rival's mean over survivors flatters the rival, so the claim is on the safe side."""
    verdict = judge([point("a", [0.95, 0.951, 0.952, 0.95]), point("b", [0.91, 0.90, 0.905, None])], "val_acc")

    assert verdict.winners == {"digits": "a"}
    assert "that speaks against it" in details(verdict)


def test_one_of_three_seeds_diverged_leaves_too_few() -> None:
    verdict = judge([point("a", [0.95, 0.951, None]), point("b", [0.5, 0.51, 0.52])], "val_acc")

    assert verdict.winners == {}
    assert "from 2 and 3 seeds" in verdict.headline


def test_a_seed_far_off_counts_and_is_shown_with_and_without() -> None:
    verdict = judge([point("a", [0.95, 0.951, 0.1]), point("b", [0.91, 0.90, 0.905])], "val_acc")

    assert verdict.winners == {}
    assert "Seed 2 of a ended far from its siblings (0.100)" in details(verdict)
    assert "without it the mean would be 0.950 instead of 0.667" in details(verdict)


def test_seeds_that_all_agree_are_no_evidence() -> None:
    differ = judge([point("a", [0.95] * 3), point("b", [0.91] * 3)], "val_acc")
    agree = judge([point("a", [0.95] * 3), point("b", [0.95] * 3)], "val_acc")

    assert (differ.winners, agree.winners) == ({}, {})
    assert "no spread to test against" in differ.headline
    assert agree.headline.startswith("No difference on digits")


def test_one_point_is_described() -> None:
    verdict = judge([point("resnet50", [0.95, 0.96, 0.955])], "val_acc")

    assert verdict.headline == (
        "resnet50 on digits reached val acc 0.955 after 3 epochs (95 % interval 0.943 to 0.967, 3 seeds); "
        "there was nothing to compare it with"
    )


def test_all_failed_says_how() -> None:
    verdict = judge([point("a", [None] * 3), point("b", [None] * 2, lost="failed")], "val_acc")

    assert verdict.headline == "No run on digits gave a result: 3 diverged, 2 failed"
    assert judge([], "val_acc").winners == {}


def test_the_only_point_with_results_wins_nothing() -> None:
    verdict = judge([point("a", [0.9, 0.91, 0.92]), point("b", [None] * 3, lost="failed")], "val_acc")

    assert verdict.headline.startswith("Only a on digits has results")
    assert "3 of 3 seeds of b gave no result" in details(verdict)


def test_five_points_are_compared_after_holm() -> None:
    """Ten pairs; the closest, 0.95 against 0.93 with sd 0.002, is far enough even after the adjustment."""
    lrs = {1e-1: 0.50, 1e-2: 0.90, 1e-3: 0.95, 1e-4: 0.93, 1e-5: 0.70}
    points = [point(f"lr {x:g}", [y, y + 0.002, y - 0.002], params={"lr": x}, model="r") for x, y in lrs.items()]
    verdict = judge(points, "val_acc")

    assert verdict.winners == {"digits": "lr 0.001"}
    assert "lr 0.001 is the best of 5" in verdict.headline
    assert "adjusted for 10 comparisons" in verdict.headline
    assert "Holm's adjustment over 10 comparisons of 5 points" in details(verdict)


def test_holm_takes_back_what_a_single_test_would_claim() -> None:
    """Alone, a against b is significant (p 0.021); among five points it is not."""
    close = [point("a", [0.930, 0.940, 0.950]), point("b", [0.905, 0.912, 0.920])]
    others = [point(name, [0.90 + i / 100, 0.905, 0.91 - i / 100]) for i, name in enumerate("cde")]

    assert judge(close, "val_acc").winners == {"digits": "a"}
    assert judge(close + others, "val_acc").winners == {}


def test_the_best_value_at_the_edge_of_the_grid_is_pointed_out() -> None:
    points = [point(f"lr {x:g}", [y, y + 0.01, y - 0.01], params={"lr": x}) for x, y in ((1, 0.5), (2, 0.6), (3, 0.9))]

    assert "The best lr, 3, is the largest tried" in details(judge(points, "val_acc"))
    assert "the smallest tried" in details(judge(points, "val_loss"))


def test_several_axes_name_the_best_of_each_model() -> None:
    points = [
        point(f"{m} lr {x:g}", [y, y + 0.01, y - 0.01], params={"lr": x}, model=m)
        for m, x, y in (("a", 0.1, 0.5), ("a", 0.01, 0.8), ("b", 0.1, 0.7), ("b", 0.01, 0.6))
    ]
    text = details(judge(points, "val_acc"))

    assert "Best of a: a lr 0.01, val acc 0.800" in text
    assert "Best of b: b lr 0.1, val acc 0.700" in text


def test_each_data_set_has_its_verdict() -> None:
    a, b = [0.95, 0.951, 0.952], [0.90, 0.901, 0.902]
    same = [point(n, v, dataset=d) for d in ("digits", "svhn") for n, v in (("a", a), ("b", b))]
    mixed = [*same[:2], point("a", b, dataset="svhn"), point("b", a, dataset="svhn")]

    assert judge(same, "val_acc").headline == "a is best on all 2 data sets"
    assert judge(mixed, "val_acc").headline == "digits: a is best; svhn: b is best"
    assert judge(mixed, "val_acc").winners == {"digits": "a", "svhn": "b"}


def test_a_point_with_one_seed_is_named_as_not_compared() -> None:
    points = [point("a", [0.95, 0.951, 0.952]), point("b", [0.90, 0.901, 0.902]), point("c", [0.5, None, None])]

    assert "c could not be compared" in details(judge(points, "val_acc"))


def test_chinese_requests_get_chinese_verdicts_with_the_same_numbers() -> None:
    points = [point("a", [0.95, 0.951, 0.952]), point("b", [0.5, 0.51, 0.52])]
    verdict = judge(points, "val_acc", Words("zh"))

    assert verdict.headline == (
        "在 digits 上，3 个 epoch 后，a 优于 b：val acc 0.951 对 0.510，差 0.441"
        "（95 % 区间 0.416 到 0.466，各 3 个种子）"
    )


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("用ResNet-50在CIFAR10上跑对比实验，学习率从1e-3到1e-5", "zh"),
        ("compare ResNet50 vs EfficientNet", "en"),
        ("ResNet50とEfficientNetを比較して", "en"),
        ("", "en"),
    ],
)
def test_the_language_is_that_of_the_request(text: str, language: str) -> None:
    assert language_of(text) == language


VALUES = st.lists(st.one_of(st.none(), st.floats(0, 1).map(lambda v: round(v, 3))), min_size=1, max_size=5)


@given(
    st.lists(VALUES, min_size=1, max_size=4), st.sampled_from(["val_acc", "val_loss"]), st.sampled_from(["en", "zh"])
)
@settings(max_examples=150, deadline=None)
def test_a_winner_has_the_best_mean_and_enough_seeds(
    samples: list[list[float | None]], metric: str, language: str
) -> None:
    points = [point(f"p{i}", values) for i, values in enumerate(samples)]
    verdict = judge(points, metric, Words("zh" if language == "zh" else "en"))
    ranked = sorted((p for p in points if p.values), key=lambda p: mean(p.values) or 0.0, reverse=metric == "val_acc")

    assert verdict.headline
    for winner in verdict.winners.values():
        assert winner == ranked[0].label
        assert all(len(p.values) >= MIN_SEEDS for p in ranked[:2])
        assert mean(ranked[0].values) != mean(ranked[1].values)


@pytest.mark.parametrize("n_points", [2, 4])
def test_ties_are_seldom_called(n_points: int) -> None:
    """600 experiments in which nothing differs: at most 5 % may name a winner (allowing for chance, 2.3 sd)."""
    rng = np.random.default_rng(7)
    false_claims = 0
    for _ in range(600):
        samples = 0.9 + 0.01 * rng.standard_normal((n_points, 3))
        points = [point(f"p{i}", [float(v) for v in row]) for i, row in enumerate(samples)]
        false_claims += bool(judge(points, "val_acc").winners)

    assert false_claims / 600 <= 0.07


def test_a_clear_difference_is_found() -> None:
    """Power: five standard deviations apart, three seeds each, most experiments should find it."""
    rng = np.random.default_rng(8)
    found = 0
    for _ in range(200):
        a, b = 0.90 + 0.01 * rng.standard_normal(3), 0.95 + 0.01 * rng.standard_normal(3)
        found += judge([point("a", list(map(float, a))), point("b", list(map(float, b)))], "val_acc").winners == {
            "digits": "b"
        }

    assert found / 200 >= 0.85
