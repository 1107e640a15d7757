"""The page of published and recomputed numbers is what the kept results of the scripts give."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PAPERS = ROOT / "examples" / "3_papers"
RESULTS = sorted(PAPERS.glob("results/*.json"))


@pytest.fixture(scope="module")
def tools():
    """What the scripts share: how one reports, what writes the page, and the parts of [BIL23]."""
    sys.path.insert(0, str(PAPERS))
    try:
        return [importlib.import_module(name) for name in ("_reproduction", "reproduce", "_bil23")]
    finally:
        sys.path.remove(str(PAPERS))


@pytest.fixture
def page(tools, tmp_path, monkeypatch):
    """What a script starts with, in a folder of its own."""
    monkeypatch.setattr(sys, "argv", ["plot_new.py"])

    def start(*arguments):
        monkeypatch.setattr(sys, "argv", ["plot_new.py", *arguments])
        return tools[0].Reproduction(tmp_path / "plot_new.py", "FIL21", "figure 0", "new", "few")

    return start


def test_the_page_is_what_the_kept_results_give(tools):
    current = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert current == tools[1].render(tools[1].load())


def test_every_script_keeps_results():
    names = {script.stem.removeprefix("plot_") for script in PAPERS.glob("plot_*.py")}
    assert {path.stem for path in RESULTS} == names


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_verdicts_follow_from_the_numbers(tools, path):
    facts = json.loads(path.read_text(encoding="utf-8"))
    assert facts["paper"] in tools[1].PAPERS
    assert facts["sizes"]
    assert path.stat().st_size < 200_000
    for number in facts["numbers"]:
        status, published = number["status"], number["published"]
        if status in ("differs", "not run"):
            assert number["why"], number["name"]
        if status == "not run":
            continue
        assert (published is None) == (status == "no published number")
        if number["tolerance"] is not None:
            close = abs(number["here"] - float(published)) <= 1.0001 * number["tolerance"]
            assert status == ("agrees" if close else "differs"), number["name"]


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_no_script_takes_more_than_a_quarter_of_an_hour(tools, path):
    facts = json.loads(path.read_text(encoding="utf-8"))
    assert facts["seconds"] <= 900.0
    assert ("derived" in facts) == (path.stem in ("bil23_table1", "dra22_figure5"))
    assert tools[1].duration(facts) in tools[1].section(facts)[2]
    assert tools[1].duration({"seconds": 0.2}) == "1 s"
    assert tools[1].duration({"seconds": 600.0}) == "10 min"


def test_all_scripts_together_take_less_than_three_hours_on_two_cores():
    runs = json.loads((PAPERS / "dra22_figure5_mnist.json").read_text(encoding="utf-8"))
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS]
    assert sum(part["seconds"] for part in runs + kept) < 2 * 3 * 3600.0


@pytest.fixture
def bil23(tools):
    """What the scripts of [BIL23] share."""
    pytest.importorskip("torch")
    return tools[2]


def small_network(seed=0):
    import torch

    from skleak.neural.models import bil23_writers

    torch.manual_seed(seed)
    X, y = torch.rand(60, 7), torch.randint(3, (60,))
    torch.manual_seed(seed)
    return bil23_writers(7, 3, batch_norm=True), X, y


@pytest.mark.slow
def test_one_run_serves_several_stops(bil23):
    import torch

    network, X, y = small_network()
    both = bil23.train(network, X, y, 1, 1e-3, 1e-4)
    for change, found in zip((1e-3, 1e-4), both, strict=True):
        network, X, y = small_network()
        (alone,) = bil23.train(network, X, y, 1, change)
        for first, second in zip(alone.parameters(), found.parameters(), strict=True):
            torch.testing.assert_close(first, second)
    assert not torch.equal(*(next(network.parameters()) for network in both))


def test_gradient_norms_are_those_of_autograd(bil23):
    import torch

    from skleak.neural.models import squared_probability_loss

    network, X, y = small_network()
    network(X)  # running means that are not zero
    network.eval()
    norms = bil23.gradient_norms(network, X, y)
    for k in range(5):
        loss = squared_probability_loss(network(X[k : k + 1])[0], y[k])
        parts = torch.autograd.grad(loss, list(network.parameters()))
        expected = torch.sqrt(sum(part.square().sum() for part in parts))
        torch.testing.assert_close(norms[k], expected)


@pytest.mark.parametrize("n_points", [2, 3, 16, 31, 32, 33, 34, 63, 64, 65, 130])
def test_digits_have_32_of_their_points_or_midpoints(bil23, n_points):
    rng = np.random.default_rng(0)
    points = np.cumsum(rng.uniform(0.1, 1.0, (n_points, 2)), axis=0)
    found = bil23.at_32(points, rng)
    assert found.shape == (32, 2)
    np.testing.assert_array_equal(found[[0, -1]], points[[0, -1]])
    assert np.all(np.diff(found, axis=0) > 0.0)
    kept = (found[:, None] == points).all(axis=2).any(axis=1).sum()
    assert kept == n_points if n_points <= 32 else kept >= 30


def test_printed_digits_are_the_tolerance(page):
    one = page()
    one.number("near", "0.040", 0.0404)
    one.number("given", 0.5, 0.52, 0.03, source="figure")
    one.number("unknown", None, 1.0)
    one.number("absent", "1", None, why="no data")
    one.claim("said", "more", 2.0, holds=True)
    with pytest.raises(ValueError, match=r"far: 0\.042 against 0\.040\. Say why"):
        one.number("far", "0.040", 0.042)
    statuses = [number["status"] for number in one.numbers]
    assert statuses == ["agrees", "agrees", "no published number", "not run", "agrees"]
    assert one.numbers[0]["tolerance"] == 0.0005


def test_results_are_kept_and_taken(page):
    first = page()
    assert first.results(lambda: {"a": [1.0, 2.0]}) == {"a": [1.0, 2.0]}
    first.number("sum", "3", 3.0)
    first.close()
    second = page()
    assert second.results(pytest.fail) == {"a": [1.0, 2.0]}
    second.number("sum", "3", 2.9)
    with pytest.raises(ValueError, match="--compare"):
        second.close()
    third = page("--compare")
    third.results(pytest.fail)
    third.number("sum", "3", 2.9)
    third.close()
    assert page().kept["numbers"][0]["here"] == 2.9
    assert page("--recompute").results(lambda: {"a": 5}) == {"a": 5}


def test_another_folder(page, tmp_path):
    one = page("--out", str(tmp_path / "other"))
    one.results(dict)
    one.number("n", "3", 3.0)
    one.close()
    assert (tmp_path / "other" / "new.json").exists()
    assert not one.source.exists()
