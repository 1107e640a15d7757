"""The package: its version from one place, and files that repeat what pyproject.toml says."""

import importlib
import re
import subprocess
import tomllib
from pathlib import Path

import jinja2
import pytest
import yaml

import skleak

ROOT = Path(skleak.__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# Names that conda has for packages of PyPI.
CONDA = {"matplotlib": "matplotlib-base"}


@pytest.fixture(scope="module")
def recipe():
    text = (ROOT / "conda" / "meta.yaml").read_text()
    given = {"PYTHON": "python", "python_min": "3.11"}
    return yaml.safe_load(jinja2.Template(text, undefined=jinja2.StrictUndefined).render(given))


def test_the_version_stands_in_one_file():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "skleak/_version.py"
    own = ROOT / PROJECT["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{skleak.__version__}"' in own.read_text()
    for path in (ROOT / "skleak").rglob("*.py"):
        assert path == own or not re.search(r"__version__ = ", path.read_text()), path


def test_files_that_repeat_the_version_agree(recipe):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == skleak.__version__
    assert recipe["package"]["version"] == skleak.__version__
    assert f"/v{skleak.__version__}.tar.gz" in recipe["source"]["url"]


def test_the_changelog_is_by_release_and_starts_with_this_one():
    heads = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    for head in heads:
        assert re.fullmatch(r"\d+\.\d+\.\d+ \((unreleased|\d{4}-\d{2}-\d{2})\)", head), head
    assert heads[0].split()[0] == skleak.__version__
    assert all("unreleased" not in head for head in heads[1:])


def test_the_recipe_needs_what_the_package_needs(recipe):
    wanted = set()
    for requirement in PROJECT["project"]["dependencies"]:
        name, version = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement).groups()
        wanted.add(f"{CONDA.get(name, name)} >={version}")
    assert {line for line in recipe["requirements"]["run"] if not line.startswith("python ")} == (
        wanted
    )
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    scripts = PROJECT["project"]["scripts"].items()
    assert recipe["build"]["entry_points"] == [f"{name} = {place}" for name, place in scripts]
    assert recipe["about"]["license"] == PROJECT["project"]["license"]


def test_entry_points_name_what_is_there():
    places = [*PROJECT["project"]["scripts"].values()]
    places += [
        place for group in PROJECT["project"]["entry-points"].values() for place in group.values()
    ]
    for place in places:
        module, _, name = place.partition(":")
        path = ROOT / Path(*module.split("."))
        source = (
            path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        )
        assert re.search(rf"\b{name}\b", source.read_text()), place
        if "mlflow" not in source.read_text():
            assert hasattr(importlib.import_module(module), name)


def test_the_sdist_holds_what_its_tests_read():
    held = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for name in ("skleak", "tests", "action.yml", "conda", "CITATION.cff", "CHANGELOG.md"):
        assert name in held
        assert (ROOT / name).exists()
    for name in (".ci/package", "RELEASING.md"):
        assert (ROOT / name).exists()


def test_release_steps_name_what_exists():
    text = (ROOT / "RELEASING.md").read_text()
    for path in re.findall(r"`((?:skleak|conda|tests|\.ci)/[\w./]+)`", text):
        assert (ROOT / path).exists(), path
    script = (ROOT / ".ci" / "package").read_text().replace('"', "")
    for tool in ("twine check --strict", "check-wheel-contents"):
        assert tool in text
        assert tool in script
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "package")], check=True)


@pytest.mark.parametrize("name", ["slow.txt", "weekly.txt"])
def test_every_test_that_is_listed_is_there(name):
    for line in (ROOT / "tests" / name).read_text().splitlines():
        path, *_, name = line.rsplit(" ", 1)[0].split("::")
        assert f"def {name}(" in (ROOT / path).read_text(), line
