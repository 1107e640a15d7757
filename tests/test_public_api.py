"""What is public is named, sorted, documented and cheap to import."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys

import pytest

import skleak

# Needs an extra, and is imported by those who have it.
OPTIONAL = {"skleak.neural.canary.torch", "skleak.neural.torch", "skleak.tracking._evaluator"}
PACKAGES = [
    f"skleak.{module.name}" for module in pkgutil.iter_modules(skleak.__path__) if module.ispkg
]
# For the other packages alone; their front doors are no part of the public face.
INTERNAL = {
    f"skleak.{name}" for name in ("_release", "adversary", "cli", "losses", "solvers", "utils")
}
MODULES = [*PACKAGES, "skleak.exceptions", "skleak._released"]


def _public(module):
    package = importlib.import_module(module)
    return [(name, getattr(package, name)) for name in getattr(package, "__all__", [])]


def _objects():
    """Yield (name, object) of all that is public."""
    for module in MODULES:
        if module in INTERNAL:
            continue
        for name, thing in _public(module):
            yield f"{module}.{name}", thing


def _sorted(names):
    """Constants, classes, functions, each in the order of the alphabet."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


def test_all_is_sorted_and_exists():
    for module in ["skleak", *MODULES]:
        package = importlib.import_module(module)
        assert package.__doc__, module
        names = getattr(package, "__all__", [])
        assert names == _sorted(set(names)), module
        for name in names:
            assert hasattr(package, name), (module, name)


def test_nothing_public_is_left_out_of_all():
    for module in PACKAGES:
        package = importlib.import_module(module)
        if module not in INTERNAL:
            loose = [
                name
                for name, thing in vars(package).items()
                if not name.startswith("_") and not inspect.ismodule(thing)
            ]
            assert _sorted(loose) == getattr(package, "__all__", []), module


def test_every_private_module_declares_what_it_exports():
    for info in pkgutil.walk_packages(skleak.__path__, "skleak."):
        if info.ispkg or any(info.name.startswith(name) for name in OPTIONAL):
            continue
        if info.name.endswith(("__main__", "cli")):
            continue
        module = importlib.import_module(info.name)
        assert module.__doc__, info.name
        for name in getattr(module, "__all__", []):
            assert hasattr(module, name), (info.name, name)


def test_a_name_is_public_once():
    names = [name.rpartition(".")[2] for name, _ in _objects()]
    assert sorted(set(names)) == sorted(names)


def _documented(docstring):
    """Names listed in the Parameters (or, of a result, the Attributes) of a numpydoc docstring."""
    sections = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", docstring, flags=re.MULTILINE)
    text = "\n".join(
        body
        for title, body in zip(sections[1::2], sections[2::2], strict=True)
        if title in ("Parameters", "Attributes")
    )
    heads = re.findall(r"^(\*{0,2}\w[\w\s,*]*?)\s*:", text, re.MULTILINE)
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def _parameters(function):
    return {name for name in inspect.signature(function).parameters if name not in ("self", "cls")}


def _takes_documented_parameters(thing):
    if inspect.isclass(thing) and (
        issubclass(thing, Exception)
        or thing.__init__ is object.__init__
        or inspect.isabstract(thing)
    ):
        return False
    return not getattr(thing, "_is_protocol", False)


def test_public_objects_have_numpydoc_docstrings():
    faults = {}
    for name, thing in _objects():
        if not callable(thing) or isinstance(thing, type(int | str)):
            continue
        docstring = inspect.getdoc(thing)
        assert docstring, name
        assert len(docstring.splitlines()[0]) <= 100, name
        if _takes_documented_parameters(thing):
            faults[name] = _parameters(thing) - _documented(docstring)
    assert len(faults) > 50
    missing = {name: sorted(names) for name, names in faults.items() if names}
    assert not missing, "not in the Parameters section"


def test_public_methods_are_documented():
    missing = {}
    for name, thing in _objects():
        for method_name, method in inspect.getmembers(thing, inspect.isfunction):
            if not inspect.isclass(thing) or method_name.startswith("_"):
                continue
            if not method.__module__.startswith("skleak"):
                continue
            docstring = inspect.getdoc(method)
            assert docstring, (name, method_name)
            if len(docstring.splitlines()) > 1:
                missing[name, method_name] = _parameters(method) - _documented(docstring)
    assert len(missing) > 20
    assert not {names: parameters for names, parameters in missing.items() if parameters}


def test_public_objects_show_an_example():
    without = [
        (module, name)
        for module in MODULES
        if module not in INTERNAL
        for name, thing in _public(module)
        if (inspect.isfunction(thing) or inspect.isclass(thing))
        and ">>>" not in (inspect.getdoc(thing) or "")
    ]
    assert not without


def _run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.slow
def test_what_front_doors_import():
    """The root nothing heavy, models no extras, and networks no torch."""
    steps = (
        "import skleak, sys",
        "import skleak.linear_model; assert callable(skleak.release)",
        "import skleak.neural, skleak.neural.models, skleak.neural.gradients",
    )
    loaded = "; print({m for m in sys.modules if '.' not in m})"
    root, models, networks = map(eval, _run("\n".join(s + loaded for s in steps)).split("\n"))
    heavy = {"numpy", "scipy", "pandas", "sklearn", "matplotlib", "joblib", "torch", "jinja2"}
    assert not root & heavy
    assert not models & {"matplotlib", "torch", "dask", "polars", "dp_accounting", "pytest"}
    assert "torch" not in networks


@pytest.mark.slow
def test_bounds_need_only_numpy_and_scipy():
    code = (
        "import sys, skleak.bounds; print([m for m in ('sklearn', 'pandas') if m in sys.modules])"
    )
    assert _run(code) == "[]"


def test_the_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.?(dev|a|b|rc)\d+)?", skleak.__version__)


def test_types_are_shipped():
    from importlib.resources import files

    assert files("skleak").joinpath("py.typed").is_file()
