"""What several folders of tests share: options, cases, scikit-learn's checks."""

import functools
import inspect
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

from skleak.influence.reweighting import total_feature_norms
from skleak.mechanisms import as_reweighting
from skleak.utils._linalg import weighted_gram


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
    """Unnormalised Hessian ``H`` of a fit, by one pass over its records."""
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
