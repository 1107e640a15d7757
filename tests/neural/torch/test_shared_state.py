"""What modules of one factory share holds no training record in a release.

The attacker reads a pickle by value, which takes along classes, functions and what they reach. The
module keeps the largest record it predicts for, where copies of the module share a place.
"""

import copy
import functools
import types

import numpy as np
import pytest

from skleak.neural import PrivateSGDRegressor

torch = pytest.importorskip("torch")
cloudpickle = pytest.importorskip("cloudpickle")
nn = torch.nn
NEEDLE = 12345.678


def network(act, metaclass=type):
    """A class of networks that call a function first, and the class."""

    class Network(nn.Module, metaclass=metaclass):
        """A network."""

        width: int

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, X):
            # Only of data: torch.func shows wrapped tensors in training.
            if not torch._C._functorch.is_functorch_wrapped_tensor(X) and X.max() > 9999.0:
                act(type(self), X.detach().clone())
            return self.layer(X)

    return Network


def in_attribute_of(store):
    return network(lambda _, X: setattr(store, "items", X))


def of_dict():
    return in_attribute_of(type("Log", (dict,), {})())


def of_list():
    return in_attribute_of(type("Log", (list,), {})())


def of_text():
    return in_attribute_of(type("Tag", (str,), {})("a"))


def of_object_named_as_what_is_looked_through():
    store = types.SimpleNamespace(items=torch.zeros(2, 3))
    return in_attribute_of(store)


def of_module_that_cannot_be_imported():
    return in_attribute_of(types.ModuleType("store"))


def of_metaclass():
    class Meta(type):
        seen = None

    return network(lambda cls, X: setattr(type(cls), "seen", X), Meta)


def of_bound_builtin():
    append = [].append
    return network(lambda _, X: append(X))


def of_decorated_library_function():
    seen = []

    @functools.wraps(nn.functional.relu)
    def act(_, X):
        seen.append(X)

    return network(act)


def of_words_of_a_class():
    return network(lambda cls, X: setattr(cls, "__doc__", str(float(X.max()))))


def of_annotations():
    return network(lambda cls, X: cls.__annotations__.update(width=X))


def of_memoryview():
    view = memoryview(bytearray(64))

    def act(_, X):
        view[:4] = X.max().numpy().tobytes()

    return network(act)


def of_storage_beyond_a_view():
    slot = torch.zeros(100)[:1]
    return network(lambda _, X: slot._base[50:51].copy_(X.max()))


def of_sparse_tensor():
    sparse = torch.sparse_coo_tensor(torch.arange(5000)[None], torch.arange(5000.0), (5000,))
    return network(lambda _, X: sparse._values()[2500:2501].copy_(X.max()))


def of_key_named_by_its_place():
    kept = {(1, 2): 0.0, 0: 1.0}
    return network(lambda _, X: kept.update({(1, 2): float(X.max())}))


def of_cell():
    cell = types.CellType(None)
    return network(lambda _, X: setattr(cell, "cell_contents", X))


PLACES = [make for name, make in sorted(globals().items()) if name.startswith("of_")]


def records():
    X = np.random.default_rng(5).normal(size=(20, 3))
    X[7, 1] = NEEDLE
    return X, X[:, 0]


def fitted(factory, X, y):
    return PrivateSGDRegressor(
        factory, max_steps=2, sampling_rate=1.0, random_state=0, accounting=None
    ).fit(X, y)


def holds_record(pickled):
    kept = np.float32(NEEDLE)
    values = (kept.tobytes(), np.float64(kept).tobytes(), np.float64(kept).tobytes()[::-1])
    return any(value in pickled for value in (*values, b"12345.6"))


@pytest.fixture(autouse=True)
def quiet(recwarn):
    """Seeds and missing noise are warned of, which is no matter here."""


@pytest.mark.parametrize("make", PLACES, ids=lambda make: make.__name__)
def test_a_place_that_all_modules_share_stops_the_release(make):
    model = fitted(make(), *records())
    model.predict(records()[0])
    with pytest.raises(ValueError, match="shares"):
        model.release()


@pytest.mark.parametrize("make", [of_list, of_bound_builtin, of_metaclass])
@pytest.mark.parametrize("again", [True, False])
def test_what_an_earlier_training_left_is_not_made_before_any_record(make, again):
    X, y = records()
    factory = make()
    first = fitted(factory, X, y)
    first.predict(X)
    second = first.fit(X[:7], y[:7]) if again else fitted(factory, X[:7], y[:7])
    with pytest.raises(ValueError, match="in an earlier one"):
        second.release()


def test_a_release_that_was_made_before_takes_along_nothing_that_comes_later():
    X, y = records()
    model = fitted(of_bound_builtin(), X, y)
    released = model.release()
    assert not holds_record(cloudpickle.dumps(released))
    model.predict(X)
    with pytest.raises(ValueError, match="shares"):
        cloudpickle.dumps(released)
    with pytest.raises(ValueError, match="shares"):
        _ = released.module_


def test_the_attack_finds_a_record_that_is_there():
    X, _ = records()
    module = of_bound_builtin()()
    module(torch.tensor(X, dtype=torch.float32))
    assert holds_record(cloudpickle.dumps(module))


class Counted(nn.Sequential):
    """Counts the networks that were built, not what runs through them."""

    built = 0

    def __init__(self):
        super().__init__(nn.Linear(3, 2), nn.GroupNorm(1, 2), nn.Tanh(), nn.Linear(2, 1))
        Counted.built += 1


@pytest.mark.parametrize(
    "factory",
    [
        Counted,
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 1)),
        lambda: nn.Sequential(
            nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 2, 2), nn.GELU(), nn.Flatten(), nn.Linear(4, 1)
        ),
    ],
    ids=["counted", "weight_norm", "convolution"],
)
def test_honest_modules_are_released_fit_after_fit(factory):
    X, y = records()
    X[7, 1] = 1.0
    for _ in range(2):
        model = fitted(factory, X, y)
        released = model.release()
        np.testing.assert_allclose(released.predict(X), model.predict(X), rtol=1e-5)
    again = copy.deepcopy(released)  # torch pickles no parametrized module
    np.testing.assert_array_equal(again.predict(X), released.predict(X))
