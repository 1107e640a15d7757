"""The recipes of CONTRIBUTING.md are followed word for word."""

import re
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest
from scipy.special import ndtr

from skleak.audit import LeakageAuditor
from skleak.channels import GaussianChannel
from skleak.linear_model import PrivateLinearRegression

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def followed(title):
    """The words of a recipe, and what its code defines."""
    section = CONTRIBUTING.split(f"### {title}\n")[1].split("\n### ")[0]
    made = {"__name__": "recipe"}
    exec(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1], made)
    return section, made


def test_the_way_of_a_record_leads_through_what_exists():
    way = CONTRIBUTING.split("## One record")[1].split("\n## ")[0]
    steps = re.findall(r"^\| \d \| `(.*?)` \|", way, re.MULTILINE)
    assert len(steps) == 8
    assert all(callable(resolve_name(step)) for step in steps)


def test_files_that_are_named_exist():
    text = re.sub(r"```.*?```", "", CONTRIBUTING, flags=re.DOTALL)
    named = re.findall(r"`((?:[a-z]\w*|\.ci)/[\w./]+?)`", text)
    roots = (ROOT, ROOT / "skleak")
    ends = ("", ".py")
    missing = [
        name
        for name in named
        if not any((root / f"{name.rstrip('/')}{end}").exists() for root in roots for end in ends)
    ]
    assert len(named) > 20
    assert missing == ["skleak/X"] or not missing


@pytest.mark.parametrize("distance", [0.0, 0.1, 1.0, 4.0])
def test_the_bound_is_reached_by_the_exact_attack(distance):
    section, made = followed("A bound")
    attack = re.search(r"`(GaussianChannel\(.*\)\.bayes_success\(\))`", section)[1]
    success = eval(attack, {"GaussianChannel": GaussianChannel, "d": distance})
    bound = made["total_variation_advantage"](2.0 * ndtr(distance / 2.0) - 1.0)
    assert bound == pytest.approx((success - 0.5) / 0.5, abs=1e-9)


@pytest.mark.slow
def test_the_attack_is_played_beside_the_bounds(rng):
    section, made = followed("An attack")
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    X[:, 0] = np.arange(40) % 4 == 0
    call = re.search(r"`(LeakageAuditor\(.*\))` plays it", section)[1]
    auditor = eval(
        call, made | {"LeakageAuditor": LeakageAuditor, "model": PrivateLinearRegression(1.0)}
    )
    table = auditor.fit(X, y).results_
    assert (table["attack"] == "commonest").all()
    # Three of four records have the value: by six standard deviations of the games.
    assert (np.abs(table["success"] - 0.75) < 6.0 * np.sqrt(0.1875 / table["n_games"])).all()


def test_the_kind_of_noise_is_counted_as_its_matrix(rng):
    kind = followed("A kind of noise")[1]["SharedNoise"](0.3)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    losses = [
        PrivateLinearRegression(0.3, noise_covariance=shape).fit(X, y).fisher_information_loss()
        for shape in (kind, kind.covariance(4))
    ]
    np.testing.assert_array_equal(*losses)
