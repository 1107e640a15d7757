"""What is public: every name in the ``__all__`` of a package, and where it is documented."""

import importlib
import inspect
import pkgutil
from typing import Any

import skleak

# Front doors for the other packages of the library alone.
INTERNAL = {"_release", "adversary", "cli", "losses", "solvers", "utils"}

# What the public objects of a package return, or are passed: documented, but imported by nobody.
RETURNED = {
    "skleak.accounting": ["skleak.accounting.ledger._ledger.LeakageTotal"],
    "skleak.influence": ["skleak.influence.noise._minimax_shape.MinimaxShape"],
    "skleak.inspection": [
        "skleak.inspection.scoring.LeakageScorer",
        "skleak.inspection.tradeoff.Choice",
    ],
    "skleak.mechanisms": [
        "skleak.mechanisms.goals.MeasuredFit",
        "skleak.mechanisms.goals.PublicProblem",
        "skleak.mechanisms.grids.GridRelease",
        "skleak.utils._confidential.CalibratedNoise",
    ],
    "skleak.metrics": [
        "skleak.metrics.intervals.Interval",
        "skleak.metrics.scores.ErrorDecomposition",
        "skleak.metrics.scores.GeneralizationGap",
        "skleak.metrics.verdicts.RecordsAbove",
    ],
    "skleak.neural": [
        "skleak.neural._releasing.ReleasedNetwork",
        "skleak.neural.inversion.GradientObservation",
        "skleak.neural.report.PrivateSGDReport",
    ],
    "skleak.report": [
        "skleak.report.audit._report.Dossier",
        "skleak.report.guarantee.DifferentialPrivacy",
    ],
}


def public_modules() -> list[str]:
    """Return the names of the modules whose ``__all__`` is the public face."""
    packages = [module.name for module in pkgutil.iter_modules(skleak.__path__) if module.ispkg]
    named = [f"skleak.{name}" for name in packages if name not in INTERNAL]
    return ["skleak", *named, "skleak.exceptions"]


def public_objects() -> dict[str, list[tuple[str, Any]]]:
    """Return name and object of all that is public, by module."""
    found = {}
    for name in public_modules():
        module = importlib.import_module(name)
        exported = list(getattr(module, "__all__", [])) or _defined(module)
        found[name] = [(each, getattr(module, each)) for each in exported]
    # What `release()` returns: nobody imports it by name.
    for module, names in (
        ("skleak._released", None),
        ("skleak._release", ["ReleasedPipeline"]),
    ):
        door = importlib.import_module(module)
        chosen = names or [name for name in _defined(door) if name.startswith("Released")]
        found[module] = [(each, getattr(door, each)) for each in chosen]
    return found


def returned_objects(package: str) -> list[tuple[str, str, Any]]:
    """Return module, name and object of what the objects of a package return or are passed."""
    split = [full.rpartition(".") for full in RETURNED.get(package, ())]
    return [
        (module, name, getattr(importlib.import_module(module), name)) for module, _, name in split
    ]


def _defined(module: Any) -> list[str]:
    """Return the names of what a module without ``__all__`` defines itself."""
    return sorted(
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    )


def _ours(function: Any) -> bool:
    """Return True of what skleak itself wrote."""
    return str(getattr(function, "__module__", None)).startswith("skleak")


def own_members(thing: type) -> tuple[list[str], list[str]]:
    """Return the methods and the properties of a class that skleak itself wrote."""
    methods, properties = [], []
    for name, member in inspect.getmembers(thing):
        if name.startswith("_") or not inspect.getdoc(member):
            continue
        if isinstance(member, property):
            if _ours(member.fget):
                properties.append(name)
        elif inspect.isroutine(member) and _ours(member):
            methods.append(name)
    return methods, properties
