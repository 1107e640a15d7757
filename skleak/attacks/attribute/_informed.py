"""Attribute inference by reconstruction: the informed adversary, who ignores prior and noise."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from skleak.adversary.hypotheses import (
    ReleaseKind,
    Releases,
    candidate_rows,
    changed_columns,
    check_seen,
    check_weights,
    dense_table,
    fit_public_model,
    plain_table,
    read_each,
    read_releases,
)
from skleak.adversary.knowledge import as_table, find_secret, take_rows
from skleak.adversary.reconstruction import (
    MissingGradient,
    objective_of,
    reconstruct_known,
    reconstruct_roots,
)
from skleak.attacks.attribute._base import AttributeAttack
from skleak.attacks.attribute._some import SomeTargets
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._blocks import row_blocks
from skleak.utils._confidential import leaves_whole
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import HasMethods, fit_context
from skleak.utils._typing import FloatArray, IntArray

# Entries of a table of predictions, records x releases: 16 MB.
_PREDICTIONS = 1 << 21
# A range of candidates below this, relative to the column, is rounding in the preprocessing.
_ROUND_OFF = 1e-9


def _no_posterior(attack: Any) -> bool:
    raise AttributeError(
        f"{type(attack).__name__} takes the closest candidate, which has no probabilities: it "
        "knows neither the prior nor the noise. Use WhiteBoxAttributeInference."
    )


class InformedAttributeInference(SomeTargets, AttributeAttack):
    """Guess an attribute from a reconstructed record: the attack of [BCH22] on one column.

    The adversary knows every other record, the target `y` and how the model is trained, but
    neither the noise nor a prior. The gradients of all records sum to zero at the minimiser: what
    the others leave over at the released parameters is the target's own, and gives its record as
    in `InformedReconstruction`. The guess is the candidate value whose preprocessed row is closest
    to it ([FANO23] 6.2).

    Parameters
    ----------
    estimator : private estimator or Pipeline
        How the model is trained, fitted or not; it is never changed. Preprocessing that is
        already fitted is used as it is.
    attribute : str or int
        Sensitive column of the raw data, by name or position. It must be categorical.
    values : array-like of shape (n_values,) or None, default=None
        Candidate values, as in `WhiteBoxAttributeInference`.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.

    Attributes
    ----------
    values_ : ndarray of shape (n_values,)
        Candidate values, ascending.
    records_ : ndarray of int of shape (n_targets,)
        Positions of the records under attack.
    numeric_ : bool
        False.
    n_features_in_ : int
        Number of raw columns.
    feature_names_in_ : ndarray of str
        Their names, where there are any.

    Notes
    -----
    Closest is meant over the encoded columns that depend on the attribute, each in units of its
    range over the candidates of that target: the guess does not change where the preprocessing
    scales a column.

    With an intercept the record is the likeliest one given the target. Without one the missing
    gradient ``g = r x`` tells the direction of the record only, and ``g.w = r(a) a`` its length,
    through the prediction ``a = x.w``. Two predictions may solve this (for the squared loss ``a``
    and ``y - a``). The adversary keeps that of the record closest to a candidate over *all*
    columns, of which it knows the others; these count in units of their root mean square. Where
    noise leaves no solution, the prediction that comes closest to one is taken.

    The guess is exact without noise, but for records that the model predicts (almost) exactly,
    whose gradient is zero. With noise it lies below `WhiteBoxAttributeInference`, which weighs
    every direction by what it tells and adds the prior: that one is the attack to judge a model by.

    Fitted preprocessing counts as public, and so do the weights of a reweighting:
    who knows them knows more than the leakage of a reweighted model supposes.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.integers(0, 2, 60), rng.normal(size=60)])
    >>> y = X @ [1.0, 2.0] + rng.normal(size=60)
    >>> model = PrivateLinearRegression(noise_scale=1e-6, random_state=0).fit(X, y)
    >>> attack = InformedAttributeInference(model, 0).fit(X, y)
    >>> attack.score(model, X[:, 0])
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{k: v for k, v in AttributeAttack._parameter_constraints.items() if k != "prior"},
        "estimator": [HasMethods(["fit", "get_params"])],
    }

    def __init__(
        self, estimator: Any, attribute: Any, *, values: Any = None, records: Any = None
    ) -> None:
        self.estimator = estimator
        self.attribute = attribute
        self.values = values
        self.records = records

    @fit_context(prefer_skip_nested_validation=False)
    @leaves_whole
    @withholding
    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> Self:
        """Learn the other records and the candidates.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_columns)
            Raw training records. The attribute of a target does not enter its guess.
        y : array-like of shape (n,)
            Targets the model was trained on.
        sample_weight : array-like of shape (n,), default=None
            Weights of the records in the fit under attack, which the adversary knows; in a
            pipeline they go to its last step. The
            gradient of a target counts with all of its weight; one of weight zero leaves no trace.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an unknown or single-valued attribute, missing values in it, or more than 64
            categories; for invalid weights, and for an estimator that was fitted with weights
            where none are given.
        AttackNotApplicableError
            For a numeric attribute, one that the preprocessing drops, or an estimator whose
            training objective is not known, or of more than two classes.
        """
        table = as_table(X)
        y = self._check_target(y, table)
        secret = find_secret(table, self.attribute, self.values)
        if secret.numeric:
            raise AttackNotApplicableError(
                f"The attribute {self.attribute!r} is a quantity, and has no candidate values to "
                "be closest to. Use InformedReconstruction for the whole record as the model sees "
                "it, WhiteBoxAttributeInference for the quantity, or pass `values`."
            )
        self._remember(table, secret)
        self._weights = weights = check_weights(sample_weight, table)
        model = fit_public_model(self.estimator, table, y, weighted=weights is not None)
        encoded = model.transform(table)
        self._objective = objective_of(model, encoded, y, weights)
        self._kind = ReleaseKind.of(model, table, y)
        rows = candidate_rows(model, table, self.records_, secret.index, self._candidates)
        self._measure(encoded, rows)
        return self

    def _measure(self, encoded: Any, rows: list[Any]) -> None:
        """Set the candidates and the units of all columns."""
        X = plain_table(encoded)
        tables = [plain_table(one) for one in rows]
        columns = changed_columns(take_rows(X, self.records_), tables)
        check_seen(columns)
        candidates = np.stack([dense_table(one[:, columns]) for one in tables], axis=1)
        self._columns, self._points = columns, candidates
        size = np.abs(candidates).max(axis=1)
        spread = np.ptp(candidates, axis=1)
        apart = spread > _ROUND_OFF * size
        self._units = np.divide(1.0, spread, out=np.zeros_like(spread), where=apart)
        # The columns that are known, of the targets and in the units of all records.
        self._others = np.delete(np.arange(X.shape[1]), columns)
        known = X[:, self._others]
        squares = np.ravel((known * known).mean(axis=0))
        scale = np.sqrt(np.where(squares > 0.0, squares, 1.0))
        self._known_units = 1.0 / scale
        self._known = dense_table(take_rows(known, self.records_)) / scale

    def _read(self, released: Any, noise_scale: Any) -> tuple[Releases, int, bool]:
        p = self._objective.n_parameters
        weighted = self._weights is not None
        releases = read_releases(released, p, None, 0.0, kind=self._kind, weighted=weighted)
        return releases, len(releases.parameters), releases.single

    def _read_each(self, released: Any, noise_scale: Any) -> tuple[Releases, int]:
        p = self._objective.n_parameters
        releases = read_each(released, len(self.records_), p, None, 0.0)
        return releases, len(releases.parameters)

    def _scores(self, releases: Releases, rows: slice) -> FloatArray:
        everyone = np.arange(len(self.records_))
        # A record that hardly takes part has a gradient near zero, and a guess far off.
        with np.errstate(all="ignore"):
            return np.stack(
                [
                    self._closeness(MissingGradient.of(self._objective, w, self.records_), everyone)
                    for w in releases.parameters[rows]
                ]
            )

    def _scores_each(self, releases: Releases, rows: slice) -> FloatArray:
        parameters = releases.parameters[rows]
        n_rows, n_targets, p = parameters.shape
        pairs = parameters.reshape(-1, p)
        scores = np.empty((len(pairs), len(self.values_)))
        with np.errstate(all="ignore"):
            for some in row_blocks(len(pairs), len(self._objective.y), _PREDICTIONS):
                who = np.arange(some.start, some.stop) % n_targets
                missing = MissingGradient.each(self._objective, pairs[some], self.records_[who])
                scores[some] = self._closeness(missing, who)
        return scores.reshape(n_rows, n_targets, -1)

    def _about(self, targets: IntArray) -> Self:
        one = super()._about(targets)
        one._points, one._units = self._points[targets], self._units[targets]
        one._known = self._known[targets]
        return one

    def _closeness(self, missing: MissingGradient, who: Any) -> FloatArray:
        """Negative squared distance of every candidate, of shape (len(who), n_values)."""
        if self._objective.fit_intercept:
            return -self._distances(reconstruct_known(missing), who)
        roots = reconstruct_roots(missing)
        distances = np.stack([self._distances(records, who) for records in roots])
        known = np.stack(
            [
                ((records[:, self._others] * self._known_units - self._known[who]) ** 2).sum(axis=1)
                for records in roots
            ]
        )
        # Where a residual is zero, a record is infinite or undefined, and the other one counts.
        misfit = np.nan_to_num(known + distances.min(axis=2), nan=np.inf)
        return -np.asarray(distances[misfit.argmin(axis=0), np.arange(len(who))])

    def _distances(self, records: FloatArray, who: Any) -> FloatArray:
        """Squared distances over the columns of the attribute, of shape (len(who), n_values)."""
        gaps = (records[:, self._columns][:, None] - self._points[who]) * self._units[who][:, None]
        return np.nan_to_num((gaps**2).sum(axis=2), nan=np.inf)

    def _most_probable(self, scores: FloatArray) -> Any:
        """Return the closest value: no prior enters."""
        return self.values_[scores.argmax(axis=-1)]

    @available_if(_no_posterior)
    def predict_proba(self, released: Any, noise_scale: Any = None) -> FloatArray:
        """Not available: the closest candidate has no probability."""
        return super().predict_proba(released, noise_scale)
