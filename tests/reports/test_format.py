import pytest
from helpers import every

from skleak.plotting.labels import count, number, printable, shorten, text_width


@pytest.mark.parametrize(
    "value, text",
    [
        (0.0, "0"),
        (-0.0, "0"),
        (float("nan"), "–"),
        (float("inf"), "infinite"),
        (-float("inf"), "-infinite"),
        (2.0, "2"),
        (0.99951, "1"),
        (999.6, "1,000"),
        (0.0001234, "0.000123"),
        (0.00001234, "1.23 × 10⁻⁵"),
        (-1234.0, "-1,230"),
        (9_994_999.0, "9,990,000"),
        (9_996_000.0, "1 × 10⁷"),
        (1e300, "1 × 10³⁰⁰"),
    ],
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_counts_are_whole():
    assert count(1234567) == "1,234,567"


@every("width", range(5, 30))
def test_short_names_fit_and_keep_both_ends(width):
    for name in ("measurement_of_the_blood_pressure", "血压测量血压测量血压测量血压测量", "ab"):
        short = shorten(name, width)
        assert text_width(short) <= width
        assert name.startswith(short[0])
        assert name.endswith(short[-1])
        assert (short == name) == (text_width(name) <= width)


def test_nothing_that_steers_remains():
    assert printable("a\x1b[2J\u202e\r\n\u2066b") == "a�[2J����b"
    assert printable("क्\u200dष") == "क्\u200dष"
