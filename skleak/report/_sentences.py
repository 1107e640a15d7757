"""Sentences are templates over facts: whoever computes facts says nothing, and the other way."""

import re
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from skleak.plotting import labels

_FILTERS = {
    "at_most": partial(labels.percent, up=True),
    "attack": labels.attack_label,
    "bound": labels.bound_label,
} | {
    name: getattr(labels, name)
    for name in ("code", "count", "limit_text", "number", "percent", "plural", "root", "shorten")
}


def sentences(template: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Say facts in the words of a template: a paragraph of it, by blank lines, is one entry.

    Parameters
    ----------
    template : str
        Name of a file of ``templates/sentences``, without its ending.
    facts : mapping
        Names of the template. One that is missing is an error, never an empty word.

    Returns
    -------
    tuple of str
        Without those that are empty; white space, also that of line breaks, is one blank.
    """
    said = _environment().get_template(f"{template}.j2").render(facts)
    return tuple(" ".join(part.split()) for part in re.split(r"\n\s*\n", said) if part.strip())


@cache
def _environment() -> Environment:
    loader = PackageLoader("skleak.report", "templates/sentences")
    # Texts, which the renderers escape.
    environment = Environment(
        loader=loader, undefined=StrictUndefined, trim_blocks=True, autoescape=False
    )
    environment.filters |= _FILTERS
    return environment
