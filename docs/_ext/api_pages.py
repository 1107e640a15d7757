"""Pages of the API reference: one for each package, one for each public object."""

import inspect
from pathlib import Path
from typing import Any

from public_objects import own_members, public_objects, returned_objects
from sphinx.application import Sphinx

TITLES = {
    "skleak": "skleak: release and read again",
    "skleak._release": "Released pipelines",
    "skleak._released": "Released models",
}


def heading(text: str, line: str = "=") -> str:
    """Return a heading of reStructuredText."""
    return f"{text}\n{line * len(text)}\n\n"


def table(names: list[str]) -> str:
    """Return a table of objects with the first lines of their docstrings."""
    rows = "\n".join(f"   {name}" for name in names)
    return f".. autosummary::\n   :nosignatures:\n\n{rows}\n\n"


def package_page(module: str, names: list[str], returned: dict[str, str]) -> str:
    """Return the page of a package: what it is for, a table of what it holds, and of results."""
    pages = "\n".join(f"   {name} <{page_name(module, name)}>" for name in [*names, *returned])
    text = (
        heading(TITLES.get(module, module))
        + f".. automodule:: {module}\n   :no-members:\n\n"
        + f".. currentmodule:: {module}\n\n"
        + table(names)
    )
    if returned:
        text += "What these return or are passed, and nobody needs to import:\n\n"
        full = [f"{home}.{name}" for name, home in returned.items()]
        text += table([f"~{each.removeprefix(f'{module}.')}" for each in full])
    return f"{text}.. toctree::\n   :hidden:\n\n{pages}\n"


def page_name(module: str, name: str) -> str:
    """Return the name of the page of an object."""
    return f"{module}.{name}".replace("._", ".")


def object_page(module: str, name: str, thing: Any) -> str:
    """Return the page of a function, a class with its methods, or a constant."""
    full = f"{module}.{name}"
    text = heading(name) + f".. currentmodule:: {module}\n\n"
    if not inspect.isclass(thing):
        kind = "autofunction" if inspect.isroutine(thing) else "autodata"
        return text + f".. {kind}:: {full}\n"
    text += f".. autoclass:: {full}\n"
    methods, properties = own_members(thing)
    for member in properties:
        text += f"\n   .. autoproperty:: {full}.{member}\n"
    for member in methods:
        text += f"\n   .. automethod:: {full}.{member}\n"
    return text


def write_pages(app: Sphinx) -> None:
    """Write the pages into the folder ``api``; what has not changed keeps its date."""
    folder = Path(app.srcdir) / "api"
    objects = {module: things for module, things in public_objects().items() if things}
    pages = {"index": index_page(list(objects))}
    for module, things in objects.items():
        returned = returned_objects(module)
        homes = {name: home for home, name, _ in returned}
        names = [name for name, _ in things]
        pages[module.replace("._", ".")] = package_page(module, names, homes)
        for home, name, thing in [(module, *each) for each in things] + returned:
            pages[page_name(module, name)] = object_page(home, name, thing)
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def index_page(modules: list[str]) -> str:
    """Return the page that lists the packages."""
    entries = "\n".join(f"   {module.replace('._', '.')}" for module in modules)
    return (
        heading("API reference")
        + "Every public object, with an example that runs; all else may change at any time.\n\n"
        + f".. toctree::\n   :maxdepth: 1\n\n{entries}\n"
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
