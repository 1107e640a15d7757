"""Priors of an attribute, from all records but the target itself."""

import warnings
from dataclasses import dataclass
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


def marginal_prior(codes: IntArray, n_values: int, counts: FloatArray | None = None) -> FloatArray:
    """Relative frequencies of the values among all *other* records.

    With a record's own value among the counts, the prior would tell it. Its vote is spread
    evenly over the values instead, which also leaves a value that nobody else carries possible.

    Shapes: ``codes`` (n,); ``counts`` (M,), of the values in all records, where these are some of
    them; returns (n, M): ``(count of m among the others + 1 / M) / number of all``.
    """
    if counts is None:
        counts = np.bincount(codes, minlength=n_values).astype(np.float64)
    others = np.tile(counts, (len(codes), 1))
    others[np.arange(len(codes)), codes] -= 1.0
    return (others + 1.0 / n_values) / counts.sum()


def conditional_prior(
    classifier: Any, known: Any, y: Any, codes: IntArray, n_values: int
) -> FloatArray:
    """Probability of each value given what else is known of a record, by a cross-fitted classifier.

    Shapes: ``known`` (n, n_columns - 1); ``y`` (n,); ``codes`` (n,); returns (n, M): positive, as
    `CrossFitted` says.
    """
    if known.shape[1] == 0 and y is None:
        return marginal_prior(codes, n_values)
    everyone = np.arange(len(codes))
    fitted = CrossFitted.of(classifier, known, y, codes, n_values, everyone)
    return fitted.probabilities(known, y, everyone)


@dataclass(frozen=True)
class CrossFitted:
    """Classifiers of a secret value by all else about a record, each of other folds. Confidential.

    The probabilities of a record come from a classifier that was fitted on other folds, and the
    folds do not look at the secret. A share of 1 / n_train is spread evenly over the values, as
    for the marginal prior.
    """

    fitted: tuple[Any, ...]  # a classifier for each fold; where it knows one value, its code
    n_train: IntArray  # records that each was fitted on, (n_folds,)
    counts: FloatArray  # of the values in the records, (M,)
    positions: IntArray  # of the records among all, ascending, (n,)
    fold: IntArray  # of each of them, (n,)

    @classmethod
    def of(
        cls,
        classifier: Any,
        known: Any,
        y: Any,
        codes: IntArray,
        n_values: int,
        positions: IntArray,
    ) -> "CrossFitted":
        """Fit one classifier without each fold; `positions` are those of the records among all."""
        if not hasattr(classifier, "predict_proba"):
            raise TypeError(
                f"`classifier` must have `predict_proba`; got {type(classifier).__name__}. Wrap it "
                "in sklearn.calibration.CalibratedClassifierCV."
            )
        n, counts = len(codes), np.bincount(codes, minlength=n_values).astype(np.float64)
        features, fold = known_features(known, y), np.zeros(n, dtype=np.intp)
        models: list[Any] = []
        sizes: list[int] = []
        for k, (train, test) in enumerate(folds(n).split(np.arange(n))):
            fold[test] = k
            present = np.unique(codes[train])
            sizes.append(len(train))
            if len(present) == 1:
                models.append(int(present[0]))
            else:
                with warnings.catch_warnings():
                    # Of few records many values are no regression.
                    warnings.filterwarnings("ignore", message="The number of unique classes")
                    model = without_ledger(classifier)
                    models.append(model.fit(take_rows(features, train), codes[train]))
        return cls(tuple(models), np.array(sizes), counts, positions, fold)

    def probabilities(self, known: Any, y: Any, positions: IntArray) -> FloatArray:
        """Probabilities of records at some positions; of others than those fitted on, too.

        Shapes: ``known`` (b, n_columns - 1); ``y``, ``positions`` (b,); returns (b, M).
        """
        features, n_values = known_features(known, y), len(self.counts)
        at = np.minimum(np.searchsorted(self.positions, positions), len(self.positions) - 1)
        own = np.where(self.positions[at] == positions, self.fold[at], positions % len(self.fitted))
        prior = np.empty((len(positions), n_values))
        for k, model in enumerate(self.fitted):
            rows = np.flatnonzero(own == k)
            if not len(rows):
                continue
            guess = np.zeros((len(rows), n_values))
            if isinstance(model, int):
                guess[:, model] = 1.0
            else:
                guess[:, model.classes_] = model.predict_proba(take_rows(features, rows))
            prior[rows] = (self.n_train[k] * guess + 1.0 / n_values) / (self.n_train[k] + 1)
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
