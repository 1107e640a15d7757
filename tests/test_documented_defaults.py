"""A default that is documented is the one in the signature."""

import importlib
import inspect
import pkgutil
import re

import numpy as np

import skleak

DEFAULT = re.compile(r"^ *(\w+(?:, \w+)*) : .*?default=(.+?)$", re.MULTILINE)
NEXT_SECTION = re.compile(r"\n *-{3,}\n")
# They need extras: torch and MLflow.
NOT_IMPORTED = ("skleak.neural", "skleak.tracking._evaluator")


def _documented(thing):
    """Names of parameters and the text of their defaults."""
    _, _, rest = (thing.__doc__ or "").partition("Parameters\n")
    for names, default in DEFAULT.findall("".join(NEXT_SECTION.split(rest, 2)[:2])):
        for name in names.split(", "):
            yield name, default


def _callables():
    """Every function, method and class of the library once."""
    for found in pkgutil.walk_packages(skleak.__path__, "skleak."):
        if found.name.startswith(NOT_IMPORTED) or found.name.endswith("__main__"):
            continue
        for thing in vars(importlib.import_module(found.name)).values():
            if getattr(thing, "__module__", None) != found.name:
                continue
            if inspect.isclass(thing):
                members = (getattr(member, "__func__", member) for member in vars(thing).values())
                yield from filter(inspect.isfunction, members)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield thing


def test_documented_defaults_are_those_of_the_signature():
    checked = 0
    for thing in _callables():
        for name, text in _documented(thing):
            default = inspect.signature(thing).parameters[name].default
            if isinstance(default, bool | int | float | str):
                where = f"{thing.__module__}.{thing.__qualname__}({name})"
                documented = eval(text, {"inf": np.inf, "nan": np.nan})
                assert isinstance(documented, bool) == isinstance(default, bool), where
                np.testing.assert_equal(documented, default, where)
                checked += 1
    assert checked > 150
