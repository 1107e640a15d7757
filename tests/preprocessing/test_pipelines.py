"""Public preprocessing inside what scikit-learn builds around transformers."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline

from skleak.linear_model import PrivateLinearRegression
from skleak.preprocessing import (
    PublicImputer,
    PublicOneHotEncoder,
    PublicScaler,
    RowNormClipper,
)

NAMES = ["age", "weight", "gene_AA", "gene_AB", "gene_BB", "smoker_yes"]


@pytest.fixture
def preparation():
    numbers = make_pipeline(
        PublicImputer({"age": 50, "weight": 75}),
        PublicScaler({"age": (18, 100), "weight": (30, 200)}),
    )
    words = PublicOneHotEncoder({"gene": ["AA", "AB", "BB"], "smoker": ["yes"]})
    columns = ColumnTransformer(
        [("numbers", numbers, ["age", "weight"]), ("words", words, ["gene", "smoker"])],
        verbose_feature_names_out=False,
    )
    return Pipeline([("columns", columns), ("rows", RowNormClipper(2.0))])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_names_reach_the_model(preparation, patients, library):
    pl = pytest.importorskip("polars")
    frame = patients if library == "pandas" else pl.from_pandas(patients)
    plain = clone(preparation).set_output(transform="pandas").fit_transform(patients)
    pipeline = make_pipeline(preparation.set_output(transform=library), PrivateLinearRegression())
    pipeline.fit(frame, patients["weight"])
    assert list(pipeline[-1].feature_names_in_) == NAMES
    assert_array_equal(pipeline[:-1].transform(frame).to_numpy(), plain.to_numpy())
    assert list(pipeline[:-1].get_feature_names_out()) == NAMES
    losses = pipeline[-1].fisher_information_loss(per="feature", features=["age", NAMES[2:5]])
    assert losses.shape == (60, 2)


@pytest.mark.slow
def test_parameters_can_be_searched(preparation, patients):
    preparation.set_output(transform="pandas")
    pipeline = Pipeline([("prepare", preparation), ("model", PrivateLinearRegression(0.1))])
    grid = {"prepare__rows__norm": [0.5, 1.0], "model__alpha": [0.01, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise")
    search.fit(patients, patients["weight"])
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
