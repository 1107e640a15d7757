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
    found, first = told["decision"], told["findings"][0]
    results, records = pd.DataFrame(told["results"]), pd.DataFrame(told["records"])
    levels = sorted(set(results["noise_scale"]))
    at = results[results["noise_scale"] == found["noise"]]
    assert f"{found['limit']:.0%}" in first
    assert np.allclose(at["utility"], found["utility"]["value"])
    attacks = at[~at["attack"].isin(["prior", "imputation"])]
    if found["status"] == "kept":
        assert f"oise scale {found['noise']:.3g} keeps" in first
        assert found["advantage"] <= found["limit"]
        # No attack that looks at the model is surely above the limit, or beyond a bound.
        assert not (attacks["advantage_low"] > found["limit"]).any()
        assert "bound exceeded" not in set(attacks["verdict"])
    if found["kind"] == "categorical" and found["source"] == "bound":
        bounds = [name for name in ("bayes", "tightest_bound") if name in records]
        most = records[bounds].astype(float).min(axis=1)
        own = (most - records["prior"]) / (1.0 - records["prior"])
        means = pd.DataFrame({"most": most, "prior": records["prior"]})
        means = means.groupby(records["noise_scale"]).mean()
        # Of a sample of the records, no more than what is known of all of them.
        mean = (means["most"] - means["prior"]) / (1.0 - means["prior"])
        assert mean[found["noise"]] == pytest.approx(found["advantage"], abs=0.01)
        if found["status"] == "kept":
            smaller = [level for level in levels if level < found["noise"]]
            assert all(mean[level] > found["limit"] - 0.01 for level in smaller)
        else:
            assert mean.min() > found["limit"] - 0.01
        exposed = own[records["noise_scale"] == found["noise"]]
        assert found["largest"] == pytest.approx(exposed.max(), abs=1e-9)
        above = exposed > found["limit"] * (1.0 + 1e-9)
        assert found["n_above"] == above.sum()
        assert set(found["labels"]) == set(records["label"][exposed.index[above]])


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
