"""`skleak audit --model`: a pickle or a function of the user's."""

import json
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skleak.cli._models import load_model, own_columns
from skleak.linear_model import PrivateLinearRegression

QUICK = ("--n-releases", "2", "--quiet")
COLUMNS = ["height (cm)", "smoker?", "city {x}"]


def by_name(model):
    """A pipeline that takes columns of the file by name, gaps and text included."""
    encode = make_column_transformer(
        (SimpleImputer(), ["height (cm)"]),
        (OneHotEncoder(handle_unknown="ignore"), ["smoker?", "city {x}"]),
    )
    return make_pipeline(encode, model)


@pytest.fixture
def store(tmp_path):
    def pickled(model, name="model.pkl"):
        path = tmp_path / name
        path.write_bytes(pickle.dumps(model))
        return path

    return pickled


def results(path):
    return pd.DataFrame(json.loads(path.read_text())["results"]).set_index("attack")


@pytest.mark.slow
def test_a_pickle_is_trained_anew_on_the_columns_it_names(people, data, tmp_path, run, store):
    out = tmp_path / "r.json"
    usual = ("audit", data, "--target", "ill", "--sensitive", "smoker?", "--out", out, *QUICK)
    tree = by_name(DecisionTreeClassifier(random_state=0))
    told = {}
    for name, model in (("unfitted", tree), ("fitted", tree.fit(people[COLUMNS], people["ill"]))):
        path = store(model, f"{name}.pkl")
        code, text, err = run(*usual, "--model", path)
        assert (code, err) == (0, "")
        said = " ".join(text.split())
        assert "whose code was run to load it" in said
        told[name] = results(out)
        settings = json.loads(out.read_text())["settings"]
        assert settings["outputs"]["black_box_proba"] == "probabilities"
        assert told[name]["noise_scale"].unique().tolist() == [0.0]
    # What it learned before makes no difference.
    pd.testing.assert_frame_equal(told["unfitted"], told["fitted"])


@pytest.mark.slow
def test_a_bare_model_gets_the_columns_prepared(data, tmp_path, run, store):
    out = tmp_path / "r.json"
    path = store(DecisionTreeRegressor(random_state=0))
    usual = ("audit", data, "--target", "cost", "--sensitive", "smoker?", "--out", out, *QUICK)
    code, text, err = run(
        *usual, "--model", path, "--fail-above", "1", "--of", "everyone", "--full"
    )
    # No attack gains more than everything, and nothing says that others do not.
    assert (code, err) == (3, "")
    assert "NOT KNOWN" in text
    assert "numbers, standardized" in text
    assert "black_box" in results(out).index


@pytest.mark.slow
def test_a_model_that_was_fitted_without_the_column_does_not_get_it(
    people, data, tmp_path, run, store
):
    """Nor does it tell anything of it."""
    out = tmp_path / "r.json"
    known = people[["gene"]]
    path = store(DecisionTreeClassifier(random_state=0).fit(known, people["ill"]))
    usual = ("audit", data, "--target", "ill", "--sensitive", "smoker?", "--prior", "uniform")
    assert run(*usual, "--model", path, "--out", out, *QUICK)[0] == 0
    table = results(out)
    boxes = [name for name in table.index if name.startswith("black_box")]
    assert (table.loc[boxes, "success"] == table.loc["prior", "success"]).all()


@pytest.mark.slow
def test_a_function_of_a_module(data, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_models.py").write_text(
        "from sklearn.linear_model import Ridge\n"
        "from skleak.linear_model import PrivateLinearRegression\n"
        "def quiet():\n    return Ridge()\n"
        "def private(scale=0.5):\n    return PrivateLinearRegression(noise_scale=scale)\n"
        "def broken():\n    raise RuntimeError('no such thing')\n"
        "def nothing():\n    return None\n"
        "Model = PrivateLinearRegression\n"
    )
    out = tmp_path / "r.json"
    usual = ("audit", data, "--target", "cost", "--sensitive", "smoker?", "--out", out, *QUICK)
    usual += ("--max-records", "6", "--model")
    assert run(*usual, "own_models:quiet")[0] == 0
    assert results(out).loc["white_box", "success"] == 1.0
    # A private estimator brings its noise along, or takes what is asked for.
    assert run(*usual, "own_models:private")[0] == 0
    assert results(out)["noise_scale"].unique().tolist() == [0.5]
    assert run(*usual, "own_models:private", "--noise-scale", "1", "2")[0] == 0
    assert results(out)["noise_scale"].unique().tolist() == [1.0, 2.0]
    for name, message in (
        ("own_models:absent", "'absent'"),
        ("own_models:broken", "RuntimeError: no such thing"),
        ("own_models:nothing", "expected an estimator"),
        ("no_such_module:f", "cannot be imported"),
    ):
        code, _, err = run(*usual, name)
        assert code == 2
        assert message in err


@pytest.mark.slow
def test_what_cannot_be_loaded_is_said_in_one_line(people, data, tmp_path, run, store):
    released = PrivateLinearRegression(1.0).fit(people[["gene"]], people["row"]).release()
    (tmp_path / "text.pkl").write_text("this is no pickle")
    (tmp_path / "gone.pkl").write_bytes(b"cno_such_module\nThing\n.")
    encoded = pd.get_dummies(people[["gene", "smoker?"]])
    wide = DecisionTreeClassifier().fit(encoded, people["ill"])
    tree = DecisionTreeClassifier()
    cases = [
        (tmp_path / "absent.pkl", (), "there is no file"),
        (tmp_path / "text.pkl", (), "cannot be read as a pickle"),
        (tmp_path / "gone.pkl", (), "needs what is not here"),
        (store({"a": 1}, "dict.pkl"), (), "expected an estimator"),
        (store(DecisionTreeClassifier, "class.pkl"), (), "gives the class"),
        (store(released, "released.pkl"), (), "is a release"),
        (store(wide, "wide.pkl"), (), "'smoker?_no'"),
        (store(tree, "t.pkl"), ("--alpha", "1"), "--alpha: of our own models only"),
        (store(tree, "t.pkl"), ("--noise-scale", "1"), "must be None or 0"),
        (store(by_name(tree), "p.pkl"), ("--nominal", "gene"), "the model prepares its own"),
        ("forest", (), "module:factory"),
    ]
    usual = ("audit", data, "--target", "ill", "--sensitive", "smoker?", *QUICK)
    for model, more, message in cases:
        code, _, err = run(*usual, "--model", model, *more)
        assert code == 2, model
        assert message in err, err
        assert err.count("\n") == 1
    code, _, err = run("audit", data, "--target", "ill", "--model", store(tree), *QUICK)
    assert (code, "--sensitive: name a column" in err) == (2, True)


def test_the_help_warns_of_the_code_in_a_pickle(run):
    text = " ".join(run("audit", "--help")[1].split())
    assert "RUNS ITS CODE: only for files that you trust" in text


def test_which_models_take_the_columns_as_they_are(people):
    frame = people.drop(columns="ill")
    assert load_model("logistic") is None
    assert own_columns(RandomForestClassifier(), frame, "gene") is None
    assert own_columns(by_name(Ridge()), frame, "gene") == list(frame.columns)
    search = GridSearchCV(by_name(Ridge()), {"ridge__alpha": [1.0]})
    assert own_columns(search, frame, "gene") == list(frame.columns)
    fitted = Ridge().fit(people[["gene", "row"]], np.arange(len(people)))
    assert own_columns(fitted, frame, "gene") == ["gene", "row"]
    assert own_columns(fitted, frame, "smoker?") == ["gene", "row", "smoker?"]


@pytest.mark.slow
def test_membership_of_a_model_of_the_user(data, tmp_path, run, store):
    out = tmp_path / "r.json"
    path = store(by_name(RandomForestClassifier(5)))
    arguments = ("audit", data, "--target", "ill", "--membership", "--model", path, "--out", out)
    code, _, err = run(*arguments, *QUICK)
    assert (code, err) == (0, "")
    assert "loss" in results(out).index
