"""A column that is secret: its values, what is known of them, and what a release tells."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from skleak.adversary.hypotheses import changed_columns, last_step, model_parameters, plain_table
from skleak.adversary.knowledge import (
    MAX_VALUES,
    Population,
    Secret,
    column_names,
    of_first_rows,
    range_of_others,
    raw_column,
    read_secret,
    spread_left,
    take_rows,
)
from skleak.adversary.numbers import at_truth, slope_at_truth
from skleak.attacks import (
    ImputationAttack,
    PosteriorMeanReconstruction,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.audit.games._game import FALSE_ALARMS, Task
from skleak.audit.games._levels import CALIBRATED, UNCOUNTED_NUMBERS, PublishedScale
from skleak.audit.games._secret import Known, SecretSubject, determination, unit_state
from skleak.audit.noise._mechanism import Hypotheses, UnequalPairs, audited_shape, shape_of_fit
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import ShapedInformation, leakage_model, person_losses
from skleak.influence.noise import fitted_noise, information_terms
from skleak.influence.state import FitState
from skleak.mechanisms import NoiseGoal
from skleak.utils._records import Persons
from skleak.utils._typing import Array, FloatArray, IntArray

# Share of what a guess gets wrong that a column must get right to (nearly) determine another.
_NEARLY = 0.95
_TARGET = "(target)"


def related_columns(table: Any, y: Array, secret: Secret) -> dict[str, dict[str, float]]:
    """Find the columns that determine a secret by themselves, and those that it determines.

    Every record is predicted from the others, by one column at a time: by those of the same value
    where there are any, else by its neighbors along a column of numbers.

    Shapes: ``table`` (n, n_columns); ``y`` (n,), the target, counts as a column; returns by
    "determined_by" and "determines" the share of what a guess gets wrong that is got right.
    """
    names = column_names(table)
    others = {
        str(j if names is None else names[j]): raw_column(table, j)
        for j in range(table.shape[1])
        if j != secret.index
    }
    if not secret.is_target:
        others[_TARGET] = np.asarray(y)
    found: dict[str, dict[str, float]] = {"determined_by": {}, "determines": {}}
    for name, column in others.items():
        for key, (known, wanted) in {
            "determined_by": (column, secret.column),
            "determines": (secret.column, column),
        }.items():
            score = predicted_share(
                known, wanted, labels=key == "determined_by" and not secret.numeric
            )
            if score >= _NEARLY:
                found[key][name] = score
    return found


def predicted_share(known: Array, wanted: Array, *, labels: bool = False) -> float:
    """Share of what a guess gets wrong of a column that another gets right, each record left out.

    Shapes: ``known``, ``wanted`` (n,); ``labels`` takes numbers for names; returns: a gain over the
    commonest value, or a coefficient of determination; NaN for a column of one value, and for more
    names than a secret may have.
    """
    codes, numbers, classes = _codes(known), _numbers(known), _codes(wanted)
    values = None if labels else _numbers(wanted)
    few = 0 < 2 * codes.max() < len(codes)
    if np.array_equal(codes, classes) and (few or np.array_equal(known, wanted)):
        return 1.0  # a copy, or few values by other names: of a single carrier nobody else tells
    if values is None or len(np.unique(values[~np.isnan(values)])) <= 2:
        shares = np.bincount(classes) / len(classes)
        if not 2 <= len(shares) <= MAX_VALUES:
            return float("nan")
        guesses = _mean_of_others(codes, numbers, np.eye(len(shares))[classes]).argmax(axis=1)
        return float(1.0 - np.mean(guesses != classes) / (1.0 - shares.max()))
    some = ~np.isnan(values)
    codes, values, numbers = codes[some], values[some], None if numbers is None else numbers[some]
    if not np.ptp(values) > 0.0:
        return float("nan")
    errors = (_mean_of_others(codes, numbers, values[:, None])[:, 0] - values) ** 2
    return float(1.0 - errors.sum() / np.sum((values - values.mean()) ** 2))


def _codes(column: Array) -> IntArray:
    codes, _ = pd.factorize(pd.Series(column), use_na_sentinel=False)
    return np.asarray(codes, dtype=np.intp)


def _numbers(column: Array) -> FloatArray | None:
    """Return the column as numbers, NaN where they are missing; None where it has names."""
    series = pd.Series(column).infer_objects()
    if series.dtype.kind == "M":
        series = (series - series.min()) / pd.Timedelta(1, "D")
    if not pd.api.types.is_numeric_dtype(series) or pd.api.types.is_bool_dtype(series):
        return None
    values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _mean_of_others(codes: IntArray, numbers: FloatArray | None, values: FloatArray) -> FloatArray:
    """Mean of the others with the same value; alone, on the line between its two neighbors.

    Shapes: ``codes``, ``numbers`` (n,); ``values`` (n, k); returns (n, k). Without a number whoever
    is alone gets the mean of all others.
    """
    n, sizes = len(codes), np.bincount(codes)[codes][:, None]
    groups = sparse.csr_array((np.ones(n), (codes, np.arange(n))))
    mean = ((groups @ values)[codes] - values) / np.maximum(sizes - 1, 1)
    between = (values.sum(axis=0) - values) / (n - 1)
    if numbers is not None and np.sum(~np.isnan(numbers)) > 2:
        order = np.argsort(numbers, kind="stable")[: np.sum(~np.isnan(numbers))]
        # At an end both neighbors are the same record.
        low, high = np.r_[order[1], order[:-1]], np.r_[order[1:], order[-2]]
        width, beyond = numbers[high] - numbers[low], numbers[order] - numbers[low]
        share = np.divide(beyond, width, np.full(len(order), 0.5), where=width > 0.0)[:, None]
        between[order] = (1.0 - share) * values[low] + share * values[high]
    return np.where(sizes > 1, mean, between)


# Carriers of a value that is named in results, at least.
_CARRIERS = 3


@dataclass(frozen=True, kw_only=True)
class KnownColumn(Known):
    """A secret column, and what is known of it whatever is released. Confidential."""

    secret: Secret
    values: Array  # candidate values, (n_values,); empty for a quantity
    prior: FloatArray  # of every target, (n_targets, n_values)
    guesser: ImputationAttack  # fitted


def known_column(task: Task) -> KnownColumn:
    """Read the column of a task, and measure what guessing without the model gets right."""
    attribute, table, y, records = task.attribute, task.table, task.y, task.records
    secret = read_secret(table, y, attribute, task.values)
    known_y = None if secret.is_target else y
    if (persons := task.persons) is not None:
        # All is known from first rows: what is known of one row would tell the value of another.
        everyone, known_y, _ = of_first_rows(table, known_y, secret, persons)
        own = {"table": everyone, "y": y[persons.first], "values": secret.values}
        which = persons.having(task.rows)
        known = known_column(replace(task, **own, records=which, persons=None))
        return replace(known, secret=secret, targets=persons.first[which])
    rows = task.rows
    truth, codes = secret.column[rows], secret.codes
    guesser = ImputationAttack(attribute, values=task.values, records=records).fit(table, y)
    found: dict[str, Any]
    if secret.values is None:
        column = secret.column
        mean = PriorAttack(attribute, prior=task.prior, records=records).fit(table, y).predict()
        spread, errors = float(column.var()), (mean - truth) ** 2
        imputed = determination((guesser.predict() - truth) ** 2, spread)
        found = {
            "values": column[:0],
            "prior": np.empty((len(rows), 0)),
            "prior_score": errors,
            "baseline": determination(errors, spread),
            "imputation": imputed,
            "imputed": imputed,
            "spread": spread,
        }
    else:
        prior = Population(table, known_y, secret, rows).prior(task.prior)
        guess = guesser.prior_.argmax(axis=1)
        found = known_values(task, secret.values, codes[rows], prior, guess)
    shared = {"secret": secret, "targets": rows, "secrets": truth, "guesser": guesser}
    return KnownColumn(**shared, **found, related=related_columns(table, y, secret))


def known_values(
    task: Task, values: Array, codes: IntArray, prior: FloatArray, guess: IntArray
) -> dict[str, Any]:
    """Return what is known of guesses of a few values.

    Shapes: ``values`` (n_values,); ``codes``, ``guess`` of imputation (n_targets,); ``prior``
    (n_targets, n_values).
    """
    top, imputed = prior.max(axis=1), float(np.mean(guess == codes))
    return {
        "values": values,
        "prior": prior,
        "prior_score": top,
        "baseline": float(top.mean()),
        # A secret that is drawn is guessed as often as its prior says.
        "imputation": float(prior[np.arange(len(codes)), guess].mean()) if task.drawn else imputed,
        "imputed": imputed,
        "rare": rare_value(task.rare_value, values, np.bincount(codes, minlength=len(values))),
    }


def rare_value(named: Any, candidates: Array, counts: Array) -> Any:
    """Return the value that is named, or else that of fewest targets, three at least, if any.

    Shapes: ``candidates``, ``counts`` of the targets (n_values,).
    """
    values = candidates.tolist()
    if named is not None:
        if named not in values:
            raise ValueError(
                f"`rare_value` must be one of the values of the attribute, {values[:10]}; got "
                f"{named!r}."
            )
        return named
    enough = np.flatnonzero(counts >= _CARRIERS)
    return values[enough[counts[enough].argmin()]] if len(enough) else None


_NOTHING = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, kw_only=True)
class AttributeSubject(SecretSubject, KnownColumn):
    """A secret column. Confidential."""

    # Fitted, with the parameters without noise under every value.
    white_box: WhiteBoxAttributeInference
    # Covariance of unit noise under every value, (n_targets, n_values, p, p), where it follows the
    # data: those of the white box, which holds their inverse roots too, as much memory again.
    shapes: FloatArray | None = None
    information: ShapedInformation | None = None  # where the covariance follows the data
    posterior: PosteriorMeanReconstruction | None = None  # of a quantity, fitted
    step: FloatArray | None = (
        None  # of a quantity: its deviation given the other columns, (n_targets,)
    )
    moved: bool = False  # whether the model is another one with a quantity a step off
    # From a quantity to the further of one a step lower and one a step higher, at unit noise,
    # (n_targets,); where each has noise of its own the pairs, (2 n_targets,).
    unit_distances: FloatArray | None = None
    pairs: UnequalPairs | None = None
    # Noise scale under every value, (n_targets, n_values), where it follows the records.
    scales: FloatArray | None = None

    def eta(self, noise_scale: float) -> FloatArray:
        """Fisher information loss at a noise scale, of shape (n_targets,); NaN if not known."""
        if self.information is not None:
            return self.information.loss(noise_scale)
        return super().eta(noise_scale)

    def mse(self, noise_scale: float) -> FloatArray:
        """Lower bound on the mean squared error of unbiased attacks on a quantity, (n_targets,)."""
        with np.errstate(divide="ignore", over="ignore"):
            return 1.0 / self.eta(noise_scale) ** 2


def study(task: Task) -> AttributeSubject:
    """Fit the model without noise, and learn all that attacks are measured by."""
    table, known = task.table, known_column(task)
    fitted, trained = SecretSubject.trained(task)
    public = trained["public"]
    noise = audited_shape(public, fitted, task.attribute)
    white_box = WhiteBoxAttributeInference(
        task.estimator,
        task.attribute,
        values=task.values,
        prior="uniform" if known.secret.numeric else known.prior,
        records=task.records,
        refit_preprocessing=task.refit_preprocessing,
        n_jobs=task.n_jobs,
    ).fit(table, task.y, sample_weight=task.sample_weight, persons=task.persons)
    if white_box._shaped is not None:
        noise = shape_of_fit(noise, fitted)
    shared = {**vars(known), **trained, "noise": noise, "white_box": white_box}
    shared["noiseless"] = model_parameters(fitted)
    rows, secret = known.targets, known.secret
    if secret.numeric:
        return _quantity(task, fitted, known, shared)
    everyone, codes, persons = np.arange(len(rows)), secret.codes[rows], task.attacked
    candidates = []
    if public.has_closed_form and not secret.is_target:
        candidates = public.candidate_rows(table, persons.rows, secret.index, known.values)
    if shared["goal"] is not None:
        shared |= _scales(task, fitted, shared, candidates)
    points = white_box.encodings_
    own = points[everyone, codes]
    others = np.arange(points.shape[1]) != codes[:, None]
    return AttributeSubject(
        **shared,
        **columns_loss(unit_state(fitted, noise) if candidates else None, candidates, persons),
        hypotheses=Hypotheses.near(own),
        # Differences between the parameters of true values and of all others, (n_directions, p).
        directions=(points - own[:, None])[others],
        shapes=None if white_box._shaped is None else white_box._shaped.shapes,
    )


def _scales(
    task: Task, fitted: Any, shared: Mapping[str, Any], candidates: list[Any]
) -> dict[str, Any]:
    """Noise scale under every value of every target, or why it is not found."""
    model, goal = shared["model"], shared["goal"]
    if not isinstance(goal, NoiseGoal):
        return {"uncounted": CALIBRATED}
    if task.fitted:
        return {"uncounted": "the fits that are played have the noise scale of all records"}
    if shared["white_box"]._shaped is not None:
        return {"uncounted": "the covariance of the noise follows the records as well"}
    if task.refit_preprocessing or not shared["public"].has_closed_form:
        return {"uncounted": "the preprocessing is trained anew with each value"}
    if model.reweighting is not None:
        return {"uncounted": "a reweighting is searched for anew with each value"}
    scale = PublishedScale.of(model, goal, shared["X"], task.y, task.sample_weight, task.persons)
    persons, values = task.attacked, shared["values"]
    missing = scale.missing(len(persons) * len(values))
    if missing:
        return {"uncounted": missing}
    if shared["secret"].is_target:
        classes = getattr(last_step(fitted), "classes_", None)
        numbers = values if classes is None else np.searchsorted(classes, values)
        return {"scales": scale.with_targets(persons, numbers)}
    return {"scales": scale.with_rows(persons, candidates)}


def _quantity(
    task: Task, fitted: Any, known: KnownColumn, shared: dict[str, Any]
) -> AttributeSubject:
    """Learn what a release tells of a number: about its true value, and a step off."""
    table, rows, secret, goal = task.table, known.targets, known.secret, shared["goal"]
    public = shared["public"]
    white_box, noise, truth = shared["white_box"], shared["noise"], known.secrets
    slope, (low, high) = None, (end[rows] for end in range_of_others(secret.column))
    shared["uncounted"] = "" if goal is None else UNCOUNTED_NUMBERS
    here = np.flatnonzero(
        np.ones(len(task.y)) if task.sample_weight is None else task.sample_weight
    )
    left = spread_left(take_rows(table, here), task.y[here] if secret.is_target else None)
    step = secret.column[here].std() * left[-1 if secret.is_target else secret.index]
    shared["step"] = np.full(len(rows), step)
    ends = known.secrets + np.array([[0.0], [-1.0], [1.0]]) * step
    ends = np.vstack([ends, low])
    points, shaped = white_box._encode(public, table, task.y, secret, ends)
    # A flag of a few numbers may lie between the nodes of the white box, or beyond.
    shared["moved"] = bool((points != points[:, :1]).any())
    if goal is None and shaped is not None:
        ends, shapes = (
            np.concatenate([each[:, [0, 1]], each[:, [0, 2]]]) for each in (points, shaped.shapes)
        )
        shared["pairs"] = UnequalPairs.of(ends, shapes, FALSE_ALARMS)
    elif goal is None:
        points = noise.whitened(points)
        away = np.linalg.norm(points[:, 1:3] - points[:, :1], axis=2)
        shared["unit_distances"] = away.max(axis=1)
    if public.has_closed_form and not task.refit_preprocessing and not secret.is_target:
        place = (table, rows, secret.index, secret.column)
        slope = public.exact_slope(unit_state(fitted), *place)
    posterior = PosteriorMeanReconstruction._sharing(white_box, task.prior, table, task.y)
    shared["posterior"] = posterior
    if not shared["uncounted"]:
        shared["prior_variance"] = posterior.prior_variance_
    if task.drawn:
        shared["prior_score"] = posterior.prior_variance_
        shared["baseline"] = determination(posterior.prior_variance_, known.spread)
    nodes, shaped = white_box.encodings_, white_box._shaped
    if slope is None:
        slope = slope_at_truth(nodes, low, high, truth)
    unit_eta = np.sqrt((noise.whitened(slope) ** 2).sum(axis=1))
    information = None
    if shaped is not None:
        change = slope_at_truth(shaped.shapes, low, high, truth)
        information = ShapedInformation.of_a_quantity(slope, change, noise.matrix_root)
        unit_eta = np.full(len(rows), np.nan)
    return AttributeSubject(
        **shared,
        hypotheses=Hypotheses.near(*at_truth(nodes, low, high, truth)),
        directions=nodes[:, -1] - nodes[:, 0],
        unit_eta=unit_eta,
        information=information,
    )


def columns_loss(
    state: FitState | None, candidates: list[Any], persons: Persons, known: IntArray = _NOTHING
) -> dict[str, Any]:
    """Fisher information loss of a subject, over the encoded columns of an attribute.

    Not known where there are no candidates: of labels, and of models without closed forms. The
    `known` are columns that depend on the attribute, whatever the candidates of these records do.
    """
    not_known, targets = np.full(len(persons), np.nan), persons.rows
    if state is None:
        return {"unit_eta": not_known}
    rows = take_rows(state.objective.X, targets)
    tables = [plain_table(table) for table in candidates]
    columns = np.union1d(changed_columns(rows, tables), known).astype(np.intp)
    if not len(columns):
        return {"unit_eta": np.zeros(len(persons))}
    sums = np.stack([np.ravel(table[:, columns].sum(axis=1)) for table in tables])
    one_hot = len(columns) > 1 and bool(np.allclose(sums, 1.0))
    block = Columns(columns, constrained=one_hot)
    batch = state.training.take(targets)
    if state.noise.reads_data:
        terms = information_terms(batch, block, noise=fitted_noise(state))
        return {"unit_eta": not_known, "information": ShapedInformation(*terms)}
    if not persons.is_single:
        return {"unit_eta": person_losses(state, persons, [block])[:, 0]}
    return {"unit_eta": leakage_model(state).record_loss(batch, block)}
