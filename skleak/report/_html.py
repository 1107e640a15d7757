"""A document as one HTML page, or as a fragment for a notebook."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from skleak.plotting.labels import plural, printable, shorten
from skleak.plotting.palette import ON_DARK
from skleak.report._document import Document


def to_html(document: Document, embedded: bool = False) -> str:
    """Write a document as HTML that needs nothing else: no script, no font, no request."""
    template = _environment().get_template("document.html.j2")
    return template.render(document=document, embedded=embedded)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("skleak.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["on_dark"] = ON_DARK
    environment.filters |= {
        "kind": lambda block: type(block).__name__,
        "plural": plural,
        "printable": printable,
        "prose": _prose,
        "shorten": shorten,
        "svg": Markup,
    }
    return environment


def _prose(sentence: str) -> Markup:
    """Escape a sentence and set what stands between backticks as code."""
    parts = [escape(part) for part in printable(sentence).split("`")]
    if len(parts) % 2 == 0:  # a lone backtick, of a name
        return Markup("`").join(parts)
    code = Markup("<code>{}</code>").format
    return Markup("").join(code(part) if k % 2 else part for k, part in enumerate(parts))
