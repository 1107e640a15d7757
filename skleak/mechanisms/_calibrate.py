"""The noise for a goal about raw columns, which only a whole pipeline knows."""

import warnings
from typing import Any

from sklearn.pipeline import Pipeline

from skleak.exceptions import PrivacyLeakWarning
from skleak.mechanisms._goals import NoiseGoal, PublicNoiseGoal, resolve_goal
from skleak.mechanisms._ladder import ladder_rung
from skleak.utils._confidential import CalibratedNoise


def calibrate(
    pipeline: Any, goal: NoiseGoal, X: Any, y: Any, *, sample_weight: Any = None
) -> float:
    """Find the noise scale at which a pipeline meets a goal that names raw columns.

    Inside ``fit`` a private estimator sees columns as the transformers before it have made them,
    and a goal can name these only. Here it names the columns of the raw records. A number is
    followed through the fitted transformers to all encoded columns that it moves, and a column of
    few values (a category, a 0/1 column) is measured by the exact models under each of them, as
    `skleak.inspection.attribute_leakage` does, with the transformers held fixed.

    Parameters
    ----------
    pipeline : Pipeline or private estimator
        Ends in a private estimator of this library, whose own noise plays no part. It is not
        modified: if it is not fitted, a copy of it is.
    goal : NoiseGoal
        ``features`` of `MaxLeakage` and ``attribute`` of `MaxAdvantage` are raw columns, by name or
        by position, or "(target)"; a list is one block, of numbers or of columns of few values.
        For values `MaxLeakage` limits the largest distance between two of them over the noise; for
        a block of numbers the loss in their own units. `GaussianDP` and `EpsilonDelta` name none.
    X : DataFrame or array-like of shape (n, n_columns)
        Raw training records.
    y : array-like of shape (n,)
        Their targets.
    sample_weight : array-like of shape (n,), default=None
        Weights of the fit.

    Returns
    -------
    float
        The noise scale, to be set as ``noise_scale`` of the estimator. For a goal that reads the
        records it is a rung of the public ladder of powers of the square root of two, and a
        `CalibratedNoise`.

    Raises
    ------
    TypeError
        For a goal that is none, or a pipeline that does not end in a private estimator.
    ValueError
        For unknown columns, records other than a fitted pipeline was trained on, noise whose
        covariance is a function of the records, and goals that no noise reaches.

    Warns
    -----
    PrivacyLeakWarning
        For a goal about columns of few values that reads the records.

    Notes
    -----
    A noise scale that was read off the records is a release by itself. The ladder keeps it the same
    for almost all tables, but unlike a goal inside ``fit`` it is not checked here that no value of
    a record would have moved the rung: whoever knows all else rules out the values that would have.
    Calibrate on public records. What the transformers learned from the records is not counted.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import PolynomialFeatures, StandardScaler
    >>> from skleak.inspection import attribute_leakage
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.mechanisms import MaxLeakage
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.uniform(20, 80, size=100), "bmi": rng.normal(25, 4, size=100)})
    >>> y = X["age"] + rng.normal(size=100)
    >>> pipeline = make_pipeline(PolynomialFeatures(2), StandardScaler(), PrivateLinearRegression())
    >>> noise = calibrate(pipeline, MaxLeakage(0.05, features="age"), X, y)
    >>> pipeline = pipeline.set_params(privatelinearregression__noise_scale=noise).fit(X, y)
    >>> loss = attribute_leakage(pipeline, X, y, "age")["fisher_information_loss"]
    >>> bool(0.05 / 2**0.5 < loss.max() <= 0.05)
    True
    """
    if not isinstance(goal, NoiseGoal):
        raise TypeError(
            "`goal` must be a noise goal such as MaxLeakage(0.5, features='age'); got "
            f"{type(goal).__name__}."
        )
    model = pipeline
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    # Pipelines are inspected by packages above this one: the estimator knows them.
    if not hasattr(model, "_raw_problem"):
        raise TypeError(
            "`pipeline` must end in a private estimator of skleak.linear_model; got "
            f"{type(model).__name__}. Of a search, pass `best_estimator_`; the noise of models of "
            "other kinds is not found from a goal."
        )
    problem = model._raw_problem(pipeline, X, y, sample_weight)
    noise_scale = resolve_goal(goal, problem)
    if isinstance(goal, PublicNoiseGoal):
        return noise_scale
    if name := problem.few_values(goal.named_columns):
        warnings.warn(
            f"The noise scale was read off the records: another value of {name!r} in one of them "
            "may have given another one, and whoever knows all else then rules that value out "
            "with certainty. `fit` refuses a goal of its own where that is so; here it is not "
            "checked. Calibrate on public records, and use the noise for private ones.",
            PrivacyLeakWarning,
            stacklevel=2,
        )
    return CalibratedNoise(ladder_rung(noise_scale))
