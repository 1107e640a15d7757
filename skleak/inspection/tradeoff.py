"""Ways of training and shapes of noise, side by side at equal cost in the training objective.

With S the covariance of the noise over its variance ``sigma^2``, ``tr S = p``, and H the Hessian
of the plain objective at its minimizer, noise raises that objective by ``tr(H S) sigma^2 / 2`` on
average: exactly for the squared loss, to second order for others. That is the cost at which all
ways are compared. Under a covariance that does not follow the data every loss goes as
``1 / sigma``; under one that does it is the root of the largest eigenvalue of
``F1 / sigma^2 + F2``, with the information through the mean and through the covariance. Each way
is fitted once.
"""

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse, special
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.pipeline import Pipeline
from tqdm import tqdm

from skleak._release import of_several
from skleak.adversary.knowledge import as_column, as_table, column_names, raw_column, take_rows
from skleak.influence.leakage import leakage_model
from skleak.influence.noise import LossTerms, noise_root
from skleak.influence.state import FitState, RecordBatch
from skleak.inspection._leakage import leakage_report
from skleak.inspection._pipeline import taken_apart
from skleak.plotting.displays import TradeoffDisplay, inline_svg
from skleak.report.document import Bullets, Document, Figure, Section, sentences, terms
from skleak.report.reports import Report, entries
from skleak.report.tables import columns_of, explained
from skleak.utils._blocks import Blocks, add, is_large_source
from skleak.utils._confidential import CalibratedNoise, without_ledger
from skleak.utils._linalg import augment
from skleak.utils._records import (
    Persons,
    checked_labels,
    is_single_feature,
    named,
    resolve_features,
    row_labels,
    same_numbers,
    withholding,
)
from skleak.utils._typing import Array, FloatArray, IntArray

PLAIN = "none"
# Reweighting, and shape of the noise.
_WAYS = {
    PLAIN: (None, "isotropic"),
    "irfil": ("irfil", "isotropic"),
    "total": ("total", "isotropic"),
    "curvature": (None, "curvature"),
    "minimax": (None, "minimax"),
    "least_mean": (None, "least_mean"),
}
# For equal weights and a private target the last one is the one before it.
_DEFAULT = ("irfil", "total", "curvature", "minimax")
# Releases that are scored on each fold, at multiples of the noise scale of equal cost.
_RELEASES, _STRENGTHS = 20, (0.25, 0.5, 1.0, 2.0, 4.0)
_LONG = 1e6  # entries of a table from which on this takes a minute, and says how far it is
# Share of people whose loss the quantile of the table is not below; ends of 95 % of releases.
_QUANTILE, _ENDS = 0.95, (0.025, 0.975)
# Doublings of the noise, and halvings of the last one, in the search for a ratio of groups.
_DOUBLINGS, _HALVINGS = 12, 14
_MARGIN = 1.0 + 1e-12  # by which limits are kept, from the private side


class Choice(NamedTuple):
    """A way that keeps some limits, and the noise scale at which it does at the least cost."""

    way: str
    noise_scale: float  # marked as read off records
    estimator: Any  # not fitted; the one that was passed, with this way and this noise scale
    refused: dict[str, str]  # other ways that keep no such limits, and why


class _RefusedError(Exception):
    """A way keeps no such limit: why, and the nearest one that it can come to."""

    def __init__(self, why: str, limit: str = "", nearest: float = math.nan) -> None:
        super().__init__(why)
        self.limit, self.nearest = limit, nearest


@dataclass(frozen=True)
class _Way:
    """One fit, and what its losses are at any noise scale. Confidential."""

    name: str
    estimator: Any  # as that of the user, but for the way; not fitted
    fitted: Any
    state: FitState  # what its model keeps of the fit
    cost: float  # mean rise of the plain objective by noise of scale 1
    bias: float  # rise of it by the minimizer alone
    noise_scale: float  # at equal cost
    batch: RecordBatch

    @property
    def has_floor(self) -> bool:
        """True if the covariance of the noise tells of the records, whatever its scale."""
        return self.state.noise.reads_data

    @cached_property
    def _told(self) -> LossTerms:
        """Return what tells of each person at equal cost, (n, 1) each."""
        measure = leakage_model(self.state.at_noise(self.noise_scale))
        asked = self.batch, [self.state.whole_record]
        if (terms := measure.terms(*asked)) is not None:
            return terms
        losses = measure.feature_loss(*asked)
        return LossTerms(losses, np.zeros_like(losses), losses)

    def losses(self, noise_scale: float) -> FloatArray:
        """Loss of each person at a noise scale, (n,)."""
        if self.has_floor and noise_scale != self.noise_scale:
            return leakage_model(self.state.at_noise(noise_scale)).record_loss(self.batch)
        return self._told.total[:, 0] * (self.noise_scale / noise_scale)

    def largest(self, noise_scale: float, at_once: int = 64) -> float:
        """Largest loss at a noise scale; only those are looked at who may have it."""
        told, measure = self._told, leakage_model(self.state.at_noise(noise_scale))
        bounds = np.hypot(told.mean * (self.noise_scale / noise_scale), told.covariance)
        order, most = np.argsort(-bounds[:, 0]), 0.0 if self.has_floor else float(bounds.max())
        while len(order) and bounds[order[0], 0] > most:
            some, order = self.batch.take(order[:at_once]), order[at_once:]
            most = max(most, float(measure.record_loss(some).max()))
        return most

    def floor(self) -> float:
        """Largest loss that no noise scale lowers."""
        return float(self._told.covariance.max())

    def sufficient(self, max_loss: float) -> float:
        """Least noise scale at which no loss is above a limit."""
        unknown, scales = self.state.whole_record, self.losses(1.0) / max_loss
        if self.has_floor:
            scales = leakage_model(self.state).sufficient_noise(self.batch, unknown, max_loss)
        found = float(scales.max()) * _MARGIN
        if math.isfinite(found):
            return found
        if not self.has_floor:
            raise _RefusedError("what it leaks has no bound")
        floor = self.floor()
        why = f"its covariance alone tells of somebody: a loss of {floor:.4g}"
        raise _RefusedError(why, "max_loss", floor)

    @property
    def publishes(self) -> str:
        """Say what may be published of the way itself."""
        if self.has_floor:
            return "shape: counted in the losses"
        if self.state.balanced is not None:
            return "weights: counted in the losses"
        return "nothing"


@dataclass(frozen=True)
class _Data:
    """Training records, whose they are, and how they are parted for scores. Confidential."""

    table: Any
    y: Array
    persons: Any  # as they were passed
    whose: Array | None  # person of each record
    groups: Array | None  # of each person
    folds: list[tuple[IntArray, IntArray]]
    seed: int

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, groups: Any, persons: Any, cv: Any) -> "_Data":
        """Read the arguments."""
        if is_large_source(X):
            raise TypeError(
                f"`X` lies outside memory ({type(X).__name__}), and a trade-off fits its folds in "
                "memory. Pass an array or a DataFrame, for instance of a sample of the records."
            )
        table = sparse.csr_array(X) if sparse.issparse(X) else as_table(X)
        y = as_column(y, table)
        whose, codes = None, None
        of_people = None if groups is None else _labels(groups, table, "groups")
        if persons is not None:
            whose = _labels(persons, table, "persons")
            codes = pd.factorize(whose)[0]
            if of_people is not None:
                of_people = of_people[Persons.of(whose, len(y)).first]
            if cv is None or isinstance(cv, Integral):
                cv = GroupKFold(5 if cv is None else int(cv))
        parts = check_cv(cv, y, classifier=is_classifier(estimator))
        seed: Any = _last(estimator)[1].random_state
        if not isinstance(seed, Integral):  # a generator is left as it is
            seed = np.random.SeedSequence().entropy
        folds = list(parts.split(table, y, codes))
        return cls(table, y, persons, whose, of_people, folds, int(seed))

    def fit(self, estimator: Any, rows: Any = None, near: Any = None) -> Any:
        """Fit a copy that enters no ledger, on all records, or on some near their fit."""
        prefix, _ = _last(estimator)
        silent = without_ledger(estimator).set_params(**{f"{prefix}random_state": None})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what did not is not stated
            if rows is not None:
                _last(silent)[1]._start = near.objective.reweights[rows]
                return silent.fit(take_rows(self.table, rows), self.y[rows])
            options = {} if self.whose is None else {f"{prefix}persons": self.whose}
            return silent.fit(self.table, self.y, **options)

    def scores(self, way: _Way) -> tuple[FloatArray, int]:
        """Score releases on each fold, (n_strengths, n_folds * n_releases), and count failures.

        The draws are the same for all ways.
        """
        found, failed = [], 0
        for k, (train, test) in enumerate(self.folds):
            preprocessing, _, model, _ = taken_apart(self.fit(way.estimator, train, way.state))
            X = take_rows(self.table, test)
            X = model._validated(X if preprocessing is None else preprocessing.transform(X))
            state = model._confidential_state()
            failed += not state.converged
            w, size = state.factor.coefficients, state.factor.weights.size
            moves = np.random.default_rng([self.seed, k]).normal(size=(_RELEASES, len(w)))
            if not state.noise.is_identity:
                moves = moves @ noise_root(state).T
            twin = object.__new__(type(model))
            twin.__dict__.update(model.__dict__, feature_names_in_=None)  # names are checked
            scored = np.empty((len(_STRENGTHS), _RELEASES))
            for place in np.ndindex(scored.shape):
                released = w + _STRENGTHS[place[0]] * way.noise_scale * moves[place[1]]
                twin.coef_, twin.intercept_ = model._shaped(released, size)
                try:
                    with np.errstate(over="ignore"):
                        scored[place] = twin.score(X, self.y[test])
                except ValueError:  # of counts that are predicted as zero, or infinite
                    scored[place] = -math.inf
            found.append(scored)
        return np.concatenate(found, axis=1), failed


def _labels(labels: Any, table: Any, name: str) -> Array:
    """Read a label for each record: an array, a Series by the index, or a column."""
    if is_single_feature(labels):
        place = resolve_features(labels, column_names(table), table.shape[1], name)[0]
        labels = raw_column(table, int(place))
    return checked_labels(labels, table.shape[0], named(row_labels(table)), name=name)


def _last(estimator: Any) -> tuple[str, Any]:
    """Return the private model at the end of a pipeline, and the prefix of its parameters."""
    prefix, model = "", estimator
    while isinstance(model, Pipeline):
        name, model = model.steps[-1]
        prefix += f"{name}__"
    names = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    if not (hasattr(model, "_confidential_state") and "noise_covariance" in names):
        raise TypeError(
            "`estimator`, and each candidate, must be a private linear model of skleak, or a "
            f"Pipeline that ends in one; got {type(model).__name__}. Pass it before `release()`, "
            f"and of a search its `best_estimator_`. {of_several(model)}".strip()
        )
    return prefix, model


def _with(estimator: Any, **parameters: Any) -> Any:
    """Return an unfitted copy whose private model has other parameters."""
    prefix = _last(estimator)[0]
    return clone(estimator).set_params(**{f"{prefix}{k}": v for k, v in parameters.items()})


def _way(estimator: Any, name: str) -> Any:
    reweighting, shape = _WAYS[name]
    return _with(estimator, reweighting=reweighting, noise_covariance=shape)


def _candidates(estimator: Any, candidates: Any) -> dict[str, Any]:
    """Return the ways by name, each an unfitted estimator."""
    if isinstance(candidates, Mapping):
        if PLAIN in candidates or not all(isinstance(name, str) for name in candidates):
            raise ValueError(
                f"`candidates` must go by other names than {PLAIN!r}, which is `estimator` with "
                f"isotropic noise and is always there; got {list(candidates)!r}."
            )
        return dict(candidates)
    names = _DEFAULT if isinstance(candidates, str) and candidates == "default" else candidates
    if not isinstance(names, list | tuple) or any(name not in _WAYS for name in names):
        raise ValueError(
            f"`candidates` must be 'default', a list of some of {list(_WAYS)!r}, or a dictionary "
            f"of estimators by name; got {candidates!r}."
        )
    return {name: _way(estimator, name) for name in names if name != PLAIN}


def _noise_cost(plain: FitState, state: FitState) -> float:
    """Mean rise of the plain objective by noise of scale 1, ``tr(H S) / 2``."""
    objective, w = plain.objective, plain.factor.coefficients
    if state.noise.is_identity:
        return 0.5 * float(np.sum(objective.hessian_diagonal(w))) / objective.total
    root, with_one = noise_root(state), objective.fit_intercept

    def sums(X: FloatArray, curvatures: FloatArray) -> float:
        return float(curvatures @ np.sum((augment(X, with_one) @ root) ** 2, axis=1))

    trace = Blocks.of(objective.X, objective.curvatures(w)).map_reduce(sums, add)
    return 0.5 * float(trace / objective.total + objective.penalty @ np.sum(root**2, axis=1))


def _measured(
    data: _Data, name: str, estimator: Any, noise_scale: float, plain: _Way | None
) -> _Way:
    """Fit a way once, and match its noise to the cost of the plain one."""
    fitted = data.fit(_with(estimator, noise_scale=noise_scale))
    state: FitState = _last(fitted)[1]._confidential_state()
    if not state.converged:
        raise ValueError(f"{state.failure}: what it leaks is not known. {state.remedy}")
    own = state if plain is None else plain.state
    same = same_numbers(state.objective.X, own.objective.X) and (
        state.factor.coefficients.shape == own.factor.coefficients.shape
    )
    if not same or type(state.objective.loss) is not type(own.objective.loss):
        raise ValueError(
            f"Candidate {name!r} has another loss, or other columns, than `estimator`: costs in "
            "one objective need the same model and preprocessing, and an intercept in both or in "
            "neither."
        )
    cost, bias = _noise_cost(own, state), 0.0
    if plain is not None:
        at = own.objective.at
        bias = at(state.factor.coefficients).value - at(own.factor.coefficients).value
        noise_scale *= math.sqrt(plain.cost / cost)
    batch = state.training if state.persons is None else state.by_person(state.persons)
    estimator = _with(estimator, noise_scale=noise_scale)
    return _Way(name, estimator, fitted, state, cost, max(bias, 0.0), noise_scale, batch)


def _ways(data: _Data, estimator: Any, candidates: Any, noise_scale: float) -> Iterator[_Way | str]:
    """Yield the plain way, then all others that apply, and why the rest does not."""
    chosen = _candidates(estimator, candidates)
    for one in chosen.values():
        _last(one)
    plain = _measured(data, PLAIN, _way(estimator, PLAIN), noise_scale, None)
    yield plain
    for name, one in chosen.items():
        try:
            way = _measured(data, name, one, noise_scale, plain)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # stated as doubts
                doubts = leakage_model(way.state).doubts
        except ValueError as error:
            if not isinstance(candidates, str):
                raise
            yield f"`{name}` is left out. {error}"
            continue
        yield way
        if doubts:
            yield f"What `{name}` leaks is stated unreliably. {' '.join(doubts)}"


def _ratio(losses: FloatArray, groups: Array) -> float:
    """Largest mean of a group over the smallest one."""
    means = pd.Series(losses).groupby(groups).mean()
    least, most = float(means.min()), float(means.max())
    return most / least if least > 0.0 else (math.inf if most > 0.0 else math.nan)


def _row(way: _Way, losses: FloatArray, groups: Array | None) -> dict[str, Any]:
    """Leakage of a way at equal cost."""
    mean = float(losses.mean())
    return {
        "noise_scale": way.noise_scale,
        "cost": way.cost * way.noise_scale**2,
        "bias": way.bias,
        "largest_loss": float(losses.max()),
        "quantile_loss": float(np.quantile(losses, _QUANTILE)),
        "mean_loss": mean,
        "spread": float(losses.std()) / mean if 0.0 < mean < math.inf else math.nan,
        "floor": way.floor(),
        **({} if groups is None else {"group_ratio": _ratio(losses, groups)}),
    }


def _score(scores: FloatArray, plain: FloatArray) -> dict[str, float]:
    """Scores of releases and of plain ones under the same draws, (n,) each, in short."""
    low, high = np.quantile(scores, _ENDS, method="inverted_cdf").tolist()
    with np.errstate(invalid="ignore"):
        mean, change = float(scores.mean()), float((scores - plain).mean())
    names = ("test_score", "test_score_low", "test_score_high", "score_change")
    return dict(zip(names, (mean, low, high, change), strict=True))


def _by_group(losses: FloatArray, groups: Array) -> pd.DataFrame:
    each = pd.Series(losses).groupby(groups, sort=True)
    table = each.agg(n_people="size", mean_loss="mean", largest_loss="max")
    table.insert(2, "root_mean_square", np.sqrt(each.agg(lambda own: np.mean(own**2))))
    return table.rename_axis("group")


@withholding
def leakage_tradeoff(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    persons: Any = None,
    candidates: Any = "default",
    cv: Any = None,
) -> "LeakageTradeoff":
    r"""Compare what ways of training leak about people and groups, at equal cost in accuracy.

    Each way is fitted once on all records. Its noise ``N(0, sigma^2 S)`` is scaled so that all
    raise the plain training objective, a mean over the records, by as much on average,

    .. math:: \tfrac{1}{2} \sigma^2 \operatorname{tr}(H S) ,

    with H the Hessian of that objective at its minimizer, for reweightings as well: exact for the
    squared loss, of second order for others. What the minimizer of a reweighting raises it by,
    ``bias``, comes on top, and may be many times the cost of the noise: `choose` counts both.

    Parameters
    ----------
    estimator : private linear model or Pipeline that ends in one
        Not changed, nor is a ledger charged. Its ``noise_scale``, a number above 0, and isotropic
        noise without a reweighting are the way "none", whose cost all others are given.
    X : array-like, sparse matrix or DataFrame of shape (n, n_columns)
        Training records, raw for a pipeline.
    y : array-like of shape (n,)
        Their targets.
    groups : array-like of shape (n,), Series, str or int, default=None
        Label of the group of each record, or the column that holds it; a Series by the index of X.
        Of a person with several records that of the first one counts.
    persons : array-like of shape (n,), Series, str or int, default=None
        Whose record each is, if people have several. Reweightings and shapes that follow the
        records are then left out: what several rows tell together is not known of them.
    candidates : "default", list of str or mapping from str to estimator, default="default"
        Ways beside "none". By default "irfil" and "total", which reweight, "curvature" and
        "minimax", which shape the noise; those that do not apply are left out, and ``notes`` says
        why. A list names some of them, or "least_mean", another shape, and a mapping holds
        estimators on the same encoded records, whose own ``noise_scale`` is not read; what does not
        apply is then an error.
    cv : int, splitter, iterable or None, default=None
        Parts the records for test scores, as in `cross_val_score`; 5 folds by default, without
        parting the records of a person.

    Returns
    -------
    LeakageTradeoff
        Confidential: a row for each way, groups, and `choose`, `pareto` and `plot`.

    Raises
    ------
    TypeError
        For another estimator, and records outside memory.
    ValueError
        For a noise scale that is zero or a goal, unknown columns or candidates, and fits that did
        not converge.

    See Also
    --------
    LeakageFrame : Intervals of the means of groups, for one fit.

    Notes
    -----
    Losses are those of whole records, as ``fisher_information_loss_`` has them. Test scores are the
    estimator's default ones: on each fold 20 releases of one noiseless fit to the rest, with the
    same draws for all ways; a reweighting begins at the weights of the fit to all records. Choosing
    by them is a choice made on the records, which no loss counts: compare on public records.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from skleak.inspection import leakage_tradeoff
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PrivateLinearRegression(0.05, random_state=0)
    >>> ways = ["total", "minimax"]
    >>> found = leakage_tradeoff(model, scale(X), scale(y), groups=X[:, 1] > 0, candidates=ways)
    >>> found.ways_["largest_loss"].round(1).to_dict()
    {'none': 4.9, 'total': 1.9, 'minimax': 0.5}
    >>> choice = found.choose(max_loss=1.0)
    >>> choice.way, round(choice.noise_scale, 3)
    ('minimax', 0.081)
    """
    _, model = _last(estimator)
    scale = model.noise_scale
    if not isinstance(scale, Real) or not 0.0 < float(scale) < math.inf:
        raise ValueError(
            "`estimator` must have a number above 0 as `noise_scale`, which sets the cost that all "
            f"ways are given; got {scale!r}. For a goal, pass the `noise_scale_` of "
            'its fit by `mechanism="output"`: that of others is no noise on the coefficients.'
        )
    data = _Data.of(estimator, X, y, groups, persons, cv)
    hidden = not model.verbose and np.size(data.table) < _LONG
    shown = tqdm(_ways(data, estimator, candidates, float(scale)), "ways", disable=hidden)
    found = list(shown)
    ways = tuple(one for one in found if isinstance(one, _Way))
    notes = [one for one in found if isinstance(one, str)]
    rows, by_group, curves, plain = {}, {}, [], None
    at = _STRENGTHS.index(1.0)
    for way in tqdm(ways, "scores on folds", disable=hidden):
        scores, failed = data.scores(way)
        plain = scores[at] if plain is None else plain
        if failed:
            notes.append(
                f"Of `{way.name}` {failed} of {len(data.folds)} fits to folds did not converge: "
                "its test scores are those of the best parameters found."
            )
        losses = way.losses(way.noise_scale)
        own = _row(way, losses, data.groups) | _score(scores[at], plain)
        rows[way.name] = own | {"publishes": way.publishes}
        for strength, score in zip(_STRENGTHS, scores.mean(axis=1).tolist(), strict=True):
            sigma = strength * way.noise_scale
            curves.append((way.name, sigma, way.largest(sigma), score))
        if data.groups is not None:
            by_group[way.name] = _by_group(losses, data.groups)
    columns = ["n_people", "mean_loss", "root_mean_square", "largest_loss"]
    result = LeakageTradeoff(
        type(model).__name__,
        pd.DataFrame.from_dict(rows, orient="index").rename_axis("way"),
        pd.concat(by_group, names=["way"]) if by_group else pd.DataFrame(columns=columns),
        pd.DataFrame(curves, columns=["way", "noise_scale", "largest_loss", "test_score"]),
        tuple(notes),
        {"n_people": len(ways[0].batch), "n_folds": len(data.folds), "n_releases": _RELEASES},
    )
    vars(result).update(_measured=ways, _data=data)
    return result


@dataclass(frozen=True, repr=False)
class LeakageTradeoff(Report):
    """Ways of training at equal cost: what each leaks, about whom, and how it scores. Confidential.

    From `leakage_tradeoff`. Pickles and copies drop the fits: `choose` does not travel.

    Parameters
    ----------
    estimator : str
        Name of the estimator.
    ways_ : DataFrame
        A row for each way (index ``way``): ``noise_scale`` at equal cost; ``cost``, the mean rise
        of the plain objective by that noise; ``bias``, its rise by the minimizer; ``largest_loss``,
        ``quantile_loss`` (0.95), ``mean_loss`` and ``spread`` (standard deviation over mean) over
        people, in 1 / (unit of the encoded columns); ``floor``, the largest loss through the
        covariance alone, which no noise lowers; ``group_ratio``, the largest mean of a group over
        the smallest; ``test_score``, its mean over folds and releases, and ``test_score_low`` and
        ``test_score_high``, between which 95 % of these releases score; ``score_change``, the mean
        difference from the way "none" under the same draws; and ``publishes``, what is revealed by
        the way itself.
    groups_ : DataFrame
        A row for each way and group: ``n_people``, ``mean_loss``, ``root_mean_square`` and
        ``largest_loss``. Empty without groups.
    curves_ : DataFrame
        Largest loss and mean test score of each way at a quarter to four times its noise scale.
    notes : tuple of str
        Ways that were left out and why, and what is not reliable.
    settings : dict
        ``n_people``, ``n_folds`` and ``n_releases`` of each fold.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.inspection import leakage_tradeoff
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PrivateLinearRegression(1.0, random_state=0)
    >>> found = leakage_tradeoff(model, X, y, candidates=["curvature"])
    >>> found.pareto().index.tolist()
    ['curvature']
    """

    estimator: str
    ways_: pd.DataFrame
    groups_: pd.DataFrame
    curves_: pd.DataFrame
    notes: tuple[str, ...]
    settings: dict[str, Any]
    _measured: tuple[_Way, ...] = field(default=(), init=False, compare=False)
    _data: _Data | None = field(default=None, init=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Drop the records and the fits to them: a pickle travels."""
        return self.__dict__ | {"_measured": (), "_data": None}

    def choose(
        self,
        max_loss: float | None = None,
        max_advantage: float | None = None,
        group_ratio: float | None = None,
    ) -> Choice:
        """Choose the way, and its noise scale, that keeps limits for everybody at the least cost.

        Parameters
        ----------
        max_loss : float, default=None
            Largest Fisher information loss of anybody, above 0.
        max_advantage : float, default=None
            Largest gain of any attacker over guessing between two values of any raw column of
            anybody, ``2 Phi(D / 2) - 1`` in (0, 1), with D the exact distance of
            `skleak.inspection.leakage_report`, with the transformers held fixed. Not known of
            shapes that follow the records, nor of a private target under a reweighting.
        group_ratio : float, default=None
            Largest mean loss of a group over the smallest, above 1.

        Returns
        -------
        Choice
            ``way``, ``noise_scale``, ``estimator`` to fit, and of ways that were ``refused`` why.
            Without a limit on single people the noise scale is that of equal cost, or of a shape
            the next larger one that keeps the ratio. Costs are those of noise and ``bias``.

        Raises
        ------
        ValueError
            Where no way keeps the limits: it names the nearest that can be reached.

        Notes
        -----
        The noise scale is an exact function of the records, marked as `CalibratedNoise`, and so is
        the choice: neither is counted in any loss. A goal inside of `fit` takes a public rung.
        """
        self._check_limits(max_loss, max_advantage, group_ratio)
        kept: list[tuple[float, float, _Way]] = []
        refused, nearest = dict[str, str](), dict[str, tuple[float, str]]()
        for way in self._measured:
            try:
                scale = self._needed(way, max_loss, max_advantage, group_ratio)
            except _RefusedError as error:
                refused[way.name] = str(error)
                if error.limit and error.nearest <= nearest.get(error.limit, (math.inf,))[0]:
                    nearest[error.limit] = error.nearest, way.name
            else:
                kept.append((way.cost * scale**2 + way.bias, scale, way))
        if not kept:
            reasons = "; ".join(f"`{name}`: {why}" for name, why in refused.items())
            near = [f"{one} above {x:.4g} by `{name}`" for one, (x, name) in nearest.items()]
            advice = f" The nearest that can be reached: {', '.join(near)}." if near else ""
            raise ValueError(f"No way keeps these limits ({reasons}).{advice}")
        _, scale, best = min(kept, key=lambda one: one[0])
        noise = CalibratedNoise(scale)
        return Choice(best.name, noise, _with(best.estimator, noise_scale=noise), refused)

    def _check_limits(
        self, max_loss: float | None, max_advantage: float | None, group_ratio: float | None
    ) -> None:
        """Refuse limits that are none, and a copy without fits."""
        if not self._measured:
            raise ValueError(
                "This trade-off was pickled or copied, which drops its fits. Choose from the one "
                "that `leakage_tradeoff` returned."
            )
        if max_loss is max_advantage is group_ratio is None:
            raise ValueError("Pass `max_loss`, `max_advantage` or `group_ratio`: got no limit.")
        ranges = ("max_loss", max_loss, 0.0, math.inf), ("max_advantage", max_advantage, 0.0, 1.0)
        for name, limit, low, high in (*ranges, ("group_ratio", group_ratio, 1.0, math.inf)):
            if limit is not None and not low < limit < high:
                raise ValueError(f"`{name}={limit!r}` is not above {low:g} and below {high:g}.")
        if group_ratio is not None and not len(self.groups_):
            raise ValueError("`group_ratio` needs `groups`: pass them to `leakage_tradeoff`.")

    def _needed(
        self,
        way: _Way,
        max_loss: float | None,
        max_advantage: float | None,
        group_ratio: float | None,
    ) -> float:
        """Least noise scale at which a way keeps all limits."""
        scale = 0.0 if max_loss is None else way.sufficient(max_loss)
        if max_advantage is not None:
            # The gain is ``erf(D / sqrt 8)``, and D goes as 1 / sigma.
            most = math.sqrt(8.0) * float(special.erfinv(max_advantage))
            scale = max(scale, self._distance(way) / most * _MARGIN)
        scale = scale or way.noise_scale
        return scale if group_ratio is None else self._even(way, scale, group_ratio)

    def _distance(self, way: _Way) -> float:
        """Largest distance between two values of a raw column of anybody, at unit noise."""
        data, state = self._data, way.state
        assert data is not None
        if way.has_floor:
            raise _RefusedError("distances under a covariance that follows the records are unknown")
        if state.balanced is not None and state.private_target:
            raise _RefusedError("distances of a target under a reweighting are not known exactly")
        if isinstance(way.fitted, Pipeline):
            records = data.table, data.y
            report = leakage_report(way.fitted, *records, records=slice(None), persons=data.persons)
        else:
            report = way.fitted.leakage_report(exact=True)
        found = report.features[report.features["n_values"] != 1.0]
        unsure = found[~(found["exact"].astype(bool) & (found["n_known"] == len(way.batch)))]
        if len(unsure):
            names = ", ".join(map(str, unsure.index))
            raise _RefusedError(f"distances between values of {names} are not known exactly")
        distance = float(found["distance"].max()) * state.noise_scale
        if not math.isfinite(distance):
            raise _RefusedError("some values are told apart for sure, whatever the noise")
        return distance

    def _even(self, way: _Way, scale: float, limit: float) -> float:
        """Least noise scale from one on at which groups have such a ratio."""
        assert self._data is not None
        groups, tried = self._data.groups, dict[float, float]()
        assert groups is not None
        # Where the covariance is fixed, losses of all fall alike.
        for k in range(_DOUBLINGS if way.has_floor else 1):
            high = scale * 2.0**k
            tried[high] = _ratio(way.losses(high), groups)
            if tried[high] <= limit * _MARGIN:
                break
        else:
            near = min(tried.values())
            raise _RefusedError(f"its ratio of groups is {near:.4g} or more", "group_ratio", near)
        low = high / 2.0 if high > scale else high
        for _ in range(_HALVINGS if high > scale else 0):
            middle = math.sqrt(low * high)
            kept = _ratio(way.losses(middle), groups) <= limit * _MARGIN
            low, high = (low, middle) if kept else (middle, high)
        return high

    def pareto(self) -> pd.DataFrame:
        """Return the ways than which none has both a better test score and a smaller largest loss.

        Returns
        -------
        DataFrame
            Rows of ``ways_``, the least largest loss first.
        """
        table = self.ways_.sort_values(["largest_loss", "test_score"], ascending=[True, False])
        before = table["test_score"].cummax().shift(fill_value=-np.inf)
        return table[table["test_score"] > before]

    def plot(self, ax: Any = None) -> TradeoffDisplay:
        """Draw test score against largest loss, a line for each way, and the means of groups.

        Parameters
        ----------
        ax : matplotlib Axes or two of them, default=None
            Where to draw; one Axes leaves out the groups. By default a new figure.

        Returns
        -------
        TradeoffDisplay
            With ``ax_`` and ``figure_``.
        """
        return TradeoffDisplay(self.curves_, self.ways_, self.groups_).plot(ax)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole comparison as plain dictionaries, lists, strings and numbers.

        Returns
        -------
        dict
            Infinite and undefined numbers are None, so that it is valid JSON.
        """
        names = ("estimator", "ways_", "groups_", "curves_", "notes", "settings")
        return entries(self, "leakage_tradeoff", names, groups_=self.groups_.reset_index())

    @property
    def findings(self) -> tuple[str, ...]:
        """Say in plain words what the numbers tell; the first is the answer."""
        # Of ways that cost more beside their noise than by it the cost is not equal.
        equal = self.ways_[self.ways_["bias"] <= self.ways_["cost"]]
        best = equal["largest_loss"].idxmin()
        told = {"best": best, "own": self.ways_.loc[best], "plain": self.ways_.loc[PLAIN]}
        given = {"notes": self.notes, "grouped": len(self.groups_) > 0, "ways": self.ways_}
        return sentences("tradeoff_lead", self.settings | told | given)

    def _document(self, *, figures: bool) -> Document:
        grouped = {"grouped": len(self.groups_) > 0}
        said = dict(terms("tradeoff_captions", self.settings | grouped))
        answer, *rest = self.findings
        columns = columns_of(self.ways_, said["ways table"])
        sections = [
            Section("Ways with noise of equal cost", explained("ways", columns, said["ways"]))
        ]
        if len(self.groups_):
            columns = columns_of(self.groups_.reset_index(), said["groups table"])
            sections.append(Section("Groups", explained("groups", columns, said["groups"])))
        if figures:
            display = TradeoffDisplay(self.curves_, self.ways_, self.groups_)
            svg = inline_svg(display, "Test score against largest loss", answer)
            sections.append(Section("Score and leakage", (Figure(svg, said["figure"]),)))
        assumed = Bullets(sentences("tradeoff_assumptions", self.settings))
        return Document(
            "Leakage trade-off",
            self.estimator,
            sentences("tradeoff_made", self.settings)[0],
            answer,
            (),
            (*sections, Section("Assumptions", (assumed,), folded=True)),
            rest=" ".join(rest),
        )
