"""Attacks on released pipelines: ways by which records, or claims about them, could leave."""

import functools
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

import skleak
from skleak.exceptions import NoGuaranteeError
from skleak.linear_model import PrivateLogisticRegression
from skleak.preprocessing import PublicScaler

RECORDS = np.random.default_rng(0).uniform(-1.0, 1.0, size=(60, 3))
LABELS = (RECORDS[:, 0] > 0.0).astype(int)
MEANS = RECORDS.mean(axis=0)
UNIT = 2.0


def _model():
    return PrivateLogisticRegression(
        0.5, alpha=0.1, data_norm=5.0, fit_intercept=False, classes=[0, 1], public="n_samples"
    )


def _released(step, **options):
    return skleak.release(make_pipeline(step, _model()).fit(RECORDS, LABELS), **options)


def _centered_by_a_variable(X):
    return X - MEANS


def _centered_by_a_helper(X):
    return _centered_by_a_variable(X)


def _centered_inside(X):
    return [row - MEANS for row in np.asarray(X)]


def _centered_when_asked(X):
    def center():
        return X - MEANS

    return center()


def _in_units(X):
    return np.asarray(X) / UNIT


class _Text(str):
    """Text that carries records."""


class _Named(TransformerMixin, BaseEstimator):
    """Says that it needs no fit."""

    def __init__(self, name="name"):
        self.name = name

    def fit(self, X, y=None):
        self.rows_ = X
        return self

    def transform(self, X):
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class _CopiedWhole(_Named):
    def __sklearn_clone__(self):
        return self


def _text_with_records():
    text = _Text("name")
    text.records = RECORDS
    return text


@pytest.mark.parametrize(
    "make",
    [
        lambda: FunctionTransformer(np.frompyfunc(lambda x: float(x) - RECORDS.mean(), 1, 1)),
        lambda: FunctionTransformer(_centered_by_a_variable),
        lambda: FunctionTransformer(_centered_by_a_helper),
        lambda: FunctionTransformer(_centered_inside),
        lambda: FunctionTransformer(_centered_when_asked),
        lambda: _Named(_text_with_records()),
        lambda: _Named({"rows": np.frompyfunc(RECORDS.mean, 0, 1)}),
        lambda: _CopiedWhole(),
    ],
)
@pytest.mark.parametrize("require_guarantee", [False, True])
def test_what_can_carry_records_is_refused(make, require_guarantee):
    with pytest.raises(NoGuaranteeError, match=r"hold records|may carry what"):
        _released(make(), require_guarantee=require_guarantee)


def test_an_encoder_may_carry_records_in_its_names():
    def name(records, column, category):
        return f"{column}_{category}"

    encoder = OneHotEncoder(
        categories=[[0, 1]], feature_name_combiner=functools.partial(name, RECORDS)
    )
    table = pd.DataFrame({"a": LABELS})
    with pytest.raises(NoGuaranteeError, match=r"\['feature_name_combiner'\] are objects that"):
        skleak.release(make_pipeline(encoder, _model()).fit(table, LABELS))


def test_what_carries_no_record_is_not_refused():
    released = _released(FunctionTransformer(_in_units))
    assert pickle.loads(pickle.dumps(released)).predict(RECORDS).shape == (60,)
    assert not hasattr(_released(_Named())[0], "rows_")
    _released(FunctionTransformer(np.tanh), require_guarantee=True)


def test_a_guarantee_does_not_grow_by_public_steps_put_before_a_released_model():
    """The model may have been fitted behind a scaler that learned from the records."""
    rows = StandardScaler().fit_transform(RECORDS)
    model = _model().fit(rows, LABELS).release()
    wrapped = make_pipeline(PublicScaler((-1, 1)), model).fit(RECORDS, LABELS)
    with pytest.raises(NoGuaranteeError, match="ends in a model that was released before"):
        skleak.release(wrapped, require_guarantee=True)
    stated = skleak.release(wrapped)[-1].provenance_["differential_privacy"]
    assert stated["about"].startswith("replacement of one row of the table that the model received")
    with pytest.raises(NoGuaranteeError, match="ends in a model that was released before"):
        skleak.release(
            make_pipeline(Normalizer(), _released(Normalizer())).fit(RECORDS),
            require_guarantee=True,
        )


@pytest.mark.filterwarnings("ignore::skleak.exceptions.PrivacyLeakWarning")
def test_fitted_steps_stay_stated_when_others_are_put_in_their_place():
    fitted = _released(StandardScaler(), allow_fitted=True)
    assert fitted[-1].provenance_["fitted_steps"] == ["standardscaler"]
    again = skleak.release(make_pipeline(Normalizer(), fitted[-1]).fit(RECORDS, LABELS))
    assert again[-1].provenance_["fitted_steps"] == ["standardscaler"]
    assert skleak.release(fitted, allow_fitted=True)[-1].provenance_["fitted_steps"] == [
        "standardscaler"
    ]


def _nested(text, times):
    return "[" * times + text + "]" * times


@pytest.mark.parametrize("times", [900, 100_000])
@pytest.mark.parametrize("kind", ["ReleasedLogisticRegression", "ReleasedPipeline"])
def test_a_deep_document_is_told(kind, times):
    head = {"format": "skleak", "version": 1, "kind": kind}
    text = json.dumps({**head, "content": {"steps": "HERE", "container": None}})
    with pytest.raises(ValueError, match=r"damaged|nested|no fields"):
        skleak.from_json(text.replace('"HERE"', _nested("", times)))


def test_deep_pipelines_are_told():
    node = {"class": "Normalizer"}
    for _ in range(150):
        steps = [["step", {"mapping": node}]]
        node = {"class": "Pipeline", "container": None, "steps": steps}
    content = {"container": None, "steps": node["steps"]}
    document = {"format": "skleak", "version": 1, "kind": "ReleasedPipeline", "content": content}
    with pytest.raises(ValueError, match=r"damaged|nested|no fields"):
        skleak.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("noise_scale_", "0.5", "noise_scale_ must be a double"),
        ("noise_step_", None, "noise_step_ must be a double"),
        ("noise_sampler_", 3, "noise_sampler_ must be text"),
        ("coef_noise_scale_", 0.5, "coef_noise_scale_ must hold doubles of shape"),
        ("intercept_noise_scale_", "x", "intercept_noise_scale_ must hold doubles of shape"),
        (
            "classes_",
            {"array": {"dtype": "|O", "shape": [2], "values": [[1], [2]]}},
            "classes_ must hold numbers or text",
        ),
        (
            "classes_",
            {"array": {"dtype": "<U999999", "shape": [3000], "values": [""] * 3000}},
            "larger than any that is written",
        ),
    ],
)
def test_no_field_of_a_document_may_be_anything_at_all(name, value, message):
    document = json.loads(_model().fit(RECORDS, LABELS).release().to_json())
    document["content"][name] = value
    with pytest.raises(ValueError, match=message):
        skleak.from_json(json.dumps(document))


@pytest.mark.parametrize("name", [None, 3, [], "a__b"])
def test_names_of_steps_are_text(name):
    document = json.loads(_released(PublicScaler((-1, 1))).to_json())
    document["content"]["steps"][0][0] = name
    with pytest.raises(ValueError, match="damaged"):
        skleak.from_json(json.dumps(document))


def test_text_of_a_document_is_shown_as_text():
    document = json.loads(_released(PublicScaler((-1, 1))).to_json())
    attack = "<script>alert(1)</script>"
    document["content"]["steps"][0][0] = attack
    document["content"]["steps"][1][1]["mapping"]["fields"]["mapping"]["provenance_"]["mapping"][
        "estimator"
    ] = attack
    read = skleak.from_json(json.dumps(document))
    assert attack not in read._repr_html_()
    assert attack not in read[-1]._repr_html_()
