"""
Extracting a canary from a language model
=========================================

One token of a sequence is secret, and a language model takes noisy steps on that sequence: [FANO23]
section 6.3 asks how well the token can be extracted, and bounds it by Fano's inequality. This
script plays the game with a small transformer and vocabularies of 5,000 and 50,257 tokens (those of
GPT-2), with the attack of the paper and with the best one there is, and adds the trade-off bound of
[HMB23] with the run without the canary as reference. It stops with an error where an attack passes
a bound.

[FANO23] Guo, Sablayrolles, Sanjabi. Analyzing Privacy Leakage in Machine Learning via Multiple
Hypothesis Testing: A Lesson From Fano. ICML 2023.

[HMB23] Hayes, Mahloujifar, Balle. Bounding Training Data Reconstruction in DP-SGD. NeurIPS 2023.
"""

# %%
# The bounds at the paper's point
# -------------------------------
# The paper's axis is epsilon = 2 T / sigma^2: the largest Kullback-Leibler divergence of what T
# steps release under two tokens, whose clipped gradients are at most 2 C apart. The run without the
# canary is only C away from every token, and no decision can have more than one of M tokens.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from _reproduction import Reproduction

from skleak.bounds import fano_advantage, gdp_advantage, renyi_fano_advantage

page = Reproduction(
    __file__,
    "FANO23",
    "section 6.3",
    "a canary in a language model",
    "The bounds of the paper's vocabulary of 50,257 tokens, exactly; games with a small model "
    "that is trained here, 30 to 400 a point (the paper: GPT-2).",
)
orders = np.concatenate([[1.0], 1.0 + np.geomspace(1e-3, 255.0, 200)])


def bounds(epsilon, n_tokens):
    """Advantages that the bounds allow."""
    mu = np.sqrt(epsilon / 2.0)
    return {
        "Fano, order 1": fano_advantage(epsilon, n_tokens),
        "generalized Fano": renyi_fano_advantage(epsilon * orders, orders, n_tokens, refine=False),
        "trade-off": gdp_advantage(2.0 * mu, n_tokens, reference_mu=mu),
    }


levels = [2.0, 6.0, 12.0, 50.0]
table = pd.DataFrame({epsilon: bounds(epsilon, 50257) for epsilon in levels}).T
print("Advantage that the bounds allow, of 50,257 tokens, by epsilon")
print(table.round(5).to_string())
for bound, published in (("Fano, order 1", 0.62), ("generalized Fano", 0.48)):
    what = f"epsilon 6, 50,257 tokens: {bound}"
    page.number(what, published, table.loc[6.0, bound], 0.005, source="formula")
what = "epsilon 6, 50,257 tokens: trade-off bound"
page.number(what, None, table.loc[6.0, "trade-off"], source="ours")
if table.loc[6.0, "generalized Fano"] < 50.0 * table.loc[6.0, "trade-off"]:
    raise ValueError("The trade-off bound is less than 50 times below the paper's.")

# %%
# The model
# ---------
# The games need torch (``pip install 'skleak[torch]'``); their kept results do not. The model is
# trained on public tokens first, a stream in which each token has a usual successor and frequencies
# are those of words (Zipf's law); the secret and its context come after.
from skleak.plotting import CanaryDisplay

SIZES = (5000, 50257)


def public_model(n_tokens, n_steps=60, length=8, batch=32):
    """Small transformer that has seen a stream of public tokens."""
    import torch

    from skleak.neural import causal_transformer

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model = causal_transformer(n_tokens)
    frequency = 1.0 / np.arange(1.0, n_tokens + 1.0)
    frequency /= frequency.sum()
    successor = rng.choice(n_tokens, size=n_tokens, p=frequency)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(n_steps):
        text = rng.choice(n_tokens, size=(batch, length), p=frequency)
        for place in range(1, length):
            usual = rng.random(batch) < 0.7
            text[usual, place] = successor[text[usual, place - 1]]
        ids = torch.as_tensor(text)
        loss = torch.nn.functional.cross_entropy(
            model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(
        f"{n_tokens:,} tokens: loss {loss.item():.2f} after training, {np.log(n_tokens):.2f} before"
    )
    return model


# %%
# The games
# ---------
# Each game draws a secret, trains, and lets two attackers guess: the paper's names the token whose
# log-probability rose most; the other computes the posterior from the noisy gradient and the
# gradients of all candidates, which it never holds: inner products with all of them are one forward
# derivative, and their norms follow from the gradients of the 32 numbers that the output layer
# reads. The loss is that of the secret token alone, the worst case.
context = [11, 7, 42, 3]
GAMES = ((5000, 1, 400), (50257, 1, 100), (5000, 4, 30))


def play(model, n_tokens, n_steps, epsilon, **options):
    """All games with one model."""
    from skleak.neural import CanaryExtraction

    game = CanaryExtraction(
        model,
        candidates=n_tokens,
        n_steps=n_steps,
        noise_multiplier=np.sqrt(2.0 * n_steps / np.array(epsilon)),
        context_loss=False,
        n_draws=300,
        **options,
    )
    return game.fit(context).results_


def compute():
    """Results of all games, with trained models and with a fresh one."""
    from skleak.neural import causal_transformer

    models = {n_tokens: public_model(n_tokens) for n_tokens in SIZES}
    found = {}
    for n_tokens, n_steps, n_releases in GAMES:
        epsilon = levels if n_steps == 1 else levels[2:]
        model = models[n_tokens]
        results = play(model, n_tokens, n_steps, epsilon, n_releases=n_releases)
        found[f"{n_tokens} tokens, T = {n_steps}"] = results
    fresh = causal_transformer(50257)
    found["fresh"] = play(fresh, 50257, 1, levels, attacks="posterior", n_releases=1)
    return found


found = {name: pd.DataFrame(part) for name, part in page.results(compute).items()}
games = {name: part for name, part in found.items() if name != "fresh"}
shown = ["epsilon", "attack", "success", "success_low", "success_high", "bayes", "tradeoff"]
for name, results in games.items():
    print(name)
    print(results[[*shown, "generalized_fano"]].round(4).to_string(index=False))

# %%
# No attack passes a bound. Of 5,000 tokens the paper's attack is far from the best one: noise moves
# the logit of each token by as much as its gradient is long, in a trained model these lengths
# differ, and it names the longest. What it finds is no measure of what is there to be found.
for name, results in games.items():
    excess = np.max(results["success_low"] - results[["tradeoff", "generalized_fano"]].min(axis=1))
    page.claim(
        f"{name}: an attack passes a bound (largest excess of its interval)",
        "nowhere",
        max(float(excess), 0.0),
        bool(excess <= 1e-9),
    )
    if "bound exceeded" in set(results["verdict"]):
        raise ValueError("An attack passes a bound.")
    best = results[results["attack"] == "posterior"]
    certain = best["bayes"] - 4.0 * best["bayes_error"] - 1e-9
    if np.any(best["success_high"] < 0.8 * certain) or np.any(certain > best["tradeoff"]):
        raise ValueError("The best attack misses its value, or that passes the trade-off bound.")

# %%
# How near the bound is depends on the model. Before training the gradients of the tokens are nearly
# orthogonal, as in the worst case; in the trained model they have more in common, and clipping
# leaves less of what tells them apart.
best = {
    "best attack, trained model": games["50257 tokens, T = 1"],
    "best attack, fresh model": found["fresh"],
}
rows = {
    name: results.drop_duplicates("epsilon").set_index("epsilon")["bayes"]
    for name, results in best.items()
}
rows["trade-off bound"] = found["fresh"].set_index("epsilon")["tradeoff"]
for name, values in rows.items():
    what = f"epsilon 6, 50,257 tokens, T = 1: {name} (success)"
    page.number(what, None, values[6.0], source="ours")
print("Success on 50,257 tokens, T = 1")
print(pd.DataFrame(rows).sort_index().round(5).to_string())

# %%
# On the paper's axis Fano's bounds say nothing at epsilon = 12, where the token is still safe from
# everybody in nine games out of ten.
figure, axes = plt.subplots(1, 2, figsize=(12.0, 4.6), sharey=True, layout="constrained")
for ax, n_tokens in zip(axes, SIZES, strict=True):
    CanaryDisplay(games[f"{n_tokens} tokens, T = 1"], name=f"{n_tokens:,} tokens").plot(ax)
axes[0].get_legend().remove()
axes[1].set_ylabel("")
page.close()
plt.show()
