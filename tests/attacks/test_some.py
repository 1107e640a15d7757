"""One target of every release: entry r is the guess about target i from release r."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.adversary.hypotheses import PublicModel
from skleak.adversary.knowledge import take_rows
from skleak.adversary.models import Shell
from skleak.attacks import BlackBoxAttributeInference, InformedAttributeInference
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

REGRESSION = ("performance", "proba", "likelihood", "loss", "gradient")
CLASSIFICATION = (*REGRESSION, "margin", "accuracy")


class Offset(Ridge):
    """Sees more of a record than its linear predictor."""

    def predict(self, X):
        return super().predict(X) + 3.0 * np.sin(np.asarray(X)[:, 0])


def norms(model, X, y):
    return np.abs(np.ravel(model.predict(X) == y) - 0.3 * np.ravel(model.coef_)[0]) + 0.1


def check(attack, rng, scale=0.5, n_games=40):
    """Compare with guesses about all targets, from releases near the model of the data."""
    center = attack._shell().model if hasattr(attack, "_shell") else None
    if center is None:
        w = np.zeros(attack._objective.n_parameters)
    else:
        w = np.concatenate([np.ravel(center.coef_), np.ravel(center.intercept_)])
        w = w[: attack._shell().n_parameters]
    released = w + scale * rng.normal(size=(n_games, len(w)))
    targets = rng.integers(len(attack.records_), size=n_games)
    guesses = attack.predict_some(released, targets)
    # Of a number, only `predict` holds the guesses against those of other records.
    attack._not_worse = lambda guesses: guesses
    expected = attack.predict(released)[np.arange(n_games), targets]
    if attack.numeric_:
        np.testing.assert_allclose(guesses, expected, atol=1e-6)
    else:
        np.testing.assert_array_equal(guesses, expected)
    return guesses


@pytest.mark.slow
def test_some_are_the_guesses_about_all_by_every_criterion(make_table, make_pipe, rng):
    X, y = make_table()
    labels = np.array(["no", "yes"])[(y > 0).astype(int)]
    three = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    counts = rng.poisson(2.0, size=60)
    found = []
    cases = [
        (PrivateLinearRegression(0.1), y, REGRESSION),
        (PrivateLinearRegression(0.1, fit_intercept=False), y, REGRESSION[:1]),
        (PrivatePoissonRegressor(0.1), counts, REGRESSION[:1]),
        (PrivateLogisticRegression(0.1), labels, CLASSIFICATION),
        (PrivateLogisticRegression(0.1), three, CLASSIFICATION),
        (LogisticRegression(), three, ("performance", "margin")),
        (PoissonRegressor(), counts, REGRESSION[:1]),
        (Ridge(), y, REGRESSION[:1]),
        (Offset(), y, REGRESSION[:1]),
    ]
    for model, target, applicable in cases:
        for criterion in applicable:
            attack = BlackBoxAttributeInference(
                make_pipe(model),
                "gene",
                criterion=criterion,
                prior="conditional",
                records=[7, 3, 40, 41, 59],
                gradient_norm=norms if criterion == "gradient" else None,
            ).fit(X, target)
            found.append(check(attack, rng, n_games=8 if criterion == "margin" else 40))
    assert set(np.concatenate(found)) == {"A", "B", "C"}


def test_some_quantities(make_table, make_pipe, rng):
    """One of the targets has the largest value: its range, that of the others, is its own."""
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(0.1))
    records = [7, int(X["dose"].argmax()), 40]
    attack = BlackBoxAttributeInference(pipe, "dose", criterion="likelihood", records=records)
    check(attack.fit(X, y), rng, n_games=12)


@pytest.mark.slow
def test_quantities_frames_and_sparse_tables(make_table, make_pipe, rng):
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression(0.1))
    check(BlackBoxAttributeInference(pipe, "dose", records=slice(3, 9)).fit(X, y), rng)
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["gene", "city"]), remainder=StandardScaler()
    )
    named = make_pipeline(encode.set_output(transform="pandas"), PrivateLinearRegression(0.1))
    check(BlackBoxAttributeInference(named, "gene").fit(X, y), rng)
    nominal = X[["gene", "city"]]
    whole = make_pipeline(OneHotEncoder(), PrivateLinearRegression(0.1))
    check(BlackBoxAttributeInference(whole, "gene").fit(nominal, y), rng)
    plain = make_pipe(PrivateLinearRegression(0.1))
    check(InformedAttributeInference(plain, "gene", records=[5, 2, 30]).fit(X, y), rng)


@pytest.mark.parametrize("model", [PrivateLogisticRegression(0.1), LogisticRegression(), Offset()])
def test_models_on_their_tables_answer_as_models_on_the_records(model, rng):
    X = pd.DataFrame(rng.normal(size=(50, 3)), columns=list("abc"))
    y = rng.integers(0, 3, size=50)
    shell = Shell.fit(PublicModel.of(model, X, y, any_covariance=True), X, y)
    parameters = rng.normal(size=(7, shell.n_parameters))
    pairs = list(shell.models_on(X, parameters))
    whole = list(shell.models_with(parameters))
    assert len(pairs) == len(whole) == 7
    for (one, table), other in zip(pairs, whole, strict=True):
        assert (table is X) == isinstance(model, Offset)
        np.testing.assert_array_equal(one.predict(table), other.predict(X))


@pytest.mark.parametrize("kind", ["frame", "array", "sparse"])
def test_answers_to_many_models_at_once_are_those_of_each(kind, rng):
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    X = {"frame": X, "array": X.to_numpy(), "sparse": sparse.csr_array(X)}[kind]
    places = rng.integers(0, 40, size=(6, 2))
    for model, y in (
        (PrivateLinearRegression(0.1), rng.normal(size=40)),
        (PrivatePoissonRegressor(0.1), rng.poisson(2.0, 40)),
        (PrivateLogisticRegression(0.1, fit_intercept=False), rng.integers(0, 2, size=40)),
        (LogisticRegression(), rng.integers(0, 3, size=40)),
    ):
        shell = Shell.fit(PublicModel.of(model, X, y, any_covariance=True), X, y)
        parameters = rng.normal(size=(6, shell.n_parameters))
        one, rows = shell.rows_for(X, places, parameters)
        whole = list(shell.models_with(parameters))
        for name in ("predict", "decision_function", "predict_log_proba"):
            if not hasattr(one, name):
                continue
            answers = getattr(one, name)(rows)
            each = [
                getattr(other, name)(take_rows(X, at))
                for other, at in zip(whole, places, strict=True)
            ]
            np.testing.assert_allclose(answers, np.concatenate(each), atol=1e-12)
        # Beyond all doubles: only the models themselves can say what they make of that.
        parameters[3] = np.inf
        assert shell.rows_for(X, places, parameters) is None
    y = rng.integers(0, 2, size=40)
    if kind != "sparse":
        shell = Shell.fit(PublicModel.of(Offset(), X, y, any_covariance=True), X, y)
        parameters = rng.normal(size=(6, shell.n_parameters))
        assert shell.rows_for(X, places, parameters) is None


def test_errors(make_table, make_pipe):
    X, y = make_table()
    attack = BlackBoxAttributeInference(
        make_pipe(PrivateLinearRegression(0.1)), "gene", records=[1, 2]
    ).fit(X, y)
    for targets in ([0, 2], [-1, 0], [0.0, 1.0], [[0, 1]], []):
        with pytest.raises(ValueError, match="whole numbers from 0 to 1"):
            attack.predict_some(np.zeros((2, 8)), targets)
    for released in (np.zeros((3, 8)), np.zeros(8), np.zeros((2, 1, 8))):
        with pytest.raises(ValueError, match=r"must have shape \(2, n_parameters\)"):
            attack.predict_some(released, [0, 1])
    with pytest.raises(ValueError, match="8 parameters"):
        attack.predict_some(np.zeros((2, 7)), [0, 1])
