"""A display as inline SVG for a page, whose colours follow light and dark."""

import hashlib
import html
import io
import math
import re
import threading
import warnings
from typing import Any

from skleak.plotting.palette import INK, ON_DARK

# The style of matplotlib is one for all threads: a figure of a page is drawn under its own.
_STYLE = threading.Lock()
_COLORS = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "skleak"} | dict.fromkeys(_COLORS, INK)
# Size in pixels below which no letter is shown.
_LEGIBLE = 9.0
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def inline_svg(display: Any, title: str, description: str) -> str:
    """Draw a display on a figure of its own, and return it as SVG for the inside of a page.

    No figure stays open and pyplot is not asked. The same numbers give the same bytes.

    Parameters
    ----------
    display : object
        A display of this package.
    title, description : str
        For those who do not see the figure: its name, and what it shows.

    Returns
    -------
    str
        One ``svg`` element, which refers to nothing outside of it.

    Examples
    --------
    >>> from skleak.plotting import LeakageDisplay
    >>> display = LeakageDisplay([0.1, 0.2, 0.2, 0.4])
    >>> inline_svg(display, "Leakage", "Losses of four records.")[:31]
    '<svg role="img" aria-label="Lea'
    """
    from matplotlib import rc_context, style
    from matplotlib.figure import Figure

    shape, size, options = display._layout
    with _STYLE, style.context("default"), rc_context(_SETTINGS), warnings.catch_warnings():
        # The reader's fonts have letters that those here may lack.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure = Figure(figsize=size, layout="constrained")
        display.plot(figure.subplots(*shape, **options))
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata=_NO_METADATA)
    return _for_a_page(drawn.getvalue(), title, description)


def _for_a_page(svg: str, title: str, description: str) -> str:
    """Strip what reaches beyond the figure: names of formats, styles, fonts and clashing ids."""
    box = re.search(r'viewBox="([^"]*)"', svg)
    assert box is not None
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.S)
    used = sorted(set(re.findall(r'(?:href="|url\()#([^")]+)', body)))
    mark = hashlib.sha256((title + body).encode()).hexdigest()[:10]
    names = {name: f"f{mark}-{k}" for k, name in enumerate(used)}
    # What stands between tags are the words and numbers of the figure, and stays as it is.
    body = re.sub(r"<[^>]+>", lambda tag: _tag_for_a_page(tag[0], names), body)
    title, description = html.escape(title), html.escape(description)
    # The page sets the width, but for a page so narrow that the letters could not be read.
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", body)]
    width = math.ceil(float(box[1].split()[2]) * _LEGIBLE / min(sizes, default=_LEGIBLE))
    return (
        f'<svg role="img" aria-label="{title}" viewBox="{box[1]}" style="min-width:{width}px">'
        f"<title>{title}</title><desc>{description}</desc>{body.strip()}"
    )


def _tag_for_a_page(tag: str, names: dict[str, str]) -> str:
    """Rename what is referred to, and let the page choose fonts and colours."""
    tag = re.sub(r" font-family: [^;\"]*;?", "", tag.replace("xlink:href", "href"))
    tag = re.sub(r"font: [a-z ]*([\d.]+px)[^;\"]*", r"font-size: \1", tag)
    tag = re.sub(r' id="([^"]*)"', lambda m: f' id="{names[m[1]]}"' if m[1] in names else "", tag)
    tag = re.sub(r'((?:href="|url\()#)([^")]+)', lambda m: m[1] + names[m[2]], tag)
    for color in ON_DARK:
        tag = tag.replace(f": {color}", f": var(--c-{color[1:]}, {color})")
    # Coordinates need no more than a hundredth of a point, and no line of their own.
    return " ".join(re.sub(r"(\.\d\d)\d+", r"\1", tag).split())
