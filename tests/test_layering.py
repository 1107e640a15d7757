"""A module imports only from a lower layer or from its own folder."""

import ast
import sys
from pathlib import Path

import pytest

import skleak

ROOT = Path(skleak.__file__).parent
LAYERS = [
    {"exceptions", "_version"},
    {"utils"},
    {"losses", "bounds", "metrics", "rendering"},
    {"solvers", "channels", "accounting", "_released_export"},
    {"influence", "mechanisms", "preprocessing"},
    {"_released"},
    {"adversary", "reports", "_release"},
    {"linear_model", "attacks"},
    {"audit"},
    {"plotting", "datasets", "neural"},
    {"cli"},
    {"__main__"},
]
LAYER_OF = {name: level for level, names in enumerate(LAYERS) for name in names}
# What a late import inside a function may reach above its layer: a result that draws itself.
LATE_UPWARD = {("reports", "plotting"), ("channels", "plotting"), ("audit", "plotting")}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


# Inside a package, from the lowest: a file imports from its own folder or from a lower one.
INSIDE = {
    "influence": ["jacobian", "noise", "reweighting", "state", "refit"],
    "attacks": ["attribute", "membership", "reconstruction"],
}
# Sub-packages that do not see each other at all.
STRANGERS = {"attacks"}


def _part(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def _imports(tree):
    """Yield (imported skleak package, whether the import is at the module's top level)."""
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            names = [node.module or ""]
            if node.module == "skleak" or all(alias.name.startswith("_") for alias in node.names):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "skleak" and len(parts) > 1 and parts[1] in LAYER_OF:
                yield name, parts[1], id(node) in top


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path):
    part = _part(path)
    assert part in LAYER_OF, f"{part} has no layer: add it to LAYERS"
    for name, target, at_top in _imports(ast.parse(path.read_text())):
        if target == part:
            if path.name != "__init__.py":
                own_init = f"skleak.{part}"
                assert name != own_init, f"{path} imports its own __init__"
            continue
        if not at_top and (part, target) in LATE_UPWARD:
            continue
        assert LAYER_OF[target] < LAYER_OF[part], f"{path} imports upward: {name}"


def _sub(module):
    return module.split(".")[2] if module.count(".") > 1 else None


@pytest.mark.parametrize(
    "path", [path for path in MODULES if _part(path) in INSIDE], ids=lambda path: str(path)
)
def test_imports_go_down_inside_a_package(path):
    part, sub = path.relative_to(ROOT).with_suffix("").parts[:2]
    order = INSIDE[part]
    if sub not in order:
        return
    for name, target, at_top in _imports(ast.parse(path.read_text())):
        other = _sub(name)
        if target != part or not at_top or other not in order or other == sub:
            continue
        assert part not in STRANGERS, f"{path} imports from a sub-package beside it: {name}"
        assert order.index(other) < order.index(sub), f"{path} imports upward: {name}"


@pytest.mark.parametrize("part, order", INSIDE.items())
def test_the_order_names_what_exists(part, order):
    for name in order:
        assert (ROOT / part / name).is_dir() or (ROOT / part / f"{name}.py").is_file()


def test_no_folder_is_crowded():
    sizes = {}
    for path in [*MODULES, *ROOT.rglob("__init__.py")]:
        sizes.setdefault(path.parent, set()).add(path)
    crowded = {str(folder): len(files) for folder, files in sizes.items() if len(files) > 16}
    assert not crowded


def test_rendering_carries_figures_and_draws_none():
    for path in (ROOT / "rendering").rglob("*.py"):
        assert "skleak.plotting" not in path.read_text()


def test_the_root_imports_nothing_heavy():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [node.module for node in imports] == ["skleak._version"]


def test_bounds_know_only_numpy_and_scipy():
    allowed = {"numpy", "scipy", "skleak", *sys.stdlib_module_names}
    for path in MODULES:
        if _part(path) not in {"bounds", "metrics"}:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [node.module]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            assert {name.split(".")[0] for name in names} <= allowed, (path, names)
