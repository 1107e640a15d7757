"""A model as it is trained: out of searches and target transformers, and with every seed fixed."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses._consistency import weight_argument
from skleak.adversary.hypotheses._encodings import adds_noise, last_step
from skleak.utils._arguments import check_numbers
from skleak.utils._random import seeded, unseeded
from skleak.utils._sklearn_compat import BaseSearchCV
from skleak.utils._typing import Array, FloatArray

Draw = Callable[[int], Array]


@dataclass(frozen=True)
class Learner:
    """A learner to train, and how it was unwrapped and seeded. Confidential."""

    estimator: Any  # unfitted: no search, and no transformer of its target
    y: Array  # what it is trained on, (n,)
    y_test: Array | None = None
    wrappers: tuple[str, ...] = ()  # classes around it that were taken off, the outermost first
    chosen: dict[str, Any] = field(default_factory=dict)  # parameters that searches chose
    transformed: bool = False  # whether `y` is a function of the targets that were given
    seeds: tuple[str, ...] = ()  # parameters of it that leave its training to chance

    def seeded(self, draw: Draw) -> Any:
        """Unfitted copy of which nothing is left to chance but its own noise."""
        return seeded(self.estimator, draw, self.seeds)


def find_learner(
    estimator: Any, X: Any, y: Array, y_test: Any, sample_weight: FloatArray | None, draw: Draw
) -> Learner:
    """Take a model out of what is around it; a search runs once, on all records.

    Its own noise stays secret: a seed of the last step is none to fix where that adds noise.

    Shapes: ``X`` (n, n_columns); ``y`` (n,); ``sample_weight`` (n,).
    """
    known = None if y_test is None else np.asarray(y_test)
    learner = Learner(clone(estimator, safe=False), y, known)
    while (found := _without_wrapper(learner, X, sample_weight, draw)) is not None:
        learner = found
    estimator = learner.estimator
    names = unseeded(estimator)
    if adds_noise(estimator):
        own = "random_state"
        if isinstance(estimator, Pipeline):
            own = f"{estimator.steps[-1][0]}__random_state"
        names = tuple(name for name in names if name != own)
    return replace(learner, seeds=names)


def _without_wrapper(
    learner: Learner, X: Any, sample_weight: FloatArray | None, draw: Draw
) -> Learner | None:
    """Take off the outermost wrapper of the last step; None where there is none."""
    model = last_step(learner.estimator)
    if isinstance(model, Pipeline) and isinstance(learner.estimator, Pipeline):
        return replace(learner, estimator=_joined(learner.estimator, model))
    name = type(model).__name__
    if isinstance(model, BaseSearchCV):
        chosen = _search(learner, X, sample_weight, draw)
        best = clone(model.estimator).set_params(**clone(chosen, safe=False))
        learner = replace(learner, chosen=learner.chosen | chosen)
    elif isinstance(model, TransformedTargetRegressor):
        y, y_test = _transformed_targets(model, learner.y, learner.y_test)
        learner = replace(learner, y=y, y_test=y_test, transformed=True)
        best = LinearRegression() if model.regressor is None else clone(model.regressor)
    else:
        return None
    inner = _with_last_step(learner.estimator, best)
    return replace(learner, estimator=inner, wrappers=(*learner.wrappers, name))


def _search(
    learner: Learner, X: Any, sample_weight: FloatArray | None, draw: Draw
) -> dict[str, Any]:
    """Parameters that a search chooses from all records."""
    search = last_step(learner.estimator)
    if not search.refit:
        raise ValueError(
            f"{type(search).__name__} with refit=False trains no model with what it chose: there "
            "is none to audit. Set refit=True, or pass the estimator with the parameters chosen."
        )
    whole = seeded(learner.estimator, draw, unseeded(learner.estimator))
    weights = {}
    if sample_weight is not None:
        # A search passes on what its own `fit` does not name.
        names = weight_argument(search.estimator, sample_weight)
        start = f"{whole.steps[-1][0]}__" if isinstance(whole, Pipeline) else ""
        weights = {f"{start}{name}": value for name, value in names.items()}
    return dict(last_step(whole.fit(X, learner.y, **weights)).best_params_)


def _transformed_targets(
    model: TransformedTargetRegressor, y: Array, y_test: Array | None
) -> tuple[FloatArray, FloatArray | None]:
    """Targets as the regressor inside is trained on, both (n,)."""
    # It checks targets, and fits the transformer: the regressor does not matter.
    cheap = clone(model).set_params(regressor=DummyRegressor())
    fitted = cheap.fit(np.zeros((len(y), 1)), y)

    def of(targets: Array) -> FloatArray:
        column = np.asarray(targets, dtype=np.float64).reshape(-1, 1)
        values = np.asarray(fitted.transformer_.transform(column))
        return check_numbers("transformed y", values.ravel(), finite=True)

    return of(y), None if y_test is None else of(y_test)


def _with_last_step(estimator: Any, model: Any) -> Any:
    if not isinstance(estimator, Pipeline):
        return model
    other = clone(estimator)
    other.steps[-1] = (other.steps[-1][0], model)
    return other


def _joined(outer: Pipeline, inner: Pipeline) -> Pipeline:
    """One pipeline of the steps of both, whose names differ."""
    taken = {name for name, _ in outer.steps[:-1]}
    steps = list(outer.steps[:-1])
    for name, step in inner.steps:
        while name in taken:
            name = f"{name}-inner"
        taken.add(name)
        steps.append((name, step))
    joined: Pipeline = clone(Pipeline(steps))
    return joined
