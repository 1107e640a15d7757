"""Gradients of networks.

Clipped gradients of a torch module record by record, and what they reveal.

The derivative of the clipped gradient ``g / h(N)`` follows from that of g, ``dg``: across the
direction e of g it is divided by h, along e multiplied by ``r = (1 - N h' / h) / h``. So autograd
differentiates g only, and for a change z of the record

    z^T G^T M G z = across / h^2 (|dg|^2 - (e.dg)^2) + along r^2 (e.dg)^2,    dg = (d g / d z) z.
"""

import copy
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import torch
from torch.func import vjp

from skleak.neural.gradients import (
    Clipping,
    Gradients,
    Part,
    Pullback,
    StepGradients,
    SumGrid,
    Weigh,
    check_smooth,
    clipped_steps,
)
from skleak.neural.torch._checks import (
    ADVICE,
    UNKNOWN,
    Blank,
    before_any_record,
    check_derivatives,
    check_gradients,
    check_outputs,
    check_parts,
    explained,
    note_changes,
)
from skleak.neural.torch._parts import (
    Batch,
    Loss,
    Objective,
    PerRecord,
    Rows,
    Scales,
    linear_weights,
    numbers,
    squared_norms,
    unflattened,
    weighted_sum,
)
from skleak.utils._arguments import make_generator
from skleak.utils._blocks import dense, row_blocks
from skleak.utils._typing import Array, FloatArray

# Most numbers in the gradients held at once, and most records: what fits a cache, or a GPU.
_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 29}
_RECORDS = {"cpu": 256, "cuda": 4096}
# Columns of the Jacobian of a record that are computed together where not all are needed at once.
_COLUMNS = 16


class TorchGradients(Gradients):
    """Gradients of a torch module by ``torch.func``, in micro-batches.

    The module is built, and what it does to made-up records looked at. Parameters that require no
    gradient stay as they are, and count as public. The others are held by the module in its own
    precision.

    Parameters
    ----------
    factory : callable
        Takes nothing and returns a new ``torch.nn.Module``.
    clipping : Clipping
        How gradients are clipped.
    record_shape : tuple of int
        Shape of one record.
    n_classes : int or None
        Number of classes; None for a regression.
    rng : Generator
        Where the initial parameters come from.
    loss : callable or None, default=None
        ``loss(outputs, targets)``, as the functions of ``torch.nn.functional``; None is
        cross-entropy, or half the squared error.
    max_batch : int or None, default=None
        Most gradients in memory at once.
    device : str, default="auto"
        Of torch; "auto" is a GPU where torch finds one.
    differentiable : bool, default=True
        Whether what records reveal will be asked, which needs second derivatives.

    Raises
    ------
    TypeError, ValueError
        For a module that is none, or whose gradients are not those of single records.

    Warns
    -----
    PrivacyLeakWarning
        Where its gradients jump, so that Fisher information is too small.
    """

    def __init__(
        self,
        factory: Callable[[], Any],
        clipping: Clipping,
        *,
        record_shape: tuple[int, ...],
        n_classes: int | None,
        rng: np.random.Generator,
        loss: Loss | None = None,
        max_batch: int | None = None,
        device: str = "auto",
        differentiable: bool = True,
    ) -> None:
        self.clipping, self.max_batch = clipping, max_batch
        if loss is not None and not callable(loss):
            raise TypeError(
                "`loss` must be None or a function of outputs and targets; got "
                f"{type(loss).__name__}. Pass one such as torch.nn.functional.cross_entropy."
            )
        note_changes()
        module = build_module(factory, rng)
        check_parts(module)
        blank = before_any_record(module)
        self.device = find_device(device)
        module = module.to(self.device).train()
        made_up = torch.rand(3, *record_shape, generator=torch.Generator().manual_seed(0))
        # Records of nobody, on which what is published must predict as the module does.
        self._made_up = made_up.to(dtype=next(module.parameters()).dtype)
        made_up = self._made_up.to(self.device)
        widths = (n_classes or 1, 1) if n_classes in (None, 2) else (n_classes,)
        self.objective = Objective.of(n_classes, check_outputs(module, made_up, widths), loss)
        blank.check_parameters(dict(module.named_parameters()))
        smooth = check_gradients(module, self.objective, made_up, differentiable=differentiable)
        self._linear = linear_weights(module, _trained(module), made_up)
        self._use(module, blank)
        batch = Batch(made_up, self.encode(np.zeros(len(made_up))))
        with explained("torch cannot take the gradient of `module` record by record"):
            self.per_record(batch)
        if smooth:
            check_derivatives(self.per_record, batch)

    def _use(self, module: Any, blank: Blank) -> None:
        self._blank = blank
        self.module = module.to(self.device).train()
        self._trained = _trained(self.module)
        self.dtype = next(iter(self._trained.values())).dtype
        self.per_record = PerRecord(self.module, self.objective, self._trained, self._linear)

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what the module kept as it ran: a pickle travels."""
        own = {"module", "_blank", "_trained", "per_record"}
        state = {name: value for name, value in self.__dict__.items() if name not in own}
        return state | {"module": self.published()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Tie the parameters to the module again, which a pickle keeps apart from it."""
        self.__dict__.update(state)
        self._use(self.module, Blank(self.module))

    def published(self) -> Any:
        """Build the module anew, on the CPU: trained parameters, and nothing that it kept.

        Raises
        ------
        ValueError
            Where it shares state with the module that was trained; and where it predicts otherwise
            than that one, on made-up records.
        """
        module = self._blank.filled(self._trained)
        trial = copy.deepcopy(module).to(self.device)  # it may keep what it runs on
        with torch.no_grad(), explained("`module` cannot be published"):
            again = numbers(trial(self._made_up.to(self.device)))
        outputs = self.predict_raw(self._made_up.numpy())
        if not np.allclose(again.reshape(outputs.shape), outputs, 1e-3, 1e-5, equal_nan=True):
            raise ValueError(
                "`module` predicts by more than its parameters and what its factory makes: by a "
                "hook, or by a buffer or an attribute that changed as it ran. None of these is "
                "published, as no noise protects it. Compute the outputs in `forward`, of the "
                "parameters that are trained and of what stays as the factory made it."
            )
        return module

    @property
    def n_parameters(self) -> int:
        """Number of parameters that are trained."""
        return sum(tensor.numel() for tensor in self._trained.values())

    @property
    def parameters(self) -> FloatArray:
        """The parameters that are trained, in the order of the module, of shape (p,); a copy."""
        return numbers(torch.cat([tensor.flatten() for tensor in self._trained.values()])).copy()

    @parameters.setter
    def parameters(self, values: FloatArray) -> None:
        for name, part in unflattened(self._tensor(values), self._trained).items():
            self._trained[name].copy_(part)

    def n_unknowns(self, X: Array, private_target: bool) -> int:
        """Entries of a record, and of its target one, or K - 1 for K > 2 classes."""
        own = int(np.prod(X.shape[1:]))
        return own + private_target * self.objective.directions().shape[1]

    def predict_raw(self, X: Array) -> FloatArray:
        """Return the outputs in evaluation mode, (n, n_outputs)."""
        found = [np.empty((0, self.objective.n_outputs))]
        self.module.eval()
        try:
            with torch.no_grad(), explained("`module` fails on the records to predict for"):
                for rows in self._blocks(X.shape[0], 1):
                    outputs = self.module(self._tensor(dense(X[rows])))
                    found.append(numbers(outputs).reshape(len(outputs), -1))
        finally:
            self.module.train()
        return np.concatenate(found)

    def clipped_sum(
        self, X: Array, y: Array, grid: SumGrid | None = None
    ) -> tuple[Array, FloatArray]:
        """Sum of the clipped gradients, (p,), and the losses of the records, (n,)."""
        assert grid is None
        total, found = np.zeros(self.n_parameters), [np.empty(0)]
        for batch in self._batches(X, y, 1):
            gradients, losses = self.per_record(batch)
            weights = self._tensor(1.0 / self.clipping.divisor(numbers(_norms(gradients, losses))))
            sums = weighted_sum(weights, gradients)
            total += numbers(torch.cat([sums[name].flatten() for name in self._trained]))
            found.append(numbers(losses))
        return total, np.concatenate(found)

    def information(
        self,
        X: Array,
        y: Array,
        weigh: Weigh,
        *,
        parts: Collection[Part],
        n_probes: int | None = None,
        rng: np.random.Generator | None = None,
        private_target: bool = True,
    ) -> dict[str, FloatArray]:
        """Parts of the information of every record; see `Gradients.information`.

        For a change z of the unknowns, ``|M^(1/2) G z|^2``: summed over the unit changes of each,
        some at a time, or its mean over random signs.
        """
        check_smooth(self.clipping)
        u, whole, rng = self.n_unknowns(X, private_target), "matrix" in parts, make_generator(rng)
        n_probes = None if whole else n_probes
        width = n_probes or (u if whole else min(_COLUMNS, u))
        per_record = self.per_record.whole() if whole else self.per_record
        shapes: dict[str, tuple[int, ...]] = {"trace": (), "plain": (), "matrix": (u, u)}
        found: dict[str, list[FloatArray]] = {p: [np.empty((0, *shapes[p]))] for p in parts}
        for batch in self._batches(X, y, 1 + width):
            n = len(batch.X)
            sums: dict[str, FloatArray] = {"trace": np.zeros(n), "plain": np.zeros(n)}
            moves = self._tensor(np.eye(u))[:, None].expand(-1, n, -1).split(width)
            for z in moves if n_probes is None else [self._signs((n_probes, n, u), rng)]:
                with explained(UNKNOWN, ADVICE):
                    changed = per_record.pushed(batch, *self._split(batch, z, private_target))
                    gradients, losses, changes = changed
                    scales = self._scales(gradients, losses, weigh)
                    squares = scales.squared(changes) / (n_probes or 1)
                    sums["trace"] += numbers((squares * scales.factors[:, None]).sum((0, 1)))
                    sums["plain"] += numbers(squares.sum((0, 1)))
                    if whole:
                        columns = [v.transpose(0, 1) for v in scales.weighted(changes)]
                        sums["matrix"] = numbers(sum(v @ v.transpose(1, 2) for v in columns))
            for part in parts:
                found[part].append(sums[part])
        return {part: np.concatenate(values) for part, values in found.items()}

    def _split(self, batch: Batch, z: Any, private_target: bool) -> tuple[Any, Any]:
        """Split changes of unknowns (k, n, u) into records (k, n, ...) and targets (k, n, m)."""
        d = batch.X[0].numel()
        dX = z[..., :d].reshape(*z.shape[:2], *batch.X.shape[1:])
        if not private_target:
            return dX, z.new_zeros(*z.shape[:2], batch.targets.shape[1])
        return dX, z[..., d:] @ self._tensor(self.objective.directions().T)

    def _signs(self, shape: tuple[int, int, int], rng: np.random.Generator) -> Any:
        """Random signs, (n_probes, n, u), of which each record has its own."""
        n_probes, n, u = shape
        words = rng.integers(0, 1 << 32, (n, -(-n_probes * u // 32)), dtype=np.uint32)
        bits = np.unpackbits(words.view(np.uint8), axis=1, count=n_probes * u, bitorder="little")
        signs = torch.tensor(bits, device=self.device).to(self.dtype) * 2.0 - 1.0
        return signs.reshape(n, n_probes, u).transpose(0, 1)

    def at_steps(self, path: FloatArray) -> StepGradients:
        """Gradients of a record at parameters (T, p), in double precision, by autograd."""
        wide = self.per_record.whole().wider()
        points = [wide.at(torch.tensor(values, device=self.device)) for values in path]

        def at(record: FloatArray, target: float) -> tuple[FloatArray, Pullback]:
            encoded = self.objective.encode(np.array([target]))[0]
            x, t = (torch.tensor(v, device=self.device) for v in (record, encoded))
            found = [vjp(lambda x, point=point: point.flat(x, t), x) for point in points]
            gradients = np.stack([numbers(gradient) for gradient, _ in found])

            def pullback(u: FloatArray) -> FloatArray:
                rows = torch.tensor(u, device=self.device)
                parts = [pull(row)[0] for (_, pull), row in zip(found, rows, strict=True)]
                return numbers(torch.stack(parts).sum(0))

            return gradients, pullback

        return clipped_steps(self.clipping, at)

    def encode(self, y: Array) -> Any:
        """Targets on the device, (n, 1 or K)."""
        return self._tensor(self.objective.encode(y))

    def _scales(self, gradients: Rows, losses: Any, weigh: Weigh) -> Scales:
        """Return what clipping and subsampling do to changes of the gradients."""
        norms = _norms(gradients, losses)
        n = numbers(norms)
        radial, flat = self.clipping.factors(n)
        factors = self._tensor(np.stack(np.broadcast_arrays(*weigh(n * flat))))
        clipping = self._tensor(np.stack([np.abs(radial), flat]))
        return Scales(gradients, norms, clipping, factors)

    def _batches(self, X: Array, y: Array, width: int) -> Iterator[Batch]:
        """Micro-batches of records that have so many gradients each."""
        for rows in self._blocks(X.shape[0], width):
            yield Batch(self._tensor(dense(X[rows])), self.encode(y[rows]))

    def _blocks(self, n: int, width: int) -> Iterator[slice]:
        if self.max_batch is not None:
            return row_blocks(n, width, max(self.max_batch, width))
        kind = self.device.type if self.device.type in _ELEMENTS else "cpu"
        most = _ELEMENTS[kind] // (self.n_parameters * width)
        return row_blocks(n, 1, min(max(most, 1), _RECORDS[kind]))

    def _tensor(self, values: Array) -> Any:
        return torch.tensor(np.asarray(values), dtype=self.dtype, device=self.device)


def _trained(module: Any) -> dict[str, Any]:
    """Return the parameters of a module that require a gradient, by name."""
    return {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}


def _norms(gradients: Rows, losses: Any) -> Any:
    """Norms of the gradients, (n,), after a look at whether they and the losses are finite."""
    norms = squared_norms(gradients).sqrt()
    if not bool(torch.isfinite(losses).all() and torch.isfinite(norms).all()):
        raise FloatingPointError("the loss or the gradient of a record is not finite")
    return norms


def build_module(factory: Callable[[], Any], rng: np.random.Generator) -> Any:
    """Build a module whose initial parameters follow from ``rng`` alone.

    The generators of torch are as before when it returns. What a factory hands out more than once
    is copied: fits do not share parameters.

    Raises
    ------
    TypeError
        Where ``factory`` is a module itself, or returns none.
    """
    if isinstance(factory, torch.nn.Module) or not callable(factory):
        raise TypeError(
            "`module` must be a function or a class that takes no arguments and returns a new "
            f"torch.nn.Module; got {type(factory).__name__}. Pass `lambda: ...`, or a function at "
            "the top of a module if the estimator is to be pickled."
        )
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(rng.integers(1 << 63)))
        with explained("`module` cannot be called without arguments"):
            module = factory()
    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            f"`module` must return a torch.nn.Module; got {type(module).__name__}. Return the "
            "network, not its outputs or its class."
        )
    with explained("`module` returns a network that cannot be copied"):
        return copy.deepcopy(module)


def find_device(name: str) -> Any:
    """Return the device of a name; "auto" is a GPU where torch finds one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with explained(f"`device` must be 'auto' or a device of torch; got {name!r}"):
        return torch.zeros((), device=name).device
