"""The whole pipeline as a function of a record, what its transformers learn included."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from skleak.accounting import LeakageLedger
from skleak.exceptions import AttackNotApplicableError
from skleak.inspection import attribute_leakage
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

SQUARES = PolynomialFeatures(2, include_bias=False)


class LeaveOneOutEncoder(TransformerMixin, BaseEstimator):
    """Mean target of the others of a ward; of all of them for new records."""

    def fit(self, X, y):
        self.means_ = {ward: y[X["ward"] == ward].mean() for ward in set(X["ward"])}
        return self

    def transform(self, X):
        return X["ward"].map(self.means_).to_numpy()[:, None]

    def fit_transform(self, X, y):
        size = X.groupby("ward")["ward"].transform("size").to_numpy()[:, None]
        return (size * self.fit(X, y).transform(X) - y[:, None]) / (size - 1)


def _parameters(pipeline, X, y, row, column, value):
    changed = X.astype({column: type(value)})
    changed.iloc[row, changed.columns.get_loc(column)] = value
    twin = clone(pipeline)
    twin[-1].set_params(noise_scale=0.0, tol=1e-13, ledger=None)
    return twin.fit(changed, y)[-1]._confidential_state().factor.coefficients


def _slope(pipeline, X, y, row, column, step):
    x = float(X[column].iloc[row])
    near, far = (
        _parameters(pipeline, X, y, row, column, x + h)
        - _parameters(pipeline, X, y, row, column, x - h)
        for h in (step, 2.0 * step)
    )
    return (8.0 * near - far) / (12.0 * step)


@pytest.mark.slow
def test_losses_are_those_of_the_whole_pipeline(patients):
    X, y = patients
    X, y = X[["sex", "bmi", "bp"]][:30], y[:30]
    pipelines = [
        make_pipeline(StandardScaler(), SQUARES, PrivateLinearRegression(0.1)),
        make_pipeline(StandardScaler(), PCA(2), PrivateLogisticRegression(0.1)),
        make_pipeline(SplineTransformer(3), PrivateLinearRegression(0.1)),
    ]
    last = pipelines[-1]
    for pipeline in pipelines:
        target = y > 0 if isinstance(pipeline[-1], PrivateLogisticRegression) else y
        pipeline.fit(X, target)
        leakage = attribute_leakage(
            pipeline, X, target, ["bmi", "sex"], records=[4], refit_preprocessing=True
        ).set_index("column")
        sd = X["bmi"].std(ddof=0)
        slope = _slope(pipeline, X, target, 4, "bmi", 0.01 * sd)
        expected = np.linalg.norm(slope) / 0.1
        loss = leakage.loc["bmi", "fisher_information_loss"]
        # Refits through collinear splines scatter by the processor: a slope that cannot be told
        # from a jump is stated as one, and never too small.
        assert loss == pytest.approx(expected, rel=1e-5) or (loss == np.inf and pipeline is last)
        ends = [_parameters(pipeline, X, target, 4, "sex", value) for value in (1.0, 2.0)]
        assert leakage.loc["sex", "distance"] == pytest.approx(pdist(ends)[0] / 0.1, rel=1e-7)
        held = attribute_leakage(pipeline, X, target, ["bmi"], records=[4])
        same = held["fisher_information_loss"].iloc[0] == pytest.approx(expected, rel=1e-2)
        # Knots are set by the least and the largest number, which this one is not.
        assert same == isinstance(pipeline[0], SplineTransformer)
        assert leakage.attrs["preprocessing"].startswith("refitted")
        assert held.attrs["preprocessing"].startswith("held fixed")


def test_without_preprocessing_both_are_the_same(patients):
    X, y = patients
    X = (X - X.mean()) / X.std()
    model = PrivateLinearRegression(0.1).fit(X[["bmi", "sex"]], y)
    held, refitted = (
        attribute_leakage(
            model, X[["bmi", "sex"]], y, records=[3, 8], refit_preprocessing=refit
        ).drop(columns="note")
        for refit in (False, True)
    )
    numbers = held.select_dtypes("number")
    np.testing.assert_allclose(refitted[numbers.columns], numbers, rtol=1e-6)


@pytest.mark.slow
def test_targets_that_an_encoder_sees_count_and_no_ledger_is_charged(patients, rng, tmp_path):
    X, y = patients
    X = X[["bmi"]].assign(ward=rng.choice(["north", "south"], size=len(y)))
    encoder = make_column_transformer(
        (LeaveOneOutEncoder(), ["ward"]),
        (StandardScaler(), ["bmi"]),
    )
    flat = make_pipeline(encoder, PrivateLinearRegression(0.1)).fit(X, y)
    with pytest.raises(ValueError, match="Pass `refit_preprocessing=True`"):
        attribute_leakage(flat, X, y)
    ledger = LeakageLedger(tmp_path / "ledger.json", max_leakage=1e6, units=1e3)
    model = PrivateLinearRegression(0.1, ledger=ledger)
    nested = Pipeline([("a", encoder), ("b", make_pipeline(SQUARES, model))]).fit(X, y)
    before = (tmp_path / "ledger.json").read_bytes()
    leakage = attribute_leakage(nested, X, y, records=[1, 2], refit_preprocessing=True)
    assert (leakage["gain"] > 0.0).all()
    assert (tmp_path / "ledger.json").read_bytes() == before


@pytest.mark.slow
def test_a_sample_of_the_records_and_what_is_refused(patients):
    X, y = patients
    pipeline = make_pipeline(StandardScaler(), PrivateLinearRegression(0.1)).fit(X, y)
    leakage = attribute_leakage(pipeline, X, y, "sex", refit_preprocessing=True)
    assert len(leakage) == 20
    assert leakage.attrs["records"] == "some"
    with pytest.raises(ValueError, match="trained anew on `X` and `y`, is another one"):
        attribute_leakage(pipeline, X, y[::-1], "sex", refit_preprocessing=True)
    for model in (
        PrivateLinearRegression(0.1, reweighting="irfil"),
        PrivateLinearRegression(0.1, noise_covariance="minimax"),
    ):
        pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
        with pytest.raises(AttackNotApplicableError, match="no exact answer for this model"):
            attribute_leakage(pipeline, X, y, "sex", refit_preprocessing=True)
