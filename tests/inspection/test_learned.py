"""What transformers learned, in closed form, against the whole pipeline trained anew."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    PowerTransformer,
    StandardScaler,
)

from skleak.inspection import attribute_leakage
from skleak.inspection._leakage import CLOSED, NO_REFIT
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

SQUARES = PolynomialFeatures(2, include_bias=False)
BRANCHES = make_column_transformer(
    (make_pipeline(StandardScaler(with_std=False), StandardScaler()), ["bmi", "bp", "s5"]),
    (make_pipeline(FunctionTransformer(np.log1p), StandardScaler()), ["bmi"]),
    ("passthrough", ["age", "bp"]),
    (OneHotEncoder(), ["sex"]),
    remainder="drop",
)
NUMBERS = FunctionTransformer(lambda t: t[["age", "bmi", "bp", "s5"]])
ENCODERS = {
    "standard": [NUMBERS, StandardScaler(with_mean=False)],
    "logarithms": [NUMBERS, FunctionTransformer(np.log), StandardScaler()],
    "twice": [NUMBERS, StandardScaler(with_std=False), StandardScaler()],
    "squares": [NUMBERS, SQUARES, StandardScaler()],
    "branches": [BRANCHES, StandardScaler()],
}


@pytest.fixture
def untied(patients, rng):
    """The patients with numbers of which no two are equal."""
    X, y = patients
    X = X.assign(**{c: X[c] + 0.01 * X[c].std() * rng.normal(size=60) for c in X if c != "sex"})
    return X, y


def _parameters(pipeline, X, y, row, column, value, weight=None):
    changed = X.astype({column: float})
    changed.iloc[row, changed.columns.get_loc(column)] = value
    twin = clone(pipeline)
    twin[-1].set_params(noise_scale=0.0, tol=1e-13, max_iter=1000)
    twin.fit(changed, y, **{f"{twin.steps[-1][0]}__sample_weight": weight})
    return twin[-1]._confidential_state().factor.coefficients


def _loss(pipeline, X, y, row, column, weight=None, sides=(1.0, -1.0)):
    """Largest of the one-sided slopes, or the slope by differences of the fourth order."""
    x, h = float(X[column].iloc[row]), 1e-4 * X[column].std()

    def at(k):
        return _parameters(pipeline, X, y, row, column, x + k * h, weight)

    if len(sides) == 2:
        slope = (8.0 * (at(1) - at(-1)) - (at(2) - at(-2))) / 12.0
    else:
        s = sides[0]
        slope = -25.0 * at(0) + 48.0 * at(s) - 36.0 * at(2 * s) + 16.0 * at(3 * s) - 3.0 * at(4 * s)
        slope /= 12.0
    return np.linalg.norm(slope) / (h * pipeline[-1].noise_scale_)


def _check(pipeline, X, y, columns, rows, weight=None):
    fit = {} if weight is None else {f"{pipeline.steps[-1][0]}__sample_weight": weight}
    pipeline.fit(X, y, **fit)
    leakage = attribute_leakage(
        pipeline,
        X,
        y,
        columns,
        records=rows,
        sample_weight=weight,
        refit_preprocessing=True,
    )
    assert leakage["note"].str.contains(CLOSED).all()
    for column in columns:
        cells = leakage[leakage["column"] == column]
        for row, found in zip(rows, cells["fisher_information_loss"], strict=True):
            expected = _loss(pipeline, X, y, row, column, weight)
            assert found == pytest.approx(expected, rel=1e-6)


def _model(name, y):
    """Every loss meets an encoder with which it is not linear in the number."""
    return {
        "linear": (PrivateLinearRegression(0.1, alpha=0.01), y),
        "logistic": (PrivateLogisticRegression(0.1, alpha=0.05), y > 0),
        "poisson": (PrivatePoissonRegressor(0.1, alpha=0.1), np.round(np.exp(0.5 * y))),
        "classes": (PrivateLogisticRegression(0.1, alpha=0.05), np.digitize(y, [-0.5, 0.5])),
    }[name]


@pytest.mark.slow
def test_losses_are_those_of_the_whole_pipeline(untied, rng):
    X, y = untied
    # The largest and the least move the ends of a column, and some the quantiles.
    order = np.argsort(X["bmi"].to_numpy())
    rows = [int(order[0]), int(order[-1])]
    kinds = ("linear", "logistic", "poisson", "classes", "logistic")
    for encoder, kind in zip(ENCODERS, kinds, strict=True):
        model, target = _model(kind, y)
        weight = rng.uniform(0.5, 2.0, size=60) if kind in ("logistic", "poisson") else None
        _check(
            make_pipeline(*map(clone, ENCODERS[encoder]), model), X, target, ["bmi"], rows, weight
        )


@pytest.mark.slow
def test_losses_of_all_encoders_and_models_are_those_of_the_whole_pipeline(untied):
    X, y = untied
    order = np.argsort(X["bmi"].to_numpy())
    rows = [int(order[k]) for k in (0, 14, 29, 47)]
    more = {"mean": [NUMBERS, StandardScaler(with_std=False)]}
    kinds = ["linear", "logistic", "poisson", "classes"]
    for position, (encoder, steps) in enumerate((ENCODERS | more).items()):
        for kind in (kinds[position % 4], kinds[(position + 1) % 4]):
            model, target = _model(kind, y)
            steps = list(map(clone, steps))
            columns = ["bmi", "bp"] if encoder == "branches" else ["bmi", "age"]
            _check(make_pipeline(*steps, model), X, target, columns, rows)


@pytest.mark.slow
def test_tied_medians_have_two_slopes(patients):
    X, y = patients
    X = X.assign(age=5.0 * np.round(X["age"] / 5.0))  # several at the median
    X.iloc[[5, 17, 40], 0] = np.nan
    pipeline = make_pipeline(
        NUMBERS, SimpleImputer(strategy="median"), PrivateLinearRegression(0.1)
    ).fit(X, y)
    ages = X["age"].to_numpy()
    rows = [int(np.nanargmin(ages)), *np.flatnonzero(ages == np.nanmedian(ages))[:2].tolist()]
    leakage = attribute_leakage(pipeline, X, y, ["age"], records=rows, refit_preprocessing=True)
    assert leakage["note"].str.contains(CLOSED).all()
    for row, cell in zip(rows, leakage.itertuples(), strict=True):
        sides = [_loss(pipeline, X, y, row, "age", sides=(s,)) for s in (1.0, -1.0)]
        assert cell.fisher_information_loss == pytest.approx(max(sides), rel=1e-5)
        assert ("kink" in cell.note) == (abs(sides[0] - sides[1]) > 1e-4 * max(sides))


@pytest.mark.slow
def test_all_records_come_at_once_and_distances_of_some(untied):
    X, y = untied
    encoder = make_column_transformer(
        (StandardScaler(), ["age", "bmi"]), (OneHotEncoder(), ["sex"])
    )
    pipeline = make_pipeline(encoder, PrivateLinearRegression(0.1)).fit(X, y)
    leakage = attribute_leakage(pipeline, X, y, refit_preprocessing=True)
    assert (leakage.groupby("column").size() == 60).all()
    assert leakage.attrs["records"] == "all"
    numbers = leakage[leakage["kind"] == "number"]
    learned = numbers[numbers["column"].isin(["age", "bmi"])]
    far = learned["note"].str.contains(NO_REFIT)
    assert learned["distance"].notna().tolist() == (~far).tolist()
    assert (~far).sum() == 20 * 2
    # Nothing learns from a value that others have, nor from the target.
    apart = leakage["column"].isin(["sex", "(target)"])
    held = attribute_leakage(pipeline, X, y, ["sex", "(target)"])
    np.testing.assert_array_equal(leakage.loc[apart, "distance"], held["distance"])
    block = attribute_leakage(
        pipeline, X, y, {"both": ["bmi", "age"]}, records=[3], refit_preprocessing=True
    )
    singles = learned[learned["record"] == X.index[3]].set_index("column")
    size = (singles["fisher_information_loss"] * singles["sd"])[["bmi", "age"]]
    eta = block["fisher_information_loss"].iloc[0]
    assert size.max() <= eta <= np.linalg.norm(size) * (1.0 + 1e-12)


@pytest.mark.slow
def test_missing_values_are_imputed_by_what_others_have(untied):
    X, y = untied
    X.iloc[[3, 9, 20], 2] = np.nan
    for strategy in ("mean", "median"):
        imputer = SimpleImputer(strategy=strategy, add_indicator=True)
        steps = NUMBERS, imputer, StandardScaler(), PrivateLogisticRegression(0.1, alpha=0.05)
        middle = int(np.argsort(X["bmi"].to_numpy())[28])
        _check(make_pipeline(*steps), X, y > 0, ["bmi", "bp"], [1, middle])
        pipeline = make_pipeline(*steps).fit(X, y > 0)
        missing = attribute_leakage(
            pipeline, X, y > 0, ["bmi", "bp"], records=[3], refit_preprocessing=True
        ).set_index("column")
        assert np.isnan(missing.loc["bmi", "fisher_information_loss"])
        assert missing.loc["bp", "fisher_information_loss"] > 0.0


@pytest.mark.slow
def test_what_has_no_closed_form_is_refitted(untied):
    X, y = untied
    binned = make_column_transformer(
        (KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"), ["bmi"]),
        (StandardScaler(), ["bp"]),
    )
    cells = {}
    for name, steps in {
        "ends": [FunctionTransformer(lambda t: t[["bmi", "bp"]]), MinMaxScaler()],
        "likeliest": [FunctionTransformer(lambda t: t[["bmi"]]), PowerTransformer()],
        "bins": [binned],
        "several": [FunctionTransformer(lambda t: t[["bmi", "bp"]] - t[["bmi", "bp"]].mean())],
    }.items():
        pipeline = make_pipeline(*steps, PrivateLinearRegression(0.1)).fit(X, y)
        cells[name] = attribute_leakage(
            pipeline, X, y, ["bmi", "bp"], records=[5], refit_preprocessing=True
        ).set_index("column")
    assert cells["likeliest"]["note"].str.contains("refits of the pipeline").all()
    assert cells["ends"]["note"].str.contains("refits of the pipeline").all()
    assert cells["several"]["note"].str.contains("refits of the pipeline").all()
    # Of two standardized columns the components are as long in both: rounding flips their signs.
    both = X[["bmi", "bp"]]
    steps = StandardScaler(), PCA(2), PrivateLinearRegression(0.1)
    torn = attribute_leakage(
        make_pipeline(*steps).fit(both, y), both, y, ["bmi"], records=[5], refit_preprocessing=True
    )
    assert "refits of the pipeline" in torn["note"].iloc[0]
    assert CLOSED in cells["bins"].loc["bp", "note"]
    assert cells["bins"].loc["bmi", "kind"] == "values"
    assert cells["bins"].loc["bmi", "n_values"] == 60
