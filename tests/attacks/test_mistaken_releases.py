"""A user's mistakes that used to give numbers: another model's release, truth of another kind."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.attacks import (
    BlackBoxAttributeInference,
    ImputationAttack,
    InformedAttributeInference,
    InformedReconstruction,
    LikelihoodRatioMembership,
    MembershipInference,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

READS_PARAMETERS = {
    "white box": lambda model: WhiteBoxAttributeInference(model, "gene"),
    "informed": lambda model: InformedAttributeInference(model, "gene"),
    "reconstruction": InformedReconstruction,
    "exact membership": lambda model: LikelihoodRatioMembership(model, method="exact"),
}


@pytest.fixture
def data(rng):
    X = pd.DataFrame({"gene": rng.integers(0, 2, 40) * 1.0, "age": rng.normal(size=40)})
    return X, X["gene"] + X["age"] + rng.normal(size=40)


@pytest.fixture(params=READS_PARAMETERS)
def make(request):
    return READS_PARAMETERS[request.param]


def linear():
    return PrivateLinearRegression(0.01)


@pytest.mark.slow
def test_a_release_of_another_class(make, data):
    X, y = data
    attack = make(linear()).fit(X, y)
    for other in (
        PrivateLogisticRegression(0.01).fit(X, y > 0.0).release(),
        PrivatePoissonRegressor(0.01).fit(X, np.round(np.abs(y))),
        LogisticRegression().fit(X, y > 0.0),
    ):
        with pytest.raises(AttackNotApplicableError, match=r"fitted for PrivateLinearRegression"):
            attack.predict(other)
        with pytest.raises(AttackNotApplicableError, match=type(other).__name__):
            attack.predict([linear().fit(X, y).release(), other])


def test_a_release_of_columns_in_another_order(make, data):
    X, y = data
    attack = make(linear()).fit(X, y)
    swapped = linear().fit(X[["age", "gene"]], y).release()
    with pytest.raises(ValueError, match=r"columns, in their order.*'gene', 'age'.*'age', 'gene'"):
        attack.predict(swapped)
    with pytest.raises(ValueError, match="columns, in their order"):
        attack.predict([linear().fit(X, y), swapped])


def test_a_pipeline_on_columns_in_another_order(make, data):
    X, y = data
    attack = make(make_pipeline(StandardScaler(), linear())).fit(X, y)
    attack.predict(make_pipeline(StandardScaler(), linear()).fit(X, y))
    swapped = make_pipeline(StandardScaler(), linear()).fit(X[["age", "gene"]], y)
    with pytest.raises(ValueError, match="columns, in their order"):
        attack.predict(swapped)


def test_a_release_with_a_column_in_the_place_of_the_intercept(make, data):
    """Three coefficients were read as two and the intercept."""
    X, y = (part.to_numpy() for part in data)
    wide = np.column_stack([X, X[:, 0] ** 2])
    attack = make(linear())
    if hasattr(attack, "attribute"):
        attack.set_params(attribute=0)
    attack.fit(X, y)
    with pytest.raises(ValueError, match=r"number of columns.*\[2\]; got \[3\]"):
        attack.predict(linear().fit(wide, y).release())


def test_a_release_of_other_classes(data):
    X, y = data
    attack = WhiteBoxAttributeInference(PrivateLogisticRegression(0.01), "gene").fit(X, y > 0.0)
    other = PrivateLogisticRegression(0.01).fit(X, np.where(y > 0.0, "a", "b")).release()
    with pytest.raises(ValueError, match="must have the classes"):
        attack.predict(other)


def test_a_plain_model_of_another_class(data):
    X, y = data
    attack = WhiteBoxAttributeInference(Ridge(), "gene", records=[0, 1]).fit(X, y)
    assert attack.predict(Ridge().fit(X, y)).shape == (2,)
    with pytest.raises(AttackNotApplicableError, match="fitted for Ridge"):
        attack.predict(LogisticRegression().fit(X, y > 0.0))


@pytest.mark.parametrize(
    "make_attack",
    [
        lambda model: WhiteBoxAttributeInference(model, "gene"),
        lambda model: BlackBoxAttributeInference(model, "gene"),
        lambda model: InformedAttributeInference(model, "gene"),
        lambda model: PriorAttack("gene"),
        lambda model: ImputationAttack("gene"),
    ],
)
def test_true_values_of_another_kind_are_no_score_of_zero(make_attack, data):
    X, y = data
    model = linear().fit(X, y)
    attack = make_attack(model).fit(X, y)
    with pytest.raises(TypeError, match="`truth` must hold values of the kind of the guesses"):
        attack.score(model, X["gene"].map({0.0: "A", 1.0: "B"}))
    with pytest.raises(TypeError, match=r"got '0\.0'|got '1\.0'"):
        attack.score(model, X["gene"].astype(str))
    assert 0.0 <= attack.score(model, X["gene"].astype(int)) <= 1.0


def test_codes_are_no_score_of_zero_for_names(data):
    X, y = data
    named = X.assign(gene=X["gene"].map({0.0: "A", 1.0: "B"}))
    attack = PriorAttack("gene").fit(named, y)
    with pytest.raises(TypeError, match="such as 'A'; got"):
        attack.score(None, X["gene"].astype(int))


def test_membership_in_words_is_no_score_of_zero(data):
    X, y = data
    model = Ridge().fit(X, y)
    attack = MembershipInference(threshold=0.0).fit(X, y)
    with pytest.raises(ValueError, match="1 for members and 0 for others"):
        attack.score(model, np.repeat(["in", "out"], 20))
