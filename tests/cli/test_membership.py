"""``skleak audit --membership``."""

import json

import pandas as pd
import pytest

QUICK = ("--n-releases", "8", "--quiet", "--seed", "1", "--noise-scale", "0.5", "5")


@pytest.mark.slow
@pytest.mark.parametrize("secrets", ["actual", pytest.param("drawn", marks=pytest.mark.slow)])
def test_an_audit_of_membership(secrets, data, tmp_path, run):
    out = tmp_path / "r.json"
    arguments = ("audit", data, "--target", "cost", "--membership", "--secrets", secrets)
    code, text, err = run(*arguments, "--out", out, *QUICK)
    assert (code, err) == (0, "")
    assert "whole records" not in text
    assert max(map(len, text.replace(str(out), "").split("\n"))) <= 88
    told = json.loads(out.read_text())
    assert told["kind"] == "membership"
    assert told["settings"]["secrets"] == secrets
    assert pd.DataFrame(told["results"])["noise_scale"].unique().tolist() == [0.5, 5.0]
    if secrets == "actual":
        assert told["settings"]["reference"] == "test records"


@pytest.mark.slow
def test_a_limit_on_membership(data, tmp_path, run):
    arguments = ("audit", data, "--target", "cost", "--membership", "--out", tmp_path / "r.html")
    code, text, _ = run(*arguments, *QUICK, "--fail-above", "0.0001", "--of", "everyone")
    assert code == 3
    assert "NOT KEPT" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sensitive", "smoker?"), "--membership and --sensitive are two audits"),
        (("--prior", "conditional"), "membership has even odds"),
        (("--prior", "uniform"), "membership has even odds"),
    ],
)
def test_what_does_not_go_together(options, message, data, tmp_path, run):
    arguments = ("audit", data, "--target", "cost", "--membership", "--out", tmp_path / "r.html")
    code, _, err = run(*arguments, *QUICK, *options)
    assert code == 2
    assert message in err
