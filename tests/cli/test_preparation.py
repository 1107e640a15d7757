import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from skleak.cli._columns import Decisions
from skleak.cli._options import Audit
from skleak.cli._preparation import prepare


def prepared(frame, **changes):
    asked = {"data": "", "target": "cost", "sensitive": "smoker?"} | changes
    return prepare(frame.copy(), Audit(**asked), None, Decisions())


def test_what_the_model_gets(people):
    found = prepared(people)
    assert found.X.columns.tolist() == [
        *("admitted", "height (cm)", "gene"),
        *("smoker?", "city {x}", "ill"),
    ]
    assert len(found.X) + len(found.X_test) == 59
    assert len(found.X_test) == found.facts["n_test"] == 12
    # Records are called by their number in the file.
    kept = people["height (cm)"].to_numpy()[found.X.index - 1]
    np.testing.assert_array_equal(found.X["height (cm)"], kept)
    assert "missing" in set(found.X["city {x}"]) | set(found.X_test["city {x}"])
    encoded = found.preprocessing.fit_transform(found.X)
    assert np.isfinite(encoded).all()
    # Three numbers; one indicator of smoker and of ill, three of four levels of the city.
    assert encoded.shape == (47, 3 + 1 + 3 + 1)
    np.testing.assert_allclose(encoded[:, :3].std(axis=0), 1.0)
    model = make_pipeline(found.preprocessing, LinearRegression())
    assert model.fit(found.X, found.y).score(found.X_test, found.y_test) > 0.9
    assert found.facts["left_out"] == {"cost": 1}


def test_the_split_is_the_same_for_a_seed_and_another_for_another(people):
    first, second = prepared(people), prepared(people)
    pd.testing.assert_frame_equal(first.X, second.X)
    assert not first.X.equals(prepared(people, seed=1).X)
    everything = prepared(people, test_size=0.0)
    assert len(everything.X) == 59
    assert everything.X_test is None


def test_the_rows_of_a_person_are_on_one_side_and_no_feature(people):
    people["who"] = np.arange(60) // 3
    found = prepared(people, person="who")
    assert not set(found.X["who"]) & set(found.X_test["who"])
    assert found.facts["n_persons"] == found.X["who"].nunique() > 10
    assert found.facts["most"] == 3
    # The auditor sees it, the model does not.
    encoded = found.preprocessing.fit_transform(found.X)
    others = found.preprocessing.fit_transform(found.X.assign(who="0"))
    np.testing.assert_array_equal(encoded, others)
    sample = prepared(people, person="who", max_records=4)
    attacked = sample.X["who"].iloc[sample.attacked]
    assert attacked.nunique() == 4
    assert len(attacked) == sample.X["who"].isin(attacked).sum()
    people.loc[3, "who"] = None
    with pytest.raises(ValueError, match="'who' is empty for 1 record"):
        prepared(people, person="who")


def test_some_records_are_drawn(people):
    assert prepared(people, max_records=47).attacked is None
    first, second = (prepared(people, max_records=9).attacked for _ in range(2))
    assert len(set(first)) == 9
    np.testing.assert_array_equal(first, second)


def test_an_identifier_that_repeats_is_refused_and_may_name_persons(people):
    people["who"] = np.arange(60) // 3
    with pytest.raises(ValueError, match=r"'who' has 20 different values.*--person"):
        prepared(people, id="who")
    assert prepared(people, id="Patient ID").X.index.name == "Patient ID"


@pytest.mark.parametrize(
    "target, model, chosen",
    [
        ("ill", "auto", "logistic"),
        ("cost", "auto", "linear"),
        ("gene", "poisson", "poisson"),
        ("ill", "linear", "linear"),
        ("smoker?", "auto", "logistic"),
        ("city {x}", "auto", "logistic"),
    ],
)
def test_the_model_is_chosen_from_the_target(people, target, model, chosen):
    assert prepared(people, target=target, sensitive="height (cm)", model=model).model == chosen


def test_a_target_of_dates_is_days(people):
    found = prepared(people, target="admitted", test_size=0.0)
    assert found.model == "linear"
    days = (pd.to_datetime(people["admitted"]) - pd.Timestamp("2020-01-05")).dt.days
    np.testing.assert_array_equal(np.sort(found.y), np.sort(days))
    assert len(found.facts["held"]) == 1
    with pytest.raises(ValueError, match="takes a target of 2 to"):
        prepared(people, target="admitted", model="logistic")


def test_missing_secrets(people):
    names = prepared(people, sensitive="city {x}", test_size=0.0)
    assert len(names.facts["values"]) == 4
    assert "missing" in names.facts["values"]
    numbers = prepared(people, sensitive="height (cm)")
    assert numbers.facts["values"] is None
    assert numbers.facts["left_out"] == {"cost": 1, "height (cm)": 2}
    assert len(numbers.X) + len(numbers.X_test) == 57


def test_codes_are_encoded_where_the_user_says_so(people):
    found = prepared(people, sensitive="gene", nominal=["gene"])
    assert sorted(set(found.X["gene"])) == ["11", "12", "22"]
    assert len(found.facts["values"]) == 3


def test_a_rare_level_that_is_held_out_is_encoded_like_none(people):
    people["city {x}"] = ["Rare"] * 2 + ["Köln", "Bonn"] * 29
    for seed in range(5):
        found = prepared(people, seed=seed)
        fitted = found.preprocessing.fit(found.X)
        if "Rare" not in set(found.X["city {x}"]):
            with pytest.warns(UserWarning, match="Found unknown categories"):
                encoded = fitted.transform(found.X_test)
            assert np.isfinite(encoded).all()
            return
    raise AssertionError("no split without the level")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"sensitive": "constant"}, "single value in the training records"),
        ({"sensitive": "alone"}, "hold out fewer"),
        ({"sensitive": "name"}, "single value|too many values"),
        ({"target": "constant"}, "fewer than two values"),
        ({"target": "constant", "model": "linear"}, "takes a target of numbers"),
        ({"target": "city {x}", "model": "linear"}, "'city {x}' holds text"),
        ({"target": "city {x}", "sensitive": None}, "name a column. Whole records"),
        ({"target": "name"}, "2 to 32 values; 'name' has 60"),
        ({"target": "flat", "model": "linear"}, "single value in all"),
        (
            {
                "sensitive": None,
                "drop": [
                    *("admitted", "height (cm)", "smoker?", "city {x}", "gene", "ill"),
                    *("alone",),
                ],
            },
            "no column is left",
        ),
    ],
)
def test_what_cannot_be_audited_is_said(people, changes, message):
    people["flat"] = 2.0
    people["name"] = [f"n{k % 66}" for k in range(60)]
    people["alone"] = "a"
    held_out = prepared(people).X_test["height (cm)"].dropna()
    people.loc[people["height (cm)"] == held_out.iloc[0], "alone"] = "b"
    if changes.get("sensitive") == "name":
        people = pd.concat([people, people.assign(name=[f"m{k}" for k in range(60)])])
    with pytest.raises(ValueError, match=message.replace("{", r"\{")):
        prepared(people, **changes)
