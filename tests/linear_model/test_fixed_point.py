"""A reweighted fit that is not at its fixed point: nothing that acts on a loss takes it.

What is accepted is compared with differences of the whole algorithm, search for weights included.
"""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skleak.accounting import LeakageLedger
from skleak.linear_model import IRFIL, PrivateLinearRegression
from skleak.mechanisms import MaxLeakage

UNITS = {"(columns)": 1.0, "(target)": 1.0}
TIGHT = IRFIL(tol=1e-11, max_iter=200)
unheard = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def _records(seed, n=6, d=8):
    """Fewer records than columns, and weights of their own."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, rng.normal(size=n), rng.integers(1, 4, n).astype(float)


def _model(reweighting="irfil", noise_scale=1.0, **options):
    return PrivateLinearRegression(noise_scale, alpha=1e-3, reweighting=reweighting, **options)


# A fit whose search stops with a spread of 0.1.
FAR = _records(1)


@unheard
def test_no_loss_is_stated():
    X, y, weights = FAR
    model = _model().fit(X, y, sample_weight=weights)
    assert np.all(np.isnan(model.fisher_information_loss_))
    assert np.isnan(model.fisher_information_loss(per="dataset"))
    assert model.release().provenance_["at_fixed_point"] is False


@unheard
def test_no_goal_takes_it():
    X, y, weights = FAR
    for goal in (MaxLeakage(0.5), MaxLeakage(0.5, features=[0])):
        with pytest.raises(ValueError, match=r"did not reach its fixed point.*Raise `alpha`"):
            _model(noise_scale=goal).fit(X, y, sample_weight=weights)


@unheard
def test_no_ledger_takes_it(tmp_path):
    X, y, weights = FAR
    ledger = LeakageLedger(tmp_path / "ledger.json", max_leakage=1e6, units=UNITS)
    model = _model(ledger=ledger, ledger_dataset="six")
    with pytest.raises(ValueError, match=r"did not reach its fixed point.*takes no release"):
        model.fit(X, y, sample_weight=weights)


@unheard
def test_a_report_says_that_it_knows_nothing():
    X, y, weights = FAR
    report = _model().fit(X, y, sample_weight=weights).leakage_report()
    assert not report.dataset["converged"]
    assert "reweighting, did not converge" in report.findings[0]


def test_the_fit_says_so():
    X, y, weights = FAR
    with pytest.warns(ConvergenceWarning, match="not known, and stated as NaN"):
        _model().fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_weights_too_far_apart_to_differentiate_state_no_loss(seed):
    X, y, _ = _records(seed)
    X[0] *= 1e3
    with pytest.warns(ConvergenceWarning, match="differ by so much that rounding"):
        model = _model().fit(X, y)
    assert np.all(np.isnan(model.fisher_information_loss_))


def test_at_the_fixed_point_a_release_says_so():
    X, y, weights = _records(0)
    released = _model().fit(X, y, sample_weight=weights).release()
    assert released.provenance_["at_fixed_point"] is True
    plain = PrivateLinearRegression(1.0).fit(X, y).release()
    assert "at_fixed_point" not in plain.provenance_


def _whole(X, y, weights, i, step, **options):
    """Loss of record i by central differences of the whole algorithm."""
    columns = []
    for j in range(X.shape[1] + 1):
        ends = []
        for sign in (1.0, -1.0):
            moved, target = X.copy(), y.copy()
            if j < X.shape[1]:
                moved[i, j] += sign * step
            else:
                target[i] += sign * step
            model = PrivateLinearRegression(1.0, reweighting=TIGHT, tol=1e-13, **options)
            state = model.fit(moved, target, sample_weight=weights)._confidential_state()
            ends.append(state.factor.coefficients)
        columns.append((ends[0] - ends[1]) / (2.0 * step))
    return np.linalg.norm(np.array(columns), 2)


@unheard
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_what_is_accepted_is_right(seed):
    rng = np.random.default_rng(1000 + seed)
    X, y, weights = _records(1000 + seed, *[(6, 8), (5, 3), (12, 4), (9, 12)][seed % 4])
    if seed % 5 == 0:
        X[0] *= 10.0 ** rng.uniform(0.0, 3.0)
    options = {"alpha": 10.0 ** rng.uniform(-4.0, 0.0), "fit_intercept": bool(seed % 2)}
    model = PrivateLinearRegression(1.0, reweighting=IRFIL(tol=(1e-6, 1e-3)[seed % 2]), **options)
    model.fit(X, y, sample_weight=weights)
    i = int(rng.integers(len(y)))
    stated = model.fisher_information_loss_[i]
    if np.isfinite(stated):
        step = 1e-4 * np.abs(X[i]).max()
        errors = [stated / _whole(X, y, weights, i, h, **options) - 1.0 for h in (step, step / 3)]
        # Within 1e-3 of the fixed point losses are right to a few times that.
        assert np.abs(errors).min() <= 1e-2
