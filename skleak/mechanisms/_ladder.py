"""The public ladder on which a noise scale that was read off the records is published.

A noise scale in 16 digits is a release by itself. Rounded up to a power of the square root of two,
it is the same number for almost all tables.
"""

import math

# A scale above a rung by this little, relative to it, is rounding noise of that rung.
RUNG_TOLERANCE = 1e-12


def ladder_rung(noise_scale: float) -> float:
    """Round a noise scale up to the next power of the square root of two.

    Parameters
    ----------
    noise_scale : float, non-negative
        The noise scale that is needed. One within a relative 1e-12 above a rung is taken to be
        that rung.

    Returns
    -------
    float
        ``2**(k / 2)`` for the smallest sufficient integer k; 0 for 0.

    Raises
    ------
    ValueError
        For a noise scale that is negative, infinite or no number.

    Examples
    --------
    >>> ladder_rung(0.3), ladder_rung(0.5), ladder_rung(1.1)
    (0.3535533905932738, 0.5, 1.4142135623730951)
    """
    if not (math.isfinite(noise_scale) and noise_scale >= 0.0):
        raise ValueError(
            f"A noise scale must be finite and not negative; got {noise_scale!r}. Pass a number "
            "that a goal found."
        )
    return 0.0 if noise_scale == 0.0 else _rung(rung_index(noise_scale))


def rung_index(noise_scale: float) -> int:
    """Find the smallest k with ``2**(k / 2) >= noise_scale``, for a positive noise scale."""
    _, exponent = math.frexp(noise_scale)  # in [2**(exponent - 1), 2**exponent)
    k = 2 * exponent - 2
    while _rung(k) * (1.0 + RUNG_TOLERANCE) < noise_scale:
        k += 1
    return k


def _rung(k: int) -> float:
    """Return ``2**(k / 2)`` as the double nearest to it."""
    return math.ldexp(math.sqrt(2.0) if k % 2 else 1.0, k // 2)
