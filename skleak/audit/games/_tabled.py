"""Games about a secret of every record: what they plan alike, and the tables of all of them."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from skleak.audit.games._game import Game
from skleak.audit.tables._design import Outcome, SecretDesign
from skleak.audit.tables._secret import (
    error_records,
    error_results,
    success_records,
    success_results,
)
from skleak.metrics import simultaneous_confidence_level


class TabledGame(Game):
    """A game that guesses values, or estimates numbers."""

    design: SecretDesign
    estimates: bool = False  # numbers, whose errors are measured

    def _designed(
        self,
        attacks: Mapping[str, Any],
        incomparable: frozenset[str],
        noise_scales: tuple[float, ...],
        **known: Any,
    ) -> SecretDesign:
        """Plan a game; `known` are the other fields of its design."""
        level = self.task.confidence_level
        n_verdicts = max(len(attacks) - len(incomparable), 1) * len(noise_scales)
        return SecretDesign(
            attacks=tuple(attacks),
            incomparable=incomparable,
            noise_scales=noise_scales,
            drawn=self.task.drawn,
            confidence_level=level,
            verdict_level=simultaneous_confidence_level(level, n_verdicts),
            **known,
        )

    def results(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        table = error_results if self.estimates else success_results
        return table(self.design_of(outcomes), self.joined(outcomes))

    def records(self, outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
        table = error_records if self.estimates else success_records
        return table(self.design_of(outcomes), self.joined(outcomes))

    def design_of(self, outcomes: Mapping[str, Outcome]) -> SecretDesign:
        """Return the design with what is known of the records once they are attacked."""
        return self.design

    def joined(self, outcomes: Mapping[str, Outcome]) -> Mapping[str, Outcome]:
        """Return the outcomes by noise level and attack, where they were played otherwise."""
        return outcomes

    def shared_facts(self) -> dict[str, Any]:
        """Return the facts that the task and the design tell of any game about a secret."""
        prior = self.task.prior
        return super().shared_facts() | {"prior": prior if isinstance(prior, str) else "given"}
