"""A scorer of leakage for `GridSearchCV` and `cross_validate`."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from skleak.inspection.scoring._dependence import of_steps
from skleak.utils._features import resolve_features
from skleak.utils._typing import BoolArray, FloatArray, IntArray

Statistic = Literal["mean", "max"] | Callable[[FloatArray], float]
_STATISTICS: dict[str, Callable[[FloatArray], float]] = {"mean": np.mean, "max": np.max}


def make_leakage_scorer(
    columns: "Hashable | Sequence[Hashable] | None" = None,
    *,
    statistic: Statistic = "mean",
) -> "LeakageScorer":
    """Make a scorer of how little a fit leaks about the records that it was trained on.

    The score is minus the Fisher information loss, so that greater is better, as scikit-learn
    wants it: 0 is no leakage, and a model without noise has minus infinity.

    Parameters
    ----------
    columns : str, int, list of them or None, default=None
        Raw columns of what the scored estimator takes, by name or position, which are unknown
        together; all encoded columns that they can move form one block. None for whole records:
        all encoded columns, and the target where it is private.
    statistic : {"mean", "max"} or callable, default="mean"
        Over the training records: their mean, the most exposed one, or what a function makes of
        their losses, an array of shape (n,).

    Returns
    -------
    LeakageScorer
        Callable as ``scorer(estimator, X, y)``.

    Raises
    ------
    ValueError
        For an unknown statistic; when scoring, for unknown columns.

    See Also
    --------
    attribute_leakage : What is told about raw columns, on one scale from 0 to 1.

    Notes
    -----
    **Searches hide errors.** Where a scorer fails, say for a column that is misspelled,
    `GridSearchCV` warns and goes on with NaN, and may then choose any parameters. Pass it
    ``error_score="raise"``.

    **It measures the fit, not the test fold.** Leakage is about the records that a model was
    trained on: those of the training folds. The scorer takes them from the fit that it is given,
    and ignores ``X`` and ``y`` but for the names of the columns. The score is the same on training
    and test folds, so that ``return_train_score`` adds nothing, and is not noisy as accuracy on a
    small fold is. Models of cross-validation are trained on fewer records than the one that is
    fitted in the end, and a record moves these more: with k folds the loss is larger than that
    of the final model, by about k / (k - 1) with noise of the same scale.

    **Choosing by it is a function of the data.** The loss is computed from the training records,
    without noise, and so is whatever is chosen by it, as what is chosen by accuracy is: the
    parameters that win tell something of the records, which neither the losses of the final model
    nor a guarantee of differential privacy count. The numbers in ``cv_results_`` are confidential.
    Choose on public data, from few candidates, or by a rule known beforehand (`calibrate`) where
    that matters.

    A loss of encoded columns is in their units. Where a transformer mixes columns, such as PCA,
    all that it returns may be moved by each: the loss of one is then that of all of them, never
    too small. The transformers count as public.

    Estimators that were pickled or copied after ``fit`` drop what leakage is computed from:
    ``scoring`` works in parallel jobs, as each scores its own fit, but the scorer refuses the
    estimators that ``cross_validate(..., return_estimator=True, n_jobs=2)`` returns.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skleak.inspection import make_leakage_scorer
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    >>> scoring = {"r2": "r2", "leakage": make_leakage_scorer("sex")}
    >>> model = PrivateLinearRegression(noise_scale=2.0, random_state=0)
    >>> search = GridSearchCV(model, {"alpha": [0.01, 1.0]}, scoring=scoring, refit="leakage")
    >>> search.fit(X, y).best_params_
    {'alpha': 1.0}
    """
    known = statistic in _STATISTICS if isinstance(statistic, str) else callable(statistic)
    if not known:
        raise ValueError(
            f'`statistic` must be "mean", "max" or a function of an array; got {statistic!r}.'
        )
    return LeakageScorer(columns, statistic=statistic)


class LeakageScorer(BaseEstimator):
    """Minus the Fisher information loss of the training records of a fit.

    Objects of this kind come from `make_leakage_scorer`, which says what they measure.

    Parameters
    ----------
    columns : str, int, list of them or None, default=None
        Raw columns that are unknown together.
    statistic : {"mean", "max"} or callable, default="mean"
        What is made of the losses of the records.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.inspection import make_leakage_scorer
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> scorer = make_leakage_scorer(statistic="max")
    >>> model = PrivateLinearRegression(noise_scale=2.0).fit(X, y)
    >>> bool(scorer(model, X, y) == -model.fisher_information_loss_.max())
    True
    """

    def __init__(self, columns: Any = None, *, statistic: Statistic = "mean") -> None:
        self.columns = columns
        self.statistic = statistic

    def __call__(self, estimator: Any, X: Any = None, y: Any = None, **_: Any) -> float:
        """Return the score of a fitted estimator; the records that are passed do not count."""
        loss, trained, _labels = training_losses(estimator, self.columns)
        statistic = self.statistic
        made = _STATISTICS[statistic] if isinstance(statistic, str) else statistic
        return -float(made(loss[trained]))


def training_losses(
    estimator: Any, columns: Any = None
) -> tuple[FloatArray, BoolArray, pd.Index | None]:
    """Return the loss of each training record of a fit, which count in it, and their labels, (n,).

    Labels are those of the table that the model itself received, if any.
    """
    steps, model = _split(estimator)
    state = model._confidential_state()
    features = None
    if columns is not None:
        features = _moved(estimator, steps, state.n_features, columns).tolist()
    loss: FloatArray = np.asarray(model.fisher_information_loss(features=features))
    return loss, state.objective.sample_weight > 0.0, state.row_labels


def _split(estimator: Any) -> tuple[list[Any], Any]:
    """Take a fitted pipeline apart: transformers, and the private model."""
    steps: list[Any] = []
    model = estimator
    while True:
        if isinstance(model, Pipeline):
            steps += [step for _, step in model.steps[:-1]]
            model = model.steps[-1][1]
        elif hasattr(model, "best_estimator_"):  # a search within a pipeline, or as a whole
            model = model.best_estimator_
        else:
            break
    if not (hasattr(model, "_confidential_state") and hasattr(model, "fisher_information_loss")):
        raise TypeError(
            "A leakage scorer takes private linear estimators of skleak, and pipelines that end in "
            f"one; got {type(model).__name__}. A released model knows nothing of its training: "
            "score the estimator that was fitted."
        )
    return [step for step in steps if step is not None and step != "passthrough"], model


def _moved(estimator: Any, steps: list[Any], n_out: int, columns: Any) -> IntArray:
    """Positions of the encoded columns that some raw columns can move, (k,)."""
    first = steps[0] if steps else estimator
    names = getattr(first, "feature_names_in_", getattr(estimator, "feature_names_in_", None))
    n_in = int(getattr(first, "n_features_in_", n_out))
    raw = resolve_features(columns, names, n_in, "columns")
    moved = of_steps(steps, n_in, n_out)
    found: IntArray = np.flatnonzero(moved[raw].any(axis=0))
    if not len(found):
        raise ValueError(
            f"The preprocessing drops {columns!r}: no encoded column depends on it. Name another "
            "column, or none."
        )
    return found
