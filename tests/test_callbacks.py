"""Progress in scikit-learn's callbacks: told of tasks, never of what was fitted."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.audit import LeakageAuditor
from skleak.exceptions import PrivacyLeakWarning
from skleak.linear_model import IRFIL, PrivateLinearRegression
from skleak.mechanisms import MaxLeakage
from skleak.utils._confidential import without_ledger
from skleak.utils._sklearn_compat import Task, fit_task, no_task

callback = pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")


class Told:
    """A callback that writes down all that it is told."""

    def __init__(self):
        self.tasks, self.given, self.open, self.stops = [], [], 0, 0

    def setup(self, estimator, context):
        self.open += 1

    def teardown(self, estimator, context):
        self.open -= 1

    def on_fit_task_begin(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.given += [X, y, metadata, fitted_estimator]
        self.tasks.append(("begin", context.task_name, context.max_subtasks))

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.given += [X, y, metadata, fitted_estimator]
        self.tasks.append(("end", context.task_name, context.max_subtasks))
        return True

    def names(self, what):
        return [name for begun, name, _ in self.tasks if begun == what]


class Spread(Told):
    """The same, handed down by searches and pipelines."""

    max_propagation_depth = None


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    return X, X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=30)


def test_a_fit_is_told_in_tasks(data):
    told = Told()
    model = PrivateLinearRegression(0.5, random_state=0).set_callbacks(told).fit(*data)
    tasks = ["fit", "solve", "calibration", "leakage"]
    assert told.names("begin") == tasks
    assert told.names("end") == [*tasks[1:], "fit"]
    assert told.open == 0
    # A callback that asks to stop changes nothing.
    plain = PrivateLinearRegression(0.5, random_state=0).fit(*data)
    assert np.array_equal(model.coef_, plain.coef_)


def test_the_search_for_weights_tells_of_every_refit(data):
    told = Told()
    model = PrivateLinearRegression(0.5, reweighting=IRFIL(max_iter=40), random_state=0)
    model.set_callbacks(told).fit(*data)
    n = told.names("end").count("refit")
    assert n == len(model.reweighting_history_) > 2
    assert ("begin", "reweighting", 41) in told.tasks


def test_a_goal_that_refits_tells_of_one_calibration(data, monkeypatch):
    told, X = Told(), np.tile([[0.0], [1.0]], (5, 1))
    y = X[:, 0] + 0.3 * data[1][:10]
    model = PrivateLinearRegression(MaxLeakage(0.34), reweighting="irfil", alpha=2.0)
    fits = []
    solve = type(model)._solve

    def counted(self, *arguments):
        fits.append(self)
        return solve(self, *arguments)

    monkeypatch.setattr(type(model), "_solve", counted)
    model.set_callbacks(told).fit(X, y)
    assert len(fits) > 1
    assert told.names("begin").count("reweighting") == 1
    assert told.names("begin").count("calibration") == 1
    assert told.names("end")[-1] == "fit"


def test_nothing_that_was_fitted_is_told(data):
    told = Told()
    model = PrivateLinearRegression(0.5, reweighting="irfil", random_state=0)
    model.set_callbacks(told).fit(*data)
    assert told.given
    assert all(value is None for value in told.given)
    with pytest.warns(PrivacyLeakWarning):
        released = model.release()
    assert b"Told" not in pickle.dumps(released)
    assert not hasattr(released, "_skl_callbacks")
    assert not hasattr(model, "_callback_fit_ctx")


def test_a_fit_that_fails_takes_its_callbacks_down(data):
    told = Told()
    model = PrivateLinearRegression(0.5, random_state=0).set_callbacks(told).fit(*data)
    before = model.coef_
    with pytest.raises(ValueError, match="NaN"):
        model.fit(data[0] * np.nan, data[1])
    assert told.open == 0
    assert model.coef_ is before
    assert not hasattr(model, "_callback_fit_ctx")
    auditor = LeakageAuditor(PrivateLinearRegression(0.5), 7).set_callbacks(told)
    with pytest.raises(ValueError, match="7"):
        auditor.fit(*data)
    assert told.open == 0
    assert not hasattr(auditor, "_callback_fit_ctx")


def test_searches_and_pipelines_hand_them_down(data):
    told = Spread()
    pipeline = make_pipeline(StandardScaler(), PrivateLinearRegression(0.5, random_state=0))
    grid = {"privatelinearregression__alpha": [0.1, 1.0]}
    GridSearchCV(pipeline, grid, cv=2).set_callbacks(told).fit(*data)
    # Two candidates in two folds, and the refit.
    assert told.names("end").count("solve") == 5
    assert told.open == 0


@pytest.mark.slow
def test_an_audit_tells_of_its_cells_and_not_of_its_refits(data):
    told, inner = Told(), Told()
    model = PrivateLinearRegression(0.5).set_callbacks(inner)
    X = np.column_stack([data[0], data[0][:, 0] > 0.0])[:12]
    auditor = LeakageAuditor(model, 3, noise_scales=[0.5, 2.0], n_releases=2, random_state=0)
    auditor.set_callbacks(told).fit(X, data[1][:12])
    begun = {name: n for _, name, n in told.tasks}
    assert told.names("end")[0] == "game"
    assert told.names("end")[-2:] == ["cells", "fit"]
    assert len(told.names("end")) == begun["cells"] + 3
    assert all(value is None for value in told.given)
    assert not inner.tasks
    assert model._skl_callbacks == [inner]


def test_copies_that_release_nothing_tell_nobody():
    told = Told()
    model = PrivateLinearRegression(0.5).set_callbacks(told)
    assert clone(model)._skl_callbacks == [told]
    copy = without_ledger(make_pipeline(StandardScaler(), model))
    assert not hasattr(copy[-1], "_skl_callbacks")
    assert model._skl_callbacks == [told]


def test_no_more_parts_are_told_than_were_announced():
    told = Told()
    model = PrivateLinearRegression(0.5).set_callbacks(told)
    with fit_task(model, 1) as task:
        with task.part("first", 2) as first:
            for _ in range(5):
                first.done("step")
        with task.part("one too many") as more:
            more.done("step")
    assert told.names("begin") == ["fit", "first", "step", "step"]
    nobody = no_task()
    assert isinstance(nobody, Task)
    nobody.done("anything")
