"""The attack that stacks imputation and the model's answers, against either alone.

For twelve pairs of a model and a table: the share of people whose secret is guessed right by
imputation, by black boxes with the frequencies of the values (the best of those a model has
answers for) and with imputed probabilities, in which the target counts twice, and by all of it
stacked. The difference to the better of imputation and black box is paired: it has a standard
error over people.
"""

import sys
import warnings

import numpy as np
from _common import exit_status, fetch_or_none, parse_options, print_table
from _results import legend, note
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skleak.attacks import BlackBoxAttributeInference, CombinedAttributeInference, ImputationAttack
from skleak.datasets import fetch_adult, fetch_iwpc
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression

FOREST = {"n_estimators": 50, "random_state": 0}
# Releases of a private model, over which shares are averaged.
N_RELEASES = 5
# What the mean of the differences may be below zero, and a single one, in standard errors.
LEAST_MEAN, LEAST_ERRORS = -0.005, -3.0


def pipeline(model):
    nominal = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    encode = make_column_transformer(
        (nominal, make_column_selector(dtype_exclude="number")),
        (StandardScaler(), make_column_selector(dtype_include="number")),
    )
    return make_pipeline(encode, model)


def iwpc(_):
    X, y = fetch_or_none(fetch_iwpc) or (None, None)
    return X, y


def dose_in_fifths(_):
    X, y = iwpc(None)
    return (X, y) if X is None else (X, np.digitize(y, np.quantile(y, [0.2, 0.4, 0.6, 0.8])))


def adult(_):
    X, y = fetch_or_none(fetch_adult, as_frame=True) or (None, None)
    return (X, y) if X is None else (X.drop(columns=["fnlwgt", "education"]), y.astype(str))


def diabetes(_):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return X.assign(sex=np.where(X["sex"] > 0.0, "m", "f")), y


def breast_cancer(_):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :10].copy()
    rough = X.pop("mean smoothness")
    return X.assign(rough=np.where(rough > rough.quantile(0.75), "y", "n")), y


def vega(name):
    try:
        from vega_datasets import data
    except ImportError:
        print("absent: vega_datasets")
        return None, None
    if name == "cars":
        table = data.cars().dropna().drop(columns=["Name", "Year"])
        return table.drop(columns="Miles_per_Gallon"), table["Miles_per_Gallon"]
    table = data.seattle_weather()
    table["month"] = table.pop("date").dt.month
    return table.drop(columns="temp_max"), table["temp_max"]


# Name: table, its argument, records, secret, model.
PAIRS = {
    "IWPC, vkorc1, ridge": (iwpc, None, None, "vkorc1", Ridge()),
    "IWPC, vkorc1, forest": (
        iwpc,
        None,
        None,
        "vkorc1",
        RandomForestRegressor(max_features=0.3, **FOREST),
    ),
    "IWPC, vkorc1, forest of fifths": (
        dose_in_fifths,
        None,
        1500,
        "vkorc1",
        RandomForestClassifier(min_samples_leaf=2, **FOREST),
    ),
    "IWPC, race, neighbors": (iwpc, None, 2000, "race", KNeighborsRegressor(5)),
    "Adult, sex, boosting": (adult, None, 3000, "sex", GradientBoostingClassifier(random_state=0)),
    "Adult, sex, tree": (
        adult,
        None,
        1500,
        "sex",
        DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
    ),
    "Adult, sex, logistic": (adult, None, 2000, "sex", LogisticRegression(max_iter=1000)),
    "Adult, race, forest": (adult, None, 2000, "race", RandomForestClassifier(**FOREST)),
    "cars, Origin, boosting": (
        vega,
        "cars",
        None,
        "Origin",
        GradientBoostingRegressor(random_state=0),
    ),
    "weather, weather, neighbors": (vega, "weather", None, "weather", KNeighborsRegressor(3)),
    "diabetes, sex, private linear": (
        diabetes,
        None,
        None,
        "sex",
        PrivateLinearRegression(noise_scale=1.0, alpha=1e-3, random_state=0),
    ),
    "breast cancer, rough, private logistic": (
        breast_cancer,
        None,
        None,
        "rough",
        PrivateLogisticRegression(noise_scale=0.05, alpha=1e-2, random_state=0),
    ),
}
QUICK = {
    "diabetes, sex, forest": (diabetes, None, None, "sex", RandomForestRegressor(**FOREST)),
    "diabetes, sex, ridge": (diabetes, None, None, "sex", Ridge()),
}


def load(make, argument, n, secret):
    """Some records of a table, drawn at random; None where it is absent."""
    X, y = make(argument)
    if X is None:
        return None
    rows = np.random.default_rng(0).permutation(len(y))[:n]
    X = X.iloc[rows].reset_index(drop=True)
    return X.assign(**{secret: X[secret].astype(str)}), np.asarray(y)[rows]


def releases_of(model, X, y):
    """Models that are attacked: one, or some that a private estimator releases."""
    if not hasattr(model, "noise_scale"):
        return [pipeline(model).fit(X, y)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            pipeline(type(model)(**model.get_params() | {"random_state": seed})).fit(X, y)
            for seed in range(N_RELEASES)
        ]


def compare(X, y, secret, model):
    """Shares of right guesses by attack, for every person, (n,) each."""
    released, truth = releases_of(model, X, y), X[secret].to_numpy()
    estimator = pipeline(model)
    imputation = ImputationAttack(secret).fit(X, y)

    def right(attack):
        attack.fit(X, y)
        return np.mean([attack.predict(each) == truth for each in released], axis=0)

    criteria = ["performance", *["proba"] * hasattr(released[0], "predict_proba")]
    answers = {
        kind: [
            right(BlackBoxAttributeInference(estimator, secret, criterion=each, prior=prior))
            for each in criteria
        ]
        for kind, prior in (("marginal", "marginal"), ("imputed", imputation.prior_))
    }
    best = {kind: max(each, key=np.mean) for kind, each in answers.items()}
    found = {"imputation": (imputation.predict() == truth).astype(float)}
    found |= {"black box": best["marginal"], "target twice": best["imputed"]}
    return found | {"combined": right(CombinedAttributeInference(estimator, secret))}


def main():
    options = parse_options(__doc__.splitlines()[0])
    rows, differences, failures = [], [], []
    for name, (make, argument, n, secret, model) in (QUICK if options.quick else PAIRS).items():
        data = load(make, argument, n, secret)
        if data is None:
            continue
        found = compare(*data, secret, model)
        better = max(("imputation", "black box"), key=lambda each: found[each].mean())
        paired = found["combined"] - found[better]
        error = paired.std(ddof=1) / np.sqrt(len(paired))
        differences.append(paired.mean())
        if paired.mean() < LEAST_ERRORS * error:
            failures.append(f"{name}: {paired.mean():.4f}, standard error {error:.4f}")
        shares = [f"{found[each].mean():.3f}" for each in found]
        rows.append([name, f"{len(paired)}", *shares, f"{paired.mean():+.4f}", f"{error:.4f}"])
        print(rows[-1], flush=True)
    print_table(
        "Right guesses of a secret: imputation, black box, and both stacked",
        ["pair", "n", "imputation", "black box", "target twice", "combined", "difference", "error"],
        rows,
    )
    legend(
        "target twice: the black box with imputed probabilities as its prior\n"
        "difference: of combined and the better of imputation and black box, with its standard\n"
        "error over people"
    )
    mean = float(np.mean(differences))
    note("mean difference", mean)
    note("least difference", float(np.min(differences)))
    if mean < LEAST_MEAN:
        failures.append(f"mean of the differences {mean:.4f}")
    return exit_status(failures)


if __name__ == "__main__":
    sys.exit(main())
