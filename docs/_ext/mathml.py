"""Formulas as MathML, which browsers draw themselves: no script, no font, no request."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def visit_math(self, node: nodes.math) -> None:
    """Write a formula that stands in a line."""
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_displayed_math(self, node: nodes.math_block) -> None:
    """Write a formula of its own line, scrolling where the page is narrow."""
    formula = tex2mathml(node.astext(), as_block=True)
    self.body.append(f'<div class="formula" tabindex="0">{formula}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displayed_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
