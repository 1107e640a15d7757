"""The figure of all leakage reports: how many records have which loss."""

from skleak.plotting import LeakageDisplay, inline_svg
from skleak.plotting.labels import number, plural
from skleak.plotting.results import Histogram, leakage_histogram
from skleak.report._document import Block, Figure, Paragraph
from skleak.utils._typing import FloatArray, IntArray


def loss_histogram(
    loss: FloatArray, display: LeakageDisplay | None, counts: IntArray | None = None
) -> Block:
    """Return the histogram of Fisher information losses, or say why there is none.

    Parameters
    ----------
    loss : ndarray of shape (n,)
        Losses of the records; infinite and undefined ones are counted and not drawn.
    display : LeakageDisplay or None
        Draws them; None for a terminal, which shows bars.
    counts : ndarray of int of shape (n,), default=None
        How many records have each loss, where that is not one.

    Returns
    -------
    Block
    """
    bins, coarse = (leakage_histogram(loss, most, counts) for most in (None, 14))
    if bins is None or coarse is None:
        n = len(loss) if counts is None else int(counts.sum())
        which = "the record" if n == 1 else f"all {plural(n, 'record')}"
        return Paragraph(f"Not drawn: the leakage of {which} is infinite.")
    notes = []
    if bins.constant:
        notes.append(f"All records leak the same: {number(bins.ticks[0])}.")
    if bins.n_below:
        notes.append(f"The first bar also holds {plural(bins.n_below, 'record')} of smaller loss.")
    if bins.n_omitted:
        left_out = plural(bins.n_omitted, "record")
        notes.append(f"Not drawn: {left_out} of infinite or undefined loss.")
    caption = (
        "How many records have which Fisher information loss. One tall bar would mean that all "
        "records leak the same; a long tail to the right is a few people who pay for all."
    )
    caption += " The axis is logarithmic." if bins.logarithmic else ""
    svg = ""
    if display is not None:
        bins_told = zip(bins.edges[:-1], bins.edges[1:], bins.counts, strict=True)
        told = (
            f"From {number(low)} to {number(high)}: {plural(n, 'record')}."
            for low, high, n in bins_told
            if n
        )
        title = f"Histogram of Fisher information loss over {plural(sum(bins.counts), 'record')}"
        svg = inline_svg(display, title, " ".join(told))
    bars = () if bins.constant else _bars(coarse)
    return Figure(svg, caption, bars, tuple(notes))


def _bars(bins: Histogram) -> tuple[tuple[str, int], ...]:
    edges = [number(edge) for edge in bins.edges]
    width = max(map(len, edges))
    return tuple(
        (f"{low} to {high:>{width}}", n)
        for low, high, n in zip(edges[:-1], edges[1:], bins.counts.tolist(), strict=True)
    )
