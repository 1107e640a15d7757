"""What a release of private stochastic gradient descent guarantees, whatever the data."""

from skleak.neural.guarantee._guarantee import SGDGuarantee

__all__ = ["SGDGuarantee"]
