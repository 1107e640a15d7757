"""Whole audits of twenty tables as people have them: every one ends, and answers."""

import importlib
import json

import numpy as np
import pandas as pd
import pytest
from helpers import exhaustive
from sklearn import datasets

# What is trained on, and what attackers are after, for each table of a package.
TABLES = {
    # Numbers alone; three classes, two, or a number to predict
    "sklearn iris": ("target", "petal width (cm)"),
    "sklearn wine": ("target", "alcohol"),
    "sklearn breast_cancer": ("target", "mean radius"),
    "sklearn diabetes": ("target", "sex"),
    "sklearn linnerud": ("Weight", "Pulse"),  # 20 records
    # Surveys and registers: answers as codes, counts, rare answers
    "statsmodels anes96": ("vote", "educ"),
    "statsmodels fair": ("affairs", "religious"),
    "statsmodels randhie": ("mdvis", "hlthp"),  # 20,190 records; 1.5 % in poor health
    "statsmodels ccard": ("AVGEXP", "OWNRENT"),
    "statsmodels spector": ("GRADE", "PSI"),
    "statsmodels heart": ("survival", "censors"),
    "statsmodels modechoice": ("choice", "mode"),  # long form: four rows a person
    # Fewer records than most people would train on, and shares of one whole
    "statsmodels cpunish": ("EXECUTIONS", "SOUTH"),
    "statsmodels committee": ("BILLS104", "PRESTIGE"),
    "statsmodels star98": ("NABOVE", "PCTYRRND"),
    # A name in nearly every record, dates, gaps, words
    "vega_datasets cars": ("Miles_per_Gallon", "Origin"),
    "vega_datasets seattle_weather": ("temp_max", "weather"),
    "vega_datasets la_riots": ("age", "gender"),
    "vega_datasets barley": ("yield", "site"),
    "vega_datasets airports": ("latitude", "country"),  # 56 states, 2,674 cities
}
# Of the large ones, those that are audited every week alone.
WEEKLY = ("statsmodels anes96", "statsmodels fair", "vega_datasets seattle_weather")


def load(name):
    package, table = name.split(" ")
    if package == "sklearn":
        return getattr(datasets, f"load_{table}")(as_frame=True).frame
    if package == "statsmodels":
        return importlib.import_module(f"statsmodels.datasets.{table}").load_pandas().data
    return getattr(importlib.import_module("vega_datasets").local_data, table)()


def assert_confirmed(told):
    """The facts of the first sentence, found again in the tables below it."""
    found = told["decision"]
    results, records = pd.DataFrame(told["results"]), pd.DataFrame(told["records"])
    assert len(told["findings"][0].split()) <= 40
    scales = sorted(set(results["noise_scale"]))
    assert [level["noise"] for level in found["levels"]] == scales
    passing = [level["noise"] for level in found["levels"] if level["passes"]]
    assert found["passes"] == (passing == scales)
    assert found["noise"] == min(passing, default=scales[-1])
    for level in found["levels"]:
        at = results[results["noise_scale"] == level["noise"]]
        assert np.allclose(at["utility"], level["utility"])
        own = records[records["noise_scale"] == level["noise"]].set_index("label")
        if "exposure" not in own or own["exposure"].isna().any():
            assert not level["passes"]
            continue
        exposure = own["exposure"].astype(float)
        above = exposure > found["limit"] * (1.0 + 1e-9)
        assert level["n_above"] == above.sum()
        assert level["passes"] == (not above.any() and not found["sampled"])
        assert level["largest"] == pytest.approx(exposure.max(), abs=1e-9)
        if level["noise"] == found["noise"]:
            assert set(found["labels"]) == set(exposure.index[above])
        if level["passes"]:
            # No attack that looks at the model is surely above the limit, or beyond a bound. Of a
            # number a black box gains what its conditional prior tells, with no model as well.
            without = ["prior", "imputation"] + ["black_box"] * ("step" in own)
            played = at[~at["attack"].isin(without)]
            gained = played[["advantage_low", "advantage_over_imputation_low"]].min(axis=1)
            assert not (gained > found["limit"]).any()
    # More noise, fewer people above the limit.
    above = [level["n_above"] for level in found["levels"] if level["n_above"] is not None]
    assert above == sorted(above, reverse=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the packages
@pytest.mark.parametrize(
    "name", [*(name for name in TABLES if name not in WEEKLY), *exhaustive(zip(WEEKLY))]
)
def test_an_audit_ends_and_its_first_sentence_is_true(name, tmp_path, run):
    pytest.importorskip(name.split(" ")[0])
    table, (target, sensitive) = load(name), TABLES[name]
    path, out = tmp_path / "table.csv", tmp_path / "report.json"
    table.to_csv(path, index=False)
    options = ("--target", target, "--sensitive", sensitive, "--quiet", "--out", out)
    code, text, _ = run("audit", path, *options)
    assert code == 0
    told = json.loads(out.read_text())
    assert " ".join(told["findings"][0].split()) in " ".join(text.split())
    assert_confirmed(told)
