"""Audits in MLflow. The attack: look for a person in all that a run holds."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skleak.audit import LeakageAuditor
from skleak.linear_model import PrivateLinearRegression
from skleak.tracking import log_report


@pytest.fixture
def people():
    rng = np.random.default_rng(5)
    n = 14
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["age", "smoker"])
    X["smoker"] = (X["age"] + rng.normal(size=n) > 0.0).astype(float)
    X.index = [f"person-{k:03d}" for k in range(n)]
    return X, X["age"] - X["smoker"] + rng.normal(size=n)


@pytest.fixture
def auditor():
    model = PrivateLinearRegression(noise_scale=0.5, alpha=0.1)
    made = {"noise_scales": [1e6, 1.0], "n_releases": 2, "random_state": 0}
    return LeakageAuditor(model, "smoker", **made)


def test_only_overviews_are_logged(people):
    X, y = people
    report = PrivateLinearRegression(0.5).fit(X, y).leakage_report()
    with pytest.raises(TypeError, match="got PersonReport"):
        log_report(report.person("person-003"))
    with pytest.raises(TypeError, match="got dict"):
        log_report(report.to_dict())
    few = PrivateLinearRegression(0.5).fit(X[:9], y[:9]).leakage_report()
    pytest.importorskip("mlflow")
    with pytest.raises(ValueError, match="fewer than 10"):
        log_report(few)


def _persons_in(folder, X, y):
    """List labels and numbers of people in any file of a folder, whatever its name."""
    wanted = {*X.index, *(repr(v) for v in X["age"]), *(repr(v) for v in y)}
    wanted |= {f"{v:.6g}" for v in [*X["age"], *y]}
    found, n_files = set(), 0
    for path in Path(folder).rglob("*"):
        if path.is_file():
            text = path.read_bytes().decode("latin-1")
            found |= {value for value in wanted if value in text}
            n_files += 1
    assert n_files > 0
    return found


@pytest.fixture
def tracker(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    mlflow.create_experiment("audits", artifact_location=(tmp_path / "artifacts").as_uri())
    mlflow.set_experiment("audits")
    yield mlflow
    while mlflow.active_run():
        mlflow.end_run()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_holds_the_overview_and_no_person(tracker, people, auditor, tmp_path):
    X, y = people
    report = auditor.fit(X, y).report_
    with tracker.start_run() as run:
        logged = log_report(report)
    kept = tracker.get_run(run.info.run_id).data
    assert kept.metrics == pytest.approx(logged)
    assert kept.metrics["skleak/noise_scale_1/largest_advantage"] > 0.0
    assert "skleak/noise_scale_1e06/largest_advantage" in kept.metrics
    assert kept.tags["skleak.version"]
    page = tmp_path / "artifacts" / run.info.run_id / "artifacts" / "skleak-overview.md"
    assert page.read_text() == report.to_markdown()
    assert not _persons_in(tmp_path, X, y)
    # The attack finds what there is.
    (tmp_path / "report.json").write_text(report.to_json())
    assert _persons_in(tmp_path, X, y) >= {*X.index}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_evaluator_audits_a_data_set(tracker, people, auditor, tmp_path):
    from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry as registry

    from skleak.tracking._evaluator import LeakageEvaluator

    registry.register("skleak", LeakageEvaluator)
    X, y = people
    table = X.assign(cost=y)
    with tracker.start_run() as run:
        found = tracker.models.evaluate(
            data=table.assign(guess=0.0),
            targets="cost",
            predictions="guess",
            model_type="regressor",
            evaluators="skleak",
            evaluator_config={"auditor": auditor},
        )
    assert not hasattr(auditor, "report_")
    kept = tracker.get_run(run.info.run_id).data.metrics
    assert kept == pytest.approx(found.metrics)
    assert "skleak/within_max_advantage" in kept
    assert "# Leakage audit, overview" in found.artifacts["skleak-overview.md"].content
    assert not _persons_in(tmp_path, X, y)
    # Where nobody asks for it, no evaluation becomes an audit.
    assert not LeakageEvaluator.can_evaluate(model_type="regressor", evaluator_config={})
    assert not LeakageEvaluator.can_evaluate(model_type="regressor", evaluator_config=None)
