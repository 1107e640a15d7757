"""Ways of training and shapes of noise, side by side at equal cost in the training objective.

With S the covariance of the noise over its variance ``sigma^2``, ``tr S = p``, and H the Hessian
of the plain objective at its minimizer, noise raises that objective by ``tr(H S) sigma^2 / 2`` on
average: exactly for the squared loss, to second order for others. That is the cost at which all
ways are compared. Under a covariance that does not follow the data every loss goes as
``1 / sigma``; under one that does it is the root of the largest eigenvalue of
``F1 / sigma^2 + F2``, with the information through the mean and through the covariance. Each way
is fitted once.
"""

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse, special
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.pipeline import Pipeline

from skleak.adversary.knowledge import as_column, as_table, column_names, raw_column, take_rows
from skleak.influence.leakage import leakage_model
from skleak.influence.noise import noise_root
from skleak.influence.state import FitState, RecordBatch
from skleak.inspection._leakage import leakage_report
from skleak.inspection._pipeline import flat_steps, taken_apart
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
_SHAPES: dict[str, dict[str, str]] = {
    "irfil": {"reweighting": "irfil"},
    "total": {"reweighting": "total"},
    "curvature": {"noise_covariance": "curvature"},
    "minimax": {"noise_covariance": "minimax"},
}
# Releases that are scored on each fold, at multiples of the noise scale of equal cost.
_RELEASES, _STRENGTHS = 20, (0.25, 0.5, 1.0, 2.0, 4.0)
# Share of people whose loss the quantile of the table is not below, and of releases of an interval.
_QUANTILE, _LEVEL = 0.95, 0.95
# Doublings of the noise, and halvings of the last one, in the search for a ratio of groups.
_DOUBLINGS, _HALVINGS = 12, 14
# Limits are kept from the private side, by this margin.
_MARGIN = 1.0 + 1e-12


class Choice(NamedTuple):
    """A way that keeps some limits, and the noise scale at which it does at the least cost."""

    way: str
    noise_scale: float  # marked as read off records
    estimator: Any  # not fitted; the one that was passed, with this way and this noise scale
    refused: dict[str, str]  # other ways that keep no such limits, and why


@dataclass(frozen=True)
class _Way:
    """One fit, and what its losses are at any noise scale. Confidential."""

    name: str
    estimator: Any  # as that of the user, but for the way; not fitted
    fitted: Any
    model: Any
    cost: float  # mean rise of the plain objective by noise of scale 1
    bias: float  # rise of it by the minimizer alone
    noise_scale: float  # at equal cost
    batch: RecordBatch

    @property
    def state(self) -> FitState:
        """Return what the model keeps of its fit."""
        state: FitState = self.model._confidential_state()
        return state

    @property
    def has_floor(self) -> bool:
        """True if the covariance of the noise tells of the records, whatever its scale."""
        return self.state.noise.reads_data

    def losses(self, noise_scale: float) -> FloatArray:
        """Loss of each person at a noise scale, (n,)."""
        return leakage_model(self.state.at_noise(noise_scale)).record_loss(self.batch)

    def floors(self) -> FloatArray:
        """Loss of each that no noise scale lowers, (n,)."""
        model = leakage_model(self.state.at_noise(1.0))
        told = model.terms(self.batch, [self.state.whole_record])
        return np.zeros(len(self.batch)) if told is None else told.covariance[:, 0]

    def sufficient(self, max_loss: float) -> float:
        """Least noise scale at which no loss is above a limit; infinite where there is none."""
        model, unknown = leakage_model(self.state), self.state.whole_record
        scales = model.sufficient_noise(self.batch, unknown, max_loss)
        return float(scales.max()) * _MARGIN

    @property
    def publishes(self) -> str:
        """What may be published of the way itself."""
        if self.has_floor:
            return "shape of the noise: a function of the records, counted in the losses"
        if self.state.balanced is not None:
            return "weights: a function of the records, counted in the losses"
        return "nothing is revealed by the choice"


@dataclass(frozen=True)
class _Data:
    """Training records, whose they are, and how they are parted for scores. Confidential."""

    table: Any
    y: Array
    persons: Array | None
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
        whose, first, codes = None, slice(None), None
        if persons is not None:
            whose = _labels(persons, table, "persons")
            codes, first = pd.factorize(whose)[0], Persons.of(whose, len(y)).first
            cv = GroupKFold(5 if cv is None else cv) if cv is None or _whole(cv) else cv
        of_people = None if groups is None else _labels(groups, table, "groups")[first]
        parts = check_cv(cv, y, classifier=is_classifier(estimator))
        given = _last(estimator)[1].random_state
        if given is not None and not isinstance(given, Integral):  # which is left as it is
            given = copy.deepcopy(given)
            draw = given.integers if hasattr(given, "integers") else given.randint
            given = draw(2**31 - 1)
        seed = np.random.SeedSequence().entropy if given is None else int(given)
        assert isinstance(seed, int)
        return cls(table, y, whose, of_people, list(parts.split(table, y, codes)), seed)

    def fit(self, estimator: Any, rows: IntArray | None = None) -> Any:
        """Fit a copy that enters no ledger, on all records or on some."""
        prefix, _ = _last(estimator)
        silent = without_ledger(estimator).set_params(**{f"{prefix}random_state": None})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what did not is not stated
            if rows is not None:
                return silent.fit(take_rows(self.table, rows), self.y[rows])
            options = {} if self.persons is None else {f"{prefix}persons": self.persons}
            return silent.fit(self.table, self.y, **options)

    def scores(self, way: _Way) -> tuple[FloatArray, int]:
        """Score releases on each fold, (n_strengths, n_folds * n_releases), and count failures.

        The draws are the same for all ways.
        """
        found, failed = [], 0
        for k, (train, test) in enumerate(self.folds):
            preprocessing, _, model = taken_apart(self.fit(way.estimator, train))
            X = take_rows(self.table, test)
            X = X if preprocessing is None else preprocessing.transform(X)
            state = model._confidential_state()
            failed += not state.converged
            w, size = state.factor.coefficients, state.factor.weights.size
            moves = np.random.default_rng([self.seed, k]).normal(size=(_RELEASES, len(w)))
            if not state.noise.is_identity:
                moves = moves @ noise_root(state).T
            twin = object.__new__(type(model))
            twin.__dict__.update(model.__dict__)
            scored = np.empty((len(_STRENGTHS), _RELEASES))
            for place in np.ndindex(scored.shape):
                scale = _STRENGTHS[place[0]] * way.noise_scale
                released = w + scale * moves[place[1]]
                twin.coef_, twin.intercept_ = model._shaped(released, size)
                scored[place] = twin.score(X, self.y[test])
            found.append(scored)
        return np.concatenate(found, axis=1), failed


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _labels(labels: Any, table: Any, name: str) -> Array:
    """Read a label for each record: an array, a Series by the index, or a column."""
    if is_single_feature(labels):
        place = resolve_features(labels, column_names(table), table.shape[1], name)[0]
        labels = raw_column(table, int(place))
    return checked_labels(labels, table.shape[0], named(row_labels(table)), name=name)


def _last(estimator: Any) -> tuple[str, Any]:
    """Return the private model at the end of a pipeline, and the prefix of its parameters."""
    prefix, model = "", flat_steps(estimator)[-1][1]
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        prefix += f"{name}__"
    names = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    if not (hasattr(model, "_confidential_state") and "noise_covariance" in names):
        raise TypeError(
            "`estimator`, and each candidate, must be a private linear model of skleak, or a "
            f"Pipeline that ends in one; got {type(model).__name__}. Pass it before `release()`, "
            "and of a search its `best_estimator_`."
        )
    return prefix, model


def _with(estimator: Any, **parameters: Any) -> Any:
    """Return an unfitted copy whose private model has other parameters."""
    prefix = _last(estimator)[0]
    return clone(estimator).set_params(**{f"{prefix}{k}": v for k, v in parameters.items()})


def _candidates(estimator: Any, candidates: Any) -> dict[str, Any]:
    """Return the ways by name, each an unfitted estimator."""
    if isinstance(candidates, Mapping):
        if PLAIN in candidates or not all(isinstance(name, str) for name in candidates):
            raise ValueError(
                f"`candidates` must go by other names than {PLAIN!r}, which is `estimator` with "
                f"isotropic noise and is always there; got {list(candidates)!r}."
            )
        return dict(candidates)
    default = isinstance(candidates, str) and candidates == "default"
    names = list(_SHAPES) if default else candidates
    known = isinstance(names, Sequence) and not isinstance(names, str)
    if not known or not all(name == PLAIN or name in _SHAPES for name in names):
        raise ValueError(
            f"`candidates` must be 'default', a list of some of {[PLAIN, *_SHAPES]!r}, or a "
            f"dictionary of estimators by name; got {candidates!r}."
        )
    plain = {"noise_covariance": "isotropic", "reweighting": None}
    return {
        name: _with(estimator, **plain | _SHAPES[name])
        for name in dict.fromkeys(names)
        if name != PLAIN
    }


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
    model = flat_steps(fitted)[-1][1]
    state: FitState = model._confidential_state()
    if not state.converged:
        raise ValueError(f"{state.failure}: what it leaks is not known. {state.remedy}")
    own = state if plain is None else plain.state
    same = same_numbers(state.objective.X, own.objective.X)
    if not (same and state.factor.coefficients.shape == own.factor.coefficients.shape):
        raise ValueError(
            f"Candidate {name!r} is fitted on other columns than `estimator`: costs in one "
            "objective need the same preprocessing, and an intercept in both or in neither."
        )
    cost, bias = _noise_cost(own, state), 0.0
    if plain is not None:
        at = own.objective.at
        bias = at(state.factor.coefficients).value - at(own.factor.coefficients).value
        noise_scale *= math.sqrt(plain.cost / cost)
    persons = state.persons
    batch = state.training if persons is None else state.by_person(persons)
    return _Way(name, estimator, fitted, model, cost, max(bias, 0.0), noise_scale, batch)


def _ways(data: _Data, estimator: Any, candidates: Any, noise_scale: float) -> Iterator[_Way | str]:
    """Yield the plain way, then all others that apply, and why the rest does not."""
    default = isinstance(candidates, str)
    chosen = _candidates(estimator, candidates)
    for one in chosen.values():
        _last(one)
    even = _with(estimator, noise_covariance="isotropic", reweighting=None)
    plain = _measured(data, PLAIN, even, noise_scale, None)
    yield plain
    for name, one in chosen.items():
        try:
            way = _measured(data, name, one, noise_scale, plain)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # stated as doubts
                doubts = leakage_model(way.state).doubts
        except ValueError as error:
            if not default:
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


def _row(way: _Way, data: _Data, scores: FloatArray, plain: FloatArray) -> dict[str, Any]:
    """Numbers of a way at equal cost; scores (n_releases,) of its releases and of plain ones."""
    losses = way.losses(way.noise_scale)
    ends = np.quantile(scores, [0.5 - 0.5 * _LEVEL, 0.5 + 0.5 * _LEVEL])
    mean = float(losses.mean())
    return {
        "noise_scale": way.noise_scale,
        "cost": way.cost * way.noise_scale**2,
        "bias": way.bias,
        "largest_loss": float(losses.max()),
        "quantile_loss": float(np.quantile(losses, _QUANTILE)),
        "mean_loss": mean,
        "spread": float(losses.std()) / mean if mean > 0.0 else math.nan,
        "floor": float(way.floors().max()),
        "group_ratio": math.nan if data.groups is None else _ratio(losses, data.groups),
        "test_score": float(scores.mean()),
        "test_score_low": float(ends[0]),
        "test_score_high": float(ends[1]),
        "score_change": float((scores - plain).mean()),
        "publishes": way.publishes,
    }


def _by_group(way: _Way, groups: Array) -> pd.DataFrame:
    losses = pd.Series(way.losses(way.noise_scale)).groupby(groups, sort=True)
    table = losses.agg(n_people="size", mean_loss="mean", largest_loss="max")
    table.insert(2, "root_mean_square", losses.agg(lambda own: np.sqrt(np.mean(own**2))))
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
    squared loss, of second order for others. What a minimizer that is not the plain one raises it
    by, ``bias``, comes on top.

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
        why. A list names some of them, and a mapping holds estimators on the same encoded records,
        whose own ``noise_scale`` is not read; what does not apply is then an error.
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
    same draws for all ways and the noise scale of the row.

    Looking at this table is free; choosing by it is a choice made on the records, which no loss
    counts. Where that matters, compare on public records.

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
    {'none': 4.9, 'total': 1.9, 'minimax': 1.1}
    >>> choice = found.choose(max_loss=1.0)
    >>> choice.way, round(choice.noise_scale, 3)
    ('minimax', 0.087)
    """
    _, model = _last(estimator)
    scale = model.noise_scale
    if not isinstance(scale, Real) or isinstance(scale, bool) or not 0.0 < scale < math.inf:
        raise ValueError(
            "`estimator` must have a number above 0 as `noise_scale`, which sets the cost that all "
            f"ways are given; got {scale!r}. For a goal, pass the `noise_scale_` of its fit."
        )
    data, notes, ways = _Data.of(estimator, X, y, groups, persons, cv), [], []
    for one in _ways(data, estimator, candidates, float(scale)):
        (notes if isinstance(one, str) else ways).append(one)
    rows, curves, by_group, plain = {}, [], {}, None
    at = _STRENGTHS.index(1.0)
    for way in ways:
        scores, failed = data.scores(way)
        plain = scores[at] if plain is None else plain
        if failed:
            notes.append(
                f"Of `{way.name}` {failed} of {len(data.folds)} fits to folds did not converge: "
                "its test scores are those of the best parameters found."
            )
        rows[way.name] = _row(way, data, scores[at], plain)
        for strength, own in zip(_STRENGTHS, scores.mean(axis=1).tolist(), strict=True):
            sigma = strength * way.noise_scale
            largest = float(way.losses(sigma).max())
            curves.append((way.name, sigma, largest, own))
        if data.groups is not None:
            by_group[way.name] = _by_group(way, data.groups)
    names = ["n_people", "mean_loss", "root_mean_square", "largest_loss"]
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("way")
    return LeakageTradeoff(
        type(model).__name__,
        table if by_group else table.drop(columns="group_ratio"),
        pd.concat(by_group, names=["way"])[names] if by_group else pd.DataFrame(columns=names),
        pd.DataFrame(curves, columns=["way", "noise_scale", "largest_loss", "test_score"]),
        tuple(notes),
        {"n_people": len(ways[0].batch), "n_folds": len(data.folds), "n_releases": _RELEASES},
        _measured=tuple(ways),
        _data=data,
        _estimator=clone(estimator),
    )


@dataclass(frozen=True, repr=False)
class LeakageTradeoff(Report):
    """Ways of training at equal cost: what each leaks, about whom, and how it scores. Confidential.

    Objects of this kind come from `leakage_tradeoff`. Pickles and copies drop the fits: tables,
    text and figures travel, and `choose` does not.

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
    """

    estimator: str
    ways_: pd.DataFrame
    groups_: pd.DataFrame
    curves_: pd.DataFrame
    notes: tuple[str, ...]
    settings: dict[str, Any]
    _measured: tuple[_Way, ...] = field(default=(), kw_only=True, compare=False)
    _data: _Data | None = field(default=None, kw_only=True, compare=False)
    _estimator: Any = field(default=None, kw_only=True, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Drop the records and the fits to them: a pickle travels."""
        return self.__dict__ | {"_measured": (), "_data": None, "_estimator": None}

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
            `skleak.inspection.leakage_report`, which takes its time. Not known of shapes that
            follow the records.
        group_ratio : float, default=None
            Largest mean loss of a group over the smallest, at least 1.

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
        the choice: neither is counted in any loss. A goal inside of `fit` (`MaxLeakage`) takes a
        rung of a public ladder in its place.
        """
        self._check_limits(max_loss, max_advantage, group_ratio)
        kept: list[tuple[float, _Way, float]] = []
        refused: dict[str, str] = {}
        nearest: list[tuple[str, float, str]] = []
        for way in self._measured:
            needed = (("max_loss", max_loss, _by_loss), ("max_advantage", max_advantage, None))
            scale = 0.0
            for name, limit, rule in needed:
                if limit is None:
                    continue
                own, near, why = (rule or self._by_advantage)(way, limit)
                scale = max(scale, own)
                if why:
                    refused[way.name] = why
                    nearest.append((name, near, way.name))
            if way.name in refused:
                continue
            scale = scale or way.noise_scale
            if group_ratio is not None:
                scale, near = self._by_ratio(way, scale, group_ratio)
                if not math.isfinite(scale):
                    refused[way.name] = f"its ratio of groups is {near:.4g} at least"
                    nearest.append(("group_ratio", near, way.name))
                    continue
            kept.append((way.cost * scale**2 + way.bias, way, scale))
        if not kept:
            raise ValueError(_none_left(refused, nearest))
        _, best, scale = min(kept, key=lambda one: one[0])
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
        limits = {
            "max_loss": (max_loss, 0.0, math.inf),
            "max_advantage": (max_advantage, 0.0, 1.0),
            "group_ratio": (group_ratio, 1.0 - 1e-15, math.inf),
        }
        for name, (limit, low, high) in limits.items():
            if limit is not None and not low < limit < high:
                raise ValueError(f"`{name}` must lie between {low:g} and {high:g}; got {limit!r}.")
        if max_loss is max_advantage is group_ratio is None:
            raise ValueError("Pass `max_loss`, `max_advantage` or `group_ratio`: got no limit.")
        if group_ratio is not None and not len(self.groups_):
            raise ValueError("`group_ratio` needs `groups`: pass them to `leakage_tradeoff`.")

    def _by_advantage(self, way: _Way, limit: float) -> tuple[float, float, str]:
        """Least noise scale under which no attacker gains more, from exact distances."""
        if way.has_floor:
            why = "what its covariance, which follows the records, adds to a distance is not known"
            return math.inf, math.nan, why
        data = self._data
        assert data is not None
        options = {"records": slice(None), "persons": data.persons}
        found = leakage_report(way.fitted, data.table, data.y, **options).features
        told = found[found["n_values"] != 1.0]
        exact = told["exact"].astype(bool) & (told["n_known"] == len(way.batch))
        if not exact.all():
            names = ", ".join(map(str, told.index[~exact]))
            return math.inf, math.nan, f"not all distances are known exactly (columns {names})"
        distance = float(told["distance"].max()) * way.state.noise_scale
        scale = distance / (math.sqrt(8.0) * float(special.erfinv(limit))) * _MARGIN
        return scale, limit, "" if math.isfinite(scale) else "some values are told for sure"

    def _by_ratio(self, way: _Way, scale: float, limit: float) -> tuple[float, float]:
        """Least noise scale from one on that keeps a ratio of groups, and the nearest ratio."""
        assert self._data is not None
        assert self._data.groups is not None
        groups = self._data.groups

        def ratio(scale: float) -> float:
            return _ratio(way.losses(scale), groups)

        tried = {scale: ratio(scale)}
        if tried[scale] <= limit * _MARGIN or not way.has_floor:
            return (scale if tried[scale] <= limit * _MARGIN else math.inf), tried[scale]
        low = high = scale
        for _ in range(_DOUBLINGS):
            low, high = high, 2.0 * high
            tried[high] = ratio(high)
            if tried[high] <= limit:
                break
        else:
            return math.inf, min(tried.values())
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if ratio(middle) <= limit else (middle, high)
        return high, limit

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
        groups = self.groups_.reset_index()
        return entries(self, "leakage_tradeoff", names, groups_=groups)

    @property
    def findings(self) -> tuple[str, ...]:
        """What the numbers say, in plain words; the first is the answer."""
        best = self.ways_["largest_loss"].idxmin()
        told = {"best": best, "own": self.ways_.loc[best], "plain": self.ways_.loc[PLAIN]}
        given = {"notes": self.notes, "grouped": len(self.groups_) > 0, "ways": self.ways_}
        return sentences("tradeoff_lead", self.settings | told | given)

    def _document(self, *, figures: bool) -> Document:
        said = dict(terms("tradeoff_captions", self.settings))
        answer, *rest = self.findings
        ways = explained("ways", columns_of(self.ways_, said["ways table"]), said["ways"])
        revealed = columns_of(self.ways_, said["revealed table"])
        groups = self.groups_.reset_index()
        sections = [Section("Ways at equal cost", ways)]
        if len(groups):
            columns = columns_of(groups, said["groups table"])
            sections.append(Section("Groups", explained("groups", columns, said["groups"])))
        if figures:
            display = TradeoffDisplay(self.curves_, self.ways_, self.groups_)
            svg = inline_svg(display, "Test score against largest loss", answer)
            sections.append(Section("Score and leakage", (Figure(svg, said["figure"]),)))
        blocks = explained("revealed", revealed, said["revealed"])
        assumed = sentences("tradeoff_assumptions", self.settings)
        return Document(
            "Leakage trade-off",
            self.estimator,
            sentences("tradeoff_made", self.settings)[0],
            answer,
            (),
            (
                *sections,
                Section("What the choice reveals", blocks),
                Section("Assumptions", (Bullets(assumed),), folded=True),
            ),
            rest=" ".join(rest),
        )


def _by_loss(way: _Way, limit: float) -> tuple[float, float, str]:
    """Least noise scale that keeps a limit on losses, the nearest limit, and why there is none."""
    scale, least = way.sufficient(limit), 0.0
    if math.isfinite(scale):
        return scale, limit, ""
    least = float(way.floors().max())
    return scale, least, f"its covariance alone tells of somebody: a loss above {least:.4g}"


def _none_left(refused: dict[str, str], nearest: list[tuple[str, float, str]]) -> str:
    """Say why no way keeps the limits, and the nearest that one reaches."""
    reasons = "; ".join(f"`{name}`: {why}" for name, why in refused.items())
    near = {}
    for limit, value, name in sorted(nearest, key=lambda one: -one[1]):
        if math.isfinite(value):
            near[limit] = f"{limit} above {value:.4g} by `{name}`"
    advice = f" The nearest that can be reached: {', '.join(near.values())}." if near else ""
    return f"No way keeps these limits ({reasons}).{advice}"


Rule = Callable[[_Way, float], tuple[float, float, str]]
