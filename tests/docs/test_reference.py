"""The reference leaves nothing out: objects, fields of JSON files, columns of audits, options."""

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path

import pytest
from helpers import mostly_slow

from skleak.audit import LeakageAuditor
from skleak.linear_model import PrivateLinearRegression

DOCS = Path(__file__).parents[2] / "docs"


def load(name, folder="_ext"):
    """A module of the documentation's own, none of which needs Sphinx."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / folder / f"{name}.py")
    module = sys.modules[f"docs_{name}"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_object_has_a_page():
    objects = load("public_objects")
    found = objects.public_objects()
    import skleak

    packages = [path.parent.name for path in Path(skleak.__file__).parent.glob("*/__init__.py")]
    for package in packages:
        if package in objects.INTERNAL:
            continue
        module = f"skleak.{package}"
        names = getattr(importlib.import_module(module), "__all__", [])
        assert set(names) <= {name for name, _ in found[module]}, module
    assert {name for name, _ in found["skleak"]} == {"__version__", "from_json", "release"}
    assert "CostWarning" in dict(found["skleak.exceptions"])
    assert "ReleasedLogisticRegression" in dict(found["skleak._released"])


def test_what_is_returned_has_a_page_and_is_no_public_name():
    objects = load("public_objects")
    for package in objects.RETURNED:
        for _, name, thing in objects.returned_objects(package):
            assert inspect.getdoc(thing)
            assert name not in importlib.import_module(package).__all__


def test_limits_are_read_off_the_code():
    limits = load("limits_tables")
    assert limits.constants().count("\n") == 2 + len(limits.CONSTANTS)


def test_methods_of_skleak_are_listed_and_no_others():
    methods, properties = load("public_objects").own_members(
        importlib.import_module("skleak.linear_model").PrivateLinearRegression
    )
    assert {"fit", "release", "leakage_report"} <= set(methods)
    assert "set_params" not in methods
    assert all(not name.startswith("_") for name in [*methods, *properties])


def nameless(fields, name, document):
    """Fields of a file that docs/_ext/json_fields.py says nothing of."""
    return [path for path, _ in fields.fields(document) if fields.meaning(name, path) is None]


@pytest.mark.parametrize(
    "name", mostly_slow(["leakage", "attribute", "membership", "released", "pipeline"])
)
def test_every_field_of_a_file_has_a_meaning(name):
    fields = load("json_fields")
    assert set(fields.EXAMPLES) == {"leakage", "attribute", "membership", "released", "pipeline"}
    document = fields.EXAMPLES[name][2]()
    assert not nameless(fields, name, document), "say in docs/_ext/json_fields.py what they mean"
    assert nameless(fields, name, {**document, "new": 1}) == ["new"]


@pytest.mark.parametrize("settings", [{"reweighting": "irfil"}, {"noise_covariance": "curvature"}])
def test_fields_of_other_fits_have_a_meaning(settings):
    fields = load("json_fields")
    X, y = fields._records()
    model = PrivateLinearRegression(2.0, alpha=1e4, random_state=0, **settings).fit(X, y)
    report = model.leakage_report(groups=X["sex"].astype(str).to_numpy())
    assert not nameless(fields, "leakage", report.to_dict())


@pytest.mark.parametrize("attribute", mostly_slow(["bmi", None]))
def test_fields_of_other_audits_have_a_meaning(attribute):
    fields = load("json_fields")
    document = fields._audited(LeakageAuditor(fields.MODEL, attribute, **fields.GAME))
    assert not nameless(fields, "attribute", document)


@pytest.mark.slow
def test_every_column_of_an_audit_is_described():
    fields = load("json_fields")
    page = (DOCS / "reference" / "audit_columns.md").read_text(encoding="utf-8")
    for name in ("attribute", "membership"):
        document = fields.EXAMPLES[name][2]()
        for table in ("results", "records"):
            for column in document[table][0]:
                plain = column.removesuffix("_low").removesuffix("_high")
                plain = "success_<attack>" if plain.startswith("success_") else plain
                if column not in ("noise_scale", "attack", "record", "label"):
                    assert f"`{plain}`" in page, (name, table, column)


def test_links_are_checked(tmp_path):
    checker = load("check_links", ".")
    page = '<a href="b.html#there">b</a> <a href="https://elsewhere.org">e</a> <p id="here">'
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text('<p id="there"> <a href="a.html#here">a</a>')
    assert not checker.faults(tmp_path)
    bad = '<a href="c.html">c</a> <a href="a.html#nowhere">a</a> <script src="//cdn.org/x.js">'
    (tmp_path / "b.html").write_text(bad)
    found = "\n".join(checker.faults(tmp_path))
    for fault in ("no file c.html", "no anchor a.html#nowhere", "loads //cdn.org/x.js", "#there"):
        assert fault in found
