"""The extraction game, against gradients of every candidate by autograd."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from skleak.metrics.verdicts import CONSISTENT, EXCEEDED
from skleak.neural import CanaryExtraction, causal_transformer
from skleak.neural.gradients import make_clipping

torch = pytest.importorskip("torch")
from skleak.neural.canary.torch import KnownStep, SecretSequence, check_structure  # noqa: E402

CONTEXT = np.array([1, 5, 3, 2])
CANDIDATES = np.array([3, 7, 1, 11, 0])


def transformer(seed=0, **options):
    """Of 12 tokens, in double precision, with parameters of every size."""
    torch.manual_seed(seed)
    module = causal_transformer(12, width=6, **options).double()
    for values in module.parameters():
        values.data += 0.3 * torch.randn_like(values)
    return module


def untied():
    module = transformer()
    module.output = torch.nn.Linear(6, 12).double()
    return module


def frozen_output():
    module = untied()
    module.output.requires_grad_(False)
    return module


class Scaled(torch.nn.Module):
    """Logits that no linear layer returns, in an output of transformers."""

    def __init__(self):
        super().__init__()
        self.inner = transformer()

    def forward(self, ids):
        return SimpleNamespace(logits=2.0 * self.inner(ids))


MODULES = {"tied": transformer, "untied": untied, "frozen": frozen_output, "scaled": Scaled}


@pytest.mark.parametrize("kind", MODULES)
def test_the_posterior_is_that_of_the_gradients_of_all_candidates(kind, rng):
    for context_loss in (True, False):
        module = MODULES[kind]()
        sequence = SecretSequence(
            module, CONTEXT, CANDIDATES, context_loss=context_loss, device="cpu"
        )
        moved = sequence.start + 0.2 * torch.randn_like(sequence.start)
        games = torch.stack([moved, sequence.start, moved])
        released = torch.randn_like(games)
        many = KnownStep(sequence, games, shared=False)
        one = KnownStep(sequence, sequence.start, shared=True)
        tokens = torch.as_tensor(CANDIDATES)
        for name in ("hard", "smooth"):
            clipping = make_clipping(name, 5.0)
            likelihood = many.log_likelihood(released, clipping)
            shared = one.log_likelihood(released, clipping)
            np.testing.assert_allclose(shared[1], likelihood[1], atol=1e-9)
            for game, values in enumerate((moved, sequence.start, moved)):
                known = KnownStep(sequence, values, shared=True)
                gradients = known.gradients(tokens).numpy()
                norms = np.linalg.norm(gradients, axis=1)
                clipped = gradients / clipping.divisor(norms)[:, np.newaxis]
                y = released[game].numpy()
                direct = -0.5 * np.sum((y - clipped) ** 2, axis=1) + 0.5 * np.sum(y**2)
                np.testing.assert_allclose(likelihood[game], direct, atol=1e-9)
                structure = many.candidates[game]
                products = structure.inner_products(np.arange(len(CANDIDATES)))
                np.testing.assert_allclose(products, gradients @ gradients.T, atol=1e-9)


def test_gradients_are_those_of_plain_backward_passes():
    module = transformer()
    for context_loss, first in ((True, 0), (False, len(CONTEXT) - 1)):
        sequence = SecretSequence(
            module, CONTEXT, CANDIDATES, context_loss=context_loss, device="cpu"
        )
        step = KnownStep(sequence, sequence.start, shared=True)
        found = step.gradients(torch.tensor([7]))
        module.zero_grad()
        targets = torch.tensor([*CONTEXT[1:], 7])
        logits = module(torch.as_tensor(CONTEXT)[None])[0]
        torch.nn.functional.cross_entropy(logits[first:], targets[first:]).backward()
        expected = torch.cat([values.grad.flatten() for values in module.parameters()])
        torch.testing.assert_close(found[0], expected)


def game(**parameters):
    defaults = {"candidates": 30, "noise_multiplier": [0.4, 1.0], "n_releases": 60, "n_draws": 200}
    return CanaryExtraction(**(defaults | parameters))


def test_tables_and_seeds():
    found = game(context_loss=False).fit([3, 1, 4])
    results = found.results_
    assert results["attack"].tolist() == 2 * ["log_likelihood", "posterior"]
    np.testing.assert_allclose(results["epsilon"], 2.0 / results["noise_multiplier"] ** 2)
    order = ["bayes", "tradeoff", "generalized_fano", "fano_order_1"]
    assert np.all(np.diff(results[order].to_numpy(), axis=1) >= 0.0)
    games = found.games_
    for row in results.itertuples():
        level = games[games["noise_multiplier"] == row.noise_multiplier]
        assert row.success == np.mean(level["secret"] == level[f"guess_{row.attack}"])
    assert (found.candidates_ == np.arange(30)).all()
    assert found.n_parameters_ == sum(p.numel() for p in causal_transformer(30).parameters())
    again = clone(found).fit([3, 1, 4])
    assert again.games_.equals(games)
    assert again.results_.equals(results)
    assert not game(context_loss=False, random_state=1).fit([3, 1, 4]).games_.equals(games)


def test_the_paper_s_attack_alone_has_no_best_value_over_several_steps():
    found = game(attacks="log_likelihood", n_steps=2, n_releases=3).fit([3, 1])
    assert found.results_["attack"].tolist() == 2 * ["log_likelihood"]
    assert found.results_["bayes"].isna().all()
    assert "top_posterior" not in found.games_
    assert found.plot().ax_.get_title() == "One of 30 tokens, T = 2"


def test_without_noise_everything_is_found_and_no_bound_holds_it():
    found = game(noise_multiplier=0, candidates=[7, 2, 9], n_steps=2).fit([1])
    assert (found.results_["success"] == 1.0).all()
    assert (found.results_[["bayes", "tradeoff"]] == 1.0).all(axis=None)
    assert set(found.games_["secret"]) == {2, 7, 9}


def test_the_module_and_the_state_of_torch_stay_as_they_are():
    module = transformer().float()
    before = {name: values.clone() for name, values in module.state_dict().items()}
    state = torch.random.get_rng_state()
    game(module=module, candidates=CANDIDATES, n_steps=2, n_releases=3).fit(CONTEXT)
    game(module=lambda: causal_transformer(12, width=4), candidates=12, n_releases=3).fit(CONTEXT)
    assert torch.equal(state, torch.random.get_rng_state())
    for name, values in module.state_dict().items():
        assert torch.equal(values, before[name])
    assert not module.output._forward_pre_hooks


class InPlace(Scaled):
    """The output layer's very tensor, after it was changed."""

    def forward(self, ids):
        return self.inner(ids).mul_(2.0)


class Counting(Scaled):
    """Logits that depend on how often they were asked for."""

    calls = 0

    def forward(self, ids):
        self.calls += 1
        return self.calls * self.inner(ids)


def test_an_output_that_was_changed_in_place_is_no_linear_layer():
    sequence = SecretSequence(InPlace(), CONTEXT, CANDIDATES, context_loss=True, device="cpu")
    assert sequence.layer is None
    check_structure(KnownStep(sequence, sequence.start, shared=True), np.random.default_rng(0))


def test_divergence_is_no_result():
    with pytest.raises(FloatingPointError, match="learning_rate"):
        game(learning_rate=1e30, n_steps=2, n_releases=3).fit([1, 2])


@pytest.mark.parametrize(
    "parameters, context, message",
    [
        ({"attacks": "guess"}, [1], "log_likelihood"),
        ({"candidates": [1, 1]}, [1], "different"),
        ({"candidates": [1.5, 2.0]}, [1], "whole numbers"),
        ({}, [], "whole numbers"),
        ({}, [[1, 2]], "shape"),
        ({"noise_multiplier": [1.0, -1.0]}, [1], "noise_multiplier"),
        ({"module": lambda: torch.nn.Embedding(30, 4)}, [1], "must be tokens of `module`"),
        ({"module": lambda: torch.nn.Flatten()}, [1], "gradient"),
        ({"module": lambda: causal_transformer(20)}, [1], "20"),
        ({"module": lambda: causal_transformer(30)}, [30], "`context`"),
        ({"module": Counting, "candidates": CANDIDATES}, [1, 2], "whenever it is called"),
    ],
)
def test_bad_input_is_refused(parameters, context, message):
    with pytest.raises(ValueError, match=message):
        game(**parameters).fit(context)


def test_what_is_no_module_is_refused():
    with pytest.raises(TypeError, match="must return a torch"):
        game(module=dict).fit([1])
    with pytest.raises(ValueError, match="multiple"):
        causal_transformer(10, width=5)


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("clipping", ["hard", "smooth"])
def test_no_attack_exceeds_a_bound(n_steps, clipping):
    for context_loss in (True, False):
        for candidates, context in ((2, [0]), (40, [3, 1, 4]), (300, [5, 9])):
            found = game(
                module=lambda: causal_transformer(300, width=8),
                candidates=candidates,
                noise_multiplier=np.sqrt(n_steps) * np.array([0.2, 0.5, 2.0]),
                n_steps=n_steps,
                clipping=clipping,
                context_loss=context_loss,
                n_releases=300,
                max_grad_norm=0.5,
                learning_rate=0.01,
                confidence_level=0.999,
            ).fit(context)
            assert EXCEEDED not in set(found.results_["verdict"])
            assert CONSISTENT in set(found.results_["verdict"])


@pytest.mark.slow
def test_the_posterior_attack_reaches_the_best_value():
    """The games go through all parameters, the value through inner products alone."""
    found = game(
        candidates=1000, noise_multiplier=[0.25, 0.4], n_releases=3000, n_draws=4000,
        context_loss=False, confidence_level=0.9999,
    ).fit([3, 1, 4])  # fmt: skip
    rows = found.results_[found.results_["attack"] == "posterior"]
    assert np.all(rows["success"] >= 0.8 * rows["bayes"])
    assert np.all(rows["success_low"] <= rows["bayes"] + 4.0 * rows["bayes_error"])
    assert np.all(rows["success_high"] >= rows["bayes"] - 4.0 * rows["bayes_error"])
