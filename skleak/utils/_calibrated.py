"""A number that remembers that it was read off private records."""

from typing import Any


class CalibratedNoise(float):
    """A noise scale that was read off records.

    It is a number in all respects, and an exact function of the records: a private estimator that
    is given one claims no guarantee of differential privacy. The mark survives arithmetic with
    numbers (``+ - * / // % **``), ``round``, copies, clones, pickles and the JSON of releases.
    ``float(noise)``, NumPy and `math` forget it: use ``float`` for a number that was read off
    records that are public.

    Examples
    --------
    >>> noise = CalibratedNoise(0.5)
    >>> noise == 0.5, type(round(2 * noise, 1)) is CalibratedNoise, type(float(noise)) is float
    (True, True, True)
    """


def _marked(name: str) -> Any:
    of_float = getattr(float, name)

    def method(self: CalibratedNoise, *others: Any) -> Any:
        found = of_float(self, *others)
        return CalibratedNoise(found) if isinstance(found, int | float) else found

    method.__name__, method.__doc__ = name, of_float.__doc__
    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    for _side in ("", "r"):
        setattr(CalibratedNoise, f"__{_side}{_name}__", _marked(f"__{_side}{_name}__"))
for _name in ("neg", "pos", "abs", "round", "trunc", "floor", "ceil"):
    setattr(CalibratedNoise, f"__{_name}__", _marked(f"__{_name}__"))
