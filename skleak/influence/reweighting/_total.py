"""Weights that even the total loss.

Total leakage of a reweighted fit: the weights, too, are functions of the data.

With weights that balance the leakage, [FIL21] eq. 29 differentiates the minimizer with the
weights held fixed, and understates what is leaked. At the fixed point of the reweighting a record
moves the minimizer in three ways: through its own terms, through its own weight, and through the
weights of all others. The first is the conditional Jacobian; all three are the total one,

    J = s {- omega [(c P x~ - c' xi) w^T + r P E - 2 c Xi E,  q P x~] + tau [o^T, o_y]} ,

with the adjoint ``(P, second_k, third_k)`` of the closed system (`_total_system`), which replaces
``A`` by ``P``; ``xi_k = x~^T second_k x~``; ``Xi_k = x~^T second_k``;
``tau_k = omega (r (P x~)_k - c xi_k + third_k)``; and the derivative ``[o, o_y]`` of the logarithm
of the balanced norm with respect to the record. A record costs O(p^3).

The total leakage of a record can be larger or smaller than the conditional one. A weight is about
proportional to ``1 / |r|`` where the part ``r A E`` prevails, so that ``omega r`` stays what it is
as the target or the prediction of the record changes: then its own weight cancels the part
``c x~ w^T``, and that of the target. On IWPC
(alpha=1e-2, whole record) the ratio runs from 0.65 to 3.6 with the median at 1.05.

Where the fixed point has no derivative the total leakage is infinite.
"""

import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skleak.influence.jacobian import Columns, FitFactor, Norm, norms_of_jacobians, record_norms
from skleak.influence.noise import fixed_joint_loss, fixed_losses, per_noise
from skleak.influence.reweighting._total_system import Adjoint, AdjointSystem, Balance, losses_under
from skleak.influence.state import FitState, RecordBatch, WeightRule
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add, dense, is_large
from skleak.utils._sklearn_compat import outer_stacklevel
from skleak.utils._typing import FloatArray, IntArray

# Largest number of parameters for which the system is written out: its matrix takes 0.2 GB.
_LARGEST_DENSE = 100
# Beyond these the Krylov method takes more than 3 GB, or longer than at n = 30,000 with 200
# parameters, where it is about 10 minutes on 2 cores: some 15 passes of 35 s.
_LARGEST, _MOST_WORK = 300, 2.5e11
# Total leakage has an error of a few times the deviation: 2e-3 at 1e-3, 5e-4 at 1e-4 on IWPC.
_LARGEST_DEVIATION = 1e-3
_LARGEST_RESIDUAL = 1e-6
# Share of the largest weight below which rounding hides what the smallest one does: of a record
# 1,000 times as long as all others, at a share of 3e-10, the loss was wrong by half and more.
_SMALLEST_WEIGHT = 1e-8


@dataclass(frozen=True)
class TotalDerivative:
    """Derivative of a reweighted minimizer, prepared for all records. Confidential."""

    # what is balanced; None where the weights do not depend on the data, and the total Jacobian is
    # the conditional one
    balance: Balance | None
    adjoint: Adjoint | None  # solution of the adjoint system, None together with ``balance``
    # relative standard deviation of what is balanced: how far the fit is from the fixed point
    spread: float
    deviation: float  # largest relative deviation of it from its mean, over all records
    residual: float  # relative residual of the adjoint system
    converged: bool  # whether the minimizer is one

    @property
    def unbounded(self) -> bool:
        """True if no derivative of the weights was found: no finite number bounds the leakage."""
        if self.adjoint is None:
            return not max(self.deviation, self.residual) < np.inf
        return not self.residual <= _LARGEST_RESIDUAL

    def jacobians(self, X: FloatArray, y: FloatArray, factors: FloatArray) -> FloatArray:
        """Total Jacobians of a dense block of records of such weights, of shape (b, p, d + 1)."""
        balance, adjoint = self.balance, self.adjoint
        assert balance is not None
        assert adjoint is not None
        g, w, d = balance.gradients(X, y), balance.factor.weights, balance.factor.n_features
        features = balance.root[:d].T
        along, second_x, quadratic, by_weight = adjoint.products(g)
        by_predictor = g.third[:, None] * quadratic - g.c[:, None] * along
        by_predictor += g.predictor[:, None] * by_weight
        b, p = along.shape
        jacobians = np.empty((b, p, d + 1))
        second_x *= 2.0 * g.c[:, None, None]
        direct = (second_x.reshape(b * p, p) @ features).reshape(b, p, d)
        direct += by_predictor[:, :, None] * w
        direct -= g.r[:, None, None] * (adjoint.first @ features)
        direct += by_weight[:, :, None] * (g.direct @ features)[:, None, :]
        jacobians[:, :, :d] = direct
        jacobians[:, :, d] = g.target[:, None] * by_weight - g.q[:, None] * along
        jacobians *= factors[:, None, None]
        return jacobians

    @property
    def doubts(self) -> list[str]:
        """Why the total leakage should not be trusted; empty where it can be."""
        doubts = []
        if not self.converged:
            doubts.append("The solver did not converge: there is no minimizer to differentiate.")
        if not self.deviation <= _LARGEST_DEVIATION:
            doubts.append(
                "The reweighting is not at its fixed point: the balanced leakage of a record "
                f"deviates from the mean by up to {self.deviation:.1e} (relative), expected at "
                f"most {_LARGEST_DEVIATION:g}. Raise `alpha` or the reweighting's `max_iter`, or "
                "lower its `tol`; there is no fixed point where a record cannot leak at all."
            )
        if not self.residual <= _LARGEST_RESIDUAL:
            doubts.append(
                "The derivative of the reweighting was not found: relative residual "
                f"{self.residual:.1e}, expected at most {_LARGEST_RESIDUAL:g}. The fixed point "
                "may be nearly singular: raise `alpha`."
            )
        return doubts


def total_derivative(
    state: FitState, *, solver: Literal["auto", "dense", "krylov"] = "auto"
) -> TotalDerivative:
    """Differentiate the fixed point of a reweighted fit, once for all records.

    Parameters
    ----------
    state : FitState
        State of the fit.
    solver : {"auto", "dense", "krylov"}, default="auto"
        How the adjoint system is solved; by default densely up to 100 parameters.

    Returns
    -------
    TotalDerivative
        Its ``doubts`` say whether it can be trusted: whoever shows the numbers shows them.

    Raises
    ------
    ValueError
        For more than 300 parameters (200 at n = 30,000), or more than two classes.
    LinAlgError
        Where the fixed point is singular, so that the weights have no derivative.

    Notes
    -----
    The fit is differentiated at the weights it has; away from the fixed point these are not
    those that the algorithm tends to. A record that cannot leak what is balanced would ask for
    an infinite weight: then there is no fixed point, and the deviation is 1. The spectral norm
    has no derivative where its largest singular value is a double one.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0.0, 2.0, 2.0, 5.0])
    >>> model = PrivateLinearRegression(0.1, alpha=0.5, reweighting="irfil").fit(X, y)
    >>> derivative = total_derivative(model._confidential_state())
    >>> derivative.doubts
    []
    """
    objective = state.objective
    if state.balanced is None:
        return TotalDerivative(None, None, 0.0, 0.0, 0.0, state.converged)
    _check_size(state)
    solved = state.converged or not state.at_fixed_point
    rule = state.balanced
    losses, level = losses_under(rule, state.factor, objective, objective.reweights)
    spread = losses.spread
    if losses.mean == 0.0:
        # Nothing that is balanced leaks, or all weight went to records that cannot leak it. Where
        # something leaks all the same, the smallest change of a record changes all weights.
        deviation = np.inf if _any_leaks(state) else 0.0
        return TotalDerivative(None, None, spread, deviation, 0.0, solved)
    deviation = losses.deviation
    balance = Balance.of(state.factor, rule, level)
    system = AdjointSystem(objective, balance, state.verbose)
    if solver == "auto":
        solver = "dense" if system.packing.n_parameters <= _LARGEST_DENSE else "krylov"
    adjoint = system.solve_dense() if solver == "dense" else system.solve_krylov()
    residual = system.residual(adjoint)
    return TotalDerivative(balance, adjoint, spread, deviation, residual, solved)


def reaches_fixed_point(
    rule: WeightRule, factor: FitFactor, objective: Objective, spread: float
) -> bool:
    """Return True if the weights of a fit are close enough to those that it asks for.

    Else nothing is known of what it leaks: the weights are whatever the search had come to, or
    differ by so much that rounding hides how they depend on the data.

    Parameters
    ----------
    rule : WeightRule
        What is balanced.
    factor : FitFactor
        The fit.
    objective : Objective
        Its records, with their weights.
    spread : float
        Relative standard deviation of what is balanced.

    Returns
    -------
    bool
    """
    blocks = Blocks.of(objective.reweights, objective.sample_weight, width=1)
    least, most = blocks.map_reduce(_weight_ends, np.minimum)
    if least < -_SMALLEST_WEIGHT * most:
        return False
    smallest, _ = objective.weight_range
    if smallest > 0.0 and spread * np.sqrt(objective.total / smallest) <= _LARGEST_DEVIATION:
        return True
    losses, _ = losses_under(rule, factor, objective, objective.reweights)
    # Where nothing that is balanced leaks, there are no weights to be found.
    return losses.mean == 0.0 or bool(losses.deviation <= _LARGEST_DEVIATION)


def _weight_ends(omega: FloatArray, copies: FloatArray) -> FloatArray:
    """Smallest factor of a block, and minus the largest, of records that take part, (2,)."""
    some = omega[copies > 0.0]
    return np.array([some.min(initial=np.inf), -some.max(initial=0.0)])


def fitted_derivative(state: FitState) -> TotalDerivative:
    """Find how the weights of a reweighting depend on the data, when first asked for.

    Where the fixed point is singular, any change of the data may move them without bound: then
    the total leakage is infinite. Whatever makes it unreliable is a warning, once.
    """
    return state.once(_find_derivative)


def hand_on_derivative(state: FitState, alone: FitState) -> None:
    """Let the same fit without records know how the weights depend on the data."""
    alone.remember(_find_derivative, fitted_derivative(state))


def _find_derivative(state: FitState) -> TotalDerivative:
    try:
        found = total_derivative(state)
    except np.linalg.LinAlgError:
        found = TotalDerivative(None, None, 0.0, 0.0, np.inf, state.converged)
    if found.doubts:
        warnings.warn(
            "The leakage of this reweighted fit is unreliable"
            + (", and stated as infinite. " if found.unbounded else ". ")
            + " ".join(found.doubts),
            ConvergenceWarning,
            stacklevel=outer_stacklevel(),
        )
    return found


def _any_leaks(state: FitState) -> bool:
    """Return True if a record that takes part leaks anything with its weight held fixed."""
    factor, columns = state.factor, state.whole_record

    def leaks(X: FloatArray, y: FloatArray, copies: FloatArray) -> bool:
        return bool(np.any(record_norms(factor, X, y, columns)[copies > 0.0] > 0.0))

    objective = state.objective
    blocks = Blocks.of(objective.X, objective.y, objective.sample_weight)
    return blocks.map_reduce(leaks, operator.or_)


def _check_size(state: FitState) -> None:
    if state.factor.n_target_directions > 1:
        raise ValueError(
            "The total leakage of a reweighted fit is known for one prediction per record; got "
            f"{state.factor.n_target_directions + 1} classes. Reweight two classes, or drop the "
            "reweighting."
        )
    n, p = len(state.objective.y), len(state.factor.coefficients)
    largest = min(_LARGEST, int((_MOST_WORK / n) ** (1.0 / 3.0)))
    if is_large(state.objective.X):
        largest = _LARGEST  # whoever has a cluster knows how long it may take
    if p > largest:
        raise ValueError(
            f"The leakage of a reweighted fit of {n} records with {p} parameters would take too "
            "long: the weights are functions of the data, and differentiating them costs time "
            "O(n p^3) in each of a dozen passes or more, and memory O(p^3). Expected at most "
            f"{largest} parameters. `conditional_fisher_information_loss_` is there, but holds the "
            "weights fixed, as [FIL21] does, and may be too small. Reduce the columns first "
            "(sklearn.decomposition.PCA), or drop the reweighting."
        )


# Entries of the largest table of one block of records: 16 MB.
_ELEMENTS = 1 << 21


def total_feature_norms(
    state: FitState,
    batch: RecordBatch,
    blocks: Sequence[Columns],
    norm: Norm = "spectral",
    *,
    derivative: TotalDerivative | None = None,
) -> FloatArray:
    """Total Fisher information loss of each record over several blocks of columns.

    Here and below ``derivative`` is that of the state, where it is known already.

    Of the whole weight of each, at the noise scale of the fit; returns (n, n_blocks). Of records
    that are not training records: as if one took part in this fit.
    """
    derivative = total_derivative(state) if derivative is None else derivative
    if derivative.unbounded:
        return np.tile(np.where(batch.present, np.inf, 0.0)[:, None], len(blocks))
    if derivative.adjoint is None:
        return fixed_losses(state, batch, blocks, norm)
    d = state.n_features

    def norms(jacobians: FloatArray) -> FloatArray:
        parts = (_restricted(jacobians, block, d) for block in blocks)
        return np.column_stack([norms_of_jacobians(part, norm) for part in parts])

    walk, jacobians = _walk(derivative.adjoint, batch, show=state.verbose), derivative.jacobians
    return per_noise(walk.map(lambda *block: norms(jacobians(*block))), state.noise_scale)


def total_joint_norm(
    state: FitState,
    batch: RecordBatch,
    columns: Columns | None = None,
    norm: Norm = "spectral",
    *,
    derivative: TotalDerivative | None = None,
) -> float:
    """Total Fisher information loss of all given records together."""
    columns = state.whole_record if columns is None else columns
    derivative = total_derivative(state) if derivative is None else derivative
    if derivative.unbounded:
        return np.inf if np.any(batch.present) else 0.0
    if derivative.adjoint is None:
        return fixed_joint_loss(state, batch, columns, norm)
    p, d = len(state.factor.coefficients), state.n_features

    def gram(*block: FloatArray) -> FloatArray:
        jacobians = _restricted(derivative.jacobians(*block), columns, d)
        flat = jacobians.transpose(1, 0, 2).reshape(p, -1)
        return flat @ flat.T

    joint = _walk(derivative.adjoint, batch, show=state.verbose).map_reduce(gram, add)
    if norm == "trace":
        unknowns = np.sum(batch.present) * columns.count(d)
        square = np.trace(joint) / unknowns if unknowns > 0 else 0.0
    else:
        square = np.linalg.eigvalsh(joint)[-1]
    return float(per_noise(np.sqrt(np.array([max(square, 0.0)])), state.noise_scale)[0])


def total_jacobian(
    state: FitState, rows: IntArray, *, derivative: TotalDerivative | None = None
) -> FloatArray:
    """Dense total Jacobians of a few training records.

    Returns (k, p, d + 1): derivative of the noiseless minimizer of the whole algorithm with respect
    to ``[x, y]`` of the record, all of its weight; zero for a record of weight zero.
    """
    batch = state.training.take(rows)
    derivative = total_derivative(state) if derivative is None else derivative
    if derivative.unbounded:
        raise ValueError(
            "The fixed point of the reweighting has no derivative, so there is no Jacobian: "
            + " ".join(derivative.doubts)
        )
    if derivative.adjoint is None:
        conditional = state.factor.jacobian(dense(batch.X), batch.y)
        return conditional * batch.factors[:, None, None]
    return _walk(derivative.adjoint, batch).map(derivative.jacobians)


def _walk(adjoint: Adjoint, batch: RecordBatch, *, show: bool = False) -> Blocks:
    """Return the records with their weights, in blocks of which the Jacobians fit."""
    p = adjoint.first.shape[1]
    return Blocks.of(
        batch.X,
        batch.y,
        batch.factors,
        width=p * (p + 1),
        elements=_ELEMENTS,
        task="total leakage" if show else "",
    )


def _restricted(jacobians: FloatArray, columns: Columns, n_features: int) -> FloatArray:
    """Jacobians with respect to a block of columns alone."""
    features = jacobians[:, :, :n_features]
    if columns.constrained or columns.units is not None:
        features = features @ columns.basis(n_features)
    elif columns.indices is not None:
        features = features[:, :, columns.indices]
    elif columns.target:
        return jacobians
    if not columns.target:
        return features
    return np.concatenate([features, columns.target_unit * jacobians[:, :, n_features:]], axis=2)
