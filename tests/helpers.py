"""What several folders of tests share: options in one dictionary, scikit-learn's checks."""

from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from skleak.mechanisms import as_reweighting


def flat(**options):
    """Turn entries such as ``reweighting__tol`` into parameters of the reweighting."""
    inner = {name: options.pop(name) for name in list(options) if name.startswith("reweighting__")}
    reweighting = as_reweighting(options.get("reweighting"))
    if reweighting is not None:
        params = {name.removeprefix("reweighting__"): value for name, value in inner.items()}
        options["reweighting"] = clone(reweighting).set_params(**params)
    return options


def assert_scikit_learn_checks_pass(estimator):
    """Run every check of scikit-learn on one estimator, and name all that fail."""
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert len(results) > 30
    faults = [
        f"{result['check_name']}: {result['exception']!r}"
        for result in results
        if result["status"] not in ("passed", "skipped")
    ]
    assert not faults, estimator
