"""Attacks by whoever knows all but one entry of the records, on all that a release shows.

Under every value of the entry the attacker fits the model and takes the release to pieces: what
differs from one value to another besides the noisy parameters tells the entry, without any luck.
The noisy parameters themselves are held against the channel.
"""

import copy
import io
import json
import pickle
import re
import warnings
from itertools import pairwise

import joblib
import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import estimator_html_repr

import skleak
from skleak.channels.gaussian._unequal import UnequalGaussianChannel
from skleak.exceptions import NoGuaranteeError, UnprotectedValueWarning
from skleak.influence.noise import noise_covariance
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.linear_model._measured import draw_release
from skleak.mechanisms import EpsilonDelta, GaussianDP, MaxAdvantage, MaxLeakage
from skleak.mechanisms.calibration import ladder_rung
from skleak.preprocessing import PublicScaler
from skleak.solvers import minimize

# That a fit of reweighted records is not even, or its search not at an end, is told to its owner.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.reweighting='total'. evens"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

NOISY = ("coef_", "intercept_")
TARGET = None
WAYS = [
    {},
    {"noise_covariance": "given"},
    {"noise_covariance": "curvature"},
    {"noise_covariance": "minimax"},
    {"reweighting": "irfil"},
    {"reweighting": "total"},
]
PROMISES = {
    "alpha": 0.1,
    "data_norm": 1.0,
    "fit_intercept": False,
    "classes": ["ill", "well"],
    "public": ("n_samples",),
    "mechanism": "output",
}
ONE_IN_A_MILLION = 1e-6


def diabetes(n=442):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return X[:n], y[:n]


def breast_cancer(n=569):
    """Rows of norm one half, and labels as text."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X[:n] / X.max()
    return X / 2.0 / np.linalg.norm(X, axis=1)[:, None], np.where(y[:n] == 1, "well", "ill")


def estimator(kind, noise, n_columns, **options):
    if options.get("noise_covariance") == "given":
        options["noise_covariance"] = np.diag(np.linspace(1.0, 3.0, n_columns + 1))
    return kind(noise, **{"alpha": 0.1, **options})


def with_entry(X, y, row, column, value):
    """The records as they would be with another entry; of the target for TARGET."""
    X, y = X.copy(), np.array(y)
    if column is TARGET:
        y[row] = value
    else:
        X.iloc[row, X.columns.get_loc(column)] = value
    return X, y


def pieces(thing, path=""):
    """Every value that can be reached, with its type, and layout of arrays, by the path to it."""
    found = {path: type(thing).__name__}
    if isinstance(thing, dict):
        found[path] += f" with {list(thing)}"
        for name, value in thing.items():
            found |= pieces(value, f"{path}.{name}")
    elif isinstance(thing, list | tuple):
        found[path] += f" of {len(thing)}"
        for i, value in enumerate(thing):
            found |= pieces(value, f"{path}[{i}]")
    elif isinstance(thing, np.ndarray):
        found[path] = _layout(thing)
        found |= pieces(thing.tolist(), f"{path}.values")
    elif hasattr(thing, "__dict__"):
        found |= pieces(vars(thing), f"{path}.vars")
    else:
        found[path] += re.sub(" at 0x[0-9a-f]+", "", f" {thing!r}")
    return found


def _layout(array):
    return repr((array.dtype, array.shape, array.strides, str(array.flags)))


def shown(released):
    """Everything that a release shows but its noisy parameters, by the way in which it is seen."""
    model = released[-1] if hasattr(released, "steps") else released
    noisy = {name: getattr(model, name) for name in NOISY}
    layout = {name: (type(each), _layout(np.asarray(each))) for name, each in noisy.items()}
    for name in NOISY:
        setattr(model, name, getattr(model, name) * 0.0 + 0.0)
    file = io.BytesIO()
    joblib.dump(released, file)
    protocols = range(pickle.HIGHEST_PROTOCOL + 1)
    return {
        "layout": layout,
        "fields": pieces(pickle.loads(pickle.dumps(released))),
        "pickles": [pickle.dumps(released, protocol) for protocol in protocols],
        "copies": [pickle.dumps(each(released)) for each in (copy.copy, copy.deepcopy)],
        "reduced": [pieces(model.__reduce_ex__(protocol)) for protocol in (2, 4)],
        "joblib": file.getvalue(),
        "json": released.to_json(),
        "text": repr(released),
        "page": re.sub(r"-\d+", "", estimator_html_repr(released)),
        "parameters": pieces(model.get_params()),
        "attributes": dir(released),
        "scikit-learn": pieces(released.to_sklearn()),
    }


def release_of(model, X, y, release=None):
    """What is seen of a release, and of how it was made; None where the fit is refused."""
    model = clone(model)
    try:
        model.fit(X, y)
    except ValueError as refusal:
        told = str(refusal)
    if not hasattr(model, "coef_") and not hasattr(model, "steps"):
        assert re.search(r"give records away.*noise_scale_of", told), told
        with pytest.raises(NotFittedError):
            model.release()
        return None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        released = model.release() if release is None else release(model)
    return {"warnings": public_words(caught), **shown(released)}


def public_words(caught):
    """Warnings at a release but those that are for its owner, as they say of themselves."""
    told = [(each.category, str(each.message)) for each in caught]
    owned = [message for kind, message in told if kind is UnprotectedValueWarning]
    assert all("This message is confidential." in message for message in owned)
    return [one for one in told if one[0] is not UnprotectedValueWarning]


def attack(model, X, y, row, column, values):
    """Fit under each value of an entry, and assert that no release shows which; count releases."""
    seen = [release_of(model, *with_entry(X, y, row, column, value)) for value in values]
    seen = [each for each in seen if each is not None]
    for one, other in pairwise(seen):
        assert list(one) == list(other)
        for way in one:
            assert one[way] == other[way], (way, row, column)
    return len(seen)


def states_of(model, X, y, row, column, values):
    """The confidential state of the fit under each value of an entry."""
    return [model.fit(*with_entry(X, y, row, column, value))._state for value in values]


def check_channel(states, rng, n_releases):
    """Play the best attack on parameters of releases: it does as well as the channel says."""
    means = np.array([state.factor.coefficients for state in states])
    covariances = [s.noise_scale**2 * noise_covariance(s) for s in states]
    channel = UnequalGaussianChannel(means, covariances)
    success = channel.bayes_success()
    secrets = rng.integers(len(states), size=n_releases)
    drawn = np.array([draw_release(states[secret], None).parameters for secret in secrets])
    wins = np.sum(channel.posterior(drawn).argmax(axis=1) == secrets)
    assert wins <= binom.isf(ONE_IN_A_MILLION, n_releases, success)
    # No worse either: an attack that misses what is there would prove nothing.
    assert wins >= binom.ppf(ONE_IN_A_MILLION, n_releases, success)
    return success


def play(kind, X, y, row, column, values, way, rng, n_releases=300):
    """The whole attack under noise that was passed as a number: fields, then parameters."""
    states = states_of(estimator(kind, 1.0, X.shape[1], **way), X, y, row, column, values)
    ends = np.array([state.factor.coefficients for state in states])
    # Noise at which the parameters tell the entry sometimes, and not always.
    noise = float(np.linalg.norm(ends - ends[0], axis=1).max()) / 1.5
    model = estimator(kind, noise, X.shape[1], **way)
    assert attack(model, X, y, row, column, values) == len(values)
    success = check_channel([state.at_noise(noise) for state in states], rng, n_releases)
    assert 1.0 / len(values) + 0.01 < success < 0.999


KINDS = {
    PrivateLinearRegression: lambda y: y,
    PrivateLogisticRegression: lambda y: np.where(y > 140.0, "high", "low"),
    PrivatePoissonRegressor: lambda y: y // 20.0,
}


QUICK = {
    PrivateLinearRegression: [{}, {"reweighting": "total"}],
    PrivateLogisticRegression: [{"noise_covariance": "curvature"}, {"reweighting": "irfil"}],
    PrivatePoissonRegressor: [{"noise_covariance": "minimax"}, {"noise_covariance": "given"}],
}


def entries(X, y, few, numeric):
    """An entry of few values, a numeric one and the target, each at some values."""
    some = np.quantile(X[numeric], [0.05, 0.95], method="lower")
    return [(few, np.unique(X[few])), (numeric, some), (TARGET, np.unique(y)[[0, -1]])]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_number_as_noise(kind, rng):
    X, y = diabetes(80)
    y = np.array(KINDS[kind](y))
    for k, way in enumerate(QUICK[kind]):
        play(kind, X, y, 7, *entries(X, y, "sex", "bmi")[2 * k], way, rng, 100)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_number_as_noise_on_diabetes(kind, rng):
    X, y = diabetes()
    y = np.array(KINDS[kind](y))
    for k, way in enumerate(WAYS):
        play(kind, X, y, (7, 123)[k % 2], *entries(X, y, "sex", "bmi")[k % 3], way, rng)


def doses(iwpc, kind):
    X, y = iwpc
    y = np.asarray(y)
    return X, y > np.median(y) if kind is PrivateLogisticRegression else y


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateLogisticRegression])
def test_a_number_as_noise_on_iwpc(kind, iwpc, rng):
    X, y = doses(iwpc, kind)
    rows = [0, int(np.argmax(np.abs(X["weight"])))]
    for k, way in enumerate(WAYS):
        entry = entries(X, y, "vkorc1_CT", "weight")[k % 3]
        play(kind, X, y, rows[k % 2], *entry, way, rng)


GOALS = [
    (MaxLeakage(0.5, "sex"), {}),
    (MaxLeakage(0.5, ["sex", "bmi"]), {}),
    (MaxAdvantage(0.05, "sex"), {}),
    (MaxAdvantage(0.1, "sex", prior="marginal"), {}),
    (MaxAdvantage(0.05, "sex"), {"noise_covariance": "given"}),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_goals_on_diabetes(kind, rng):
    """Where a goal is not refused under any value of the sex, none is told by the noise."""
    X, y = diabetes()
    y = np.array(KINDS[kind](y))
    published = 0
    for goal, way in GOALS:
        model = estimator(kind, goal, X.shape[1], **way)
        n = attack(model, X, y, 123, "sex", np.unique(X["sex"]))
        published += n == 2
        if n == 2 and isinstance(goal, MaxAdvantage) and goal.prior == "worst":
            states = states_of(model, X, y, 123, "sex", np.unique(X["sex"]))
            assert check_channel(states, rng, 300) <= 0.5 * (1.0 + goal.advantage)
    assert published >= 3


def amid_a_rung(goals, model, X, y):
    """The goal that needs noise furthest from the ends of a rung."""
    fitted = clone(model).fit(X, y)
    needed = [2.0 * np.log2(goal.noise_scale_of(fitted)) for goal in goals]
    return goals[int(np.argmin(np.abs(np.mod(needed, 1.0) - 0.5)))]


@pytest.mark.slow
def test_goals_that_take_whole_refits(rng):
    """Under reweightings, fitted shapes, priors over many values and classes no bound is known."""
    X, y = diabetes(30)
    X = X.assign(group=np.arange(30) % 3)
    linear, logistic = PrivateLinearRegression, PrivateLogisticRegression
    leakages = [MaxLeakage(eta, "sex") for eta in np.geomspace(0.5, 0.7, 6)]
    advantages = [MaxAdvantage(a, "group", prior="uniform") for a in np.linspace(0.1, 0.14, 6)]
    published = 0
    for kind, targets, way, goals in [
        *((linear, y, way, leakages) for way in WAYS[2:]),
        (linear, y, {}, advantages),
        (logistic, np.digitize(y, [100.0, 180.0]), {}, leakages),  # three classes
    ]:
        column = getattr(goals[0], "attribute", "sex")
        model = estimator(kind, 1.0, X.shape[1], **way)
        model.set_params(noise_scale=amid_a_rung(goals, model, X, targets))
        published += attack(model, X, targets, 7, column, np.unique(X[column])) > 1
    assert published >= 3


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateLogisticRegression])
def test_goals_on_iwpc(kind, iwpc, rng):
    X, y = doses(iwpc, kind)
    row = int(np.argmax(np.abs(X["weight"])))
    for goal in (MaxLeakage(0.3, "vkorc1_CT"), MaxAdvantage(0.09, "vkorc1_CT")):
        model = kind(goal, alpha=0.1)
        assert attack(model, X, y, row, "vkorc1_CT", [0.0, 1.0]) == 2
    states = states_of(model, X, y, row, "vkorc1_CT", [0.0, 1.0])
    assert check_channel(states, rng, 1000) <= 0.5 * (1.0 + goal.advantage)


@pytest.mark.slow
@pytest.mark.data
def test_goals_without_bounds_are_refused_on_iwpc(iwpc):
    """Nothing is published unchecked, whatever the gene; and it is refused at once."""
    X, y = doses(iwpc, PrivateLinearRegression)
    advantage, leakage = MaxAdvantage(0.09, "vkorc1_CT"), MaxLeakage(0.3, "vkorc1_CT")
    for goal, way in [
        (leakage, {"noise_covariance": "curvature"}),
        (leakage, {"reweighting": "irfil"}),
        (advantage, {"reweighting": "irfil"}),
    ]:
        model = PrivateLinearRegression(goal, **way)
        assert attack(model, X, y, 0, "vkorc1_CT", [0.0, 1.0]) == 0
        with pytest.raises(ValueError, match=r"no bounds are known.*noise_scale_of"):
            model.fit(X, y)


@pytest.mark.slow
def test_guarantees_on_breast_cancer(rng):
    """What is promised stays as it is, whatever a row or a label is."""
    X, y = breast_cancer(80)
    for noise in (0.3, GaussianDP(1.0), EpsilonDelta(1.0, 1e-6)):
        for covariance in ("isotropic", np.diag(np.linspace(1.0, 3.0, X.shape[1]))):
            model = PrivateLogisticRegression(noise, noise_covariance=covariance, **PROMISES)
            assert attack(model, X, y, 3, "mean area", [0.0, 0.1, 0.5]) == 3
            assert attack(model, X, y, 3, TARGET, ["ill", "well"]) == 2
    scaler = PublicScaler(bounds=(-1.0, 1.0))
    pipeline = make_pipeline(scaler, PrivateLogisticRegression(GaussianDP(1.0), **PROMISES))
    seen = [
        release_of(pipeline, *with_entry(X, y, 3, "mean area", value), skleak.release)
        for value in (0.0, 0.1, 0.5)
    ]
    assert seen[0] == seen[1] == seen[2]
    assert json.loads(seen[0]["json"])


def test_a_guarantee_is_not_lost_in_public():
    """Under one label the solver converges, under the other it does not, and nothing is shown."""
    X, y = breast_cancer(60)
    found = []
    for label in ("ill", "well"):
        model = PrivateLogisticRegression(0.3, max_iter=2, **PROMISES)
        model.fit(*with_entry(X, y, 0, TARGET, label))
        found.append(minimize(model._state.objective, max_iter=2).gradient_norm)
    model.set_params(tol=np.sqrt(found[0] * found[1]))
    released = []
    for label in ("ill", "well"):
        model.fit(*with_entry(X, y, 0, TARGET, label))
        if model._state.converged:
            released.append(model.release())
        else:
            with pytest.raises(NoGuaranteeError, match="would reveal that of these records"):
                model.release()
    assert len(released) == 1
    assert released[0].provenance_["differential_privacy"] is not None
    # Without a promise there is no guarantee to lose.
    model.set_params(data_norm=None)
    for label in ("ill", "well"):
        assert model.fit(*with_entry(X, y, 0, TARGET, label)).release() is not None


def readme_pipeline(noise):
    columns = make_column_transformer(
        (OneHotEncoder(drop="if_binary", sparse_output=False), ["sex"]),
        remainder=StandardScaler(),
        verbose_feature_names_out=False,
    )
    return make_pipeline(columns, PrivateLinearRegression(noise)).set_output(transform="pandas")


@pytest.mark.slow
def test_goals_of_the_readme_on_its_data():
    """What it says is published is, and what it says is refused would have told a record."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    for goal in (MaxLeakage(0.5, features="bmi"), MaxAdvantage(0.05, attribute="sex_2.0")):
        assert readme_pipeline(goal).fit(X, y)[-1].noise_scale_ > 0.0
    whole = MaxLeakage(0.5)
    with pytest.raises(ValueError, match=r"s3.*noise_scale_of"):
        readme_pipeline(whole).fit(X, y)
    fitted = readme_pipeline(1.0).fit(X, y)
    rows, rungs = fitted[:-1].transform(X), set()
    row = int(np.argmax(fitted[-1].fisher_information_loss_))
    for value in np.unique(rows["s3"]):
        twin = PrivateLinearRegression().fit(*with_entry(rows, y, row, "s3", value))
        rungs.add(ladder_rung(whole.noise_scale_of(twin)))
    assert len(rungs) > 1
    # Of half the patients as if they were public.
    noise = whole.noise_scale_of(readme_pipeline(1.0).fit(X[:221], y[:221])[-1])
    assert readme_pipeline(noise).fit(X[221:], y[221:])[-1].noise_scale_ == noise
