"""Axes of the chart in an audit report: where a value stands, and which labels are round."""

from dataclasses import dataclass

import numpy as np

from skleak.rendering._format import number
from skleak.rendering._histogram import log_ticks, round_ticks
from skleak.utils._typing import FloatArray

__all__ = ["Axis", "noise_axis", "value_axis"]

# Share of the width left free beside the first and the last noise scale.
_MARGIN = 0.05
# Where the logarithmic part starts if there is a noise scale of zero.
_AFTER_ZERO = 0.22
# Noise scales whose ratio is below this stand on a linear axis.
_SPANS = 4.0
# Errors of a hopeless attack lie far above a bound, which must not fall off the axis for them.
_N_DECADES = 12
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``, whose ends stand at the shares ``start`` and ``end``.

    A logarithmic axis may hold a value of zero, which then stands at ``zero``.
    """

    low: float
    high: float
    logarithmic: bool
    ticks: tuple[tuple[float, str], ...]
    start: float = 0.0
    end: float = 1.0
    zero: float | None = None

    def position(self, value: "float | FloatArray") -> FloatArray:
        """Place of values along the axis; beyond [0, 1] where they are beyond the axis."""
        value = np.asarray(value, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.logarithmic:
                share = np.log(value / self.low) / np.log(self.high / self.low)
            else:
                share = (value - self.low) / (self.high - self.low)
        place = self.start + share * (self.end - self.start)
        return place if self.zero is None else np.where(value == 0.0, self.zero, place)


def noise_axis(noise: FloatArray) -> Axis:
    """Axis for noise scales: logarithmic where they span, with a place for zero.

    Shapes: ``noise`` (n_scales,).
    """
    positive = np.unique(noise[noise > 0.0])
    zero = bool(np.any(noise == 0.0))
    low, high = float(positive[0]), float(positive[-1])
    if low < high and high / low >= _SPANS:
        ticks = _log_ticks(low, high, 6)
        if not zero:
            return Axis(low, high, True, ticks, _MARGIN, 1.0 - _MARGIN)
        ticks = ((0.0, "0"), *ticks)
        return Axis(low, high, True, ticks, _AFTER_ZERO, 1.0 - _MARGIN, _MARGIN)
    low = 0.0 if zero else low
    ticks = tuple((float(tick), number(tick)) for tick in round_ticks(low, high, 5))
    return Axis(low, high, False, ticks, _MARGIN, 1.0 - _MARGIN)


def value_axis(values: FloatArray, logarithmic: bool, as_percent: bool = False) -> Axis | None:
    """Axis with round ends for what is drawn.

    Returns None where there is no finite value.
    """
    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values) & ((values > 0.0) | (not logarithmic))]
    if not len(values):
        return None
    low, high = float(values.min()), float(values.max())
    if logarithmic:
        high = min(high, 1e300)
        low = max(low, high * 10.0**-_N_DECADES) / 1.25
        high *= 1.25
        return Axis(low, high, True, _log_ticks(low, high, 7))
    if high - low <= 1e-9 * max(abs(high), abs(low)):
        width = abs(high) / 10.0 or 1.0
        low, high = low - width, high + width
    ticks = round_ticks(low, high, 7)
    # Room for what stands at the ends.
    room = 0.03 * (high - low)
    label = _share if as_percent else number
    return Axis(low - room, high + room, False, tuple((float(t), label(t)) for t in ticks))


def _log_ticks(low: float, high: float, limit: int) -> tuple[tuple[float, str], ...]:
    """Powers of ten where there are enough of them, else other round values too."""
    ticks = log_ticks(low, high)
    exponents = np.log10(ticks)
    powers = ticks[np.abs(exponents - np.round(exponents)) < 1e-9]
    if len(ticks) > limit and len(powers) > 1:
        ticks = powers
    ticks = ticks[:: -(-len(ticks) // limit)]
    if len(ticks) < 2:
        ticks = np.array([low, high])
    return tuple((float(tick), _power(tick)) for tick in ticks)


def _power(value: float) -> str:
    """A power of ten in few letters, any other value as a number."""
    exponent = float(np.log10(value))
    if abs(exponent) > 2.5 and abs(exponent - np.round(exponent)) < 1e-9:
        return "10" + str(int(np.round(exponent))).translate(_SUPERSCRIPT)
    return number(value)


def _share(value: float) -> str:
    return f"{round(100.0 * value, 6):g}%"
