"""An attack that is worse than guessing is said to have failed."""

from types import SimpleNamespace

import pandas as pd

from skleak.audit.report._findings import _failed, _played, failed_rows


def results():
    return pd.DataFrame(
        {
            "noise_scale": [0.1, 0.1, 0.1],
            "attack": ["informed", "white_box", "prior"],
            "advantage": [-9.0, -0.1, -0.5],
            "advantage_low": [-12.0, -0.3, -0.6],
            "advantage_high": [-6.0, 0.1, -0.4],
        }
    )


def test_only_attacks_below_the_baseline_beyond_chance_have_failed():
    report = SimpleNamespace(results=results())
    assert failed_rows(report)["attack"].tolist() == ["informed"]
    assert _failed(report)[0].startswith("Failed")
    assert not _failed(SimpleNamespace(results=results().iloc[1:]))


def test_a_failed_attack_is_not_called_the_best():
    assert "best" not in _played(results().iloc[0], 0.01)
    assert "best attack played, `white_box`" in _played(results().iloc[1], 0.01)
