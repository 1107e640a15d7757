"""How the documentation is built: `sphinx-build -W --keep-going docs docs/_build/html`.

Nothing is fetched, neither here nor by who reads: formulas are MathML, fonts and scripts lie beside
the pages. `SKLEAK_GALLERY=1` runs the scripts of the gallery, which takes hours, for their figures.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]

from skleak import __version__  # noqa: E402

RUN_GALLERY = os.environ.get("SKLEAK_GALLERY") == "1"

project = "skleak"
author = "The skleak developers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "docstrings",
    "mathml",
    "api_pages",
    "generated_reference",
]
exclude_patterns = [
    "_build",
    "_ext",
    "auto_examples/**/*.ipynb",
    "auto_examples/**/*.py",
    "auto_examples/**/*.json",
    "sg_execution_times.rst",
]
suppress_warnings = ["config.cache"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

autosummary_generate = False
toc_object_entries_show_parents = "hide"
highlight_language = "text"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "plot_",
    # Files beside the scripts are parts of them.
    "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
    "within_subsection_order": "FileNameSortKey",
    "plot_gallery": RUN_GALLERY,
    "download_all_examples": False,
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
}

html_context = {"default_mode": "auto"}
html_theme = "pydata_sphinx_theme"
html_title = "skleak"
# Pages without others below them need no list of these.
html_sidebars = {
    page: [] for page in ("tour", "pitfalls", "limits", "comparison", "architecture", "glossary")
} | {page: [] for page in ("index", "benchmarks", "reproduction")}
html_static_path = ["_static"]
html_css_files = ["skleak.css", *([] if RUN_GALLERY else ["without_figures.css"])]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "article_header_start": ["breadcrumbs"],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
