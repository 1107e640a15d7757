"""Private estimators around a module of torch."""

import json
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import skleak
from skleak.exceptions import NoGuaranteeError, PrivacyLeakWarning
from skleak.linear_model import PrivateLinearRegression
from skleak.neural import PrivateSGDClassifier, PrivateSGDRegressor

torch = pytest.importorskip("torch")
nn = torch.nn


def network(outputs, dtype=torch.float32):
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, outputs)).to(dtype)


def three():
    return network(3)


def one():
    return network(1)


def wide_line():
    return nn.Linear(3, 1).double()


@pytest.fixture
def data(rng):
    X = rng.normal(size=(80, 3))
    y = np.array(["a", "b", "c"])[rng.integers(0, 3, 80)]
    X[:, 0] += 3.0 * (y == "b")
    return X, y


def classifier(module=three, **options):
    options = {"max_steps": 20, "sampling_rate": 0.2, "random_state": 0, "device": "cpu"} | options
    return PrivateSGDClassifier(module, **options)


def test_a_linear_module_leaks_what_the_default_one_does(rng):
    """The same start, noise and batches: the default one rounds gradients to its grid."""
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    options = {"max_steps": 5, "sampling_rate": 0.3, "random_state": 1, "account_records": "all"}

    def zero():
        line = wide_line()
        for parameter in line.parameters():
            nn.init.zeros_(parameter)
        return line

    for private in (True, False):
        shared = options | {"private_target": private}
        default = PrivateSGDRegressor(**shared).fit(X, y)
        module = PrivateSGDRegressor(zero, device="cpu", **shared).fit(X, y)
        assert np.allclose(module.module_.weight.detach().numpy().ravel(), default.coef_.ravel())
        ours, theirs = (m.diagonal_fisher_information_loss_ for m in (module, default))
        assert np.allclose(ours, theirs, rtol=1e-6)
        assert np.allclose(module.predict(X), default.predict(X), rtol=1e-6, atol=1e-6)


def test_probes_and_followed_records_agree_with_the_exact_sum(data):
    X, y = data
    options = {"max_steps": 5, "account_records": "all"}
    exact = classifier(**options).fit(X, y)
    probed = classifier(**options, accounting="probes", n_probes=800).fit(X, y)
    some = classifier(**options | {"account_records": [3, 70]}).fit(X, y)
    assert all(
        torch.equal(a, b)
        for a, b in zip(exact.module_.parameters(), probed.module_.parameters(), strict=True)
    )
    ratio = probed.fisher_information_loss_ / exact.fisher_information_loss_
    # 4,000 probes a record, of a relative spread below 2: far beyond five standard errors.
    assert np.all(np.abs(ratio - 1.0) < 0.1)
    known = some.fisher_information_loss_
    assert np.allclose(known[[3, 70]], exact.fisher_information_loss_[[3, 70]])
    assert np.isnan(np.delete(known, [3, 70])).all()


def test_seeds_batches_of_memory_and_labels(data):
    X, y = data
    first, again, small = (classifier(max_batch=b, max_steps=3).fit(X, y) for b in (None, None, 40))
    other = classifier(random_state=2, max_steps=3).fit(X, y)
    assert np.array_equal(first.predict_proba(X), again.predict_proba(X))
    assert np.allclose(first.predict_proba(X), small.predict_proba(X), atol=1e-5)
    assert np.allclose(first.fisher_information_loss_, small.fisher_information_loss_, rtol=1e-3)
    assert not np.allclose(first.predict_proba(X), other.predict_proba(X))
    assert set(first.predict(X)) <= {"a", "b", "c"}
    assert classifier(one).fit(X, y == "b").score(X, y == "b") > 0.5
    before = torch.random.get_rng_state()
    classifier(max_steps=1).fit(X, y)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_steps_without_members(data):
    X, y = data
    model = classifier(sampling_rate=0.005, max_steps=30).fit(X, y)
    assert np.any(model.history_["batch_size"] == 0)
    assert np.all(np.isfinite(model.predict_proba(X)))


def test_pipelines_clones_searches_and_pickles(data):
    X, y = data
    model = make_pipeline(StandardScaler(), classifier(max_steps=3)).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert clone(model)[-1].module is three
    search = GridSearchCV(classifier(max_steps=2), {"learning_rate": [0.1, 0.5]}, cv=2)
    assert search.fit(X, y).predict(X).shape == (80,)


def test_a_release_holds_parameters_and_public_numbers_only(data):
    X, y = data
    marked = X.copy()
    marked[7] = [123.4567891, -98.7654321, 55.4443332]
    model = classifier(learning_rate=0.01).fit(marked, y)
    with pytest.warns(PrivacyLeakWarning, match="seed"):
        released = model.release()
    for kept in (pickle.dumps(released), pickle.dumps(model)):
        for dtype in (np.float64, np.float32):
            for value in marked[7].astype(dtype):
                assert value.tobytes() not in kept
        for name in (b"history_", b"fisher_information_loss_"):
            assert name not in kept
    assert np.allclose(released.predict_proba(X), model.predict_proba(X))
    assert all(parameter.grad is None for parameter in released.module_.parameters())
    json.dumps(released.provenance_)
    assert "real numbers" in released.provenance_["assumes"]
    assert released.provenance_["module"] == "Sequential"


def test_a_guarantee_in_real_numbers_has_to_be_accepted(data):
    pytest.importorskip("dp_accounting")
    X, y = data
    declared = {"classes": ["a", "b", "c"], "public": "n_samples"}
    model = classifier(random_state=None, **declared).fit(X, y)
    stated = model.release().provenance_["differential_privacy"]
    assert not stated["exact"]
    assert stated["arithmetic"] == "real numbers"
    pipeline = make_pipeline(FunctionTransformer(), classifier(random_state=None, **declared))
    pipeline.fit(X, y)
    for released in (
        model.release,
        partial(skleak.release, model),
        partial(skleak.release, pipeline),
    ):
        with pytest.raises(NoGuaranteeError, match="real_arithmetic=True"):
            released(require_guarantee=True)
    with pytest.raises(NoGuaranteeError, match="seed"):
        classifier(**declared).fit(X, y).release(require_guarantee=True, real_arithmetic=True)
    for released in (
        model.release(require_guarantee=True, real_arithmetic=True),
        skleak.release(pipeline, require_guarantee=True, real_arithmetic=True)[-1],
    ):
        stated = released.provenance_["differential_privacy"]
        assert stated["arithmetic"] == "real numbers, accepted by who released it"
    # Others have nothing to accept.
    line = PrivateSGDClassifier(max_steps=2, sampling_rate=0.5, **declared).fit(X, y)
    accepted = skleak.release(line, require_guarantee=True, real_arithmetic=True)
    assert accepted.provenance_["differential_privacy"]["exact"]
    ridge = PrivateLinearRegression().fit(X, np.arange(80.0))
    assert skleak.release(ridge, real_arithmetic=True).coef_.shape == (3,)


def test_no_noise_hard_clipping_and_no_accounting(data):
    X, y = data
    assert np.all(np.isinf(classifier(noise_multiplier=0.0).fit(X, y).fisher_information_loss_))
    for options in ({"clipping": "hard"}, {"accounting": None}):
        # Kinks do not matter where nothing is differentiated twice.
        relu = classifier(
            lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)), **options
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert relu.fit(X, y).fisher_information_loss_ is None


def test_what_breaks_down_says_so(data):
    X, y = data
    with pytest.raises(ValueError, match="broke down"):
        classifier(learning_rate=1e38).fit(1e20 * X, y)
    with pytest.raises(ValueError, match="GroupNorm"):
        classifier(lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))).fit(X, y)
    with pytest.raises(ValueError, match=r"must return \(3, 3\)"):
        classifier(lambda: network(4)).fit(X, y)


def test_regression_of_images(rng):
    X, y = rng.normal(size=(40, 1, 4, 4)), rng.normal(size=40)
    build = [nn.Conv2d(1, 2, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(0)]

    def module():
        return nn.Sequential(*build[:3], nn.Flatten(), nn.Linear(2, 1), build[3])

    model = PrivateSGDRegressor(
        module, max_steps=5, sampling_rate=0.5, random_state=0, device="cpu"
    )
    model.fit(X, y)
    assert model.predict(X).shape == (40,)
    assert np.all(model.fisher_information_loss_[~np.isnan(model.fisher_information_loss_)] >= 0.0)
