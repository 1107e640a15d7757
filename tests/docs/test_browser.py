"""Pages and reports in a browser: no errors, nothing from elsewhere, no wider than the window."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from browser import Browser, find_chromium
from sklearn.datasets import load_diabetes

from skleak.audit import LeakageAuditor, MembershipAuditor
from skleak.linear_model import PrivateLinearRegression

ROOT = Path(__file__).parents[2]
WIDTHS = (400, 1600)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium on the path"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages: those built already, if they are as new as their sources, else built here."""
    built = ROOT / "docs" / "_build" / "html"
    sources = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs" / "_ext").glob("*.py")]
    fresh = (built / "index.html").exists() and max(path.stat().st_mtime for path in sources) < (
        built / "index.html"
    ).stat().st_mtime
    if fresh:
        return built
    pytest.importorskip("sphinx", reason="the documentation is not built, nor is Sphinx installed")
    pytest.importorskip("pydata_sphinx_theme")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("_build"))
    shutil.copytree(ROOT / "examples", folder / "examples")
    for name in ("tests", "benchmarks", "skleak"):  # of which pages show facts
        (folder / name).symlink_to(ROOT / name)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going"]
    subprocess.run([*command, folder / "docs", folder / "html"], check=True)
    return folder / "html"


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """One HTML report of each kind."""
    folder = tmp_path_factory.mktemp("reports")
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X, y = X.iloc[:100], y.iloc[:100]
    game = {"noise_scales": [2.0, 20.0], "n_releases": 20, "random_state": 0}
    model = PrivateLinearRegression(2.0).fit(X, y)
    report = model.leakage_report(groups=X["sex"])
    column = LeakageAuditor(PrivateLinearRegression(), "sex", **game).fit(X, y).report_
    members = MembershipAuditor(PrivateLinearRegression(), **game).fit(X, y).report_
    named = {"leakage": report, "audit": column, "membership": members}
    named |= {"person": report.person(0), "audit_person": column.person(0)}
    for name, each in named.items():
        each.to_html(folder / f"{name}.html")
    return folder


def faults(folder, pages):
    found = []
    with Browser() as browser:
        for page in pages:
            for width in WIDTHS:
                seen = browser.open(page, width, dark=width == WIDTHS[0])
                where = f"{page.relative_to(folder)} at {width}"
                found += [f"{where}: {error}" for error in seen.errors]
                found += [f"{where} asks for {address}" for address in seen.requests]
                if seen.overflow > 0:
                    found.append(f"{where} is {seen.overflow} pixels too wide")
    return found


def test_the_browser_sees_what_is_wrong(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text(
        '<div style="width:2000px">wide</div><script>throw Error("boom")</script>'
        '<img src="http://127.0.0.1:9/nothing.png">'
    )
    found = "\n".join(faults(tmp_path, [page]))
    for fault in ("boom", "asks for http://127.0.0.1:9/nothing.png", "pixels too wide"):
        assert fault in found


def test_pages_of_the_documentation(site):
    everything = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    generated = {path.parts[len(site.parts)] for path in everything} & {"api", "auto_examples"}
    pages = [path for path in everything if path.parts[len(site.parts)] not in generated]
    # Of pages that are made alike, some of each kind.
    for folder in sorted(generated):
        alike = sorted((site / folder).rglob("*.html"), key=lambda path: -path.stat().st_size)
        pages += alike[:8]
    assert len(pages) > 30
    assert not faults(site, sorted(pages))


def test_reports(reports):
    assert not faults(reports, sorted(reports.glob("*.html")))
