"""What the tests of the command line share."""

import socket

import numpy as np
import pandas as pd
import pytest

from skleak.cli import main


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the command line must not use the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def run(capsys):
    """Run the command line in this process: exit code, standard output, standard error."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def people():
    """A table as a hospital has it: text, gaps, dates, identifiers, codes, odd names."""
    rng = np.random.default_rng(3)
    n = 60
    frame = pd.DataFrame(
        {
            "Patient ID": [f"P{k:03d}" for k in rng.permutation(n)],
            "row": np.arange(1, n + 1),
            "admitted": pd.Series(
                pd.Timestamp("2020-01-05") + pd.to_timedelta(rng.permutation(n), "D")
            ).dt.strftime("%Y-%m-%d"),
            "height (cm)": rng.normal(170.0, 10.0, n).round(1),
            "smoker?": rng.permutation(["yes", "no"] * (n // 2)).astype(object),
            "city {x}": rng.choice(["Köln", "Bonn", "<b>Ulm</b>"], n).astype(object),
            "gene": rng.permutation([11, 12, 22] * (n // 3)),
            "constant": "x",
            "ill": rng.permutation([True, False, False] * (n // 3)),
        }
    )
    frame["cost"] = frame["height (cm)"] + 20.0 * (frame["smoker?"] == "yes")
    frame.loc[[2, 3], "height (cm)"] = np.nan
    frame.loc[[4, 5, 6], "city {x}"] = None
    frame.loc[[7], "cost"] = np.nan
    return frame


@pytest.fixture
def data(people, tmp_path):
    """The same as a CSV file, in a folder of its own."""
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "people.csv"
    people.to_csv(path, index=False)
    return path
