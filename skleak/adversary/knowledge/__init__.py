"""What an adversary knows beforehand: the attribute, its values and priors, other records."""

from skleak.adversary.knowledge._knowledge import (
    MAX_VALUES,
    Secret,
    as_table,
    column_names,
    find_secret,
    range_of_others,
    ranges_of_others,
    raw_column,
    resolve_records,
    secret_of,
    take_rows,
    widened,
    with_attribute,
    without_attribute,
)
from skleak.adversary.knowledge._priors import (
    attribute_prior,
    conditional_prior,
    default_classifier,
    folds,
    known_features,
    on_encoded_columns,
)

__all__ = [
    "MAX_VALUES",
    "Secret",
    "as_table",
    "attribute_prior",
    "column_names",
    "conditional_prior",
    "default_classifier",
    "find_secret",
    "folds",
    "known_features",
    "on_encoded_columns",
    "range_of_others",
    "ranges_of_others",
    "raw_column",
    "resolve_records",
    "secret_of",
    "take_rows",
    "widened",
    "with_attribute",
    "without_attribute",
]
