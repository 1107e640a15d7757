"""Attacks by whoever sees releases alone: neighbors, refits, forks, notebooks."""

import copy
import os
import pickle

import numpy as np
import pandas as pd
import pytest
from helpers import every, mostly_slow
from scipy import sparse
from scipy.stats import norm

from skleak.exceptions import PrivacyLeakWarning
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.linear_model._measured import draw_release
from skleak.mechanisms import EpsilonDelta, GaussianDP

PROMISES = {"data_norm": 1.0, "fit_intercept": False, "public": ("n_samples",), "alpha": 0.1}


def _records(rng, n=40):
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    return X, np.arange(n) % 2


def _all_but_parameters(model):
    """What an attacker compares between neighbors: all but noisy parameters, to the last bit."""
    released = pickle.loads(pickle.dumps(model.release()))
    released.coef_ = np.zeros_like(released.coef_)
    released.intercept_ = np.zeros_like(released.intercept_)
    return pickle.dumps(released), repr(released), list(vars(released)), released.to_json()


FORMS = {
    "array": lambda X: X,
    "frame": lambda X: pd.DataFrame(X, columns=list("abc")),
    "single": lambda X: X.astype(np.float32),
    "column major": np.asfortranarray,
    "sparse": sparse.csr_matrix,
}


@pytest.mark.slow
@every("form", FORMS)
@every("noise", [0.3, GaussianDP(1.0), EpsilonDelta(1.0, 1e-6)])
@every("classes", [["ill", "well"], ["ill", "well", "unknown"]])
def test_neighbors_differ_in_nothing_else(form, noise, classes, rng):
    """One row is replaced by zeros, by one at the promised norm, and the label of its own."""
    X, y = _records(rng)
    y = np.array(["ill", "well"])[y]
    options = {**PROMISES, "classes": classes, "public": ("n_samples", "sample_weight")}
    seen = []
    for row, label in [(X[0], y[0]), (np.zeros(3), y[0]), ([-1.0, 0.0, 0.0], classes[-1])]:
        changed, labels = X.copy(), y.astype("<U9")
        changed[0], labels[0] = row, label
        elsewhere = len(classes) == 2 and noise != 0.3
        mechanism = "objective" if elsewhere else "output"
        model = PrivateLogisticRegression(noise, mechanism=mechanism, **options)
        model.fit(FORMS[form](changed), labels, sample_weight=np.r_[5.0, np.ones(39)])
        seen.append(_all_but_parameters(model))
    assert seen[0] == seen[1] == seen[2]
    assert b"replacement of one row" in seen[0][0]


def test_a_release_does_not_tell_that_weights_are_equal(rng):
    """A guarantee that only equal weights had would tell them."""
    X, y = _records(rng)
    seen = []
    for weight in (1.0, 2.0):
        model = PrivateLogisticRegression(0.3, classes=[0, 1], **PROMISES)
        model.fit(X, y, sample_weight=np.r_[weight, np.ones(39)])
        seen.append(_all_but_parameters(model))
    assert seen[0] == seen[1]
    assert model.release().provenance_["differential_privacy"] is None
    assert model.fit(X, y).release().provenance_["differential_privacy"]["exact"]


def test_a_norm_whose_square_vanishes_is_a_norm(rng):
    rows = np.full((10, 1), 1e-170)
    model = PrivateLogisticRegression(1e-3, classes=[0, 1], **{**PROMISES, "data_norm": 1e-175})
    for X in (rows, sparse.csr_array(rows)):
        with pytest.raises(ValueError, match="10 of 10 rows are longer"):
            model.fit(X, np.arange(10) % 2)


def test_entries_of_a_sparse_table_that_are_listed_twice_count_as_their_sum():
    entries = np.r_[0.9, 0.9, np.full(9, 0.1)]
    twice = sparse.csr_matrix((entries, np.zeros(11, dtype=int), np.r_[0, 2, np.arange(3, 12)]))
    model = PrivateLogisticRegression(0.3, classes=[0, 1], **{**PROMISES, "data_norm": 1.3})
    with pytest.raises(ValueError, match="1 of 10 rows are longer"):
        model.fit(twice, np.arange(10) % 2)


@pytest.mark.parametrize("n_classes", mostly_slow([2, 3], 0))
def test_no_replacement_moves_the_parameters_by_more_than_is_stated(n_classes, rng):
    """Few rows at the promised norm, little penalty, loose solver, weights of any size."""
    worst = 0.0
    for trial in range(20):
        n, d = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        X = rng.normal(size=(n, d))
        X /= np.linalg.norm(X, axis=1)[:, None]
        y, weights = rng.integers(n_classes, size=n), rng.exponential(size=n) ** (3 * (trial % 2))
        row = int(np.argmax(weights))
        model = PrivateLogisticRegression(
            1.0,
            alpha=10.0 ** rng.uniform(-6.0, 1.0),
            tol=10.0 ** rng.uniform(-10.0, -2.0),
            classes=range(n_classes),
            data_norm=1.0,
            fit_intercept=False,
            public=("n_samples", "sample_weight"),
        )
        before = model.fit(X, y, sample_weight=weights)._state.factor.coefficients
        X[row] *= rng.choice([1.0, -1.0])
        y[row] = rng.integers(n_classes)
        after = model.fit(X, y, sample_weight=weights)._state.factor.coefficients
        assert model._guarantee.holds
        worst = max(worst, np.linalg.norm(after - before) / model._guarantee.sensitivity)
    assert 0.2 < worst <= 1.0


@pytest.mark.slow
def test_the_sum_over_the_classes_tells_no_more_than_is_stated(rng):
    """Noiseless parameters sum to zero over the classes: their sum in a release is noise alone.

    Who subtracts it has less noise in each parameter, and still no better test of the label of a
    record than the whole release allows.
    """
    X, y = _records(rng)
    fits = []
    for label in (0, 1):
        labels = np.r_[label, 2, y[2:]]
        options = {**PROMISES, "classes": [0, 1, 2]}
        fits.append(PrivateLogisticRegression(1.0, **options).fit(X, labels)._state.factor)
    means = np.array([fit.coefficients.reshape(3, -1) for fit in fits])
    scale = float(np.linalg.norm(means[1] - means[0])) / 2.0  # distance of two standard errors
    models = [PrivateLogisticRegression(scale, **options) for _ in range(2)]
    for label, model in enumerate(models):
        model.fit(X, np.r_[label, 2, y[2:]])
    secrets = rng.integers(2, size=1000)
    released = [_drawn_again(models[secret]) for secret in secrets]
    centered = np.array(released) - np.mean(released, axis=1, keepdims=True)
    distances = ((centered[:, None] - means) ** 2).sum(axis=(2, 3))
    success = np.mean(distances.argmin(axis=1) == secrets)
    assert abs(success - norm.cdf(1.0)) < 4.5 * np.sqrt(norm.cdf(1.0) * norm.sf(1.0) / 1000)


def _drawn_again(model):
    """Coefficients of one more release of a fit of three classes, as `fit` draws them."""
    return draw_release(model._state, None).parameters.reshape(3, -1)


def test_a_refit_leaves_nothing_of_the_fit_before(rng):
    X, y = _records(rng)
    frame = pd.DataFrame(X, columns=list("abc"))
    ways = [
        {"reweighting": "irfil"},
        {"reweighting": None, "fit_intercept": False, "alpha": 0.1, "classes": [0, 1, 2]},
        {"reweighting": None, "classes": None, "noise_covariance": "curvature"},
    ]
    model = PrivateLogisticRegression(0.3).fit(frame, y, sample_weight=1.0 + y)
    for way in ways:
        with pytest.warns(PrivacyLeakWarning, match="Pickling"):
            model = copy.copy(model)
        fresh = PrivateLogisticRegression(0.3, **way).fit(X, y)
        model.set_params(**PrivateLogisticRegression().get_params())
        model.set_params(noise_scale=0.3, **way).fit(X, y)
        assert set(vars(model)) == set(vars(fresh))
        assert _all_but_parameters(model) == _all_but_parameters(fresh)


@pytest.mark.filterwarnings("ignore::skleak.exceptions.PrivacyLeakWarning")
def test_copies_and_children_draw_noise_of_their_own(rng):
    X, y = _records(rng)
    model = PrivateLogisticRegression(1.0).fit(X, y)
    drawn = [copy.deepcopy(model).fit(X, y).coef_[0, 0] for _ in range(3)]
    drawn += [model.coef_[0, 0], model.fit(X, y).coef_[0, 0]]
    if hasattr(os, "fork"):
        reader, writer = os.pipe()
        for _ in range(3):
            child = os.fork()
            if child == 0:
                os.write(writer, f"{model.fit(X, y).coef_[0, 0]!r} ".encode())
                os._exit(0)
            os.waitpid(child, 0)
        os.close(writer)
        drawn += os.read(reader, 4096).decode().split()
        os.close(reader)
    assert len(set(map(str, drawn))) == len(drawn)


@pytest.mark.parametrize("state", [np.random.mtrand._rand, np.random.RandomState(0)])
def test_the_global_generator_is_no_secret(state, rng):
    X, y = _records(rng)
    model = PrivateLogisticRegression(0.3, classes=[0, 1], random_state=state, **PROMISES)
    with pytest.warns(PrivacyLeakWarning, match="from a seed or a generator"):
        released = model.fit(X, y).release()
    assert released.provenance_["differential_privacy"] is None
    for other in (np.random, np.array(0)):
        with pytest.raises(ValueError, match="random_state"):
            PrivateLogisticRegression(random_state=other).fit(X, y)


@pytest.mark.parametrize("options", [{}, {"reweighting": "irfil"}])
def test_the_diagram_of_a_notebook_shows_no_leakage(options, rng):
    """Notebooks are published as they were run, with what the last line of a cell shows."""
    X, y = _records(rng)
    shown = PrivateLinearRegression(0.3, **options).fit(X, y)._repr_html_()
    for name in ("fisher_information_loss_", "sample_reweights_", "n_iter_", "history_"):
        assert name not in shown


def test_whoever_edits_a_release_edits_no_other(rng):
    X, y = _records(rng)
    model = PrivateLogisticRegression(0.3, classes=[0, 1], **PROMISES).fit(X, y)
    first = model.release()
    first.provenance_["differential_privacy"]["epsilon"] = 0.0
    first.provenance_["public"].append("sample_weight")
    again = model.release().provenance_
    assert again["differential_privacy"]["epsilon"] > 0.0
    assert again["public"] == ["n_samples"]
