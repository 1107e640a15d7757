"""Which cells an audit consists of, and what they are computed from."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_consistent_length, column_or_1d

from skleak.adversary._consistency import weight_argument
from skleak.adversary._encodings import check_private, last_step
from skleak.adversary._knowledge import as_table
from skleak.adversary._models import Shell, fit_shell, models_with
from skleak.audit.games._bounds import success_bounds
from skleak.audit.games._game import Outcome, play_actual, play_drawn, play_errors
from skleak.audit.games._mechanism import colored
from skleak.audit.games._shaped_noise import ShapedNoise
from skleak.audit.games._subject import Subject
from skleak.audit.run._cells import Cell
from skleak.audit.tables._attribute import Design, cell_key
from skleak.utils import _copies
from skleak.utils._typing import Array, FloatArray

__all__ = ["evaluation_set", "noise_levels", "plan_cells", "without_ledger"]

# Streams of seeds at every noise level.
_GAMES, _UTILITY = 0, 1


def without_ledger(estimator: Any) -> Any:
    """Unfitted copy of an estimator or pipeline that charges no ledger: audits release nothing."""
    check_private(estimator, "auditor")
    return _copies.without_ledger(estimator)


def noise_levels(noise_scales: Any, estimator: Any, subject: Subject) -> tuple[float, ...]:
    """Noise levels of an audit, ascending."""
    if noise_scales is None:
        model = last_step(without_ledger(estimator))
        if "noise_scale" not in model.get_params(deep=False):
            raise ValueError(
                f"{type(model).__name__} adds no noise of its own. Pass the standard deviations of "
                "the noise to audit in `noise_scales`."
            )
        noise_scales = model.noise_scale
        if not np.isscalar(noise_scales):
            weights = weight_argument(model, subject.weights)
            noise_scales = model.fit(subject.X, subject.y, **weights).noise_scale_
    levels = np.unique(np.asarray(noise_scales, dtype=np.float64))
    if not levels.size or not np.all((levels >= 0.0) & np.isfinite(levels)):
        raise ValueError(
            "`noise_scales` must hold finite numbers, zero or more; got "
            f"{np.asarray(noise_scales).tolist()}."
        )
    return tuple(levels.tolist())


def evaluation_set(subject: Subject, X: Any, y: Any) -> tuple[Any, Array]:
    """Preprocessed records on which utility is measured."""
    if y is None:
        raise ValueError("`X_test` needs its targets: pass `y_test` too.")
    table, y = as_table(X), column_or_1d(y)
    check_consistent_length(table, y)
    return subject.model.transform(table), y


def plan_cells(
    subject: Subject,
    design: Design,
    attacks: dict[str, Any],
    noise: dict[float, FloatArray],
    entropy: list[int],
    test: "tuple[Any, Array] | None",
) -> dict[str, Cell]:
    """All cells by key: every attack, the bounds and the utility at every noise level."""
    X, y = (subject.X, subject.y) if test is None else test
    labels, y = _numbered(subject, y)
    shell = fit_shell(subject.model, subject.X, labels, subject.weights)
    cells: dict[str, Cell] = {}
    for k, scale in enumerate(design.noise_scales):
        own = noise[scale]
        if design.kind == "categorical":
            points = subject.white_box.encodings_
            if subject.shapes is None:  # where the noise is isotropic
                points = subject.noise.whitened(points)
            arguments = (points, subject.prior, scale, design.bounds, subject.shapes)
            cells[cell_key(scale, "bounds")] = (success_bounds, arguments)
        for name, attack in attacks.items():
            seed = np.random.SeedSequence(entropy, spawn_key=(k, _GAMES))
            cells[cell_key(scale, name)] = _game(subject, design, attack, own, scale, seed)
        seed = np.random.SeedSequence(entropy, spawn_key=(k, _UTILITY))
        releases = (shell, subject.noiseless, own, design.n_releases, seed)
        cells[cell_key(scale, "utility")] = (utility, (*releases, X, y))
    none = (shell, subject.noiseless, np.zeros(len(subject.noiseless)), 1, seed)
    cells[cell_key(0.0, "noiseless")] = (utility, (*none, X, y))
    return cells


def _numbered(subject: Subject, y: Array) -> tuple[Array, Array]:
    """Targets of training and of utility, classes by number: strings take long to compare."""
    if not is_classifier(subject.model.template):
        return subject.y, y
    _, codes = np.unique(np.concatenate([subject.y, y]), return_inverse=True)
    return codes[: len(subject.y)], codes[len(subject.y) :]


def _game(
    subject: Subject,
    design: Design,
    attack: Any,
    noise: FloatArray,
    scale: float,
    seed: np.random.SeedSequence,
) -> Cell:
    rest = (noise, scale, design.n_releases, seed)
    if design.kind != "categorical":
        truth, bound = _numbers(subject, attack, scale)
        return play_errors, (attack, subject.noiseless, truth, bound, subject.spread, *rest)
    if design.drawn:
        known = (subject.white_box.encodings_, subject.values, subject.prior)
        if subject.shapes is not None:
            shaped = ShapedNoise.of(subject.shapes, subject.noise.matrix_root, noise)
            return play_drawn, (attack, *known, shaped, *rest[1:])
        return play_drawn, (attack, *known, *rest)
    return play_actual, (attack, subject.noiseless, subject.secrets, *rest)


def _numbers(subject: Subject, attack: Any, scale: float) -> tuple[FloatArray, FloatArray]:
    """What an attack on numbers guesses, and the bound on its error."""
    truth = subject.secrets.reshape(len(subject.targets), -1)
    with_target = getattr(attack, "n_reconstructed_", truth.shape[1]) > truth.shape[1]
    if with_target and subject.labels is not None and subject.unit_mse_with_target is not None:
        bound = subject.unit_mse_with_target * scale**2
        return np.column_stack([truth, subject.labels]), bound
    return truth, subject.mse(scale)


def utility(
    shell: Shell,
    noiseless: FloatArray,
    noise: FloatArray,
    n_releases: int,
    seed: np.random.SeedSequence,
    X: Any,
    y: Array,
) -> Outcome:
    """Score of released models.

    Shapes: ``noiseless`` (p,); ``noise`` (p,) or (p, p); ``X``, ``y`` (n, d); returns ``utility``,
    of shape (n_releases,).
    """
    draws = np.random.default_rng(seed).normal(size=(n_releases, len(noiseless)))
    models = models_with(shell, noiseless + colored(noise, draws))
    return {"utility": np.array([float(model.score(X, y)) for model in models])}
