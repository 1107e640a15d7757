"""A category that one record alone carries: an encoder that learned it tells of that record."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skleak.inspection import leakage_report
from skleak.linear_model import PrivateLinearRegression


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skleak.exceptions.CostWarning")
def test_the_report_looks_at_the_record_without_being_told():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"town": ["a", "b"] * 20, "age": rng.normal(size=40)})
    y = rng.normal(size=40)
    table.loc[17, "town"], table.loc[17, "age"], y[17] = "c", 0.0, 0.0  # of little influence
    encoder = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    pipeline = make_pipeline(encoder, PrivateLinearRegression(50.0)).fit(table, y)
    without = table.assign(town=table["town"].replace("c", "a"))
    assert pipeline.fit(without, y)[-1].coef_.shape == (3,)  # which a release shows
    pipeline.fit(table, y)
    assert pipeline[-1].coef_.shape == (4,)
    report = leakage_report(pipeline, table, y, ["town"], refit_preprocessing=True)
    assert report.features.loc["town", "distance"] == np.inf
    assert report.features.loc["town", "most_exposed_record"] == 17
