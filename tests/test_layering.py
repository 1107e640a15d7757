"""A module imports only from a lower layer or from its own folder."""

import ast
import functools
import importlib
import sys
from pathlib import Path

import pytest

import skleak

ROOT = Path(skleak.__file__).parent
LAYERS = [
    {"exceptions", "_version"},
    {"utils"},
    {"losses", "bounds", "metrics"},
    {"solvers", "channels", "accounting", "_released_export"},
    {"influence", "mechanisms"},
    {"_released", "preprocessing"},
    {"adversary", "_release"},
    # Displays draw what they are given, and know no report.
    {"plotting"},
    {"report"},
    {"inspection"},
    {"linear_model", "attacks"},
    {"neural"},
    {"audit"},
    {"tracking"},
    {"datasets"},
    {"cli"},
    {"__main__"},
]
LAYER_OF = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
SOURCES = {path: path.read_text() for path in MODULES}

# Inside a package, from the lowest: a file imports from its own folder or from a lower one.
INSIDE = {
    "influence": [
        "jacobian",
        "state",
        "noise",
        "reweighting",
        "refit",
        "moments_noise",
        "objective_noise",
        "removal",
        "leakage",
        "records",
    ],
    "adversary": [
        "knowledge",
        "numbers",
        "hypotheses",
        "records",
        "models",
        "membership",
        "shadow",
    ],
    "attacks": [
        "_base",
        "_attribute",
        "_white_box",
        "_informed",
        "_black_box",
        "_imputation",
        "_membership",
        "_gaussian",
        "_likelihood_ratio",
    ],
    "audit": ["tables", "noise", "games", "_run", "_auditors"],
    "audit.games": ["_game", "_levels", "_secret", "attribute", "membership"],
    "neural": [
        "models",
        "guarantee",
        "gradients",
        "torch",
        "information",
        "training",
        "inversion",
        "report",
        "canary",
    ],
}
# Sub-packages that do not see each other at all.
STRANGERS = {
    "attacks": {"_attribute", "_membership"},
    "audit.games": {"attribute", "membership"},
}
# All packages but `utils` enter each other by what an ``__init__`` exports; of these, the
# sub-packages, too.
FRONT_DOORS = {"influence", "linear_model", "losses", "solvers"}
# What a package has for the others and not for users is in no ``__init__`` that users import from:
# they enter by these files, and by the front door for all that it has.
SIDE_DOORS = {
    "skleak.accounting.discrete",
    "skleak.accounting.gaussian",
    "skleak.accounting.subsampled",
    "skleak.bounds.errors",
    "skleak.bounds.priors",
    "skleak.inspection.refits",
    "skleak.mechanisms.calibration",
    "skleak.mechanisms.goals",
    "skleak.mechanisms.grids",
    "skleak.metrics.intervals",
    "skleak.metrics.scores",
    "skleak.metrics.verdicts",
    "skleak.plotting.displays",
    "skleak.report.reports",
    "skleak.report.document",
}


@functools.cache
def _import_nodes(source):
    """All imports, also those inside functions and under ``TYPE_CHECKING``."""
    nodes = ast.walk(ast.parse(source))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def _part(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def _imports(source):
    """Yield (imported name, skleak package)."""
    for node in _import_nodes(source):
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            if node.module == "skleak" or all(name.startswith("_") for name in names):
                names = [f"{node.module}.{name}" for name in names]
            else:
                names = [node.module or ""]
        for name in names:
            parts = name.split(".")
            if parts[0] == "skleak" and len(parts) > 1 and parts[1] in LAYER_OF:
                yield name, parts[1]


@pytest.mark.slow
def test_imports_go_down():
    faults = []
    for path in MODULES:
        part = _part(path)
        assert part in LAYER_OF, f"{part} has no layer: add it to LAYERS"
        for name, target in _imports(SOURCES[path]):
            if target == part:
                if path.name != "__init__.py" and name == f"skleak.{part}":
                    faults.append(f"{path} imports its own __init__")
            elif LAYER_OF[target] >= LAYER_OF[part]:
                faults.append(f"{path} imports upward: {name}")
    assert not faults


def _private_doors(folder, source):
    """Imports of a file in a folder, as a module's name, from private files of another."""
    found = []
    for node in _import_nodes(source):
        if not isinstance(node, ast.ImportFrom) or not node.module.startswith("skleak."):
            continue
        package, *inner = node.module.split(".")[1:]
        if package == "utils" or not (ROOT / package).is_dir():
            continue
        inside = f"{folder}.".startswith(f"skleak.{package}.")
        if inside and (package not in FRONT_DOORS or node.module.rpartition(".")[0] == folder):
            continue
        names = [alias.name for alias in node.names if node.module != folder]
        hidden = any(name.startswith("_") for name in (*inner, *names))
        if node.module in SIDE_DOORS:
            public = importlib.import_module(f"skleak.{package}").__all__
            hidden = any(name.startswith("_") or name in public for name in names)
        if hidden:
            found.append(node.module)
    return found


def test_packages_are_entered_by_their_front_doors():
    faults = {}
    for path in MODULES:
        folder = ".".join(("skleak", *path.parent.relative_to(ROOT).parts))
        faults[path] = _private_doors(folder, SOURCES[path])
    assert not {path: names for path, names in faults.items() if names}


def _below(package, name):
    """Name of what is directly inside of a package, of a module or of a thing in it."""
    start = f"skleak.{package}."
    return name.removeprefix(start).split(".")[0] if name.startswith(start) else None


def _upward(package, sub, source):
    """Imports of a file of a sub-package from one above it, or beside it among strangers.

    Inside a package those under ``TYPE_CHECKING`` and inside functions count as well.
    """
    order, strangers = INSIDE[package], STRANGERS.get(package, ())
    names = []
    for node in _import_nodes(source):
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names += [alias.name for alias in node.names]
    found = []
    for name in names:
        other = _below(package, name)
        if other not in order or other == sub:
            continue
        beside = sub in strangers and other in strangers
        if beside or order.index(other) > order.index(sub):
            found.append(name)
    return found


def test_imports_go_down_inside_a_package():
    faults = {}
    for path in MODULES:
        module = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        for package, order in INSIDE.items():
            if (sub := _below(package, module)) in order:
                faults[package, path] = _upward(package, sub, SOURCES[path])
    assert {package for package, _ in faults} == set(INSIDE)
    assert not {path: names for path, names in faults.items() if names}


def _circles(sources):
    """Files that import each other in a circle, of a table from module names to sources.

    Every import counts, also of a package's front door, under ``TYPE_CHECKING`` and in functions.
    A module that is taken from its package is no front door.
    """
    graph = {name: set() for name in sources}
    for name, source in sources.items():
        for node in _import_nodes(source):
            imported = []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                imported = [name if name in sources else node.module for name in names]
            else:
                imported = [alias.name for alias in node.names]
            graph[name] |= {each for each in imported if each in sources and each != name}
    # What is not in a circle, nor above one, falls away from the bottom.
    while free := [name for name, below in graph.items() if not below]:
        graph = {name: below - set(free) for name, below in graph.items() if name not in free}
    while above := set(graph) - set().union(*graph.values()):
        graph = {name: below for name, below in graph.items() if name not in above}
    return sorted(graph)


def _sources():
    names = {path: path.relative_to(ROOT.parent).with_suffix("").parts for path in MODULES}
    return {
        ".".join(names[path]).removesuffix(".__init__"): source for path, source in SOURCES.items()
    }


def test_no_circle_of_files():
    sources = _sources()
    assert not _circles(sources)
    # A figure that knew its report would close one.
    for fault in (
        "def f():\n    from skleak.audit import AuditReport\n",
        "if TYPE_CHECKING:\n    from skleak.audit import AuditReport\n",
    ):
        display = "skleak.plotting._audit"
        found = _circles(sources | {display: sources[display] + fault})
        assert {display, "skleak.plotting", "skleak.report.audit._report"} <= set(found)


def test_planted_faults_are_found():
    back_door = "from skleak.influence.noise._terms import LossTerms"
    assert _private_doors("skleak.influence.refit", back_door)
    assert not _private_doors("skleak.influence.noise", back_door)
    assert _private_doors("skleak.audit", "from skleak.solvers import _erm")
    assert not _private_doors("skleak.audit", "from skleak.solvers import minimize")
    deep = "from skleak.attacks._attribute import preprocessed"
    assert _private_doors("skleak.audit.games", deep)
    assert not _private_doors("skleak.attacks._black_box", deep)
    assert not _private_doors("skleak.audit", "from skleak.utils._blocks import Blocks")
    side = "from skleak.metrics.verdicts import "
    assert not _private_doors("skleak.audit", f"{side}EXCEEDED")
    for name in ("verdict", "_level"):
        assert _private_doors("skleak.audit", side + name)
    late = "def f():\n    from skleak.influence.leakage import Reweighted\n"
    typed = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from skleak.influence.noise._terms import LossTerms
"""
    upward = _upward("influence", "noise", late)
    assert upward == ["skleak.influence.leakage.Reweighted"]
    upward = _upward("influence", "state", typed)
    assert upward == ["skleak.influence.noise._terms.LossTerms"]
    assert not _upward("influence", "reweighting", typed)
    game = "from skleak.audit.games import membership\n"
    for sub in ("attribute", "_secret"):
        assert _upward("audit.games", sub, game) == ["skleak.audit.games.membership"]
    assert not _upward("audit.games", "membership", game)
    driver = "def f():\n    from skleak.audit._run import play\n"
    assert _upward("audit", "games", driver) == ["skleak.audit._run.play"]
    assert not _upward("audit", "_auditors", driver)
    front = "from skleak.influence.noise import LossTerms\n"
    chain = {
        "skleak.influence.noise": typed,
        "skleak.influence.noise._terms": "import skleak.influence.state._state\n",
        "skleak.influence.state._state": "",
        "skleak.influence.removal": "def f():\n    import skleak.influence.noise\n",
    }
    assert _circles(chain) == []
    for fault in (front, late + typed, f"def f():\n    {front}"):
        broken = chain | {"skleak.influence.state._state": fault}
        assert "skleak.influence.state._state" in _circles(broken)
        assert "skleak.influence.removal" not in _circles(broken)


@pytest.mark.parametrize("package, order", INSIDE.items())
def test_the_order_names_what_exists(package, order):
    folder = ROOT.joinpath(*package.split("."))
    for name in order:
        assert (folder / name).is_dir() or (folder / f"{name}.py").is_file()


def test_renderers_carry_figures_and_draw_none():
    for name in ("document", "reports"):
        assert "inline_svg" not in (ROOT / "report" / f"{name}.py").read_text()


def test_the_root_imports_nothing_heavy():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [node.module for node in imports] == ["skleak._version"]


def test_bounds_know_only_numpy_and_scipy_and_metrics_scikit_learn():
    known = {"numpy", "scipy", "skleak", *sys.stdlib_module_names}
    for path in MODULES:
        if _part(path) not in {"bounds", "metrics"}:
            continue
        allowed = known if _part(path) == "bounds" else known | {"sklearn"}
        for node in _import_nodes(SOURCES[path]):
            if isinstance(node, ast.ImportFrom):
                names = [node.module]
            else:
                names = [alias.name for alias in node.names]
            assert {name.split(".")[0] for name in names} <= allowed, (path, names)


@functools.cache
def _names(module):
    """Names that a module binds, and of what is in a package; read, as torch may be absent."""
    path = ROOT.parent.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    names = {child.stem for child in path.glob("*")} | set(skleak.__all__ if path == ROOT else ())
    for node in ast.walk(ast.parse(file.read_text())) if file.exists() else ():
        if isinstance(node, ast.alias):
            names.add(node.asname or node.name)
        names |= {getattr(node, "name", None)}
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


@pytest.mark.slow
def test_test_files_import_what_is_there():
    """Doctests ignore files that do not import, and pytest then runs none of their tests."""
    faults = set()
    for path in Path(__file__).parent.rglob("*.py"):
        for node in _import_nodes(path.read_text()):
            module = getattr(node, "module", None) or ""
            if module.split(".")[0] == "skleak":
                names = {alias.name for alias in node.names} - _names(module)
                faults |= {(path.name, module, name) for name in names}
    assert not faults
