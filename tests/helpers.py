"""Options of estimators in one flat dictionary, as tests merge them."""

from sklearn.base import clone

from skleak.mechanisms import as_reweighting


def flat(**options):
    """Turn entries such as ``reweighting__tol`` into parameters of the reweighting."""
    inner = {name: options.pop(name) for name in list(options) if name.startswith("reweighting__")}
    reweighting = as_reweighting(options.get("reweighting"))
    if reweighting is not None:
        params = {name.removeprefix("reweighting__"): value for name, value in inner.items()}
        options["reweighting"] = clone(reweighting).set_params(**params)
    return options
