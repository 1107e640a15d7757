"""
Balanced weights where the paper's iteration stalls
===================================================

IRFIL ([FIL21] algorithm 1) gives every record a weight, refits, divides each weight by what its
record leaks, and repeats this until all records leak the same. Under a weak penalty that creeps:
the default number of refits ends with some people leaking a tenth more than others. skleak
reaches the same fixed point in a dozen refits, by Newton's method.

This script counts passes over the data for the paper's iteration (``method="plain"`` of `IRFIL`)
and for Newton's method (``"newton"``, the same as the default ``"accelerated"``).

[FIL21] Hannun, Guo, van der Maaten. Measuring Data Leakage in Machine-Learning Models with Fisher
Information. UAI 2021.
"""

# %%
# What a stalled iteration means
# ------------------------------
# A model of the income of people in a census, in which whether a person is married is to leak the
# same for everyone. An estimator warns where its refits did not get that far.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skleak.datasets import fetch_adult, fetch_iwpc
from skleak.influence.jacobian import Columns, FitFactor
from skleak.influence.reweighting import equalize, newton_direction
from skleak.influence.state import WeightRule
from skleak.linear_model import IRFIL, PrivateLinearRegression
from skleak.losses import SquaredLoss
from skleak.solvers import Objective, minimize

people, income = fetch_adult(encoded=True, return_X_y=True)
ALPHA, TOL = 1e-5, 1e-8
exposure, warned, weights = {}, {}, {}
for method in ("plain", "newton"):
    model = PrivateLinearRegression(
        1e-3,
        alpha=ALPHA,
        reweighting=IRFIL(features=["married"], method=method, tol=TOL),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(people, income)
    losses = model.fisher_information_loss(features=["married"], conditional=True)
    exposure[method], warned[method] = losses.max() / losses.min(), bool(caught)
    weights[method] = model.sample_reweights_
    print(f"{method}: {len(model.reweighting_history_)} fits, and the most exposed person leaks")
    print(f"  {exposure[method]:.4f} times what the least exposed one does")
    for warning in caught:
        print(f"  {warning.message}")
if not (warned["plain"] and exposure["plain"] > 1.05):
    raise ValueError("The paper's iteration should stall, and say so.")
if warned["newton"] or exposure["newton"] > 1.0001:
    raise ValueError("The default should balance the leakage.")

# %%
# The warning is worth taking seriously. The weights of an iteration that stopped early are those
# of the refit at which it stopped, and the people they were to protect may still leak most. They
# are not at the fixed point either, so that what the weights themselves give away cannot be
# counted: ``fisher_information_loss_`` warns as well. Allow more refits
# (``max_iter``), use a stronger penalty, or say by ``tol`` which spread is
# good enough. Some problems have no fixed point, or one so nearly singular that no method gets
# there; then the warning stays, whatever the number of refits.
#
# Why Newton's method is affordable
# ---------------------------------
# All weights change all leakages, so that the linear system of Newton's method has one unknown per
# record. But weights see each other only through the coefficients and their Hessian, of which
# there are few numbers, and there the system is the identity plus the effect of the weights. A
# Krylov method solves it with some 5 to 30 products, each of them one pass over the data, and
# never writes it out.
#
# Counting passes
# ---------------
# The loop of the estimator in a few lines, with a counter: every Newton step of a refit is a pass,
# as is measuring all leakages, and as is every product.


def watch(X, y, alpha: float, columns: Columns, method: str, most_refits: int):
    """Passes over the data after each refit, the spread of the leakage then, and the weights."""
    one, loss = np.ones(len(y)), SquaredLoss()
    objective = Objective(X, y, loss, alpha, True, one, one)
    rule = WeightRule(columns, "spectral")  # IRFIL's: a level over what the record leaks
    count, passes, start = 0, [], None

    def factor_of(minimum) -> FitFactor:
        return FitFactor(minimum.coefficients, minimum.inverse_hessian, loss, True)

    def measure(omega):
        nonlocal count, start
        minimum = minimize(objective.reweighted(omega), start=start)
        start = minimum.coefficients
        count += minimum.n_iter + 1
        passes.append(count)
        return omega * rule.norms(factor_of(minimum), X, y), minimum

    def newton(omega, minimum, residual, rtol):
        nonlocal count
        reweighted, factor = objective.reweighted(omega), factor_of(minimum)
        direction = newton_direction(reweighted, factor, rule, residual, rtol=rtol)
        count += 1 + direction.n_products
        return direction.change

    result = equalize(
        measure,
        one,
        max_iter=most_refits,
        tol=TOL,
        newton=None if method == "plain" else newton,
    )
    return passes, np.minimum.accumulate(result.history), result.reweights


patients, dose = fetch_iwpc(encoded=True, return_X_y=True)
married = Columns(np.array([list(people.columns).index("married")]))
problems = {
    "IWPC, the whole record": (patients, dose, Columns(target=True), 200),
    "Adult, marital status": (people, income, married, 60),
}
METHODS = {"plain": "#a3260f", "newton": "#2e7d5b"}
found = {}
for name, (X, y, columns, most) in problems.items():
    X, y = X.to_numpy(dtype=float), np.asarray(y, dtype=float)
    for method in METHODS:
        found[name, method] = watch(X, y, ALPHA, columns, method, most)
        passes, spreads, omega = found[name, method]
        print(f"{name:24} {method:12} {len(passes):4} refits, {passes[-1]:4} passes: ", end="")
        print(f"spread {spreads[-1]:.0e}")
        if method != "plain" and spreads[-1] > TOL:
            raise ValueError(f"{name}: `{method}` should reach a spread of {TOL:g}.")
    plain = found[name, "plain"]
    if plain[1][-1] <= TOL and found[name, "newton"][0][-1] > plain[0][-1]:
        raise ValueError(f"{name}: Newton's method should need fewer passes than the plain way.")
gap = np.max(np.abs(found[name, "newton"][2] / weights["newton"] - 1.0))
print(f"weights of the estimator and of the loop: {gap:.0e} apart")
if gap > 1e-4:
    raise ValueError("The loop above should find the weights of the estimator.")

# %%
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained", sharey=True)
for ax, name in zip(axes, problems, strict=True):
    for method, color in METHODS.items():
        passes, spreads, _ = found[name, method]
        ax.plot(passes, spreads, "o-", color=color, ms=3, lw=1.2, label=method)
    ax.axhline(TOL, color="#1b2430", ls=":", lw=1.0)
    ax.set(yscale="log", xlabel="passes over the data", title=f"{name}, alpha 1e-5")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("relative spread of the leakage")
axes[0].legend(frameon=False, title="method")
plt.show()
