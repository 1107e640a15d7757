"""Numbers and names for people never claim more than is known."""

import numpy as np
import pytest

from skleak.plotting.labels import attack_label, bound_label, code, percent


@pytest.mark.parametrize(
    "share, text",
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.5449, "54%"),
        (0.0423, "4.2%"),
        (0.00123, "0.12%"),
        (1e-7, "<0.01%"),
        (-1e-7, "-0.01% to 0%"),
        (0.999999, ">99.99%"),
        (0.97, "97%"),
        (-0.59, "-59%"),
        (-3.21, "<-100%"),
        (np.nan, "–"),
        (np.inf, "infinite"),
        (-np.inf, "<-100%"),
        (1e100, "1 × 10¹⁰²%"),
    ],
)
def test_percentages_are_never_a_false_certainty(share, text):
    assert percent(share) == text


def test_shares_have_the_digits_that_their_intervals_support():
    for share, within, text in (
        (0.0423, 0.03, "4%"),
        (0.0423, 0.003, "4.2%"),
        (0.0423, 0.0003, "4.23%"),
        (0.5449, 0.2, "54%"),
        (0.5449, 0.002, "54.5%"),
        (0.002, 0.05, "<1%"),
        (0.999, 0.05, ">99%"),
        (-0.002, 0.05, "-1% to 0%"),
        (0.0, 0.05, "0%"),
        (1.0, 0.05, "100%"),
        (0.3, np.inf, "30%"),
        (0.0423, np.nan, "4.2%"),
        (0.0423, 0.0, "4.2%"),
    ):
        assert percent(share, within=within) == text


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.123456, 0.5, 0.99, 0.99999, 1.0, 0.07, 0.29, 0.57])
def test_bounds_are_rounded_up(value):
    shown = float(percent(value, up=True).strip("<>%")) / 100.0
    assert value - 1e-9 <= shown <= value + 0.0101


def test_names_for_people():
    assert attack_label("white_box") == "white box"
    assert attack_label("my attack") == "my attack"
    assert bound_label("closed_form_fano") == "closed-form Fano"
    assert code("a`b\x1b") == "`a'b\ufffd`"
