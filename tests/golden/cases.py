"""Facts of reports, audits and releases, kept as they are: any number that changes is seen.

The files in ``facts`` hold what these cases compute, but for sentences. They prove sameness, not
correctness, which other tests prove. Where a change of a number is meant, write them again and say
in the changelog which numbers changed and why:

    python tests/golden/cases.py
"""

import json
import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import scipy
import sklearn
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

import skleak
from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import EpsilonDelta, MaxLeakage
from skleak.neural import PrivateSGDClassifier, PrivateSGDRegressor
from skleak.preprocessing import PublicScaler

FOLDER = Path(__file__).parent / "facts"
# Longer strings are sentences, whose words may change; versions differ between machines.
LONGEST_NAME, VERSIONS = 40, {"skleak", "schema_version", "reproducibility"}

N = 30
COLUMNS = ["age", "dose", "sex", "ward"]
MODELS = {
    "squared": PrivateLinearRegression,
    "logistic": PrivateLogisticRegression,
    "poisson": PrivatePoissonRegressor,
}
NOISES = ["isotropic", "curvature", "minimax"]
REWEIGHTINGS = [None, "irfil", "total"]
CONTAINERS = {
    "csr": lambda X: sparse.csr_array(X),
    "dask": lambda X: da.from_array(X, chunks=(13, -1)),
}


def table(loss):
    """Records with numbers, two values and few values, weights, and groups."""
    generator = np.random.default_rng(20)
    X = generator.normal(size=(N, len(COLUMNS)))
    X[:, 2] = generator.random(N) < 0.3
    X[:, 3] = generator.integers(0, 3, N)
    predictor = X @ [0.6, -0.4, 0.8, 0.3] - 0.4
    y = {
        "squared": lambda: predictor + 0.5 * generator.normal(size=N),
        "logistic": lambda: (generator.random(N) < 1.0 / (1.0 + np.exp(-predictor))).astype(int),
        "poisson": lambda: generator.poisson(np.exp(predictor)).astype(float),
    }[loss]()
    weight = generator.integers(1, 3, N).astype(float)
    return X, y, weight, np.where(X[:, 2] > 0.0, "f", "m")


def facts_of(found, path="", into=None):
    """Numbers, flags and names of nested data by their path; of a table, by column."""
    into = {} if into is None else into
    if isinstance(found, np.ndarray):
        found = found.tolist()
    if isinstance(found, dict):
        for name, value in found.items():
            if name not in VERSIONS:
                facts_of(value, f"{path}/{name}", into)
    elif isinstance(found, list | tuple) and any(isinstance(x, dict | list | str) for x in found):
        rows = found if all(isinstance(row, dict) for row in found) else None
        if rows and all(row.keys() == rows[0].keys() for row in rows):
            found = {name: [row[name] for row in rows] for name in rows[0]}
        else:
            found = dict(enumerate(found))
        if all(isinstance(x, str) for x in found.values()):
            found = [x for x in found.values() if len(x) <= LONGEST_NAME]
            into.update({path: found} if found else {})
        else:
            facts_of(found, path, into)
    elif not isinstance(found, str) or len(found) <= LONGEST_NAME:
        into[path] = found
    return into


def losses(model, groups):
    """Fisher information loss of all that it is asked of."""
    found = {
        f"{per}, {norm}": model.fisher_information_loss(
            per=per, norm=norm, groups=groups if per == "group" else None
        )
        for per in ("record", "feature", "dataset", "group")
        for norm in ("spectral", "trace")
    }
    return {name: getattr(value, "to_numpy", lambda v=value: v)() for name, value in found.items()}


def fitted(loss, noise="isotropic", reweighting=None, **options):
    """Fit a model of fixed noise."""
    X, y, weight, groups = table(loss)
    settings = {"noise_scale": 0.3, "alpha": 0.05, "random_state": 3, **options}
    model = MODELS[loss](noise_covariance=noise, reweighting=reweighting, **settings)
    return model.fit(X, y, weight if reweighting is None else None), groups


def leakage(loss, noise, reweighting):
    """A leakage report with groups, the losses behind it, and the release."""
    model, groups = fitted(loss, noise, reweighting)
    return {
        "report": model.leakage_report(groups=groups).to_dict(),
        "losses": losses(model, groups),
        "release": json.loads(model.release().to_json()),
    }


def elsewhere(loss, container):
    """A leakage report of records that lie elsewhere."""
    X, y, weight, groups = table(loss)
    model = MODELS[loss](0.3, alpha=0.05, random_state=3)
    if container == "dask":
        y, weight, groups = (da.from_array(part, chunks=13) for part in (y, weight, groups))
    model.fit(CONTAINERS[container](X), y, weight)
    return {"report": model.leakage_report(groups=groups).to_dict()}


def guaranteed(loss, goal):
    """A model whose noise is found for a goal."""
    X, y, *_ = table(loss)
    X = X[:, :2]  # a column of few values is refused where it moves the noise scale
    options = {
        "squared": {},
        "poisson": {"private_target": False},
        "logistic": {
            "fit_intercept": False,
            "data_norm": 4.0,
            "classes": [0, 1],
            "public": "n_samples",
            "mechanism": "output",
        },
    }[loss]
    model = MODELS[loss](goal, alpha=0.05, random_state=3, **options).fit(X, y)
    return {
        "report": model.leakage_report().to_dict(),
        "release": json.loads(model.release().to_json()),
    }


def audit(auditor, loss):
    """The report of an audit, with its tables."""
    X, y, *_ = table(loss)
    auditor.fit(pd.DataFrame(X, columns=COLUMNS), y)
    return {"report": auditor.report_.to_dict()}


def attribute(loss, column, reweighting=None, **options):
    """An audit of a column, or of whole records."""
    model = MODELS[loss](alpha=0.05, reweighting=reweighting)
    auditor = LeakageAuditor(model, column, noise_scales=[0.05, 1.0], n_releases=10, **options)
    return audit(auditor, loss)


def membership(estimator, loss, **options):
    """An audit of membership."""
    return audit(MembershipAuditor(estimator, **{"n_releases": 10, **options}), loss)


def trained(estimator, loss):
    """A model trained by private SGD."""
    X, y, *_ = table(loss)
    estimator.set_params(max_steps=20, sampling_rate=0.2, random_state=3).fit(X, y)
    return {
        "report": estimator.leakage_report().to_dict(),
        "losses": {"all": estimator.fisher_information_loss()},
        "release": json.loads(estimator.release().to_json()),
    }


def pipeline():
    """A released pipeline with a public transformer."""
    X, y, *_ = table("squared")
    scaler = PublicScaler([(-4.0, 4.0), (-4.0, 4.0), (0.0, 1.0), (0.0, 2.0)])
    made = make_pipeline(scaler, PrivateLinearRegression(0.3, random_state=3)).fit(X, y)
    return {"release": json.loads(skleak.release(made).to_json())}


def cases():
    """Return functions by file and name of the case."""
    found = {
        f"leakage_{loss}": {
            f"{noise}, {reweighting}": lambda k=(loss, noise, reweighting): leakage(*k)
            for noise in NOISES
            for reweighting in REWEIGHTINGS
            if noise == "isotropic" or reweighting is None
        }
        | {kind: lambda k=(loss, kind): elsewhere(*k) for kind in CONTAINERS}
        for loss in MODELS
    }
    found["goals"] = {
        "linear, MaxLeakage": lambda: guaranteed("squared", MaxLeakage(0.5)),
        "poisson, MaxLeakage": lambda: guaranteed("poisson", MaxLeakage(0.5)),
        "logistic, EpsilonDelta": lambda: guaranteed("logistic", EpsilonDelta(1.0, 1e-6)),
    }
    found["sgd"] = {
        "logistic": lambda: trained(
            PrivateSGDClassifier(classes=[0, 1], public="n_samples"), "logistic"
        ),
        "squared": lambda: trained(PrivateSGDRegressor(public="n_samples"), "squared"),
        "pipeline": pipeline,
    }
    found["audit_attribute"] = {
        f"{loss}, {column}, {reweighting}": lambda k=(loss, column, reweighting): attribute(*k)
        for loss in MODELS
        for column in ("sex", "ward", "age", None)
        for reweighting in (None, "irfil")
        if reweighting is None or column == "sex"
    } | {
        "squared, sex, actual": lambda: attribute("squared", "sex", secrets="actual"),
        "squared, sex, conditional": lambda: attribute("squared", "sex", prior="conditional"),
    }
    found["audit_membership"] = {
        f"{loss}, actual": lambda loss=loss: membership(MODELS[loss](0.1, alpha=0.05), loss)
        for loss in MODELS
    } | {
        "squared, drawn": lambda: membership(MODELS["squared"](0.1), "squared", secrets="drawn"),
        "tree": lambda: membership(DecisionTreeClassifier(random_state=0), "logistic"),
        "neighbors": lambda: membership(KNeighborsRegressor(2), "squared", n_releases=5),
        "scikit-learn": lambda: membership(LogisticRegression(), "logistic", noise_scales=0.5),
    }
    return found


def compute(case):
    """Facts of a case, as JSON holds them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(json.dumps(facts_of(case())))


def versions():
    """Versions of what searches for minima and integrates: others stop elsewhere."""
    return {package.__name__: package.__version__ for package in (np, scipy, sklearn)}


def main():
    """Write all files again, a line for each fact."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "versions.json").write_text(json.dumps(versions()) + "\n")
    for file, group in cases().items():
        lines = [
            f" {json.dumps(name)}: {{\n"
            + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in compute(case).items())
            + "\n }"
            for name, case in group.items()
        ]
        (FOLDER / f"{file}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
