"""
Fano's bound over information and randomized response
=====================================================

[FANO23] bounds what an attacker can gain on a secret with M values by Fano's inequality. Its
message is that of this example: as long as the release holds far less than log M nats of
information about the secret, nobody gains much, and for randomized response under a uniform prior
the bound is exact.

The curves are those of [FANO23] figure 2, recomputed: the bound and the closed-form baseline over
the information for several M, and the attacker, the bounds from information, from Rényi
differential privacy and from reconstruction robustness for randomized response. The script stops
with an error if an order or an equality that the paper states does not hold.

[FANO23] Guo, Sablayrolles, Sanjabi. Analyzing Privacy Leakage in Machine Learning via Multiple
Hypothesis Testing: A Lesson From Fano. ICML 2023.
"""

# %%
# The bound over the information
# ------------------------------
# Nothing of size M is ever built, so M may be ten billion. Advantage is success beyond the best
# blind guess, over what is left to gain: 0 for guessing, 1 for certainty.
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from _ladder import fano_curves, plot_fano_panels, plot_fano_together, plot_ladder
from _reproduction import Reproduction

from skleak.bounds import (
    closed_form_fano_advantage,
    fano_advantage,
    reconstruction_robustness_advantage,
    renyi_fano_advantage,
)
from skleak.channels import RandomizedResponse

page = Reproduction(
    __file__,
    "FANO23",
    "figure 2",
    "Fano's bound over information, and randomized response",
    "The sizes M = 2, 10, 100 and 10 billion; 50 probabilities of a random answer. All is computed "
    "in every run of the script.",
)
sizes = [2, 10, 100, 10**10]
curves = fano_curves(sizes)
_, ax = plt.subplots(figsize=(8.0, 4.4), layout="constrained")
plot_fano_together(ax, curves, ["Fano", "closed-form Fano"])
ax.set_title("The advantage climbs to 1 when the information nears log M", fontsize="medium")

# %%
# How many nats does an advantage of one half take? For large M about log(M) / 2, while the
# baseline says nothing at all where M = 2, and keeps a floor for the others.
half = {
    f"M = {size:,}": {
        "log M": np.log(size),
        "nats at advantage 0.5": np.interp(0.5, fano, curves.index),
        "baseline without information": closed_form_fano_advantage(0.0, size),
    }
    for size, (_, fano) in zip(sizes, curves.xs("Fano", level=1, axis=1).items(), strict=True)
}
print(pd.DataFrame(half).T.round(4).to_string())

# %%
# A bound on the divergence of a higher order says more than the same bound on the information.
plot_fano_panels(curves)

# %%
# Randomized response
# -------------------
# The truth with probability 1 - q, else a uniform draw ([FANO23] eq. 8). The attacker who guesses
# the likeliest value (MAP) guesses the release. Information is exact, and the Rényi divergences,
# which look at the worst pair of values alone, are minimized over the order.
orders = 1.0 + np.geomspace(1e-3, 1e3, 400)


def advantages(channels):
    """Advantage of the best attack on each channel, and bounds on it, under a uniform prior."""
    size = channels[0].n_values
    information = [channel.mutual_information() for channel in channels]
    order_one = [channel.renyi_divergence(1.0) for channel in channels]
    epsilon = [channel.renyi_divergence(orders) for channel in channels]
    return {
        "Bayes": [channel.bayes_advantage() for channel in channels],
        "Fano, exact information": fano_advantage(information, size),
        "closed-form Fano": closed_form_fano_advantage(information, size),
        "generalized Fano": np.minimum(
            renyi_fano_advantage(order_one, 1.0, size, refine=False),
            renyi_fano_advantage(epsilon, orders, size, refine=False),
        ),
        "reconstruction robustness": reconstruction_robustness_advantage(
            epsilon, orders, size, refine=False
        ),
    }


flips = np.linspace(0.01, 0.99, 50)
tables = {
    size: pd.DataFrame(advantages([RandomizedResponse(q, size) for q in flips]), index=flips)
    for size in sizes
}
for size, table in tables.items():
    print(f"\nRandomized response, M = {size:,}, over the probability q of a random answer")
    print(table.iloc[::12].round(4).to_string())

# %%
# The order of the paper, and the equality: under a uniform prior Fano's bound with the exact
# information is what the attacker reaches.
for size, table in tables.items():
    np.testing.assert_allclose(table["Bayes"], 1.0 - flips, atol=1e-12)
    np.testing.assert_allclose(table["Fano, exact information"], table["Bayes"], atol=1e-9)
    ladder = ["Bayes", "Fano, exact information", "generalized Fano", "reconstruction robustness"]
    for lower, upper in pairwise(ladder):
        if np.any(table[lower] > table[upper] + 1e-9):
            raise ValueError(f"{lower} exceeds {upper} at M = {size}.")
    if np.any(table["Fano, exact information"] > table["closed-form Fano"] + 1e-9):
        raise ValueError(f"Fano exceeds its closed-form relaxation at M = {size}.")

# %%
# The paper prints no numbers in this figure; what it states of the curves is compared.
for size, table in tables.items():
    gap = np.max(np.abs(table["Fano, exact information"] - table["Bayes"]))
    what = f"randomized response, M = {size:,}: "
    page.claim(
        what + "Fano with exact information against the best attack", "equal", gap, gap < 1e-9
    )
    rungs = [table[name] for name in ladder]
    excess = max(np.max(lower - upper) for lower, upper in pairwise(rungs))
    page.claim(
        what + "attack, Fano, generalized Fano, reconstruction robustness (largest excess)",
        "in this order",
        float(max(excess, 0.0)),
        bool(excess < 1e-9),
    )
    excess = np.max(table["Fano, exact information"] - table["closed-form Fano"])
    page.claim(
        what + "Fano above its closed form (largest excess)",
        "nowhere",
        float(max(excess, 0.0)),
        bool(excess < 1e-9),
    )
for name, values in half.items():
    page.number(f"{name}: nats at advantage 0.5", None, values["nats at advantage 0.5"])

# %%
# So does the attack when it is run: 20,000 releases for each point.
rng = np.random.default_rng(0)
trials = 20_000
for q in flips[::12]:
    channel = RandomizedResponse(q, 10)
    secrets = rng.integers(10, size=trials)
    guesses = channel.bayes_decision(channel.sample(secrets, random_state=rng))
    success = np.mean(guesses == secrets)
    deviation = np.sqrt(success * (1.0 - success) / trials)
    if abs(success - channel.bayes_success()) > 5.0 * deviation + 1e-12:
        raise ValueError(f"The simulated attack misses its success probability at q = {q:.2f}.")

# %%
# The panels show why the information matters for large M: bounds from the worst pair of values
# are far from what the attacker reaches.
figure, axes = plt.subplots(
    1, len(sizes), figsize=(13.0, 3.6), sharex=True, sharey=True, layout="constrained"
)
for ax, (size, table) in zip(axes, tables.items(), strict=True):
    noise = "probability q of a random answer"
    plot_ladder(ax, table, f"M = {size:,}", noise, legend=ax is axes[-1])
    ax.label_outer()
axes[0].set_xlim(0.0, 1.0)
page.close()
plt.show()
