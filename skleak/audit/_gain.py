"""The same attack on records a model was trained on, and on records it has never seen."""

import copy
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import attack_weights, ignoring_mismatches, weights_of_both
from skleak.adversary.knowledge import any_secret, as_column, as_table, resolve_records, take_rows
from skleak.adversary.models import count_releases
from skleak.adversary.records import stack_records
from skleak.attacks import (
    ImputationAttack,
    InformedAttributeInference,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.metrics import binomial_interval, mean_interval
from skleak.metrics.intervals import Interval
from skleak.metrics.scores import attack_success, squared_errors
from skleak.utils._arguments import check_level
from skleak.utils._confidential import without_ledger
from skleak.utils._predictions import joined
from skleak.utils._typing import Array, FloatArray, IntArray


def attribute_gain(
    attack: Any,
    model: Any,
    X_train: Any,
    y_train: Any,
    X_control: Any,
    y_control: Any,
    *,
    imputation: Any = "default",
    control: Literal["auto", "sample", "exchange"] = "auto",
    confidence_level: float = 0.95,
    sample_weight: Any = None,
    control_sample_weight: Any = None,
) -> pd.DataFrame:
    """Compare an attack on training records with the same attack on records never trained on.

    An attack may be right because the model leaks the record, or because model and attack know
    what such people are like. Only the latter helps on control records: the difference is what
    training records lose by having been trained on.

    Parameters
    ----------
    attack : attack on an attribute
        Attack of `skleak.attacks`, or an object with a parameter or attribute ``attribute``,
        ``fit(X, y)`` and ``predict(released)`` that returns guesses of shape (n_targets,) or, for
        several models, (n_models, n_targets). It is not changed. Its `records` choose training
        records; all control records are targets.
    model : estimator, pipeline, list of them, or array
        Released model or models, as the attack's ``predict`` takes them.
    X_train : array-like or DataFrame of shape (n_training, n_columns)
        Raw training records.
    y_train : array-like of shape (n_training,)
        Their targets.
    X_control : array-like or DataFrame of shape (n_control, n_columns)
        Raw records of the same population that no model was trained on, in the same columns.
    y_control : array-like of shape (n_control,)
        Their targets.
    imputation : "default", classifier, regressor or None, default="default"
        Model that guesses the attribute from all else about the record, as `classifier` of
        `ImputationAttack`. None leaves imputation out.
    control : {"auto", "sample", "exchange"}, default="auto"
        "sample" fits the attack once, on all control records. "exchange" fits it on the training
        records with each control record in place of one. "auto" exchanges for
        `WhiteBoxAttributeInference` and `InformedAttributeInference`, which know a training set.
    confidence_level : float, default=0.95
        Of each interval, in (0, 1).
    sample_weight : array-like of shape (n_training,), default=None
        Weights of the training records in the fit, known to the attack. Shares of right guesses
        count rows.
    control_sample_weight : array-like of shape (n_control,), default=None
        Weights that control records would have had; only with `sample_weight`, then 1 by default.

    Returns
    -------
    DataFrame
        Columns ``estimate``, ``low`` and ``high``, and a row for each ``quantity``: "training" and
        "control" (success with either sample: the share of right guesses, of a numeric attribute
        ``1 - mse / variance`` with the variance over both), "leakage" (their difference);
        "imputation_training" and "imputation_control" (success without the model),
        "over_imputation" ("training" less "imputation_training": what is gained from the model,
        leakage or not) and "shift" (difference of the imputations: where its interval excludes 0,
        the samples differ by more than membership, and "leakage" is not to be trusted), unless
        `imputation` is None; "baseline_training" and "baseline_control" (success of the prior
        alone, without an interval). Its ``attrs`` hold ``attack``, ``attribute``, ``kind``
        ("categorical" or "numeric"), ``n_training``, ``n_control``, ``n_models``,
        ``confidence_level`` and ``verdict``: "leaks", "no leakage beyond the population seen", or
        "the samples differ" (training records are harder to guess than control records).

    Raises
    ------
    TypeError
        For an attack on no single column.
    ValueError
        For tables of different columns, the training records as control records, missing values
        in the attribute, a prior for each target, or an attribute that is a quantity in only one
        sample; for invalid weights, those of control records alone, or none for a weighted model.
    AttackNotApplicableError
        Where the attack raises it.

    Notes
    -----
    Against one model the intervals hold for records of the population; against several (five or
    more), such as releases with fresh noise, for a fresh model too. "exchange" takes a fit for
    each control record: pass a few hundred. Where the attack learns from its sample, pass about as
    many control as training records. See the user guide, docs/theory/membership.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skleak.attacks import BlackBoxAttributeInference
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.integers(0, 2, 600), rng.integers(0, 9, (600, 3))])
    >>> y = rng.choice(["no", "yes"], size=600)
    >>> tree = DecisionTreeClassifier(random_state=0).fit(X[:300], y[:300])
    >>> attack = BlackBoxAttributeInference(tree, 0, criterion="proba")
    >>> gain = attribute_gain(attack, tree, X[:300], y[:300], X[300:], y[300:])
    >>> gain.attrs["verdict"], bool(gain.loc["leakage", "low"] > 0.05)
    ('leaks', True)
    """
    level = check_level(confidence_level)
    _check_attack(attack, control)
    knows = isinstance(attack, WhiteBoxAttributeInference | InformedAttributeInference)
    train, others = as_table(X_train), as_table(X_control)
    given = sample_weight, control_sample_weight
    weights = weights_of_both(train, others, given, "control_sample_weight")
    y = joined(as_column(y_train, train), as_column(y_control, others))
    samples = _Samples(attack, train, others, y, weights)
    n = len(train)
    sides = (np.arange(n), getattr(attack, "records", None)), (np.arange(n, len(y)), None)
    training = samples.success(attack, *sides[0], model)
    # Control records were not trained on: that no hypothesis about them holds is no news.
    with ignoring_mismatches():
        if control == "exchange" or (control == "auto" and knows):
            other = samples.exchanged(attack, *sides[0], model)
        else:
            other = samples.success(attack, *sides[1], model)
    n_models = count_releases(model) or 1
    if not len(training) == len(other) == n_models:
        raise ValueError(
            f"`predict` of the attack must return guesses for each of the {n_models} models; "
            f"got {len(training)} rows, {len(other)} with control records."
        )
    ends = (-np.inf, np.inf) if samples.numeric else (0.0, 1.0)
    interval = partial(mean_difference, level, ends)
    rows = {"training": interval(training), "control": interval(other)}
    rows["leakage"] = leakage = interval(training, other)
    if imputation is not None:
        default = isinstance(imputation, str) and imputation == "default"
        imputed = ImputationAttack(attack.attribute, classifier=None if default else imputation)
        guessed = [samples.success(imputed, *side, None) for side in sides]
        rows["imputation_training"], rows["imputation_control"] = map(interval, guessed)
        paired = ends[0] - ends[1], ends[1] - ends[0]
        rows["over_imputation"] = mean_difference(level, paired, training - guessed[0])
        rows["shift"] = interval(*guessed)
    prior: Any = getattr(attack, "prior", "marginal")
    blind = PriorAttack(attack.attribute, prior="marginal" if isinstance(prior, str) else prior)
    for name, side in zip(("training", "control"), sides, strict=True):
        alone = samples.success(blind, *side, None).mean()
        rows[f"baseline_{name}"] = Interval(alone, np.nan, np.nan)
    gain = pd.DataFrame(rows.values(), pd.Index(rows, name="quantity"), dtype=float)
    verdict = (
        "the samples differ" if leakage.high < 0.0 else "no leakage beyond the population seen"
    )
    criterion = getattr(attack, "criterion", None)
    gain.attrs = {
        "attack": type(attack).__name__ + ("" if criterion is None else f" ({criterion})"),
        "attribute": "y" if attack.attribute is None else str(attack.attribute),
        "kind": "numeric" if samples.numeric else "categorical",
        "n_training": training.shape[1],
        "n_control": other.shape[1],
        "n_models": n_models,
        "confidence_level": level,
        "verdict": "leaks" if leakage.low > 0.0 else verdict,
    }
    return gain


def _check_attack(attack: Any, control: str) -> None:
    """Check that an attack is on an attribute and can be played on control records."""
    if not all(hasattr(attack, name) for name in ("attribute", "fit", "predict")):
        raise TypeError(
            "`attack` must be an attack on an attribute, with `attribute`, `fit(X, y)` and "
            f"`predict(released)`; got {type(attack).__name__}. Whole records have no control."
        )
    if control not in ("auto", "sample", "exchange"):
        raise ValueError(f"`control` must be 'auto', 'sample' or 'exchange'; got {control!r}.")
    if control == "exchange" and not hasattr(attack, "records"):
        raise TypeError(
            "`control='exchange'` needs an attack with a parameter `records`, which says whom to "
            f"guess; {type(attack).__name__} has none. Use 'sample'."
        )
    prior = getattr(attack, "prior", "marginal")
    if not isinstance(prior, str) and np.ndim(prior) == 2:
        raise ValueError(
            f"`prior` of the attack has a row for each target, shape {np.shape(prior)}; control "
            "records have none. Pass one of shape (n_values,), or the name of a prior."
        )


class _Samples:
    """Training records with control records below them. Confidential."""

    def __init__(
        self, attack: Any, train: Any, control: Any, y: Array, weights: tuple[Any, Any]
    ) -> None:
        self.y, n = y, len(train)
        self.X = X = _stacked(train, control)
        table = pd.DataFrame(X)
        if table[:n].equals(table[n:].reset_index(drop=True)):
            raise ValueError(
                "The control records are the training records. Pass records of the same population "
                "that no model was trained on."
            )
        self.weights = None if weights[0] is None else np.concatenate(weights)
        values = getattr(attack, "values", None)
        secret = any_secret(X, y, attack.attribute, values)
        self.column, self.numeric = secret.column, secret.numeric
        # Parameters of the attack: candidate values and preprocessing of both samples.
        self.shared: dict[str, Any] = {"values": secret.values}
        estimator = getattr(attack, "estimator", None)
        if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
            # Preprocessing counts as public: that of the training records, in both samples.
            try:
                check_is_fitted(estimator[:-1])
            except NotFittedError:
                public = without_ledger(estimator[:-1]).fit(take_rows(X, np.arange(n)), y[:n])
                self.shared["estimator"] = Pipeline([*public.steps, estimator.steps[-1]])

    def success(self, attack: Any, rows: IntArray, targets: Any, model: Any) -> FloatArray:
        """Success of a copy that is fitted on some rows with its targets, (n_models, n_targets)."""
        parameters = {**self.shared, "records": targets}
        if hasattr(attack, "get_params"):  # copied unfitted, what its parameters hold stays fitted
            own = type(attack)(**attack.get_params(deep=False))
        else:
            own = copy.deepcopy(attack)
        for name, value in parameters.items():
            if hasattr(own, name):
                setattr(own, name, value)
        weights = None if self.weights is None else self.weights[rows]
        told = attack_weights(own, sample_weight=weights)
        fitted = own.fit(take_rows(self.X, rows), self.y[rows], **told) or own
        if bool(getattr(fitted, "numeric_", self.numeric)) != self.numeric:
            raise ValueError(
                f"The attribute {attack.attribute!r} is a quantity in both samples together, and "
                "one of few values in one of them. Pass more records, or the values to choose "
                "from in the attack's `values`."
            )
        truth = self.column[rows][getattr(fitted, "records_", slice(None))]
        guesses = np.atleast_2d(np.asarray(fitted.predict(model)))
        if self.numeric:
            guesses = np.clip(guesses, self.column.min(), self.column.max())
            return np.asarray(1.0 - squared_errors(guesses, truth) / self.column.var())
        return attack_success(guesses, truth).astype(np.float64)

    def exchanged(self, attack: Any, own: IntArray, targets: Any, model: Any) -> FloatArray:
        """Success with every control record in the place of a training record, likewise."""
        places = resolve_records(targets, len(own)).tolist()
        outcomes = []
        for j in range(len(self.y) - len(own)):
            place, rows = places[j % len(places)], own.copy()
            rows[place] = len(own) + j
            outcomes.append(self.success(attack, rows, [place], model))
        return np.concatenate(outcomes, axis=1)


def _stacked(train: Any, control: Any) -> Any:
    """Both samples, the columns of the control records in the order of the training records."""
    frames = isinstance(train, pd.DataFrame), isinstance(control, pd.DataFrame)
    if all(frames):
        absent = [name for name in train.columns if name not in control.columns]
        if absent:
            raise ValueError(
                f"The control records lack the columns {absent[:5]}; got "
                f"{list(control.columns)[:10]}. Pass records with the raw columns of training."
            )
        return stack_records(train, control[list(train.columns)])
    if any(frames) or train.shape[1] != control.shape[1]:
        raise ValueError(
            "Training and control records must be tables of one kind with equal columns; got "
            f"{type(train).__name__} of shape {train.shape} and {type(control).__name__} of shape "
            f"{control.shape}."
        )
    return joined(train, control)


def mean_difference(
    level: float, ends: tuple[float, float], outcomes: FloatArray, others: FloatArray | None = None
) -> Interval:
    """Mean outcome of records of a population, less that of others, against the same models.

    Shapes: ``outcomes`` (n_models, n_records), ``others`` (n_models, n_others); `ends` bound both.

    Against one model the records are the units: Clopper and Pearson where outcomes are 0 and 1.
    Against several the mean over models of every record takes the place of its outcome (Gaffke's
    interval, Student's where it is not bounded). The method of variance estimates recovery puts
    parts together: distances from the estimates to the ends of their own intervals add up in
    squares. With Wilson's intervals it is Newcombe's (1998) method 10; with those taken here, which
    hold their level exactly, it is a little wider, and with Student's it is close to Welch's. The
    spread of the models, with Student's quantile for their number, is one more part: that of their
    differences, as noise that helps with both kinds of record cancels.

    R. G. Newcombe. Interval estimation for the difference between independent proportions:
    comparison of eleven methods. Statistics in Medicine 17, 1998.

    G. Y. Zou and A. Donner. Construction of confidence limits about effect measures: a general
    approach. Statistics in Medicine 27, 2008.
    """

    def over_records(table: FloatArray) -> tuple[float, float, float]:
        own = table.mean(axis=0)
        if ends == (0.0, 1.0) and len(table) == 1 and np.all((own == 0.0) | (own == 1.0)):
            # Equal to the general one, and quicker.
            return binomial_interval(own.sum(), len(own), level)
        bounds = ends if np.isfinite(ends[0]) else None
        return mean_interval(own, confidence_level=level, value_range=bounds)

    estimate, low, high = over_records(outcomes)
    below, above, means = estimate - low, high - estimate, outcomes.mean(axis=1)
    if others is not None:
        other, low, high = over_records(others)
        below, above = np.hypot(below, high - other), np.hypot(above, other - low)
        estimate, means = estimate - other, means - others.mean(axis=1)
        ends = ends[0] - ends[1], ends[1] - ends[0]
    if (n := len(means)) > 1:  # a single model is taken as it is
        of_models = stats.t.isf(0.5 * (1.0 - level), n - 1) * means.std(ddof=1) / np.sqrt(n)
        below, above = np.hypot(below, of_models), np.hypot(above, of_models)
    low, high = max(estimate - below, ends[0]), min(estimate + above, ends[1])
    return Interval(float(estimate), float(low), float(high))
