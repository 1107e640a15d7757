"""Membership attacks on the same models: skleak, ART and SACRO-ML.

    pip install -e . && python benchmarks/peers/compare_membership.py

The attacker has the records, and knows how the model was trained, but not which half of them was
used. Attacks with shadow models all train 32 of the same kind, on random halves. ART's attack
without shadow models is told who a fifth of the members and of the others are, as its documentation
does; it is measured on the rest of the records. Seconds are those to attack one model. SACRO-ML's
contain the shadow models that it writes to files. Means over four models.
"""

import logging
import sys

import _membership
import _peer
import numpy as np

ART = ("art", ["adversarial-robustness-toolbox==1.20.1", "packaging", "scikit-learn==1.9.1"])
SACRO = ("sacro", ["sacroml==2.0.1", "scikit-learn==1.9.1"])
HEADER = ["data", "model", "library", "attack", "seconds", "AUC"]
HEADER += ["TPR at 0.1 %", "TPR at 1 %", "TPR at 10 %"]


def art_attacks(X, y, members, n_shadows, model):
    """Scores and seconds of ART's two attacks; NaN for records whose membership it was told."""
    from art.attacks.inference.membership_inference import MembershipInferenceBlackBox, ShadowModels
    from art.estimators.classification.scikitlearn import SklearnClassifier

    one_hot = np.eye(y.max() + 1)[y]
    found = {name: np.full(members.shape, np.nan) for name in ("black box", "shadow models")}
    seconds = dict.fromkeys(found, 0.0)
    for k, member in enumerate(members):
        target = SklearnClassifier(_membership.target_model(str(model), k, X, y, member))

        def infer(attack, rows, target=target):
            probability = attack.infer(X[rows], one_hot[rows], probabilities=True)
            return np.asarray(probability).reshape(len(X[rows]), -1)[:, -1]

        def black_box(member=member, k=k, target=target):
            told = np.random.default_rng(k).random(len(y)) < 0.2
            attack = MembershipInferenceBlackBox(target, attack_model_type="rf")
            attack.fit(
                X[told & member],
                one_hot[told & member],
                X[told & ~member],
                one_hot[told & ~member],
            )
            scores = np.full(len(y), np.nan)
            scores[~told] = infer(attack, ~told)
            return scores

        def shadow_models(k=k, target=target):
            template = SklearnClassifier(_membership.MODELS[str(model)](k).fit(X, y))
            shadows = ShadowModels(template, int(n_shadows), random_state=k)
            (x1, y1, p1), (x0, y0, p0) = shadows.generate_shadow_dataset(X, one_hot)
            attack = MembershipInferenceBlackBox(target, attack_model_type="rf")
            attack.fit(x1, y1, x0, y0, p1, p0)
            return infer(attack, slice(None))

        for name, play in (("black box", black_box), ("shadow models", shadow_models)):
            spent, found[name][k] = _peer.timed(play)
            seconds[name] += spent / len(members)
    return found, seconds


def sacro_attacks(X, y, members, n_shadows, model):
    """Scores and seconds of SACRO-ML's attacks."""
    logging.disable(logging.CRITICAL)
    from sacroml.attacks.likelihood_attack import LIRAAttack
    from sacroml.attacks.qmia_attack import QMIAAttack
    from sacroml.attacks.target import Target

    options = {"write_report": False, "report_individual": True, "output_dir": "out"}
    attacks = {
        "LiRA online": lambda: LIRAAttack(
            n_shadow_models=int(n_shadows), mode="online-carlini", **options
        ),
        "LiRA online, one variance": lambda: LIRAAttack(
            n_shadow_models=int(n_shadows), mode="online-carlini", fix_variance=True, **options
        ),
        "LiRA offline": lambda: LIRAAttack(n_shadow_models=int(n_shadows), **options),
        "quantile regression": lambda: QMIAAttack(**options),
    }
    found = {name: np.full(members.shape, np.nan) for name in attacks}
    seconds = dict.fromkeys(attacks, 0.0)
    for k, member in enumerate(members):
        for name, make in attacks.items():
            target = Target(
                model=_membership.target_model(str(model), k, X, y, member),
                dataset_name="task",
                X_train=X[member],
                y_train=y[member],
                X_test=X[~member],
                y_test=y[~member],
            )
            attack = make()
            spent, _ = _peer.timed(lambda attack=attack, target=target: attack.attack(target))
            scores = np.asarray(attack.attack_metrics[0]["individual"]["member_prob"], dtype=float)
            # Members first, as it puts them together.
            found[name][k, np.concatenate([np.flatnonzero(member), np.flatnonzero(~member)])] = (
                scores
            )
            seconds[name] += spent / len(members)
    return found, seconds


def worker(X, y, members, n_shadows, model, library):
    attacks = {"art": art_attacks, "sacro": sacro_attacks}[str(library)]
    found, seconds = attacks(X, y, members, n_shadows, model)
    return {f"score {name}": scores for name, scores in found.items()} | {
        f"seconds {name}": np.array(spent) for name, spent in seconds.items()
    }


def skleak_attacks(X, y, members, n_shadows, model):
    """Scores and seconds: shadow models are trained once, for all targets."""
    from skleak.attacks import (
        LikelihoodRatioMembership,
        MembershipInference,
        RobustMembershipInference,
    )

    estimator = _membership.MODELS[str(model)](None)
    options = {"n_shadow_models": int(n_shadows), "random_state": 0}
    attacks = {
        "loss": MembershipInference(),
        "likelihood ratio": LikelihoodRatioMembership(estimator, **options),
        "robust": RobustMembershipInference(estimator, **options),
    }
    found, seconds = {}, {}
    targets = [
        _membership.target_model(str(model), k, X, y, member) for k, member in enumerate(members)
    ]
    for name, attack in attacks.items():
        fitting, _ = _peer.timed(lambda attack=attack: attack.fit(X, y))
        spent, scores = _peer.timed(lambda attack=attack: attack.decision_function(targets))
        found[name], seconds[name] = scores, fitting + spent / len(members)
    return found, seconds


def lines_of(data, model, library, found, seconds, members):
    """Lines of the table, one for each attack of a library."""
    lines = []
    for name, scores in found.items():
        known = ~np.isnan(scores)
        rows = [
            _membership.strength(some[k][None], member[k][None])
            for some, member, k in zip(scores, members, known, strict=True)
        ]
        area, *rates = np.mean(rows, axis=0)
        line = [data, model, library, name, f"{seconds[name]:.2f}", f"{area:.3f}"]
        lines.append(line + [f"{100 * rate:.1f} %" for rate in rates])
    return lines


def main():
    from _common import exit_status, parse_options, print_table
    from _results import legend

    options = parse_options(__doc__)
    pythons = {"art": _peer.environment(*ART), "sacro": _peer.environment(*SACRO)}
    lines, failures = [], []
    for data, model in _membership.CASES[:1] if options.quick else _membership.CASES:
        task = _membership.task(data, model, options.quick)
        results = {"skleak": skleak_attacks(**task)}
        for library, python in pythons.items():
            answer = _peer.ask(__file__, python, task | {"library": np.array(library)})
            scores = {k[6:]: v for k, v in answer.items() if k.startswith("score ")}
            results[library] = scores, {name: float(answer[f"seconds {name}"]) for name in scores}
        for library, (found, seconds) in results.items():
            shown = {"skleak": "skleak", "art": "ART", "sacro": "SACRO-ML"}[library]
            lines += lines_of(data, model, shown, found, seconds, task["members"])
    areas = [float(line[5]) for line in lines if line[2:4] == ["skleak", "likelihood ratio"]]
    if not options.quick and min(areas) < 0.5:
        failures.append("the likelihood ratio attack is worse than chance")
    print_table("Membership attacks on the same models", HEADER, lines, HEADER[:4])
    legend(_peer.versions(pythons["art"], ["adversarial-robustness-toolbox", "scikit-learn"]))
    legend(_peer.versions(pythons["sacro"], ["sacroml", "scikit-learn"]))
    legend("TPR: share of members found where that share of the others is taken for members")
    return exit_status(failures)


if __name__ == "__main__":
    if _peer.is_worker():
        _peer.answer(worker)
    else:
        sys.exit(main())
