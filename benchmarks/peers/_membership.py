"""The membership task that all libraries are given: who was this model trained on?"""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.preprocessing import StandardScaler

FALSE_POSITIVES = (0.001, 0.01, 0.1)
MODELS = {
    "forest": lambda seed: RandomForestClassifier(50, random_state=seed),
}
TABLES = {"digits": load_digits, "breast cancer": load_breast_cancer}
CASES = [("digits", "forest"), ("breast cancer", "forest")]


def task(data: str, model: str, quick: bool) -> dict[str, np.ndarray]:
    """Records, and which of them each target model was trained on: a half, drawn anew."""
    X, y = TABLES[data](return_X_y=True)
    n, n_targets, n_shadows = (200, 2, 8) if quick else (1_000, 4, 32)
    chosen = np.random.default_rng(0).permutation(len(y))[:n]
    X, y = StandardScaler().fit_transform(X)[chosen], y[chosen]
    rng = np.random.default_rng(1)
    # As many members as not, so that libraries which ask for halves are not at a loss.
    half = len(y) // 2
    shuffled = [rng.permutation(len(y)) for _ in range(n_targets)]
    members = np.stack([np.isin(np.arange(len(y)), some[:half]) for some in shuffled])
    found = {"X": X, "y": y.astype(int), "members": members, "n_shadows": np.array(n_shadows)}
    return found | {"model": np.array(model)}


def target_model(name: str, k: int, X: np.ndarray, y: np.ndarray, member: np.ndarray):
    """The k-th model under attack; equal versions of scikit-learn give equal models."""
    return MODELS[name](k).fit(X[member], y[member])


def strength(scores: np.ndarray, members: np.ndarray) -> list[float]:
    """Area under the curve, and true positives at the false positive rates, over all targets."""
    # Each target by itself: scores of different models need not be on one scale.
    rows = []
    for some, member in zip(scores, members, strict=True):
        false, true, _ = roc_curve(member, some, drop_intermediate=False)
        rates = [true[false <= level].max() for level in FALSE_POSITIVES]
        rows.append([roc_auc_score(member, some), *rates])
    return [float(value) for value in np.mean(rows, axis=0)]
