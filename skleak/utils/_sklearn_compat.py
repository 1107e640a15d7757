"""The only file that touches scikit-learn's private names."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import HasMethods, Hidden, Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _num_samples as num_samples
from sklearn.utils.validation import validate_data

__all__ = [
    "HasMethods",
    "Hidden",
    "Interval",
    "StrOptions",
    "check_sample_weight",
    "fit_context",
    "num_samples",
    "validate_data",
]
