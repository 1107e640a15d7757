"""What an audit's results say is derived once while something is made of it, and then anew."""

import numpy as np
import pandas as pd

from skleak.audit import LeakageAuditor
from skleak.linear_model import PrivateLinearRegression
from skleak.plotting.results import derived, made_at_once


def test_once_for_each_thing_that_is_made():
    calls = []

    @derived
    def counted(audit):
        calls.append(audit)
        return [len(calls)]

    @made_at_once
    def inner(audit):
        return counted(audit)

    @made_at_once
    def make(audit):
        counted(audit).append("a change of what was handed out")
        return counted(audit), inner(audit)

    first, second = object(), object()
    assert make(first) == ([1], [1])
    assert make(second) == ([2], [2])
    assert make(first) == ([3], [3])
    assert [counted(first), counted(first)] == [[4], [5]]  # while nothing is made


def test_changed_tables_are_read_anew(rng):
    X = pd.DataFrame({"smokes": np.arange(12) % 2, "age": rng.normal(size=12)})
    model = PrivateLinearRegression(0.5)
    report = LeakageAuditor(model, "smokes", n_releases=2).fit(X, rng.normal(size=12)).report_
    before = report.to_text(), report.to_dict()["decision"]["utility"]["value"]
    report.results["utility"] += 0.5
    after = report.to_text(), report.to_dict()["decision"]["utility"]["value"]
    assert after[1] == before[1] + 0.5
    assert after[0] != before[0]
