import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from skleak.cli._preparation import prepare

USUAL = {
    "sensitive": "smoker?",
    "drop": [],
    "nominal": [],
    "model": "auto",
    "test_size": 0.2,
    "seed": 0,
}


def test_what_the_model_gets(people):
    prepared = prepare(people, target="cost", **USUAL)
    assert prepared.X.columns.tolist() == [
        *("admitted", "height (cm)", "gene"),
        *("smoker?", "city {x}", "ill"),
    ]
    assert len(prepared.X) + len(prepared.X_test) == 59
    assert len(prepared.X_test) == 12
    # Records are called by their number in the file.
    kept = people["height (cm)"].to_numpy()[prepared.X.index - 1]
    np.testing.assert_array_equal(prepared.X["height (cm)"], kept)
    assert "missing" in set(prepared.X["city {x}"]) | set(prepared.X_test["city {x}"])
    encoded = prepared.preprocessing.fit_transform(prepared.X)
    assert np.isfinite(encoded).all()
    # Three numbers; one indicator of smoker and of ill, three of four levels of the city.
    assert encoded.shape == (47, 3 + 1 + 3 + 1)
    np.testing.assert_allclose(encoded[:, :3].std(axis=0), 1.0)
    model = make_pipeline(prepared.preprocessing, LinearRegression())
    assert model.fit(prepared.X, prepared.y).score(prepared.X_test, prepared.y_test) > 0.9
    assert any("Left out: 1 record without `cost`" in note for note in prepared.notes)


def test_the_split_is_the_same_for_a_seed_and_another_for_another(people):
    first, second = (prepare(people, target="cost", **USUAL) for _ in range(2))
    pd.testing.assert_frame_equal(first.X, second.X)
    other = prepare(people, target="cost", **USUAL | {"seed": 1})
    assert not first.X.equals(other.X)
    everything = prepare(people, target="cost", **USUAL | {"test_size": 0.0})
    assert len(everything.X) == 59
    assert everything.X_test is None


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
    options = USUAL | {"sensitive": "height (cm)", "model": model}
    assert prepare(people, target=target, **options).target.model == chosen


def test_a_target_of_dates_is_days(people):
    options = USUAL | {"sensitive": "smoker?", "test_size": 0.0}
    ready = prepare(people, target="admitted", **options)
    assert ready.target.model == "linear"
    days = (pd.to_datetime(people["admitted"]) - pd.Timestamp("2020-01-05")).dt.days
    np.testing.assert_array_equal(np.sort(ready.y), np.sort(days))
    assert "It holds dates, turned into days since 2020-01-05." in ready.target.note
    with pytest.raises(ValueError, match="takes a target of 2 to"):
        prepare(people, target="admitted", **options | {"model": "logistic"})


def test_missing_secrets(people):
    names = prepare(people, target="cost", **USUAL | {"sensitive": "city {x}", "test_size": 0.0})
    assert names.n_values == 4
    assert "missing" in names.notes[2]
    numbers = prepare(people, target="cost", **USUAL | {"sensitive": "height (cm)"})
    assert numbers.n_values == 0
    assert "Left out: 2 records without `height (cm)`." in numbers.notes
    assert len(numbers.X) + len(numbers.X_test) == 57


def test_codes_are_encoded_where_the_user_says_so(people):
    options = USUAL | {"sensitive": "gene", "nominal": ["gene"]}
    prepared = prepare(people, target="cost", **options)
    assert sorted(set(prepared.X["gene"])) == ["11", "12", "22"]
    assert prepared.n_values == 3


def test_a_rare_level_that_is_held_out_is_encoded_like_none(people):
    people["city {x}"] = ["Rare"] * 2 + ["Köln", "Bonn"] * 29
    for seed in range(5):
        prepared = prepare(people, target="cost", **USUAL | {"seed": seed})
        fitted = prepared.preprocessing.fit(prepared.X)
        if "Rare" not in set(prepared.X["city {x}"]):
            with pytest.warns(UserWarning, match="Found unknown categories"):
                encoded = fitted.transform(prepared.X_test)
            assert np.isfinite(encoded).all()
            return
    raise AssertionError("no split without the level")


@pytest.mark.parametrize(
    "target, changes, message",
    [
        ("costs", {}, "Did you mean 'cost'"),
        ("cost", {"sensitive": "cost"}, "target itself"),
        ("cost", {"drop": ["cost"]}, "--drop would leave out 'cost'"),
        ("cost", {"drop": ["smoker?"]}, "which --sensitive names"),
        ("cost", {"sensitive": "constant"}, "single value: there is nothing to infer"),
        ("cost", {"sensitive": "alone"}, "only in those held out"),
        ("constant", {}, "fewer than two values"),
        ("constant", {"model": "linear"}, "takes a target of numbers"),
        ("city {x}", {"model": "linear"}, "takes a target of numbers; 'city {x}' holds text"),
        ("name", {}, "2 to 32 values; 'name' has 60"),
        ("negative", {"model": "poisson"}, "below zero"),
        ("flat", {"model": "linear"}, "single value in all records"),
        (
            "cost",
            {
                "sensitive": None,
                "drop": [
                    *("admitted", "height (cm)", "smoker?", "city {x}", "gene", "ill"),
                    *("negative", "alone"),
                ],
            },
            "no column is left",
        ),
    ],
)
def test_what_cannot_be_audited_is_said(people, target, changes, message):
    people["negative"] = np.tile([-1.0, 0.5, 3.0], 20)
    people["flat"] = 2.0
    people["name"] = [f"n{k}" for k in range(60)]
    people["alone"] = "a"
    held_out = prepare(people, target="cost", **USUAL).X_test["height (cm)"].dropna()
    people.loc[people["height (cm)"] == held_out.iloc[0], "alone"] = "b"
    with pytest.raises(ValueError, match=message.replace("{", r"\{")):
        prepare(people, target=target, **USUAL | changes)
