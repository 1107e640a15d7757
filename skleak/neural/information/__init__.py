"""The Fisher information of every record, added up over the steps."""

from skleak.neural.information._mechanism import Sampling, StepMechanism
from skleak.neural.information._observer import Accounting, Observer
from skleak.neural.information._totals import Totals, mean_totals

__all__ = ["Accounting", "Observer", "Sampling", "StepMechanism", "Totals", "mean_totals"]
