"""Membership: exact tests against refits, shared shadow models against models for each record."""

import sys
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from _common import (
    Array,
    Loss,
    derivatives,
    exit_status,
    fetch_or_none,
    in_fresh_process,
    parse_options,
    peak_memory,
    print_table,
    ratio_and_range,
    synthetic,
    time_in_turns,
)
from _results import legend
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skleak.attacks import (
    LikelihoodRatioMembership,
    MembershipInference,
    RobustMembershipInference,
)
from skleak.datasets import fetch_adult
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

ALPHA = 1e-2
ACCURACY = 1e-5  # of an encoding, relative to how far the record moves the model
AGREEMENT = 2.0  # root mean square of differences between means, in standard errors: about 1
PRIVATE = {"squared": PrivateLinearRegression, "logistic": PrivateLogisticRegression}
TABLES = {"breast cancer": load_breast_cancer, "digits": load_digits}
MODELS = {
    "logistic": LogisticRegression(C=10.0, max_iter=300),
    "tree": DecisionTreeClassifier(min_samples_leaf=2),
    "forest": RandomForestClassifier(20),
}
EXACT = ["data", "n", "d", "loss", "skleak s", "refits s", "sample", "ratio", "range of ratio"]
EXACT += ["error", "peak GB"]
SHADOWS = ["data", "n", "d", "model", "shared s", "own s", "sample", "ratio", "range of ratio"]
SHADOWS += ["apart", "AUC loss", "AUC shadow", "TPR at 1 % loss", "TPR at 1 % shadow"]
NUMBERS = ["data", "n", "model", "shadow models", "own laws 0.1 %"]
NUMBERS += ["own laws 1 %", "shrunk 0.1 %", "shrunk 1 %", "robust 0.1 %", "robust 1 %"]


@dataclass(frozen=True)
class Case:
    kind: str  # "exact", "shadows", or the name of a table from scikit-learn
    model: str
    n: int
    d: int
    sample: int  # records that the straightforward method is timed on
    rounds: int
    real: bool
    n_models: int = 0


def load(case: Case) -> tuple[str, Array, Array]:
    """Adult, or some rows of it, else records of that shape."""
    data = fetch_or_none(fetch_adult, encoded=True) if case.real else None
    if data is None:
        return "synthetic", *synthetic(case.n, case.d)
    X, y = (np.asarray(part, dtype=float) for part in data)
    if case.n == len(y):
        return "adult", X, y
    # No copies: a twin hides a record from any attack.
    _, first = np.unique(np.column_stack([X, y]), axis=0, return_index=True)
    rows = np.random.default_rng(0).choice(first, case.n, replace=False)
    return "adult", X[rows], y[rows]


def without(X: Array, y: Array, loss: Loss, start: Array, rows: Array) -> Array:
    """Minimizers without some records, one at a time, by Newton's method from a start.

    Intercept last and not penalized; without code of skleak.
    """
    x = np.column_stack([X, np.ones(len(y))])
    weight = np.ones(len(y))
    penalty = (len(y) - 1) * ALPHA * np.append(np.ones(X.shape[1]), 0.0)
    encodings = np.empty((len(rows), len(start)))
    for k, i in enumerate(rows):
        weight[i] = 0.0
        w = start.copy()
        for _ in range(30):
            first, second = derivatives(x @ w, y, loss)
            hessian = (x * (weight * second)[:, None]).T @ x + np.diag(penalty)
            step = np.linalg.solve(hessian, x.T @ (weight * first) + penalty * w)
            w -= step
            # Newton's step squares the error: after one of 1e-7 there is nothing left to do.
            if loss == "squared" or np.max(np.abs(step)) <= 1e-7:
                break
        encodings[k] = w
        weight[i] = 1.0
    return encodings


def measure_exact(case: Case) -> tuple[list[str], str]:
    """One line of the table, and what is wrong."""
    name, X, y = load(case)
    estimator = PRIVATE[case.model](noise_scale=0.01, alpha=ALPHA)
    model = clone(estimator).set_params(noise_scale=0.0).fit(X, y)
    start = np.append(np.ravel(model.coef_), model.intercept_)
    rows = np.random.default_rng(0).choice(len(y), case.sample, replace=False)
    labels = y if case.model == "squared" else y.astype(int)
    timed = time_in_turns(
        {
            "skleak": lambda: LikelihoodRatioMembership(estimator).fit(X, labels),
            "refits": partial(without, X, y, case.model, start, rows),
        },
        case.rounds,
    )
    fast, slow, scale = timed["skleak"], timed["refits"], len(y) / case.sample
    attack = fast.result
    apart = np.linalg.norm(attack.encodings_[rows, 0] - slow.result, axis=1)
    error = float(np.max(apart / attack.distances_[rows]))
    ratio, spread = ratio_and_range(slow, fast, scale)
    line = [name, f"{X.shape[0]}", f"{X.shape[1]}", case.model, f"{fast.best:.2f}"]
    line += [f"{scale * slow.best:.0f}", f"{case.sample}", f"{ratio:.0f}", spread]
    wrong = "" if error <= ACCURACY else f"{name} {case.model}: error {error:.1e}"
    return [*line, f"{error:.0e}", f"{peak_memory():.2f}"], wrong


def log_odds(model: Any, X: Array, y: Array) -> Array:
    p = model.predict_proba(X)[np.arange(len(y)), y]
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log1p(-p)


def own_models(model: Any, X: Array, y: Array, rows: Array, n_models: int) -> Array:
    """Scores of some records under models of their own: half with the record, half without."""
    rng = np.random.default_rng(1)
    scores = np.empty((len(rows), 2, n_models // 2))
    for k, i in enumerate(rows):
        others = np.delete(np.arange(len(y)), i)
        for j in range(n_models // 2):
            for member in (0, 1):
                half = rng.choice(others, len(y) // 2 - member, replace=False)
                half = np.append(half, i) if member else half
                trained = clone(model).fit(X[half], y[half])
                scores[k, member, j] = log_odds(trained, X[[i]], y[[i]])[0]
    return scores


def shared_models(model: Any, X: Array, y: Array, n_models: int) -> LikelihoodRatioMembership:
    attack = LikelihoodRatioMembership(model, n_shadow_models=n_models, random_state=0)
    return attack.fit(X, y)


def distance_of_means(attack: LikelihoodRatioMembership, rows: Array, own: Array) -> float:
    """Root mean square of differences between means, in standard errors."""
    ratios = []
    limit = np.abs(attack.shadow_scores_[np.isfinite(attack.shadow_scores_)]).max(initial=1.0)
    for k, i in enumerate(rows):
        for member in (0, 1):
            mine = attack.shadow_scores_[attack.trained_on_[:, i] == member, i]
            parts = [np.clip(part, -limit, limit) for part in (mine, own[k, member])]
            variance = sum(part.var(ddof=1) / len(part) for part in parts)
            if variance > 1e-12:
                ratios.append((parts[0].mean() - parts[1].mean()) ** 2 / variance)
    return float(np.sqrt(np.mean(ratios)))


def measure_shadows(case: Case) -> tuple[list[str], str]:
    """One line of the table, and what is wrong."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    name, X, labels = load(case)
    y, model = labels.astype(int), MODELS[case.model]
    rng = np.random.default_rng(0)
    rows = rng.choice(len(y), case.sample, replace=False)
    timed = time_in_turns(
        {
            "shared": partial(shared_models, model, X, y, case.n_models),
            "own": partial(own_models, model, X, y, rows, case.n_models),
        },
        case.rounds,
    )
    fast, slow, scale = timed["shared"], timed["own"], len(y) / case.sample
    apart = distance_of_means(fast.result, rows, slow.result)
    ratio, spread = ratio_and_range(slow, fast, scale)
    member = np.array([rng.permutation(len(y)) < len(y) // 2 for _ in range(4)])
    attacked = [
        clone(model).set_params(random_state=k).fit(X[m], y[m]) for k, m in enumerate(member)
    ]
    attacks = [MembershipInference().fit(X, y), fast.result]
    areas = [roc_auc_score(member.ravel(), a.decision_function(attacked).ravel()) for a in attacks]
    found = [attack.true_positive_rate(attacked, member, 0.01) for attack in attacks]
    line = [name, f"{X.shape[0]}", f"{X.shape[1]}", case.model, f"{fast.best:.2f}"]
    line += [f"{scale * slow.best:.0f}", f"{case.sample}", f"{ratio:.0f}", spread, f"{apart:.2f}"]
    line += [f"{area:.3f}" for area in areas] + [f"{rate:.3f}" for rate in found]
    wrong = "" if apart <= AGREEMENT else f"{name} {case.model}: means {apart:.1f} errors apart"
    return line, wrong


def measure_numbers(case: Case) -> tuple[list[str], str]:
    """Members found by each attack with as many shadow models, at one false alarm in 1,000, 100."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    if case.kind == "noisy":
        rng = np.random.default_rng(0)
        X = rng.normal(size=(case.n, case.d))
        y = (X[:, 0] + rng.normal(size=case.n) > 0.0).astype(int)
    else:
        X, y = TABLES[case.kind](return_X_y=True)
        X, y = StandardScaler().fit_transform(X)[: case.n], y[: case.n]
    model, rng = MODELS[case.model], np.random.default_rng(1)
    member = rng.random((case.sample, len(y))) < 0.5
    attacked = [
        clone(model).set_params(random_state=k).fit(X[m], y[m]) for k, m in enumerate(member)
    ]
    options: dict[str, Any] = {"n_shadow_models": case.n_models, "random_state": 0}
    attacks: list[Any] = [RobustMembershipInference(model, gamma=2.0, **options)]
    if case.n_models >= 4:
        attacks = [
            LikelihoodRatioMembership(model, shrinkage=shrinkage, **options)
            for shrinkage in (False, True)
        ] + attacks
    line = [case.kind, f"{len(y)}", case.model, f"{case.n_models}"]
    line += ["-"] * (4 * (len(attacks) == 1))
    for attack in attacks:
        attack.fit(X, y)
        found = [attack.true_positive_rate(attacked, member, rate) for rate in (0.001, 0.01)]
        line += [f"{100 * rate:.1f} %" for rate in found]
    return line, ""


def main() -> int:
    options = parse_options(__doc__)
    if options.quick:
        exact = [Case("exact", loss, 600, 12, 20, 1, False) for loss in PRIVATE]
        shadows = [Case("shadows", "tree", 200, 6, 8, 1, False, 16)]
        numbers = [Case("noisy", "forest", 200, 6, 4, 1, False, n) for n in (2, 8)]
    else:
        exact = [
            Case("exact", "squared", 30_162, 86, 12, 3, True),
            Case("exact", "logistic", 30_162, 86, 6, 2, True),
        ]
        shadows = [
            Case("shadows", "logistic", 2_000, 86, 4, 2, True, 64),
            Case("shadows", "tree", 2_000, 86, 6, 2, True, 64),
            Case("shadows", "forest", 2_000, 86, 3, 2, True, 64),
        ]
        numbers = [
            Case(table, model, 1_000, 8, 20, 1, True, n)
            for table in ("noisy", "breast cancer", "digits")
            for model in ("forest", "logistic")
            for n in (2, 4, 8, 16, 64)
        ]
    failures = []
    for title, header, keys, cases, measure in (
        ("Exact membership test of every record", EXACT, ["data", "loss"], exact, measure_exact),
        ("Shadow models for every record", SHADOWS, ["data", "model"], shadows, measure_shadows),
        (
            "Members found, by the number of shadow models",
            NUMBERS,
            ["data", "model", "shadow models"],
            numbers,
            measure_numbers,
        ),
    ):
        lines = []
        for case in cases:
            line, wrong = in_fresh_process(measure, case)
            lines.append(line)
            failures += [wrong] if wrong else []
        print_table(title, header, lines, keys)
    legend("refits s: without each record, from a sample; own s: models for each record, likewise")
    legend("error: of an encoding, relative to how far the record moves the model")
    legend("apart: root mean square of differences between mean scores, in standard errors")
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
