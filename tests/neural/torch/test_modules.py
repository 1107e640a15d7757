"""Which modules are taken, and how the others are refused."""

import copy
import pickle

import numpy as np
import pytest

from skleak.exceptions import PrivacyLeakWarning
from skleak.neural.gradients import Clipping
from skleak.neural.models import squared_probability_loss

torch = pytest.importorskip("torch")
TORCH = pytest.importorskip("skleak.neural.torch")
nn, F = torch.nn, torch.nn.functional


def build(factory, n_classes=3, seed=0, **options):
    rng = np.random.default_rng(seed)
    options = {"record_shape": (6,), "device": "cpu"} | options
    return TORCH.TorchGradients(
        factory, Clipping("smooth", 1.0), n_classes=n_classes, rng=rng, **options
    )


def sequence(*layers):
    return lambda: nn.Sequential(nn.Linear(6, 6), *layers, nn.Linear(6, 3))


def forward(function, **buffers):
    """A class of modules with one linear layer and a forward of its own."""

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.other = nn.Linear(6, 3), nn.Linear(1, 1)
            for name, value in buffers.items():
                self.register_buffer(name, value)

        def forward(self, x):
            return function(self, x)

    return Module


def counting(module, x):
    module.count += 1
    return module.linear(x) + module.other(x[:, :1])


def keeping(module, x):
    module.last = x
    return module.linear(x) + module.other(x[:, :1])


def with_other(change):
    return forward(lambda module, x: change(module.linear(x) + module.other(x[:, :1]), x))


REFUSED = {
    "batch normalization": (sequence(nn.BatchNorm1d(6)), "GroupNorm"),
    "running statistics": (
        sequence(
            nn.Unflatten(1, (2, 3)), nn.InstanceNorm1d(2, track_running_stats=True), nn.Flatten()
        ),
        "track_running_stats=False",
    ),
    "a buffer that changes": (forward(counting, count=torch.zeros(())), "buffer `count`"),
    "a record that is kept": (forward(keeping), "`last`"),
    "records that mix": (with_other(lambda out, x: out - x.mean()), "among others"),
    "dropout": (sequence(nn.Dropout(0.5)), "random numbers"),
    "a function that drops out": (with_other(lambda out, x: F.dropout(out, 0.3)), "random numbers"),
    "noise": (with_other(lambda out, x: out + torch.rand(())), "random numbers"),
    "no gradient": (with_other(lambda out, x: out.detach()), "no gradient"),
    "an idle parameter": (forward(lambda module, x: module.linear(x)), "`other.weight`"),
    "a branch": (with_other(lambda out, x: out if x.sum() > 0 else -out), "record by record"),
    "pairs": (
        with_other(lambda out, x: torch.cdist(out, out[:1])),
        "outputs|return",
    ),
    "integers": (lambda: nn.Sequential(nn.Linear(6, 3)).half(), "float32 or float64"),
    "mixed precision": (
        lambda: nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 3).double()),
        "float32",
    ),
    "no parameters": (nn.Identity, "nothing to train"),
    "frozen": (lambda: nn.Linear(6, 3).requires_grad_(False), "nothing to train"),
    "four scores": (lambda: nn.Linear(6, 4), r"\(3, 3\).*got \(3, 4\)"),
    "scores at every position": (lambda: nn.Unflatten(1, (2, 3)), "nothing to train"),
    "too few columns": (lambda: nn.Linear(5, 3), "fails on records"),
    "two tensors": (with_other(lambda out, x: (out, x)), "one tensor"),
    "labels": (with_other(lambda out, x: out.argmax(1)), "one tensor of real numbers"),
    "rounded records": (
        lambda: nn.Sequential(Rounded(), nn.Embedding(9, 3), nn.AvgPool2d((6, 1)), nn.Flatten()),
        "cuts it off",
    ),
}


class Rounded(nn.Module):
    def forward(self, x):
        return x.long()


@pytest.mark.parametrize("name", REFUSED)
def test_modules_whose_gradients_are_not_those_of_records_are_refused(name):
    factory, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        build(factory)


def test_what_is_no_factory_is_refused():
    for factory, message in [
        (nn.Linear(6, 3), "got Linear"),
        (3, "got int"),
        (lambda: None, "got NoneType"),
        (lambda: nn.Linear, "got type"),
    ]:
        with pytest.raises(TypeError, match=message):
            build(factory)
    with pytest.raises(ValueError, match="without arguments"):
        build(nn.Linear)
    absent = ["abacus"] if torch.cuda.is_available() else ["abacus", "cuda"]
    for device in absent:
        with pytest.raises(ValueError, match="`device` must be"):
            build(lambda: nn.Linear(6, 3), device=device)


@pytest.mark.parametrize(
    "layer",
    [
        nn.ReLU(),
        nn.LeakyReLU(),
        nn.Hardtanh(),
        nn.ELU(2.0),
        nn.MaxPool1d(1),
        nn.Softshrink(),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_gradients_that_jump_are_warned_of(layer):
    with pytest.warns(PrivacyLeakWarning, match="too small"):
        build(sequence(layer))
    build(sequence(layer), differentiable=False)


def test_smooth_layers_pass_in_silence():
    layers = nn.Tanh(), nn.Softplus(), nn.GELU(), nn.SiLU(), nn.ELU(), nn.CELU(), nn.Sigmoid()
    layers += nn.LayerNorm(6), nn.GroupNorm(2, 6), nn.Dropout(0.0)
    build(sequence(*layers))


def test_losses_of_torch_and_of_users(rng):
    X = rng.normal(size=(5, 6))
    labels, numbers = rng.integers(0, 3, 5), rng.normal(size=5)
    three, one = (lambda k=k: nn.Linear(6, k).double() for k in (3, 1))
    ours = build(three).clipped_sum(X, labels)
    for loss in (F.cross_entropy, nn.CrossEntropyLoss(reduction="none")):
        theirs = build(three, loss=loss)
        for a, b in zip(ours, theirs.clipped_sum(X, labels), strict=True):
            assert np.allclose(a, b)
        # The label is unknown as well: both are linear between the labels.
        parts = [
            g.information(X, labels, lambda n: (n**0, n**0), parts=("matrix",))["matrix"]
            for g in (build(three), theirs)
        ]
        assert np.allclose(*parts)
    squared = build(one, None, loss=lambda out, y: (out - y) ** 2)
    assert np.allclose(
        2.0 * build(one, None).clipped_sum(X, numbers)[1], squared.clipped_sum(X, numbers)[1]
    )
    odds = build(one, 2, loss=F.binary_cross_entropy_with_logits)
    pair = labels % 2
    for a, b in zip(odds.clipped_sum(X, pair), build(one, 2).clipped_sum(X, pair), strict=True):
        assert np.allclose(a, b)
    brier = build(three, loss=squared_probability_loss)
    outputs = torch.tensor(brier.predict_raw(X))
    expected = squared_probability_loss(outputs, torch.tensor(labels)).numpy()
    assert np.allclose(brier.clipped_sum(X, labels)[1], expected)
    with pytest.warns(PrivacyLeakWarning, match="abs"):
        build(one, None, loss=F.l1_loss)
    with pytest.raises(TypeError, match="`loss` must be None or a function"):
        build(three, loss=3)
    with pytest.raises(ValueError, match="no gradient"):
        build(three, loss=lambda outputs, target: 1.0)


def test_seeds_make_the_module_and_leave_torch_alone():
    before = torch.random.get_rng_state()
    first, again, other = (build(sequence(), seed=seed).parameters for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(5)
    assert np.array_equal(build(sequence(), seed=1).parameters, first)


def test_a_module_that_is_handed_out_twice_is_not_shared():
    shared = nn.Linear(6, 3)
    kept = shared.weight.detach().clone()
    one, two = build(lambda: shared), build(lambda: shared)
    one.parameters = np.zeros(21)
    assert two.parameters.any()
    assert torch.equal(shared.weight, kept)


def test_gradients_can_be_pickled():
    gradients = build(Top)
    again = pickle.loads(pickle.dumps(gradients))
    X, y = np.ones((2, 6)), np.array([0, 1])
    again.parameters = gradients.parameters = np.linspace(-1, 1, 21)
    assert np.array_equal(again.clipped_sum(X, y)[0], gradients.clipped_sum(X, y)[0])
    assert np.array_equal(again.predict_raw(X), gradients.predict_raw(X))
    assert np.array_equal(copy.deepcopy(gradients).predict_raw(X), gradients.predict_raw(X))


class Top(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x):
        return self.linear(x)


def test_wrong_derivatives_of_torch_are_found():
    class Wrong(torch.autograd.Function):
        """A square whose second derivative is off."""

        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**2, x.clone()

        @staticmethod
        def setup_context(context, inputs, output):
            context.save_for_backward(output[1])
            context.save_for_forward(output[1])
            context.mark_non_differentiable(output[1])

        @staticmethod
        def backward(context, change, _):
            return 2.0 * context.saved_tensors[0] * change

        @staticmethod
        def jvp(context, change):
            return 2.0 * context.saved_tensors[0] * change, None

    with pytest.raises(ValueError, match="wrongly"):
        build(with_other(lambda out, x: Wrong.apply(out)[0]))
