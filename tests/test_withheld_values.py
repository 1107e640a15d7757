"""No message, cause, context or warning quotes a value of a record, whoever is handed a bad table.

The attacker reads logs. Every entry point that takes records gets every bad table; whatever it
raises, or warns of, must not hold what is in the table.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skleak
from skleak import inspection
from skleak.attacks import (
    GaussianLinearMembership,
    InformedReconstruction,
    MembershipInference,
    PriorAttack,
    WhiteBoxAttributeInference,
)
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.neural import GradientInversion, PrivateSGDClassifier, PrivateSGDRegressor
from skleak.preprocessing import (
    BlockwiseTransformer,
    PublicImputer,
    PublicOneHotEncoder,
    PublicScaler,
    PublicTargetScaler,
    RowNormClipper,
)

pytestmark = pytest.mark.filterwarnings("ignore::skleak.exceptions.PrivacyLeakWarning")

TEXT, NUMBER, DATE, N = "HIVPOSITIVE", 987654.25, "1987-06-05", 24
# Printed with fewer digits, too.
SECRETS = (TEXT.lower(), DATE, "987654", "9.8765", "9876542")


def table():
    return pd.DataFrame(np.random.default_rng(0).normal(size=(N, 3)), columns=["a", "b", "c"])


def cell(value):
    X = table().astype(object)
    X.iat[5, 1] = value
    return X


BAD = {
    "text in a cell": lambda: cell(TEXT),
    "text in an array": lambda: cell(TEXT).to_numpy(),
    "text in lists": lambda: cell(TEXT).to_numpy().tolist(),
    "array of text": lambda: np.array(cell(TEXT).to_numpy().tolist(), dtype=str),
    "column of text": lambda: table().assign(b=TEXT),
    "categorical": lambda: table().assign(b=pd.Categorical([TEXT] * N)),
    "bytes": lambda: cell(TEXT.encode()),
    "list in a cell": lambda: cell([TEXT]),
    "mapping in a cell": lambda: cell({TEXT: NUMBER}),
    "date": lambda: cell(pd.Timestamp(DATE)),
    "complex": lambda: cell(complex(NUMBER, 1.0)),
    "huge": lambda: cell(NUMBER * 1e295).astype(float),
    "infinite": lambda: cell(np.inf).assign(c=NUMBER),
    "missing": lambda: cell(np.nan).assign(c=NUMBER),
    "one dimension": lambda: np.full(N, NUMBER),
    "one dimension of text": lambda: [TEXT] * N,
    "scalar": lambda: NUMBER,
    "ragged": lambda: [[NUMBER, 1.0, 2.0]] * (N - 1) + [[TEXT]],
    "three dimensions": lambda: np.full((2, 3, 4), NUMBER),
    "other names": lambda: cell(TEXT).rename(columns={"b": "z"}),
}


def column(bad):
    """The bad part of a table, as a target or as weights."""
    return bad["b"] if isinstance(bad, pd.DataFrame) and "b" in bad else bad


def entries():
    """Functions of a bad table, by name."""
    X, y = table(), np.arange(N) % 2
    numbers = X["a"].to_numpy()
    few = {"max_steps": 2, "sampling_rate": 0.5, "random_state": 0}
    models = {
        "linear": (PrivateLinearRegression(random_state=0), numbers),
        "logistic": (PrivateLogisticRegression(random_state=0), y),
        "declared": (PrivateLogisticRegression(random_state=0, classes=[0, 1]), y),
        "Poisson": (PrivatePoissonRegressor(random_state=0), y),
        "SGD": (PrivateSGDClassifier(**few), y),
        "SGD numbers": (PrivateSGDRegressor(**few), numbers),
    }
    found = {}
    for name, (model, target) in models.items():
        model.fit(X, target)
        found[f"{name}, fit"] = lambda bad, m=model, t=target: clone(m).fit(bad, t)
        found[f"{name}, fit y"] = lambda bad, m=model: clone(m).fit(X, column(bad))
        for kind, fitted in ((name, model), (f"released {name}", model.release())):
            for method in ("predict", "predict_proba", "decision_function"):
                if hasattr(fitted, method):
                    found[f"{kind}, {method}"] = getattr(fitted, method)
            found[f"{kind}, score"] = lambda bad, m=fitted, t=target: m.score(bad, t)
            found[f"{kind}, score y"] = lambda bad, m=fitted: m.score(X, column(bad))
        if "SGD" not in name:
            loss, report = model.fisher_information_loss, model.leakage_report
            found[f"{name}, loss"] = lambda bad, f=loss, t=target: f(bad, t)
            found[f"{name}, loss y"] = lambda bad, f=loss: f(X, column(bad))
            found[f"{name}, queries"] = lambda bad, f=loss: f(queries=bad)
            found[f"{name}, report"] = lambda bad, f=report, t=target: f(bad, t)
            found[f"{name}, weights"] = lambda bad, m=model, t=target: clone(m).fit(
                X, t, sample_weight=column(bad)
            )
    logistic = models["logistic"][0]
    for step in (
        PublicScaler((-1, 1)),
        PublicTargetScaler((-1, 1)),
        RowNormClipper(1.0),
        PublicImputer(0.0),
        PublicOneHotEncoder([[0, 1]] * 3, handle_unknown="error"),
        BlockwiseTransformer(StandardScaler().fit(X)),
    ):
        name = type(step).__name__
        fitted = clone(step).fit((X > 0.0).astype(int))
        found[f"{name}, fit"] = lambda bad, s=step: clone(s).fit(bad)
        found[f"{name}, fit_transform"] = lambda bad, s=step: clone(s).fit_transform(bad)
        found[f"{name}, transform"] = fitted.transform
        if hasattr(fitted, "inverse_transform"):
            found[f"{name}, inverse_transform"] = fitted.inverse_transform
    pipeline = make_pipeline(PublicScaler((-4, 4)), clone(logistic)).fit(X, y)
    for name, made in (("pipeline", pipeline), ("released pipeline", skleak.release(pipeline))):
        found[f"{name}, predict"] = made.predict
        found[f"{name}, score"] = lambda bad, m=made: m.score(bad, y)
    found["release"] = lambda bad: skleak.release(pipeline, X=bad)
    found["release y"] = lambda bad: skleak.release(pipeline, X=X, y=column(bad))
    found["inspection report"] = lambda bad: inspection.leakage_report(pipeline, bad, y)
    found["inspection report y"] = lambda bad: inspection.leakage_report(pipeline, X, column(bad))
    found["attribute leakage"] = lambda bad: inspection.attribute_leakage(pipeline, bad, y)
    white = WhiteBoxAttributeInference(logistic, attribute="b")
    for name, attack in {
        "prior": PriorAttack("b"),
        "white box": white,
        "reconstruction": InformedReconstruction(logistic),
        "membership": MembershipInference(),
        "design": GaussianLinearMembership(coef=[1.0, 1.0, 1.0], sigma=1.0),
        "inversion": GradientInversion(models["SGD"][0]),
    }.items():
        found[f"{name} attack, fit"] = lambda bad, a=attack: clone(a).fit(bad, y)
        found[f"{name} attack, fit y"] = lambda bad, a=attack: clone(a).fit(X, column(bad))
    return found


def audits():
    """Audits, of a bad table each."""
    X, y = table(), np.arange(N) % 2
    few = {"n_releases": 2, "noise_scales": [1.0], "random_state": 0}
    model = PrivateLogisticRegression()
    found = {}
    for name, auditor in {
        "of a column": LeakageAuditor(model, "a", **few),
        "of the bad column": LeakageAuditor(model, "b", **few),
        "of membership": MembershipAuditor(model, **few),
    }.items():
        found[name] = lambda bad, a=auditor: clone(a).fit(bad, y)
        found[f"{name}, y"] = lambda bad, a=auditor: clone(a).fit(X, column(bad))
    return found


def quotes(error):
    """Messages of an error, of its causes and of its contexts that hold a secret."""
    left, seen, found = [error], [], []
    while left:
        one = left.pop()
        if one is None or any(one is other for other in seen):
            continue
        seen.append(one)
        left += [one.__cause__, one.__context__]
        said = f"{one} {one!r} {getattr(one, '__notes__', '')}".lower()
        found += [said] if any(secret in said for secret in SECRETS) else []
    return found


def attack(functions):
    """What is quoted, by entry point and bad table; and how many of both raised."""
    found, raised = {}, 0
    for name, function in functions.items():
        for kind, bad in BAD.items():
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                try:
                    function(bad())
                except Exception as error:
                    raised += 1
                    if quoted := quotes(error):
                        found[name, kind] = quoted
            for one in told:
                if any(secret in str(one.message).lower() for secret in SECRETS):
                    found[name, kind, "warning"] = str(one.message)
    return found, raised


@pytest.mark.slow
def test_no_entry_point_quotes_a_value():
    found, raised = attack(entries())
    assert not found
    assert raised > 1000  # most tables are bad for most


@pytest.mark.slow
def test_no_audit_quotes_a_value():
    found, raised = attack(audits())
    assert not found
    assert raised > 50


def test_networks_quote_no_value():
    torch = pytest.importorskip("torch")
    X, y = table().to_numpy(), np.arange(N) % 2

    class Loud(torch.nn.Linear):
        """Quotes what it is given, once it was trained."""

        def forward(self, X):
            if X.dim() == 2 and len(X) == N - 1:
                raise self.kind(f"cannot look up {X[0, 0].item()!r}") from KeyError(X[0, 1].item())
            return super().forward(X)

    few = {"max_steps": 2, "sampling_rate": 0.5, "account_records": [0], "device": "cpu"}
    model = PrivateSGDClassifier(lambda: Loud(3, 2), **few).fit(X, y)
    released = model.release()
    found, raised = attack({"network": model.predict, "released network": released.predict})
    assert not found
    assert raised > 20
    for kind in (ValueError, RuntimeError, IndexError, KeyError):
        Loud.kind = kind
        for fitted in (model, released):
            with pytest.raises(Exception) as caught:
                fitted.predict(np.full((N - 1, 3), NUMBER))
            assert not quotes(caught.value)


def test_what_is_no_value_is_still_said():
    X, y = table(), np.arange(N) % 2
    unnamed = PrivateLogisticRegression(random_state=0).fit(X.to_numpy(), y)
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3 features"):
        unnamed.predict(X.to_numpy()[:, :2])
    model = PrivateLogisticRegression(random_state=0).fit(X, y).release()
    with pytest.raises(ValueError, match=r"column 'b' to numbers: row 5 holds text"):
        model.predict(cell(TEXT))
    with pytest.raises(ValueError, match="contains NaN"):
        model.score(cell(np.nan).astype(float), y)
    with pytest.raises(ValueError, match=r"[Ff]eature names"):
        model.predict(X.rename(columns={"b": "z"}))
