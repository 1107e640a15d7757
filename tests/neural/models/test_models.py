"""The networks of the papers, against the numbers that these state."""

import sys
from functools import partial

import numpy as np
import pytest

from skleak.exceptions import PrivacyLeakWarning
from skleak.neural import PrivateSGDClassifier, models


def test_without_torch_a_network_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"skleak\[torch\]"):
        models.dra22_mnist()


class TestWithTorch:
    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch")

    def count(self, network):
        return sum(weights.numel() for weights in network.parameters())

    def test_numbers_of_parameters(self):
        # Stated by the paper; of its models in TensorFlow Privacy; counted by hand.
        assert self.count(models.dra22_mnist()) == 30_762
        assert self.count(models.dra22_cifar10()) == 550_570
        expected = 16 * 50 + 32 * (36 * 16 + 1) + 64 * (25 * 32 + 1) + 64 * (25 * 64 + 1)
        expected += 64 * (3136 + 1) + 32 * 65 + 10 * 33
        assert self.count(models.bil23_convnet()) == expected
        normed = models.bil23_convnet(batch_norm=True)
        assert self.count(normed) == expected + 2 * (16 + 32 + 64 + 64 + 64 + 32)
        # 8 x 8 pixels of 64 filters are left of an image of CIFAR-10: 4,096 inputs.
        assert models.bil23_convnet(image_shape=(3, 32, 32))[10].in_features == 4096
        expected = 32 * 111 + 16 * 33 + 16 * 17 + 10 * 17
        assert self.count(models.bil23_writers(110)) == expected
        normed = models.bil23_writers(110, batch_norm=True)
        assert self.count(normed) == expected + 2 * (32 + 16 + 16)

    @pytest.mark.parametrize(
        "build, shapes",
        [
            (models.dra22_mnist, [(1, 28, 28), (3, 32, 32), (2, 11, 19)]),
            (models.dra22_cifar10, [(3, 32, 32), (1, 28, 28), (2, 8, 17)]),
            (models.bil23_convnet, [(1, 28, 28), (3, 32, 32), (2, 4, 7)]),
        ],
        ids=lambda value: getattr(value, "__name__", ""),
    )
    def test_flat_rows_of_any_image_give_a_score_per_class(self, build, shapes):
        torch = self.torch
        for channels, height, width in shapes:
            network = build(3, image_shape=(channels, height, width))
            rows = torch.rand(5, channels * height * width, requires_grad=True)
            scores = network(rows)
            assert scores.shape == (5, 3)
            # Records do not mix, and every score depends on its record.
            (gradient,) = torch.autograd.grad(scores[2].sum(), rows)
            assert gradient[2].abs().sum() > 0.0
            assert gradient[[0, 1, 3, 4]].abs().sum() == 0.0
        for shape in [(1, 3, 28), (28, 28), (0, 28, 28)]:
            with pytest.raises(ValueError, match="`image_shape` must be"):
                build(image_shape=shape)

    def test_only_the_networks_of_private_sgd_are_smooth(self):
        nn = self.torch.nn
        for network in (models.dra22_mnist(), models.dra22_cifar10()):
            kinds = {type(layer) for layer in network}
            assert kinds == {
                *(nn.Unflatten, nn.Conv2d, nn.Tanh, nn.AvgPool2d, nn.Flatten, nn.Linear)
            }

    def test_each_call_builds_anew(self):
        first, second = models.dra22_mnist(), models.dra22_mnist()
        assert not self.torch.equal(first[1].weight, second[1].weight)

    def test_the_estimators_take_them(self, rng):
        """Without a warning, but where the activations have kinks, which accounting misses."""
        X, y = rng.random((20, 784)), np.arange(20) % 10
        options = {"max_steps": 2, "sampling_rate": 0.2, "random_state": 0, "device": "cpu"}
        probes = {"accounting": "probes", "n_probes": 1, "account_records": [0]}
        model = PrivateSGDClassifier(models.dra22_mnist, **options, **probes).fit(X, y)
        eta = model.fisher_information_loss([0], norm="trace")
        assert 0.0 < eta[0] < np.inf
        loss = {"loss": models.squared_probability_loss, "accounting": None}
        bounded = PrivateSGDClassifier(models.bil23_convnet, **options, **loss).fit(X, y)
        assert np.all(bounded.history_["loss"] <= 2.0)
        with pytest.warns(PrivacyLeakWarning, match="gradients then jump"):
            PrivateSGDClassifier(models.bil23_convnet, **options, **probes).fit(X, y)

    @pytest.mark.parametrize("build", ["bil23_convnet", "bil23_writers"])
    def test_private_sgd_refuses_to_normalize_over_a_batch(self, rng, build):
        X, y = rng.random((20, 784)), np.arange(20) % 10
        first = {"bil23_convnet": {}, "bil23_writers": {"n_inputs": 784}}[build]
        model = PrivateSGDClassifier(
            partial(getattr(models, build), batch_norm=True, **first),
            max_steps=2,
            sampling_rate=0.2,
            accounting=None,
            device="cpu",
        )
        with pytest.raises(ValueError, match=r"[Bb]atch"):
            model.fit(X, y)

    def test_bounded_loss(self):
        torch = self.torch
        outputs = 300.0 * torch.randn(50, 4)
        outputs[0] = torch.tensor([1e4, 0.0, 0.0, 0.0])
        target = torch.randint(0, 4, (50,))
        target[0] = 2  # surely wrong
        loss = models.squared_probability_loss(outputs, target)
        assert loss.shape == (50,)
        one_hot = torch.nn.functional.one_hot(target, 4)
        expected = (torch.softmax(outputs, -1) - one_hot).square().sum(-1)
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
        assert loss.min() >= -1e-6
        assert loss.max() <= 2.0 + 1e-6
        assert loss[0] == 2.0
        single = models.squared_probability_loss(outputs[3], target[3])
        torch.testing.assert_close(single, loss[3])
        per_record = torch.func.vmap(torch.func.grad(models.squared_probability_loss))
        assert per_record(torch.randn(6, 4), torch.arange(6) % 4).shape == (6, 4)
