"""Bad input gets an error that says what, and what to do: one test for each message."""

import re

import numpy as np
import pandas as pd
import pytest
from helpers import every
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

from skleak.linear_model import (
    IRFIL,
    EvenTotal,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.solvers import SingularHessianError


def _says(*parts):
    return "(?s)" + ".*".join(re.escape(part) for part in parts)


@pytest.fixture
def fitted(numbers):
    X = pd.DataFrame(numbers.X, columns=["age", "bmi", "bp", "dose"])
    return PrivateLinearRegression(0.1).fit(X, numbers.y), X, numbers.y


# Records


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none(estimator_class, data, bad):
    X = data.X.copy()
    X[3, 1] = bad
    word = "NaN" if np.isnan(bad) else "infinity"
    with pytest.raises(ValueError, match=f"Input X contains {word}"):
        estimator_class().fit(X, data.y)
    model = estimator_class().fit(data.X, data.y)
    with pytest.raises(ValueError, match=f"Input X contains {word}"):
        model.fisher_information_loss(X, data.y)
    with pytest.raises(ValueError, match=f"Input X contains {word}"):
        model.predict(X)
    y = np.asarray(data.y, dtype=float)
    y[0] = bad
    with pytest.raises(ValueError, match=f"Input y contains {word}"):
        estimator_class().fit(data.X, y)
    with pytest.raises(ValueError, match=f"Input y contains {word}"):
        model.fisher_information_loss(data.X, y)


def test_shapes(estimator_class, data):
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        estimator_class().fit(data.X[:, 0], data.y)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[60, 59\]"):
        estimator_class().fit(data.X, data.y[:-1])
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        estimator_class().fit(data.X[:0], data.y[:0])
    with pytest.raises(ValueError, match=r"Found array with 0 feature\(s\)"):
        estimator_class().fit(data.X[:, :0], data.y)
    two = np.column_stack([data.y, data.y])
    with pytest.raises(
        ValueError, match=r"y should be a 1d array, got an array of shape \(60, 2\)"
    ):
        estimator_class().fit(data.X, two)
    with pytest.raises(ValueError, match="requires y to be passed"):
        estimator_class().fit(data.X, None)


def test_a_column_of_targets_warns(estimator_class, data):
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        estimator_class().fit(data.X, data.y[:, None])


def test_shapes_of_records_to_measure(estimator_class, data):
    model = estimator_class().fit(data.X, data.y)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 4 features"):
        model.fisher_information_loss(data.X[:, :3], data.y)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[60, 59\]"):
        model.fisher_information_loss(data.X, data.y[:-1])
    two = np.column_stack([data.y, data.y])
    with pytest.raises(
        ValueError, match=r"y should be a 1d array, got an array of shape \(60, 2\)"
    ):
        model.fisher_information_loss(data.X, two)
    for one in ((data.X, None), (None, data.y)):
        with pytest.raises(ValueError, match="pass `X` and `y` together, or neither"):
            model.fisher_information_loss(*one)
        with pytest.raises(ValueError, match="pass `X` and `y` together, or neither"):
            model.leakage_report(*one)


def test_other_column_names(fitted):
    model, X, y = fitted
    with pytest.raises(ValueError, match="feature names should match"):
        model.fisher_information_loss(X.rename(columns={"age": "years"}), y)


def test_words_for_numbers(estimator_class, data):
    with pytest.raises(ValueError, match=r"convert column 'x0' to numbers: row 0 holds"):
        estimator_class().fit(np.full((60, 2), "a"), data.y)
    if estimator_class is not PrivateLogisticRegression:
        with pytest.raises(ValueError, match=r"convert the target to numbers: row 0 holds"):
            estimator_class().fit(data.X, np.full(60, "a"))


def test_sparse_forms_that_are_not_rows(estimator_class, data):
    # Other sparse forms are converted, not refused.
    model = estimator_class(0).fit(sparse.csc_array(data.X), data.y)
    dense = estimator_class(0).fit(data.X, data.y)
    np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-9)


# Targets


def test_one_class(classes):
    message = _says("needs two classes; the target holds only one class.", "Pass records of")
    with pytest.raises(ValueError, match=message):
        PrivateLogisticRegression().fit(classes.X, np.ones(60, dtype=int))
    with pytest.raises(ValueError, match="only one class"):
        PrivateLogisticRegression().fit(classes.X, np.full(60, "ill"))


def test_one_class_of_positive_weight(classes):
    message = "Only one class has records of positive sample weight.*needs two"
    with pytest.raises(ValueError, match=message):
        PrivateLogisticRegression().fit(classes.X, classes.y, sample_weight=classes.y)


def test_a_class_without_weight(classes):
    y, message = np.arange(60) % 3, r"No record of positive .* labels of 1 classes: .*Drop the rec"
    with pytest.raises(ValueError, match=message):
        PrivateLogisticRegression().fit(classes.X, y, sample_weight=(y != 1).astype(float))


def test_numbers_for_classes(classes):
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        PrivateLogisticRegression().fit(classes.X, classes.X[:, 0])


def test_unknown_classes(classes):
    model = PrivateLogisticRegression().fit(classes.X, np.where(classes.y, "ill", "well"))
    message = _says("labels of 1 records are not among `classes_`; the first is that of row 1.")
    with pytest.raises(ValueError, match=message):
        model.fisher_information_loss(classes.X[:2], np.array(["ill", "sick"]))


def test_negative_counts(counts):
    y = counts.y.copy()
    y[[2, 5]] = [-1.0, -3.5]
    message = _says(
        "must not be negative; got 2 negative targets, the first of them in row 2.", "PrivateLin"
    )
    with pytest.raises(ValueError, match=message):
        PrivatePoissonRegressor().fit(counts.X, y)
    model = PrivatePoissonRegressor().fit(counts.X, counts.y)
    with pytest.raises(ValueError, match=message):
        model.fisher_information_loss(counts.X, y)


def test_counts_of_zero(counts):
    message = _says("All counts with a positive weight are zero", "`fit_intercept=False`")
    with pytest.raises(ValueError, match=message):
        PrivatePoissonRegressor().fit(counts.X, np.zeros(60))
    weights = (counts.y == 0.0).astype(float)
    with pytest.raises(ValueError, match=message):
        PrivatePoissonRegressor().fit(counts.X, counts.y, sample_weight=weights)
    model = PrivatePoissonRegressor(0.1, fit_intercept=False).fit(counts.X, np.zeros(60))
    assert np.all(np.isfinite(model.fisher_information_loss_))


# Weights


@pytest.mark.parametrize(
    "weights, message",
    [
        (np.full(60, np.nan), "sample_weight contains NaN"),
        (-np.ones(60), "Negative values in data passed to `sample_weight`"),
        (np.ones(59), r"sample_weight.shape == \(59,\), expected \(60,\)"),
        (np.ones((60, 2)), "Sample weights must be 1D"),
        (np.zeros(60), "Sample weights must contain at least one non-zero number"),
    ],
    ids=["nan", "negative", "short", "2d", "zero"],
)
def test_weights(estimator_class, data, weights, message):
    with pytest.raises(ValueError, match=message):
        estimator_class().fit(data.X, data.y, sample_weight=weights)


# Parameters


@every(
    "name, value, expected",
    [
        ("noise_scale", -0.1, "a float in the range [0.0, inf)"),
        ("noise_scale", np.nan, "a float in the range [0.0, inf)"),
        ("noise_scale", np.inf, "a float in the range [0.0, inf)"),
        ("noise_scale", "loud", "a float in the range [0.0, inf)"),
        ("noise_scale", None, "a float in the range [0.0, inf)"),
        ("alpha", -1e-9, "a float in the range [0.0, inf)"),
        ("alpha", np.inf, "a float in the range [0.0, inf)"),
        ("fit_intercept", "yes", "an instance of 'bool'"),
        ("private_target", "secret", "an instance of 'bool'"),
        ("reweighting", "gauss", "a str among {"),
        ("data_norm", 0.0, "a float in the range (0.0, inf)"),
        ("max_iter", 0, "an int in the range [1, inf)"),
        ("max_iter", 2.5, "an int in the range [1, inf)"),
        ("tol", 0.0, "a float in the range (0.0, inf)"),
        ("random_state", "seed", "an int in the range [0, 4294967295]"),
        ("random_state", -1, "an int in the range [0, 4294967295]"),
        ("verbose", "much", "an int in the range [0, inf)"),
    ],
)
def test_parameters(estimator_class, data, name, value, expected):
    model = estimator_class(**{name: value})
    message = _says(f"The '{name}' parameter of {estimator_class.__name__} must be", expected)
    with pytest.raises(ValueError, match=message):
        model.fit(data.X, data.y)


def test_only_the_noise_scale_is_positional(estimator_class):
    with pytest.raises(TypeError, match="positional argument"):
        estimator_class(0.1, 0.5)


@every(
    "wrong, expected",
    [
        ({"norm": "column"}, "a str among"),
        ({"method": "fast"}, "a str among"),
        ({"max_iter": 0}, "an int in the range [1, inf)"),
        ({"tol": 0.0}, "a float in the range (0.0, inf)"),
    ],
)
@every("kind", [IRFIL, EvenTotal])
def test_parameters_of_a_reweighting(estimator_class, data, kind, wrong, expected):
    message = _says(f"The '{next(iter(wrong))}' parameter of {kind.__name__} must be", expected)
    with pytest.raises(ValueError, match=message):
        estimator_class(reweighting=kind(**wrong)).fit(data.X, data.y)


def test_reweighting_of_unknown_columns(numbers):
    X = pd.DataFrame(numbers.X, columns=["age", "bmi", "bp", "dose"])
    model = PrivateLinearRegression(reweighting=IRFIL(features=["agee"]))
    message = _says("`features` names the unknown column 'agee'", "['age']")
    with pytest.raises(ValueError, match=message):
        model.fit(X, numbers.y)


# What cannot be solved


@pytest.mark.parametrize("fault", ["collinear", "constant", "few"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_singular_hessian_names_the_remedy(estimator_class, make_data, rng, fault, form):
    data = make_data(estimator_class, rng)
    X = data.X
    if fault == "collinear":
        X = np.column_stack([X, X[:, 0] + X[:, 2]])
    elif fault == "constant":
        X = np.column_stack([X, np.full(60, 3.0)])
    else:
        X = rng.normal(size=(60, 70))
    message = _says("singular at alpha=0", "not unique", "pass a larger `alpha`", "fit_intercept")
    with pytest.raises(SingularHessianError, match=message):
        estimator_class(alpha=0).fit(form(X), data.y)
    estimator_class(alpha=1e-3).fit(form(X), data.y)


def test_non_convergence_says_that_leakage_is_unreliable(counts):
    message = _says(
        "PrivatePoissonRegressor did not converge after 1 steps (gradient norm", "unrel"
    )
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        PrivatePoissonRegressor(max_iter=1).fit(counts.X, counts.y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rows_beyond_the_promised_norm(classes, form):
    norms = np.linalg.norm(classes.X, axis=1)
    bound = np.sort(norms)[-3] * 1.0001
    message = _says(
        f"rows of Euclidean norm at most {bound:g}, but 2 of 60 rows are longer",
        f"the first of them row {np.argmax(norms > bound)}.",
        "that does not come from the data",
    )
    with pytest.raises(ValueError, match=message):
        PrivateLogisticRegression(data_norm=bound).fit(form(classes.X), classes.y)
    PrivateLogisticRegression(data_norm=norms.max()).fit(form(classes.X), classes.y)


# Questions about leakage


@pytest.mark.parametrize(
    "options, error, message",
    [
        (
            {"per": "row"},
            ValueError,
            "`per` must be one of 'record', 'feature', 'dataset'",
        ),
        ({"norm": "l1"}, ValueError, "`norm` must be one of 'spectral', 'trace'; got 'l1'"),
        ({"features": "agee"}, ValueError, "unknown column 'agee'"),
        ({"features": 4}, ValueError, "index 4, but there are 4 columns"),
        ({"features": []}, ValueError, "selects no column"),
        ({"features": [0, "age"]}, ValueError, "names a column twice: ['age']"),
        ({"features": [True]}, ValueError, "boolean mask of length 1"),
        ({"features": 1.5}, TypeError, "got float"),
        ({"features": [["age"]]}, TypeError, "got ['age'] of type list"),
        ({"per": "feature", "features": "agee"}, ValueError, "unknown column 'agee'"),
        ({"per": "feature", "features": []}, ValueError, "selects no column"),
        ({"per": "feature", "features": 1.5}, TypeError, "got float"),
        ({"per": "feature", "features": [1.5]}, TypeError, "got float"),
        ({"per": "feature", "features": [["age", "age"]]}, ValueError, "twice: ['age']"),
        ({"per": "group"}, ValueError, "`per='group'` needs `groups`"),
        (
            {"per": "group", "groups": [1, 2]},
            ValueError,
            "expected 60, or the name of a column; got shape (2,)",
        ),
        ({"per": "group", "groups": np.ones((60, 2))}, ValueError, "got shape (60, 2)"),
        ({"per": "group", "groups": [None, *range(59)]}, ValueError, "1 missing labels. Give"),
        ({"per": "group", "groups": ["a", np.nan] * 30}, ValueError, "30 missing labels. Give"),
        ({"per": "group", "groups": "sex"}, ValueError, "`groups` names the unknown column 'sex'"),
        ({"constrained": True}, ValueError, "Pass all columns of the block as a list in `featu"),
        ({"constrained": True, "features": "age"}, ValueError, "block of at least two columns"),
        ({"constrained": True, "features": [0, 1]}, ValueError, "['age', 'bmi'] miss it by up to"),
        (
            {"constrained": True, "per": "feature"},
            ValueError,
            "block of at least two columns",
        ),
    ],
    ids=str,
)
def test_questions(fitted, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        fitted[0].fisher_information_loss(**options)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"features": ["agee"]}, ValueError, "unknown column 'agee'"),
        ({"features": 1.5}, TypeError, "got float"),
        ({"groups": [1, 2]}, ValueError, "expected 60, or the name of a column; got shape (2,)"),
        ({"groups": "sex"}, ValueError, "unknown column 'sex'"),
    ],
    ids=str,
)
def test_questions_to_a_report(fitted, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        fitted[0].leakage_report(**options)


def test_names_where_the_model_knows_none(numbers):
    model = PrivateLinearRegression().fit(numbers.X, numbers.y)
    with pytest.raises(ValueError, match=r'call `set_output\(transform="pandas"\)` on it first'):
        model.fisher_information_loss(features="age")
    with pytest.raises(ValueError, match="`groups` names the column 'age'"):
        model.fisher_information_loss(per="group", groups="age")
