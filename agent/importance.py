"""Which axis of a search mattered: shares of the variance between its trials, as numbers and as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.canvas import COLOURS, FONT, canvas, head, png, style
from lab.plan import Axis, Range, Scalar
from lab.report import metric_name

FEWEST = 10
"""Finished trials below which the shares are noise."""
SEED = 0
"""Of the forest: the same trials give the same shares."""

Finished = Sequence[tuple[Mapping[str, Scalar], float]]
"""Values and outcome of each trial that ran to its end."""


def importance(space: Mapping[str, Axis], finished: Finished) -> dict[str, float]:
    """Axis to its share of the variance, the largest first, together 1; empty where there is nothing to tell apart.

    Optuna's fANOVA: a random forest fitted to the trials, its variance split by axes, interactions left out (Hutter et
    al. 2014, An Efficient Approach for Assessing Hyperparameter Importance). Chance alone gets shares too.

    Args:
        space: the axes that were drawn; fewer than two have nothing to share.
    """
    if len(space) < 2 or len(finished) < FEWEST or len({value for _, value in finished}) < 2:
        return {}
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

    distributions: dict[str, BaseDistribution] = {
        name: FloatDistribution(axis.low, axis.high, log=axis.scale != "linear")
        if isinstance(axis, Range)
        else CategoricalDistribution(axis)
        for name, axis in space.items()
    }
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study()
    for values, outcome in finished:
        params = {name: values[name] for name in space}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=outcome))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=SEED)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in shares.items()}


def bars(studies: Mapping[str, Mapping[str, float]], metric: str, title: str) -> bytes | None:
    """A PNG with a bar an axis, a panel a search; None where no search has shares.

    Args:
        studies: shares by the name of their search.
    """
    shown = {name: shares for name, shares in studies.items() if shares}
    if not shown:
        return None
    figure, panels, width = canvas(len(shown), 0, panel_px=420)
    for panel, (name, shares) in zip(panels, shown.items(), strict=True):
        names = list(shares)[::-1]
        drawn = panel.barh(names, [shares[n] for n in names], color=COLOURS[0], height=0.6)
        panel.bar_label(drawn, fmt="%.2f", padding=6, fontsize=FONT)
        style(panel)
        panel.set_xlim(0, 1.1)
        panel.set_title(f"{name}: share of the variance of {metric_name(metric)}", fontsize=FONT, loc="left")
        figure.subplots_adjust(left=0.24)
    head(figure, title, "fANOVA, only a hint: chance alone gets shares too", width)
    return png(figure)
