"""A column that is secret: its values, what is known of them, and what a release tells."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.adversary.hypotheses import (
    candidate_rows,
    changed_columns,
    last_step,
    model_parameters,
    plain_table,
)
from skleak.adversary.knowledge import range_of_others, take_rows
from skleak.attacks import PosteriorMeanReconstruction, WhiteBoxAttributeInference
from skleak.audit.games._game import Task
from skleak.audit.games._scale import (
    CALIBRATED,
    UNCOUNTED_NUMBERS,
    PublishedScale,
    goal_of,
    replaced_target,
    rows_with,
)
from skleak.audit.games._secret import SecretSubject, determination, fit_quietly, unit_state
from skleak.audit.games.attribute._information import ShapedInformation
from skleak.audit.games.attribute._known import known_column
from skleak.audit.games.attribute._quantity import at_truth, exact_slope, slope_at_truth
from skleak.audit.noise._hypotheses import Hypotheses
from skleak.audit.noise._shape import audited_shape, shape_of_fit
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import leakage_model
from skleak.influence.state import NoiseShape
from skleak.mechanisms import NoiseGoal
from skleak.utils._typing import Array, FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class AttributeSubject(SecretSubject):
    """A secret column. Confidential."""

    index: int  # of the secret column, or that of the target
    values: Array  # candidate values, (n_values,); empty for a quantity
    prior: FloatArray  # of every target, (n_targets, n_values)
    # Fitted, with the parameters without noise under every value.
    white_box: WhiteBoxAttributeInference
    # Covariance of unit noise under every value, (n_targets, n_values, p, p), where it follows the
    # data: those of the white box, which holds their inverse roots too, as much memory again.
    shapes: FloatArray | None = None
    information: ShapedInformation | None = None  # where the covariance follows the data
    posterior: PosteriorMeanReconstruction | None = None  # of a quantity, fitted
    # Noise scale under every value, (n_targets, n_values), where it follows the records.
    scales: FloatArray | None = None

    @property
    def numeric(self) -> bool:
        """True if the secret is a quantity rather than one of a few values."""
        return not len(self.values)

    @property
    def prior_variance(self) -> FloatArray | None:
        """Variance of the prior of every quantity, (n_targets,)."""
        if self.posterior is None or self.uncounted:
            return None
        return self.posterior.prior_variance_

    def eta(self, noise_scale: float) -> FloatArray:
        """Fisher information loss at a noise scale, of shape (n_targets,); NaN if not known."""
        if self.information is not None:
            return self.information.loss(noise_scale)
        return super().eta(noise_scale)

    def mse(self, noise_scale: float) -> FloatArray:
        """Lower bound on the mean squared error of unbiased attacks on a quantity, (n_targets,)."""
        with np.errstate(divide="ignore", over="ignore"):
            if self.information is not None:
                return 1.0 / self.information.loss(noise_scale) ** 2
            return (1.0 / self.unit_eta**2) * noise_scale**2


def study(task: Task) -> AttributeSubject:
    """Fit the model without noise, and learn all that attacks are measured by."""
    table, known = task.table, known_column(task)
    public, X, fitted = fit_quietly(task)
    noise = audited_shape(public, fitted, task.attribute)
    white_box = WhiteBoxAttributeInference(
        task.estimator,
        task.attribute,
        values=task.values,
        prior="uniform" if known.secret.numeric else known.prior,
        records=task.records,
        refit_preprocessing=task.refit_preprocessing,
        n_jobs=task.n_jobs,
    ).fit(table, task.y, sample_weight=task.sample_weight)
    if white_box._shaped is not None:
        noise = shape_of_fit(noise, fitted)
    shared: dict[str, Any] = {
        "model": last_step(task.estimator),
        "public": public,
        "X": X,
        "y": task.y,
        "weights": task.sample_weight,
        "noiseless": model_parameters(fitted),
        "noise": noise,
        "targets": known.targets,
        "secrets": known.truth,
        "white_box": white_box,
        "index": known.secret.index,
        "values": known.values,
        "prior": known.prior,
        "baseline": known.baseline,
        "imputation": known.imputation,
        "imputed": known.imputed,
        "related": known.related,
        "prior_score": known.prior_score,
        "spread": known.spread,
    }
    rows, secret = known.targets, known.secret
    goal = shared["goal"] = goal_of(task.estimator, task.noise_scales)
    if secret.numeric:
        slope = None
        shared["uncounted"] = "" if goal is None else UNCOUNTED_NUMBERS
        if public.has_closed_form and not task.refit_preprocessing and not secret.is_target:
            place = (public, table, rows, secret.index, secret.column)
            slope = exact_slope(unit_state(fitted), *place)
        posterior = PosteriorMeanReconstruction._sharing(white_box, task.prior, table, task.y)
        shared["posterior"] = posterior
        if task.drawn:
            shared["prior_score"] = posterior.prior_variance_
            shared["baseline"] = determination(posterior.prior_variance_, known.spread)
        return _quantity(shared, secret.column, slope)
    everyone, codes = np.arange(len(rows)), secret.codes[rows]
    candidates = []
    if public.has_closed_form and not secret.is_target:
        candidates = candidate_rows(public, table, rows, secret.index, known.values)
    if goal is not None:
        shared |= _scales(task, public, X, fitted, white_box, candidates, known)
    return AttributeSubject(
        **shared,
        **_columns_loss(fitted, candidates, rows, noise),
        hypotheses=Hypotheses.near(white_box.encodings_[everyone, codes]),
        directions=_directions(white_box.encodings_, codes),
        shapes=None if white_box._shaped is None else white_box._shaped.shapes,
    )


def _scales(
    task: Task,
    public: Any,
    X: Any,
    fitted: Any,
    white_box: WhiteBoxAttributeInference,
    candidates: list[Any],
    known: Any,
) -> dict[str, Any]:
    """Noise scale under every value of every target, or why it is not found."""
    model, goal = last_step(task.estimator), goal_of(task.estimator, task.noise_scales)
    if not isinstance(goal, NoiseGoal):
        return {"uncounted": CALIBRATED}
    if task.fitted:
        return {"uncounted": "the fits that are played have the noise scale of all records"}
    if white_box._shaped is not None:
        return {"uncounted": "the covariance of the noise follows the records as well"}
    if task.refit_preprocessing or not public.has_closed_form:
        return {"uncounted": "the preprocessing is trained anew with each value"}
    if model.reweighting is not None:
        return {"uncounted": "a reweighting is searched for anew with each value"}
    scale = PublishedScale.of(model, goal, X, task.y, task.sample_weight)
    rows, values = known.targets, known.values
    missing = scale.missing(len(rows) * len(values))
    if missing:
        return {"uncounted": missing}
    if known.secret.is_target:
        classes = getattr(last_step(fitted), "classes_", None)
        numbers = values if classes is None else np.searchsorted(classes, values)

        def change(objective: Any, target: int, m: int) -> Any:
            return replaced_target(objective, target, float(numbers[m]))

    else:
        change = rows_with(candidates, {int(target): k for k, target in enumerate(rows)})
    return {"scales": scale.with_values(rows, change, len(values))}


def _directions(encodings: FloatArray, codes: IntArray) -> FloatArray:
    """Differences between the parameters of true values and of all others, (n_directions, p)."""
    n_targets, n_values, p = encodings.shape
    others = np.arange(n_values) != codes[:, None]
    own = encodings[np.arange(n_targets), codes]
    return np.asarray((encodings - own[:, None])[others].reshape(-1, p))


def _quantity(
    shared: dict[str, Any], column: FloatArray, slope: FloatArray | None
) -> AttributeSubject:
    rows, truth, white_box = shared["targets"], shared["secrets"], shared["white_box"]
    low, high = (end[rows] for end in range_of_others(column))
    nodes, shaped = white_box.encodings_, white_box._shaped
    if slope is None:
        slope = slope_at_truth(nodes, low, high, truth)
    unit_eta = np.sqrt((shared["noise"].whitened(slope) ** 2).sum(axis=1))
    information = None
    if shaped is not None:
        change = slope_at_truth(shaped.shapes, low, high, truth)
        root = shared["noise"].matrix_root
        information = ShapedInformation.of_a_quantity(slope, change, root)
        unit_eta = np.full(len(rows), np.nan)
    return AttributeSubject(
        **shared,
        hypotheses=Hypotheses.near(*at_truth(nodes, low, high, truth)),
        directions=nodes[:, -1] - nodes[:, 0],
        unit_eta=unit_eta,
        information=information,
    )


def _columns_loss(
    fitted: Any, candidates: list[Any], targets: IntArray, noise: NoiseShape
) -> dict[str, Any]:
    """Fisher information loss of a subject, over the encoded columns of an attribute.

    Not known where there are no candidates: of labels, and of models without closed forms.
    """
    not_known = np.full(len(targets), np.nan)
    if not candidates:
        return {"unit_eta": not_known}
    # What is fitted has no noise, of any shape.
    state = unit_state(fitted, noise)
    rows = take_rows(state.objective.X, targets)
    tables = [plain_table(table) for table in candidates]
    columns = changed_columns(rows, tables)
    if not len(columns):
        return {"unit_eta": np.zeros(len(targets))}
    sums = np.stack([np.ravel(table[:, columns].sum(axis=1)) for table in tables])
    one_hot = len(columns) > 1 and bool(np.allclose(sums, 1.0))
    block = Columns(columns, constrained=one_hot)
    batch = state.training.take(targets)
    if noise.reads_data:
        information = ShapedInformation.of_columns(state, batch, block)
        return {"unit_eta": not_known, "information": information}
    return {"unit_eta": leakage_model(state).record_loss(batch, block)}
