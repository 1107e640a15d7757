"""Attribute attacks on the same models: skleak and ART.

    pip install -e . && python benchmarks/peers/compare_attribute.py

Who among the records of Adult is married? Each attack is played on records that the model was
trained on, and on as many that it has never seen. Only the difference is leaked by the model: the
rest is what such people are like. ART's black box learns from 2,000 further records and sees the
model's answer to the true record. skleak's asks the model about both candidates, and knows the true
income; its imputation, and ART's baseline, do not ask the model at all. Means over five models.
"""

import sys

import _peer
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

ART = ("art", ["adversarial-robustness-toolbox==1.20.1", "packaging", "scikit-learn==1.9.1"])
MODELS = {
    "tree": lambda seed: DecisionTreeClassifier(min_samples_leaf=2, random_state=seed),
    "forest": lambda seed: RandomForestClassifier(50, random_state=seed),
}
HEADER = ["model", "library", "attack", "seconds", "training records", "others", "leaked"]
HEADER += ["standard error"]


def parts(X, y, n, k):
    """Training records, others, and those from which an attack may learn, drawn for each model."""
    order = np.random.default_rng(k).permutation(len(y))
    return [(X[some], y[some]) for some in (order[:n], order[n : 2 * n], order[2 * n :])]


def worker(X, y, n, n_models, model, column):
    """Rates of right guesses of ART's attacks, of shape (models, 2), and their seconds."""
    from art.attacks.inference.attribute_inference import (
        AttributeInferenceBaseline,
        AttributeInferenceBlackBox,
        AttributeInferenceWhiteBoxLifestyleDecisionTree,
    )
    from art.estimators.classification.scikitlearn import (
        ScikitlearnDecisionTreeClassifier,
        SklearnClassifier,
    )

    column, rates, seconds = int(column), {}, {}
    for k in range(int(n_models)):
        (X1, y1), (X0, y0), (X2, y2) = parts(X, y, int(n), k)
        fitted = MODELS[str(model)](k).fit(X1, y1)
        target = SklearnClassifier(fitted)

        def black_box(x, y, target=target, X2=X2, y2=y2):
            attack = AttributeInferenceBlackBox(
                target, attack_feature=column, attack_model_type="rf"
            )
            attack.fit(X2, y2)
            rest = np.delete(x, column, axis=1)
            answers = target.predict(x).argmax(axis=1).reshape(-1, 1)
            return attack.infer(rest, y, pred=answers, values=[0.0, 1.0])

        def lifestyle(x, y, fitted=fitted, X2=X2):
            attack = AttributeInferenceWhiteBoxLifestyleDecisionTree(
                ScikitlearnDecisionTreeClassifier(fitted), attack_feature=column
            )
            share = float(X2[:, column].mean())
            rest = np.delete(x, column, axis=1)
            return attack.infer(rest, values=[0.0, 1.0], priors=[1.0 - share, share])

        def baseline(x, y, X2=X2, y2=y2):
            attack = AttributeInferenceBaseline(attack_feature=column, attack_model_type="rf")
            attack.fit(np.column_stack([X2, y2]))
            rest = np.delete(x, column, axis=1)
            return attack.infer(np.column_stack([rest, y]), values=[0.0, 1.0])

        attacks = {"black box": black_box, "baseline": baseline}
        if str(model) == "tree":
            attacks["lifestyle, white box"] = lifestyle
        for name, play in attacks.items():
            spent, guesses = _peer.timed(lambda play=play, X1=X1, y1=y1: play(X1, y1))
            others = play(X0, y0)
            right = [np.mean(np.ravel(guesses) == X1[:, column])]
            right.append(np.mean(np.ravel(others) == X0[:, column]))
            rates.setdefault(name, []).append(right)
            seconds.setdefault(name, []).append(spent)
    found = {f"rates {name}": np.array(rows) for name, rows in rates.items()}
    return found | {f"seconds {name}": np.mean(spent) for name, spent in seconds.items()}


def skleak_attacks(X, y, n, n_models, model, column):
    """The same of skleak's attacks."""
    from skleak.attacks import BlackBoxAttributeInference, ImputationAttack
    from skleak.audit import attribute_gain

    column, rates, seconds = int(column), {}, {}
    for k in range(int(n_models)):
        train, others, _ = parts(X, y, int(n), k)
        fitted = MODELS[str(model)](k).fit(*train)
        attacks = {
            f"black box, {criterion}": BlackBoxAttributeInference(
                fitted, column, criterion=criterion, prior=prior
            )
            for criterion, prior in (("proba", "marginal"), ("likelihood", "marginal"))
        }
        attacks["imputation"] = ImputationAttack(column)
        for name, attack in attacks.items():
            play = lambda attack=attack: attack.fit(*train).predict(fitted)  # noqa: B023, E731
            spent, _ = _peer.timed(play)
            gain = attribute_gain(attack, fitted, *train, *others, imputation=None)
            rates.setdefault(name, []).append(gain["estimate"].tolist()[:2])
            seconds.setdefault(name, []).append(spent)
    found = {name: np.array(rows) for name, rows in rates.items()}
    return found, {name: float(np.mean(spent)) for name, spent in seconds.items()}


def load(quick):
    """Encoded Adult and the column `married`, else a table like it."""
    from _common import fetch_or_none, synthetic

    from skleak.datasets import fetch_adult

    data = None if quick else fetch_or_none(fetch_adult, encoded=True)
    if data is None:
        X, y = synthetic(1_000, 6)
        X[:, 0] = np.random.default_rng(1).random(len(y)) < 0.47
        return {"X": X, "y": y.astype(int), "column": np.array(0), "n": np.array(300)}
    chosen = np.random.default_rng(0).permutation(len(data[1]))[:8_000]
    X, y = (np.asarray(part, dtype=float)[chosen] for part in data)
    column = np.array(list(data[0].columns).index("married"))
    return {"X": X, "y": y.astype(int), "column": column, "n": np.array(3_000)}


def main():
    from _common import exit_status, parse_options, print_table
    from _results import legend

    options = parse_options(__doc__)
    python = _peer.environment(*ART)
    task = load(options.quick) | {"n_models": np.array(2 if options.quick else 5)}
    lines = []
    for model in MODELS:
        some = task | {"model": np.array(model)}
        answer = _peer.ask(__file__, python, some)
        rates = {name[6:]: rows for name, rows in answer.items() if name.startswith("rates ")}
        theirs = rates, {name: float(answer[f"seconds {name}"]) for name in rates}
        for library, (found, seconds) in {"skleak": skleak_attacks(**some), "ART": theirs}.items():
            for name, rows in found.items():
                leaked = rows[:, 0] - rows[:, 1]
                error = leaked.std(ddof=1) / np.sqrt(len(leaked))
                line = [model, library, name, f"{seconds[name]:.2f}"]
                line += [f"{100 * rate:.1f} %" for rate in (*rows.mean(axis=0), leaked.mean())]
                lines.append([*line, f"{100 * error:.1f} %"])
    title = f"Attacks on a 0/1 column of {int(task['n']):,} training records"
    print_table(title, HEADER, lines, HEADER[:3])
    legend(_peer.versions(python, ["adversarial-robustness-toolbox", "scikit-learn"]))
    legend("seconds: to guess for all training records, training of the attack included")
    return exit_status([])


if __name__ == "__main__":
    if _peer.is_worker():
        _peer.answer(worker)
    else:
        sys.exit(main())
