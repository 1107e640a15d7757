"""A column that is secret, and how well it is guessed without the model."""

from dataclasses import dataclass

import numpy as np

from skleak.adversary.knowledge import (
    Secret,
    attribute_prior,
    read_secret,
    resolve_records,
)
from skleak.attacks import ImputationAttack, PriorAttack
from skleak.audit.games._game import Task
from skleak.audit.games._secret import determination
from skleak.audit.games.attribute._dependence import related_columns
from skleak.utils._typing import Array, FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class KnownColumn:
    """A secret column, and what is known of it whatever is released. Confidential."""

    secret: Secret
    targets: IntArray  # positions of the records under attack, (n_targets,)
    truth: Array  # true values, (n_targets,)
    values: Array  # candidate values, (n_values,); empty for a quantity
    prior: FloatArray  # of every target, (n_targets, n_values)
    baseline: float  # success of the prior
    guesser: ImputationAttack  # fitted
    imputation: float  # success of imputation without the model
    imputed: float  # the same with the secrets of the data, as they are
    # Largest prior probability, or squared error of the mean of the prior, (n_targets,).
    prior_score: FloatArray
    # Columns that determine the secret, and those that it determines, with how well.
    related: dict[str, dict[str, float]]
    spread: float = 1.0  # variance of the numbers that are guessed; 1 for categories


def known_column(task: Task) -> KnownColumn:
    """Read the column of a task, and measure what guessing without the model gets right."""
    attribute, table, y, records = task.attribute, task.table, task.y, task.records
    secret, others, known_y = read_secret(table, y, attribute, task.values)
    rows = resolve_records(records, table.shape[0])
    truth, codes = secret.column[rows], secret.codes
    imputation = ImputationAttack(attribute, values=task.values, records=records).fit(table, y)
    if secret.values is None:
        column = secret.column
        mean = PriorAttack(attribute, prior=task.prior, records=records).fit(table, y).predict()
        spread, errors = float(column.var()), (mean - truth) ** 2
        imputed = determination((imputation.predict() - truth) ** 2, spread)
        return KnownColumn(
            secret=secret,
            targets=rows,
            truth=truth,
            values=column[:0],
            prior=np.empty((len(rows), 0)),
            guesser=imputation,
            baseline=determination(errors, spread),
            imputation=imputed,
            imputed=imputed,
            related=related_columns(table, y, secret),
            prior_score=errors,
            spread=spread,
        )
    prior = attribute_prior(task.prior, others, known_y, secret, rows)
    guess, everyone = imputation.prior_.argmax(axis=1), np.arange(len(rows))
    # A secret that is drawn is guessed as often as its prior says.
    right = prior[everyone, guess] if task.drawn else guess == codes[rows]
    return KnownColumn(
        secret=secret,
        targets=rows,
        truth=truth,
        values=secret.values,
        prior=prior,
        guesser=imputation,
        baseline=float(prior.max(axis=1).mean()),
        imputation=float(right.mean()),
        imputed=float(np.mean(guess == codes[rows])),
        related=related_columns(table, y, secret),
        prior_score=prior.max(axis=1),
    )
