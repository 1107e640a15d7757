"""What several folders of tests share: options, cases, scikit-learn's checks."""

import functools
import inspect
import tracemalloc
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

from skleak.influence.jacobian import Columns
from skleak.influence.reweighting import total_feature_norms
from skleak.linear_model import PrivateLinearRegression
from skleak.mechanisms.grids import as_reweighting
from skleak.utils._linalg import weighted_gram

_VOID = {"meta", "link", "br", "img", "hr", "input"}


def flat(**options):
    """Turn entries such as ``reweighting__tol`` into parameters of the reweighting."""
    inner = {name: options.pop(name) for name in list(options) if name.startswith("reweighting__")}
    reweighting = as_reweighting(options.get("reweighting"))
    if reweighting is not None:
        params = {name.removeprefix("reweighting__"): value for name, value in inner.items()}
        options["reweighting"] = clone(reweighting).set_params(**params)
    return options


def assert_scikit_learn_checks_pass(estimator):
    """Run every check of scikit-learn on one estimator, and name all that fail."""
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert len(results) > 30
    faults = [
        f"{result['check_name']}: {result['exception']!r}"
        for result in results
        if result["status"] not in ("passed", "skipped")
    ]
    assert not faults, estimator


def mostly_slow(cases, *quick):
    """Cases for ``parametrize``, of which all but those at the given places are slow tests.

    A case of several arguments is a tuple, and any other is none.
    """
    cases = list(cases)
    chosen = {place % len(cases) for place in quick or (0,)}
    return [case if k in chosen else _slow(case) for k, case in enumerate(cases)]


def exhaustive(cases):
    """Cases for ``parametrize``, tuples, that are tested every week alone."""
    marks = [pytest.mark.slow, pytest.mark.exhaustive]
    return [pytest.param(*case, marks=marks) for case in cases]


def _slow(case):
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)


def every(names, cases):
    """Run a test for every case in one go; a failure names its case. For many that are cheap."""
    names = [name.strip() for name in names.split(",")]
    cases = [case if len(names) > 1 else (case,) for case in cases]

    def decorate(test):
        @functools.wraps(test)
        def run(*args, **kwargs):
            for case in cases:
                try:
                    test(*args, **kwargs, **dict(zip(names, case, strict=True)))
                except BaseException as error:
                    error.add_note(f"in the case {dict(zip(names, case, strict=True))}")
                    raise

        signature = inspect.signature(test)
        rest = [value for name, value in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=rest)
        return run

    return decorate


def hessian_matrix(state):
    """Unnormalized Hessian ``H`` of a fit, by one pass over its records."""
    objective, w = state.objective, state.factor.coefficients
    weights = objective.weights * objective.loss.curvature(objective.predictor(w))
    d = objective.X.shape[1]
    hessian = np.diag(objective.total * objective.penalty)
    hessian[:d, :d] += weighted_gram(objective.X, weights)
    if objective.fit_intercept:
        hessian[d] = hessian[:, d] = objective.transpose_product(weights)
    return hessian


def excess_loss(state, covariance):
    """Expected rise of the training objective by noise, ``tr(H C) / (2 N)``.

    Exact for the squared loss, to second order in the noise for others.
    """
    hessian = hessian_matrix(state)
    return float(np.einsum("ij,ij->", hessian, covariance) / (2.0 * state.objective.total))


def total_norms(state, batch, columns=None, norm="spectral", *, derivative=None):
    """Total loss of each record over one block of columns, by default the whole record."""
    columns = state.whole_record if columns is None else columns
    return total_feature_norms(state, batch, [columns], norm, derivative=derivative)[:, 0]


def fit_quietly(model, X, y, sample_weight=None):
    """State of a fit that met its tolerance as far as rounding lets it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y, sample_weight=sample_weight)
    return model._confidential_state()


class Page(HTMLParser):
    """The tags, attributes and text of an HTML page; fails on tags that do not match."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)

    @property
    def words(self):
        return " ".join("".join(self.text).split())


def peak_memory(call):
    """Most bytes that Python held at a time while it called a function."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def bayes_on_a_line(positions, weights):
    """Exact ``int max_m w_m phi(y - e_m) dy`` for each row, by its intervals."""
    log_w = np.log(weights)
    first, second = np.triu_indices(positions.shape[1], 1)
    gap = positions[:, first] - positions[:, second]
    half = 0.5 * (positions[:, first] ** 2 - positions[:, second] ** 2)
    cuts = np.sort((half - log_w[:, first] + log_w[:, second]) / gap, axis=1)
    ends = np.concatenate([cuts[:, :1] - 1e3, cuts, cuts[:, -1:] + 1e3], axis=1)
    middle = 0.5 * (ends[:, 1:] + ends[:, :-1])
    score = log_w[:, None] - 0.5 * (middle[..., None] - positions[:, None]) ** 2
    winner = score.argmax(axis=2)
    center = np.take_along_axis(positions, winner, axis=1)
    mass = ndtr(ends[:, 1:] - center) - ndtr(ends[:, :-1] - center)
    return (np.take_along_axis(weights, winner, axis=1) * mass).sum(axis=1)


class Fixed:
    """A classifier that answers with given probabilities, whatever it is asked."""

    def __init__(self, p, classes):
        self.p, self.classes_ = np.asarray(p, dtype=float), np.asarray(classes)

    def predict_proba(self, X):
        return self.p[np.asarray(X)[:, 0].astype(int)]


def numbered(n):
    """Records that `Fixed` knows by their number, (n, 1)."""
    return np.arange(n)[:, None]


class HalfNoise(PrivateLinearRegression):
    """A model that adds half of the noise that it states."""

    def fit(self, X, y, sample_weight=None):
        """Fit with half of the noise, and say nothing of it."""
        scale = self.noise_scale
        self.set_params(noise_scale=0.5 * scale)
        super().fit(X, y, sample_weight)
        self.set_params(noise_scale=scale)
        return self


def column_blocks(d):
    """Blocks of columns of every kind, of d columns and the target."""
    blocks = [
        Columns(target=True),
        Columns(),
        Columns(np.array([], dtype=int), target=True),
        Columns(np.arange(d), target=True),
        *[Columns(np.array([j])) for j in range(d)][::-1],
    ]
    if d > 1:
        some = np.arange(d)[::-2]
        blocks += [
            Columns(some),
            Columns(some, target=True),
            Columns(np.arange(d), constrained=True),
            Columns(np.array([d - 1, 0]), constrained=True),
            Columns(np.array([d - 1, 0]), constrained=True, target=True),
        ]
    return blocks


def assert_losses_over_blocks(found, first, second, norm, *, rtol):
    """Compare both terms of the losses over `column_blocks` with matrices (n, d + 1, d + 1)."""
    d = first.shape[-1] - 1
    for k, columns in enumerate(column_blocks(d)):
        basis = np.zeros((d + 1, columns.count(d)))
        basis[:d, : columns.count(d) - columns.target] = columns.basis(d)
        if columns.target:
            basis[d, -1] = 1.0
        for table, matrix in zip(
            (found.mean, found.covariance, found.total),
            (first, second, first + second),
            strict=True,
        ):
            block = basis.T @ matrix @ basis
            squares = (
                np.linalg.eigvalsh(block)[:, -1]
                if norm == "spectral"
                else np.trace(block, axis1=1, axis2=2) / basis.shape[1]
            )
            assert_allclose(table[:, k] ** 2, squares, rtol=rtol, atol=1e-3 * rtol * squares.max())


# Codings of two classes, 0 and 1.
CODINGS = {
    "strings": lambda c: np.array(["no", "yes"])[c],
    "booleans": lambda c: c.astype(bool),
    "one and two": lambda c: c + 1,
    "objects": lambda c: np.array(["no", "yes"], dtype=object)[c],
    "categories": lambda c: pd.Series(pd.Categorical.from_codes(c, ["no", "yes"])),
}
