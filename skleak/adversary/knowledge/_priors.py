"""Priors of an attribute, from all records but the target itself."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.adversary.knowledge._knowledge import Secret, take_rows
from skleak.utils._arguments import check_prior
from skleak.utils._confidential import without_ledger
from skleak.utils._typing import Array, FloatArray, IntArray

_N_FOLDS = 5


def attribute_prior(prior: Any, known: Any, y: Any, secret: Secret, targets: IntArray) -> Array:
    """Prior of every target's attribute, from all records but its own.

    Shapes: ``prior`` (M,) or (n_targets, M); ``known`` (n, n_columns - 1); ``y`` (n,); ``targets``
    (n_targets,); returns (n_targets, M).
    """
    codes, n_values = secret.codes, 0 if secret.values is None else len(secret.values)
    if isinstance(prior, str):
        if prior == "uniform":
            return np.full((len(targets), n_values), 1.0 / n_values)
        if prior == "marginal":
            return marginal_prior(codes, n_values)[targets]
        if prior == "conditional":
            return conditional_prior(default_classifier(), known, y, codes, n_values)[targets]
        raise ValueError(
            "`prior` must be 'marginal', 'uniform', 'conditional' or an array of probabilities; "
            f"got {prior!r}."
        )
    table_of_priors = check_prior(prior, n_values)
    if table_of_priors.ndim == 2 and len(table_of_priors) != len(targets):
        raise ValueError(
            f"`prior` must have one row for each of the {len(targets)} targets, or be shared; got "
            f"shape {table_of_priors.shape}."
        )
    return np.array(np.broadcast_to(table_of_priors, (len(targets), n_values)))


def marginal_prior(codes: IntArray, n_values: int) -> FloatArray:
    """Relative frequencies of the values among all *other* records.

    With a record's own value among the counts, the prior would tell it. Its vote is spread
    evenly over the values instead, which also leaves a value that nobody else carries possible.

    Shapes: ``codes`` (n,); returns (n, M): ``(count of m among the others + 1 / M) / n``.
    """
    counts = np.bincount(codes, minlength=n_values).astype(np.float64)
    others = np.tile(counts, (len(codes), 1))
    others[np.arange(len(codes)), codes] -= 1.0
    return (others + 1.0 / n_values) / len(codes)


def conditional_prior(
    classifier: Any, known: Any, y: Any, codes: IntArray, n_values: int
) -> FloatArray:
    """Probability of each value given what else is known of a record, by a cross-fitted classifier.

    The probabilities of a record come from a classifier that was fitted on other folds, and the
    folds do not look at the secret.

    Shapes: ``known`` (n, n_columns - 1); ``y`` (n,); ``codes`` (n,); returns (n, M): positive: a
    share of 1 / n_train is spread evenly, as for the marginal prior.
    """
    if not hasattr(classifier, "predict_proba"):
        raise TypeError(
            f"`classifier` must have `predict_proba`; got {type(classifier).__name__}. Wrap it in "
            "sklearn.calibration.CalibratedClassifierCV."
        )
    n = len(codes)
    features = known_features(known, y)
    if features.shape[1] == 0:
        return marginal_prior(codes, n_values)
    prior = np.empty((n, n_values))
    for train, test in folds(n).split(np.arange(n)):
        present = np.unique(codes[train])
        guess = np.zeros((len(test), n_values))
        if len(present) == 1:
            guess[:, present] = 1.0
        else:
            model = without_ledger(classifier).fit(take_rows(features, train), codes[train])
            guess[:, model.classes_] = model.predict_proba(take_rows(features, test))
        prior[test] = (len(train) * guess + 1.0 / n_values) / (len(train) + 1)
    return prior


def folds(n: int) -> KFold:
    """Folds that look at nothing but the position: stratified ones would tell the secret."""
    return KFold(min(_N_FOLDS, n), shuffle=True, random_state=0)


def default_classifier() -> Any:
    """Classifier behind the conditional prior: logistic regression on encoded columns."""
    return on_encoded_columns(LogisticRegression(max_iter=1000))


def on_encoded_columns(model: Any) -> Any:
    """Pipeline that imputes and scales numbers, encodes all else one-hot, and fits the model."""
    numeric = make_pipeline(SimpleImputer(), StandardScaler())
    nominal = OneHotEncoder(handle_unknown="ignore", min_frequency=2)
    encode = make_column_transformer(
        (numeric, make_column_selector(dtype_include="number")),
        (nominal, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(encode, model)


def known_features(known: Any, y: Any) -> pd.DataFrame:
    """Return the other columns, and the target last, as one table with names of its own."""
    frame = pd.DataFrame(known).infer_objects()
    if y is not None:
        frame = pd.concat([frame, pd.Series(np.asarray(y), index=frame.index)], axis=1)
    frame.columns = [f"known{j}" for j in range(frame.shape[1])]
    return frame
