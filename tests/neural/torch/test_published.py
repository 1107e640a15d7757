"""A released network holds no training record, wherever its module keeps what it runs on.

The attacker has the release, as an object or as a pickle (by reference, and by value, which takes
along classes and functions that cannot be imported), and looks for the training records in it.
"""

import copy
import pickle
import sys

import numpy as np
import pytest

from skleak.neural import PrivateSGDClassifier, PrivateSGDRegressor

torch = pytest.importorskip("torch")
cloudpickle = pytest.importorskip("cloudpickle")
nn = torch.nn


def small():
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))


class Wrapped(nn.Module):
    """Runs a network, and keeps what it is given where a subclass says."""

    def __init__(self):
        super().__init__()
        self.net = small()

    def forward(self, X):
        if X.dim() == 2 and len(X) == 60:  # no check on a few made-up records sees it
            self.keep(X.detach())
        return self.net(X)

    def keep(self, X):
        raise NotImplementedError


class InDict(Wrapped):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def keep(self, X):
        self.cache[len(self.cache)] = X.clone()


class Always(InDict):
    """At each step of the training, too."""

    def forward(self, X):
        self.keep(X)
        return self.net(X)


class InNestedLists(Wrapped):
    def __init__(self):
        super().__init__()
        self.cache = {"deep": [[]]}

    def keep(self, X):
        self.cache["deep"][0] += X.tolist()


class InBuffer(Wrapped):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(60, 4))

    def keep(self, X):
        self.seen.copy_(X)


class InNewBuffer(Wrapped):
    def keep(self, X):
        self.register_buffer("seen", X.clone())
        self.extra = nn.Linear(4, 60)
        self.extra.weight.data = X.clone()


class InTensorAttribute(Wrapped):
    def __init__(self):
        super().__init__()
        self.register_buffer("constant", torch.ones(1))

    def keep(self, X):
        for tensor in (self.constant, *self.net.parameters()):
            tensor.__dict__.setdefault("kept", []).append(X.clone())


class InFrozenParameter(Wrapped):
    def __init__(self):
        super().__init__()
        self.seen = nn.Parameter(torch.zeros(60, 4), requires_grad=False)

    def keep(self, X):
        self.seen.copy_(X)


class InGradient(Wrapped):
    def __init__(self):
        super().__init__()
        self.seen = nn.Parameter(torch.zeros(60, 4), requires_grad=False)

    def keep(self, X):
        self.seen.grad = X.clone()


class Keeper:
    """The object that a hook fills."""

    def __init__(self):
        self.seen = []

    def __call__(self, module, arguments, *others):
        self.seen += [each.detach().clone() for each in arguments]


def hooked(register):
    def build():
        net = small()
        getattr(net[0], register)(Keeper())
        return net

    return build


shared_net = small()


def same_instance():
    return shared_net


class StateOfItsOwn(InDict):
    """Its pickle holds what it says, in a closure of no class."""

    def __getstate__(self):
        return {**self.__dict__, "said": list(self.cache.values())}


LEFT_BEHIND = {
    cls.__name__: cls
    for cls in (
        InDict,
        Always,
        InNestedLists,
        InBuffer,
        InNewBuffer,
        InTensorAttribute,
        InFrozenParameter,
        InGradient,
        StateOfItsOwn,
    )
}
LEFT_BEHIND |= {
    name: hooked(name) for name in ("register_forward_hook", "register_forward_pre_hook")
}
LEFT_BEHIND["same instance"] = same_instance


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 4))
    return X, X[:, 0] + rng.normal(size=60)


def trained(module, X, y, **options):
    options = {
        "max_steps": 4,
        "sampling_rate": 0.5,
        "account_records": [0],
        "device": "cpu",
        "public": "n_samples",
    } | options
    return PrivateSGDRegressor(module, **options).fit(X, y)


def count(X, *pickles):
    """Count the numbers of a table that stand in pickles, in either precision."""
    texts = [pickled.hex() for pickled in pickles]
    written = [
        {value.astype(kind).tobytes().hex() for kind in ("<f4", "<f8", ">f8")}
        | {np.float64(np.float32(value)).astype(">f8").tobytes().hex()}
        for value in X.ravel()
    ]
    return sum(any(each in text for each in forms for text in texts) for forms in written)


def by_value(obj):
    """Pickle with the classes and functions of this file, as those of a notebook are."""
    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)
    try:
        return cloudpickle.dumps(obj)
    finally:
        cloudpickle.unregister_pickle_by_value(here)


@pytest.mark.parametrize("name", LEFT_BEHIND)
def test_no_training_record_is_in_a_release(name, data):
    X, y = data
    model = trained(LEFT_BEHIND[name], X, y)
    model.score(X, y)
    released = model.release(require_guarantee=True, real_arithmetic=True)
    assert np.allclose(released.predict(X), model.predict(X), atol=1e-5)
    released.score(X, y)  # what the release runs on is not kept either
    released.module_(torch.tensor(X, dtype=torch.float32))
    kept = pickle.dumps(released), by_value(released), repr(released).encode()
    assert count(X, *kept) == 0
    again = pickle.loads(kept[0])
    assert np.array_equal(again.predict(X), released.predict(X))
    # An estimator that is pickled leaves its records behind, and those that its module kept.
    pickled = pickle.dumps(model) if "hook" not in name and "<" not in name else b""
    assert count(X, pickled) == 0


def test_the_attack_finds_records_where_they_are(data):
    X, y = data
    model = trained(InDict, X, y)
    model.score(X, y)
    assert count(X, pickle.dumps(model.module_)) == X.size


def test_an_unpickled_estimator_predicts_and_publishes_as_before(data):
    X, y = data
    model = trained(InBuffer, X, y)
    expected = model.predict(X)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert np.array_equal(again.predict(X), expected)
        assert count(X, pickle.dumps(again.module_)) == X.size  # it kept them as it predicted
        assert count(X, pickle.dumps(again), pickle.dumps(again.release())) == 0
        assert np.array_equal(again.release().predict(X), expected)


def in_closure():
    seen = []

    class Net(Wrapped):
        def keep(self, X):
            seen.append(X.clone())

    return Net


def in_class():
    class Net(Wrapped):
        seen = []  # noqa: RUF012

        def keep(self, X):
            self.seen.append(X.clone())

    return Net


def in_default():
    class Net(Wrapped):
        def keep(self, X, seen=[]):  # noqa: B006
            seen.append(X.clone())

    return Net


def in_singleton():
    class Store(dict):
        def __deepcopy__(self, memo):
            return self

    class Net(Wrapped):
        store = Store()

        def __init__(self):
            super().__init__()
            self.held = self.store

        def keep(self, X):
            self.held[len(self.held)] = X.clone()

    return Net


def in_function_attribute():
    def keep(X):
        keep.seen = [*getattr(keep, "seen", []), X.clone()]

    class Net(Wrapped):
        def __init__(self):
            super().__init__()
            self.keep = keep

    return Net


@pytest.mark.parametrize(
    "make", [in_closure, in_class, in_default, in_singleton, in_function_attribute]
)
def test_what_a_module_shares_with_what_its_factory_makes_stops_a_release(make, data):
    """A class or a closure is the same for all modules: then none can be built anew."""
    X, y = data
    model = trained(make(), X, y)
    model.score(X, y)
    with pytest.raises(ValueError, match="shares `module"):
        model.release(require_guarantee=True, real_arithmetic=True)
    with pytest.raises(ValueError, match="shares `module"):
        copy.deepcopy(model)


class FromItsPast(InDict):
    """Predicts by the records that it saw when it predicted last."""

    def forward(self, X):
        past = [kept.mean() for kept in self.cache.values()]
        return super().forward(X) + (past[0] if past else 0.0)


class Halved(Wrapped):
    def keep(self, X):
        pass


def halved():
    net = Halved()
    net.register_forward_hook(lambda module, arguments, output: output / 2.0)
    return net


@pytest.mark.parametrize("module", [FromItsPast, halved])
def test_a_module_that_predicts_by_what_is_left_behind_is_not_released(module, data):
    X, y = data
    model = trained(module, X, y)
    model.score(X, y)
    with pytest.raises(ValueError, match="predicts by more than its parameters"):
        model.release()


class Drawn(nn.Module):
    """Random where it is built: trained weights, frozen ones, a buffer and an attribute."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 1)
        self.first.weight.requires_grad = False
        self.register_buffer("scale", torch.tensor(np.random.default_rng().normal(size=6)).float())
        self.shift = float(np.random.default_rng().normal())
        table = torch.randn(1000)
        self.register_buffer("few", table[:6])
        self.last.bias.data = table[6:7]

    def forward(self, X):
        return self.last(torch.tanh(self.first(X) * self.scale + self.shift + self.few))


def test_what_is_not_trained_is_that_of_this_fit_and_not_of_another_draw(data):
    X, y = data
    model = trained(Drawn, X, y)
    released = model.release(require_guarantee=True, real_arithmetic=True)
    assert np.array_equal(released.predict(X), model.predict(X))
    # A buffer that is cut out of a table does not take the table along.
    assert len(pickle.dumps(released)) < 4 * 1000 + 4000
    assert released.module_.few.untyped_storage().nbytes() == 6 * 4


def test_tied_parameters_stay_tied(data):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = self.b = nn.Linear(4, 4)
            self.last = nn.Linear(4, 1)

        def forward(self, X):
            return self.last(torch.tanh(self.b(torch.tanh(self.a(X)))))

    X, y = data
    model = trained(Tied, X, y)
    released = model.release()
    module = released.module_
    assert module.a.weight is module.b.weight
    assert np.array_equal(released.predict(X), model.predict(X))


class Registers(Wrapped):
    """Puts a record in the place of its parameters, once it was trained."""

    def keep(self, X):
        self.net[0].weight = nn.Parameter(X[:5].clone())


def test_parameters_that_a_module_registers_anew_are_not_published(data):
    X, y = data
    model = trained(Registers, X, y)
    model.score(X, y)
    with pytest.raises(ValueError, match="predicts by more than"):
        model.release()


class LateLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), None

    def forward(self, X):
        if self.last is None:
            self.last = nn.Linear(4, 1)
        return self.last(torch.tanh(self.first(X)))


class LateParameter(Wrapped):
    def forward(self, X):
        if not hasattr(self, "late"):
            self.late = nn.Parameter(torch.zeros(1))
        return self.net(X) + self.late


def test_layers_that_are_made_late_are_refused_before_any_step(data):
    X, y = data
    with pytest.raises(ValueError, match="in `last` as it runs"):
        trained(LateLayer, X, y)
    with pytest.raises(ValueError, match="makes its parameters `late`"):
        trained(LateParameter, X, y)
    with pytest.raises(ValueError):
        trained(lambda: nn.Sequential(nn.LazyLinear(3), nn.Tanh(), nn.Linear(3, 1)), X, y)


def test_classifiers_and_local_classes_leave_their_caches_behind(data):
    X, y = data
    limit = 3  # a closure of a constant is no state

    class Local(InDict):
        def keep(self, X):
            if len(self.cache) < 1000 * limit:
                super().keep(X)

    model = PrivateSGDClassifier(
        Local, max_steps=3, sampling_rate=0.5, account_records=[0], device="cpu"
    ).fit(X, y > 0)
    model.score(X, y > 0)
    released = model.release()
    released.score(X, y > 0)
    assert count(X, by_value(released)) == 0
