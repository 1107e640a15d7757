"""The picture of the layers, drawn from those that ``tests/test_layering.py`` enforces."""

import ast
from pathlib import Path
from xml.sax.saxutils import escape

import skleak

ROOT = Path(__file__).parents[2]
ROW, BOX, GAP = 46, 32, 8
# What nobody imports by name, or what is no package of its own.
LEFT_OUT = {"__main__", "_version", "_released_export"}


def layers() -> list[list[str]]:
    """Return the names in every layer, the lowest first."""
    tree = ast.parse((ROOT / "tests" / "test_layering.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "LAYERS":
            found = [sorted(set(names) - LEFT_OUT) for names in ast.literal_eval(node.value)]
            return [names for names in found if names]
    raise ValueError("tests/test_layering.py has no LAYERS")


def purpose(name: str) -> str:
    """Return the first line of the docstring of a package or module."""
    root = Path(skleak.__file__).parent
    path = root / name / "__init__.py" if (root / name).is_dir() else root / f"{name}.py"
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def box(name: str, x: float, y: float, width: float) -> str:
    """Return a box with a name in it, and its purpose for who points at it."""
    middle = f'x="{x + width / 2:.1f}" y="{y + BOX / 2 + 5:.1f}"'
    return (
        f'<g><title>{escape(purpose(name))}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
        f'height="{BOX}" rx="5"/><text {middle}>{escape(name)}</text></g>'
    )


def svg() -> str:
    """Return the picture: a row for each layer, the lowest at the bottom."""
    rows = layers()[::-1]
    height = ROW * len(rows) + GAP
    sizes = [[max(96.0, 9.0 * len(name) + 20.0) for name in names] for names in rows]
    across = max(sum(widths) + GAP * (len(widths) + 1) for widths in sizes)
    parts = []
    for number, (names, widths) in enumerate(zip(rows, sizes, strict=True)):
        x = (across - sum(widths) - GAP * (len(names) - 1)) / 2
        for name, width in zip(names, widths, strict=True):
            parts.append(box(name, x, GAP + number * ROW, width))
            x += width + GAP
    label = "Packages by layer: each imports only from the layers below it"
    return (
        f'<div class="layers" tabindex="0"><svg viewBox="0 0 {across:.0f} {height}" role="img" '
        f'aria-label="{label}">{"".join(parts)}</svg></div>\n'
    )


def table() -> str:
    """Return the same as a table, with what each package is for."""
    rows = [f"| `{name}` | {purpose(name)} |" for names in layers()[::-1] for name in names]
    return "| package | what it is for |\n|---|---|\n" + "\n".join(rows) + "\n"
