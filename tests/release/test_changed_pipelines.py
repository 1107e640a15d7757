"""What a release says of the raw table holds for the pipeline that was fitted, or is not said."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

import skleak
from skleak.exceptions import NoGuaranteeError, PrivacyLeakWarning
from skleak.linear_model import PrivateLogisticRegression
from skleak.mechanisms import GaussianDP
from skleak.neural import PrivateSGDClassifier, PrivateSGDRegressor
from skleak.preprocessing import (
    PublicOneHotEncoder,
    PublicScaler,
    PublicTargetScaler,
    RowNormClipper,
)

RAW, MODEL = "the table that the pipeline received", "the table that the model received"
PROMISES = {"data_norm": 1.0, "classes": [0, 1], "public": "n_samples", "fit_intercept": False}


def linear():
    return PrivateLogisticRegression(GaussianDP(1.0), alpha=0.1, mechanism="output", **PROMISES)


def within():
    """Noise in the objective, of which no record is kept."""
    given = PROMISES | {"mechanism": "objective", "alpha": "auto"}
    return PrivateLogisticRegression(GaussianDP(1.0), **given)


def trained(**options):
    options = {"classes": [0, 1], "public": "n_samples"} | options
    return PrivateSGDClassifier(max_steps=3, sampling_rate=0.3, **options)


@pytest.fixture
def raw(rng):
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=["age", "dose", "weight"])
    return X, np.arange(40) % 2


def about(released):
    return released[-1].provenance_["differential_privacy"]["about"]


def preparation(bounds=(-4.0, 4.0)):
    return PublicScaler(bounds), RowNormClipper(1.0)


def other_model(made, X):
    made.steps[-1] = ("model", clone(made[-1]).fit(X.to_numpy() / 100.0, np.arange(40) % 2))


def put(place, step):
    return lambda made, X: made.steps.__setitem__(place, ("publicscaler", step().fit(X)))


CHANGES = {
    "other bounds": lambda made, X: made[0].set_params(bounds=(-5.0, 5.0)).fit(X),
    "another norm": lambda made, X: made.set_params(rownormclipper__norm=0.5),
    "another step": put(0, Normalizer),
    "no step": lambda made, X: made.set_params(publicscaler="passthrough"),
    "one step more": lambda made, X: made.steps.insert(0, ("first", PublicScaler((-9, 9)).fit(X))),
    "other columns": lambda made, X: made[0].fit(X.iloc[:, :2]),
    "another model": other_model,
}


@pytest.mark.parametrize("model", mostly_slow([linear, within, trained]))
@pytest.mark.parametrize("change", mostly_slow(CHANGES))
def test_a_changed_pipeline_says_nothing_of_the_raw_table(change, model, raw):
    pytest.importorskip("dp_accounting")
    X, y = raw
    made = make_pipeline(*preparation(), model()).fit(X, y)
    assert RAW in about(skleak.release(made, X=X, require_guarantee=True))
    assert about(skleak.release(made, X=X, y=y)) == about(skleak.release(made, X=X))
    CHANGES[change](made, X)
    for options in ({}, {"y": y}, {"require_guarantee": True}):
        with pytest.raises(NoGuaranteeError, match="changed after it was fitted"):
            skleak.release(made, X=X, **options)
    # Without the table nothing is said of it, and what holds of the model still is.
    stated = about(skleak.release(made, require_guarantee=True))
    assert RAW not in stated
    assert MODEL in stated


def test_a_learned_step_that_was_replaced_after_the_fit_does_not_become_public(raw):
    """The model was fitted behind a scaler that had learned from the records."""
    X, y = raw
    made = make_pipeline(StandardScaler(), RowNormClipper(1.0), linear()).fit(X, y)
    made.steps[0] = ("publicscaler", PublicScaler((-4.0, 4.0)).fit(X))
    with pytest.raises(NoGuaranteeError, match="changed after it was fitted"):
        skleak.release(made, X=X)
    assert RAW not in about(skleak.release(made))


def test_learned_steps_are_compared_and_reach_no_raw_table(raw):
    X, y = raw
    made = make_pipeline(StandardScaler(), RowNormClipper(1.0), linear()).fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="learned from the records"):
        released = skleak.release(made, X=X, allow_fitted=True)
    assert RAW not in about(released)
    made[0].fit(2.0 * X + 1.0)
    with (
        pytest.warns(PrivacyLeakWarning, match="learned from the records"),
        pytest.raises(NoGuaranteeError, match="changed after it was fitted"),
    ):
        skleak.release(made, X=X, allow_fitted=True)


@pytest.mark.parametrize("model", [linear, within, trained])
def test_other_records_are_told_from_those_of_the_fit(model, raw):
    pytest.importorskip("dp_accounting")
    X, y = raw
    made = make_pipeline(*preparation(), model()).fit(X, y)
    moved = X.copy()
    moved.iloc[7, 1] += 1e-9
    for other in (X.iloc[::-1], X.iloc[:-1], moved, X[["age"]], X.rename(columns=str.upper)):
        with pytest.raises(NoGuaranteeError, match="other records"):
            skleak.release(made, X=other)
    with pytest.raises(NoGuaranteeError, match="other records"):
        skleak.release(made, X=X, y=1 - y)
    with pytest.raises(ValueError, match="compared together with `X`"):
        skleak.release(made, y=y)


@pytest.mark.filterwarnings("ignore::skleak.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("model", [linear, within, trained])
def test_a_model_that_was_copied_holds_nothing_to_compare_with(model, raw):
    pytest.importorskip("dp_accounting")
    X, y = raw
    made = make_pipeline(*preparation(), model()).fit(X, y)
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        with pytest.raises(NotFittedError, match="unpickled or copied"):
            skleak.release(again, X=X)
        assert RAW not in about(skleak.release(again, require_guarantee=True))
    released = skleak.release(made, X=X)
    assert RAW in about(skleak.release(released))
    for before in (released, make_pipeline(Normalizer().fit(X), released[-1])):
        with pytest.raises(NoGuaranteeError, match="released before"):
            skleak.release(before, X=X)
    other = skleak.release(make_pipeline(Normalizer().fit(X), released[-1]))
    assert RAW not in about(other)
    assert about(skleak.release(other)).count("when it was fitted") == 1


@pytest.mark.parametrize("model", [linear, within, trained])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csr_matrix, np.float32])
def test_any_container_of_the_fit_is_compared(kind, model, raw):
    pytest.importorskip("dp_accounting")
    X, y = raw
    made = make_pipeline(RowNormClipper(1.0), "passthrough", model())
    table = kind(X.to_numpy())
    assert RAW in about(skleak.release(made.fit(table, y), X=table, y=y))
    other = table.copy()
    other[3, 1] = 0.25
    with pytest.raises(NoGuaranteeError, match="other records"):
        skleak.release(made, X=other)


def test_frames_columns_and_nested_steps(raw):
    X, y = raw
    X = X.assign(ward=np.where(X["age"] > 0.0, "A", "B"))
    columns = make_column_transformer(
        (PublicScaler((-4.0, 4.0)), ["age", "dose", "weight"]),
        (PublicOneHotEncoder([["A", "B"]]), ["ward"]),
    )
    inner = make_pipeline(RowNormClipper(1.0), linear())
    for container in ("default", "pandas"):
        made = make_pipeline(columns, FunctionTransformer(np.tanh), inner)
        made = made.set_output(transform=container).fit(X, y)
        released = skleak.release(made, X=X, y=y, require_guarantee=True)
        assert RAW in released[-1][-1].provenance_["differential_privacy"]["about"]
        swapped = X.assign(ward=np.where(np.arange(40) == 5, "B", X["ward"]))
        swapped.loc[5, "ward"] = "A" if X.loc[5, "ward"] == "B" else "B"
        with pytest.raises(NoGuaranteeError, match="other records"):
            skleak.release(made, X=swapped)


def test_targets_that_are_transformed_are_compared_or_nothing_is_said(raw):
    pytest.importorskip("dp_accounting")
    X, y = raw
    y = 3.0 * X["age"].to_numpy() + y
    model = PrivateSGDRegressor(max_steps=3, sampling_rate=0.3, public="n_samples")
    made = TransformedTargetRegressor(
        make_pipeline(*preparation(), model),
        transformer=PublicTargetScaler((-9.0, 9.0)),
        check_inverse=False,
    ).fit(X, y)

    def said(released):
        return released.steps[-1][1].regressor_[-1].provenance_["differential_privacy"]["about"]

    assert RAW in said(skleak.release(made, X=X, y=y))
    assert RAW not in said(skleak.release(made, X=X))
    made.transformer_ = PublicTargetScaler((-8.0, 8.0)).fit(y[:, None])
    with pytest.raises(NoGuaranteeError, match="changed after it was fitted"):
        skleak.release(made, X=X, y=y)


@pytest.mark.slow
def test_tables_outside_memory(raw, tmp_path):
    arrays = pytest.importorskip("dask.array")
    pytest.importorskip("pyarrow")
    X, y = raw
    lazy = arrays.from_array(X.to_numpy(), chunks=(13, 3))
    labels = arrays.from_array(y, chunks=13)
    made = make_pipeline(*preparation(), linear()).fit(lazy, labels)
    options = {"X": lazy, "require_guarantee": True}
    with pytest.warns(UserWarning, match="outside memory"):
        assert RAW in about(skleak.release(made, **options))
    with pytest.raises(NoGuaranteeError, match="other records"):
        skleak.release(made, X=lazy + 1e-9)
    made.set_params(rownormclipper__norm=0.5)  # the rows that were trained on do not change by it
    with pytest.raises(NoGuaranteeError, match="changed after it was fitted"):
        skleak.release(made, X=lazy)
    path = tmp_path / "rows.parquet"
    X.assign(sick=y).to_parquet(path)
    stored = make_pipeline(*preparation(), linear()).fit(path, "sick")
    with pytest.warns(UserWarning, match="outside memory"):
        assert RAW in about(skleak.release(stored, X=path))
    stored.set_params(rownormclipper__norm=0.5)
    with pytest.raises(NoGuaranteeError, match="changed after it was fitted"):
        skleak.release(stored, X=path)


def test_a_model_alone_is_compared_too(raw):
    X, y = raw
    X = X / 100.0
    model = linear().fit(X, y)
    assert MODEL in skleak.release(model, X=X, y=y).provenance_["differential_privacy"]["about"]
    with pytest.raises(NoGuaranteeError, match="other records"):
        skleak.release(model, X=2.0 * X)
