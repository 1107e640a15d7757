"""The same attack on records a model was trained on, and on records it has never seen."""

from typing import Any, Literal

from skleak.adversary.hypotheses import count_releases, ignoring_mismatches, weights_of_both
from skleak.adversary.knowledge import as_column, as_table
from skleak.attacks import (
    ImputationAttack,
    InformedAttributeInference,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.audit.gain._control_samples import (
    Samples,
    copy_with,
    same_columns,
    samples_of,
)
from skleak.audit.gain._difference import difference_interval, paired_interval, success_interval
from skleak.audit.gain._gain import AttributeGain
from skleak.utils._arguments import check_level
from skleak.utils._typing import FloatArray


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
) -> AttributeGain:
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
    AttributeGain

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
    >>> gain.verdict.split(":")[0], gain.leakage.low > 0.05
    ('leaks', True)
    """
    level = check_level(confidence_level)
    train, others = same_columns(as_table(X_train), as_table(X_control))
    y_train, y_others = as_column(y_train, train), as_column(y_control, others)
    given = sample_weight, control_sample_weight
    weights = weights_of_both(train, others, given, "control_sample_weight")
    samples = samples_of(attack, train, y_train, others, y_others, weights)
    n_models = count_releases(model) or 1
    exchanges = _exchanges(control, attack)
    own = [copy_with(attack, **samples.shared) for _ in samples.sides]
    won = [samples.play(own[0], samples.sides[0], model)]
    # Control records were not trained on: that no hypothesis about them holds is no news.
    with ignoring_mismatches():
        if exchanges:
            won.append(samples.play_exchanged(own[1], model))
        else:
            won.append(samples.play(own[1], samples.sides[1], model))
    _check_shapes(won, n_models)
    blind = [samples.play(_prior_attack(attack, samples), side, None) for side in samples.sides]
    guessed = None
    if imputation is not None:
        classifier = None if isinstance(imputation, str) and imputation == "default" else imputation
        imputer = ImputationAttack(attack.attribute, classifier=classifier, values=samples.values)
        guessed = [samples.play(copy_with(imputer), side, None) for side in samples.sides]
    return _result(attack, samples, won, blind, guessed, level)


def _exchanges(control: str, attack: Any) -> bool:
    """Return True if each control record takes the place of a training record."""
    if control not in ("auto", "sample", "exchange"):
        raise ValueError(f"`control` must be 'auto', 'sample' or 'exchange'; got {control!r}.")
    if control == "exchange" and not hasattr(attack, "records"):
        raise TypeError(
            "`control='exchange'` needs an attack with a parameter `records`, which says whom to "
            f"guess; {type(attack).__name__} has none. Use 'sample'."
        )
    if control == "auto":
        return isinstance(attack, WhiteBoxAttributeInference | InformedAttributeInference)
    return control == "exchange"


def _prior_attack(attack: Any, samples: Samples) -> PriorAttack:
    """Return a guess from frequencies, or from the prior that the attack was given."""
    stated = getattr(attack, "prior", "marginal")
    prior: Any = "marginal" if isinstance(stated, str) else stated
    return PriorAttack(attack.attribute, values=samples.values, prior=prior)


def _check_shapes(won: list[FloatArray], n_models: int) -> None:
    for table in won:
        if len(table) != n_models:
            raise ValueError(
                f"`predict` of the attack must return guesses for each of the {n_models} models; "
                f"got {len(table)} rows."
            )


def _result(
    attack: Any,
    samples: Samples,
    won: list[FloatArray],
    blind: list[FloatArray],
    guessed: list[FloatArray] | None,
    level: float,
) -> AttributeGain:
    """All intervals from outcomes with training records and with control records."""
    bounded = not samples.secret.numeric
    parts: list[Any] = [None] * 4
    if guessed is not None:
        parts = [success_interval(table, level, bounded=bounded) for table in guessed]
        parts.append(paired_interval(won[0], guessed[0], level, bounded=bounded))
        parts.append(difference_interval(guessed[0], guessed[1], level, bounded=bounded))
    criterion = getattr(attack, "criterion", None)
    name = type(attack).__name__ + (f" ({criterion})" if criterion is not None else "")
    return AttributeGain(
        attack=name,
        attribute="y" if attack.attribute is None else str(attack.attribute),
        kind="categorical" if bounded else "numeric",
        training=success_interval(won[0], level, bounded=bounded),
        control=success_interval(won[1], level, bounded=bounded),
        leakage=difference_interval(won[0], won[1], level, bounded=bounded),
        imputation_training=parts[0],
        imputation_control=parts[1],
        over_imputation=parts[2],
        shift=parts[3],
        baseline_training=float(blind[0].mean()),
        baseline_control=float(blind[1].mean()),
        n_training=won[0].shape[1],
        n_control=won[1].shape[1],
        n_models=len(won[0]),
        confidence_level=level,
    )
