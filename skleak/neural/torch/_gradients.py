"""Clipped gradients of a torch module record by record, and what they reveal.

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

from skleak.neural.gradients import Clipping, Gradients, Part, Weigh, check_smooth
from skleak.neural.torch._autograd import Batch, PerRecord
from skleak.neural.torch._blank import Blank
from skleak.neural.torch._checks import ADVICE, UNKNOWN
from skleak.neural.torch._explained import explained
from skleak.neural.torch._objective import Objective
from skleak.neural.torch._parts import Parts, Request, Scales
from skleak.neural.torch._rows import Rows, numbers, squared_norms, weighted_sum
from skleak.utils._blocks import dense, row_blocks
from skleak.utils._random import make_generator
from skleak.utils._typing import Array, FloatArray

# Most numbers in the gradients held at once, and most records: what fits a cache, or a GPU.
_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 29}
_RECORDS = {"cpu": 256, "cuda": 4096}


class TorchGradients(Gradients):
    """Gradients of a torch module by ``torch.func``, in micro-batches.

    Parameters that require no gradient stay as they are, and count as public. The others are held
    by the module in its own precision.

    Parameters
    ----------
    module : torch.nn.Module
        Takes (n, ...) records and returns (n, n_outputs). It is used, not copied.
    objective : Objective
        The loss of a record.
    clipping : Clipping
        How gradients are clipped.
    max_batch : int or None, default=None
        Most gradients in memory at once, those of probes included; None for what fits.
    device : torch.device or str, default="cpu"
        Where the module goes, and all computations with it.
    linear : dict or None, default=None
        Weights whose gradients need not be written out; see `PerRecord`.
    blank : Blank
        The module as its factory made it.
    made_up : Tensor of shape (k, ...)
        Records of nobody, on which what is published must predict as the module does.
    """

    def __init__(
        self,
        module: Any,
        objective: Objective,
        clipping: Clipping,
        *,
        blank: Blank,
        made_up: Any,
        max_batch: int | None = None,
        device: Any = "cpu",
        linear: dict[str, tuple[int, ...]] | None = None,
    ) -> None:
        super().__init__(clipping, max_batch)
        self.device, self.objective, self._linear = torch.device(device), objective, linear
        self._made_up = made_up.cpu()
        self._use(module, blank)

    def _use(self, module: Any, blank: Blank) -> None:
        self._blank = blank
        self.module = module.to(self.device).train()
        named = self.module.named_parameters()
        self._trained = {name: p.detach() for name, p in named if p.requires_grad}
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
        sizes = [tensor.numel() for tensor in self._trained.values()]
        flat = torch.tensor(np.asarray(values), dtype=self.dtype, device=self.device)
        for tensor, part in zip(self._trained.values(), flat.split(sizes), strict=True):
            tensor.copy_(part.reshape(tensor.shape))

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

    def clipped_sum(self, X: Array, y: Array) -> tuple[FloatArray, FloatArray]:
        """Sum of the clipped gradients, (p,), and the losses of the records, (n,)."""
        total, found = np.zeros(self.n_parameters), [np.empty(0)]
        for batch in self._batches(X, y, 1):
            gradients, losses = self.per_record(batch)
            total += self._sum(gradients, losses)
            found.append(numbers(losses))
        return total, np.concatenate(found)

    def norms(self, X: Array, y: Array) -> FloatArray:
        """Norms of the clipped gradients, (n,)."""
        found = [np.empty(0)]
        for batch in self._batches(X, y, 1):
            norms = numbers(_norms(*self.per_record(batch)))
            found.append(norms / self.clipping.divisor(norms))
        return np.concatenate(found)

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

        "norm" is exact for few unknowns. For many it comes from Lanczos' method with a random
        start, rounded upward: at least the eigenvalue and at most 1 / 0.95 of it, but for a chance
        of 1e-6 a record.
        """
        asked = parts, n_probes, rng, private_target
        return self._walk(X, y, weigh, asked, lambda gradients, losses: None)

    def sum_and_information(
        self, X: Array, y: Array, weigh: Weigh, **options: Any
    ) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """`clipped_sum` and `information` of the same records; the gradients are taken once."""
        chosen = {"n_probes": None, "rng": None, "private_target": True} | options
        asked = chosen["parts"], chosen["n_probes"], chosen["rng"], chosen["private_target"]
        total, found = np.zeros(self.n_parameters), [np.empty(0)]

        def see(gradients: Rows, losses: Any) -> None:
            total[:] += self._sum(gradients, losses)
            found.append(numbers(losses))

        parts = self._walk(X, y, weigh, asked, see)
        return total, np.concatenate(found), parts

    def _walk(
        self,
        X: Array,
        y: Array,
        weigh: Weigh,
        asked: tuple[Collection[Part], int | None, np.random.Generator | None, bool],
        see: Callable[[Rows, Any], None],
    ) -> dict[str, FloatArray]:
        """Information of every record; ``see`` is shown the gradients and losses of each once."""
        check_smooth(self.clipping)
        parts, n_probes, rng, private_target = asked
        unknowns = self.n_unknowns(X, private_target)
        shapes = {
            "trace": (),
            "plain": (),
            "norm": (),
            "diagonal": (unknowns,),
            "matrix": (unknowns,) * 2,
        }
        found: dict[str, list[FloatArray]] = {p: [np.empty((0, *shapes[p]))] for p in parts}
        request = Request(parts, n_probes, make_generator(rng), private_target, unknowns)
        answer = Parts(self.per_record, request)
        for batch in self._batches(X, y, request.width):
            scales: list[Scales] = []

            def scaling(gradients: Rows, losses: Any, known: list[Scales] = scales) -> Scales:
                if not known:
                    known.append(self._scales(gradients, losses, weigh))
                    see(gradients, losses)
                return known[0]

            with explained(UNKNOWN, ADVICE):
                each = answer.of(batch, scaling)
            for part, values in each.items():
                found[part].append(values)
        return {part: np.concatenate(values) for part, values in found.items()}

    def encode(self, y: Array) -> Any:
        """Targets on the device, (n, 1 or K)."""
        return self._tensor(self.objective.encode(y))

    def _sum(self, gradients: Rows, losses: Any) -> FloatArray:
        """Sum of the clipped gradients of a micro-batch, (p,)."""
        norms = numbers(_norms(gradients, losses))
        weights = self._tensor(1.0 / self.clipping.divisor(norms))
        sums = weighted_sum(weights, gradients)
        return numbers(torch.cat([sums[name].flatten() for name in self._trained]))

    def _scales(self, gradients: Rows, losses: Any, weigh: Weigh) -> Scales:
        """Return what clipping and subsampling do to changes of the gradients."""
        norms = _norms(gradients, losses)
        n = numbers(norms)
        h = self.clipping.divisor(n)
        factors = self._tensor(np.stack(np.broadcast_arrays(*weigh(n / h))))
        radial = np.abs(1.0 - n * self.clipping.slope(n) / h) / h
        return Scales(gradients, norms, self._tensor(np.stack([radial, 1.0 / h])), factors)

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


def _norms(gradients: Rows, losses: Any) -> Any:
    """Norms of the gradients, (n,), after a look at whether they and the losses are finite."""
    norms = squared_norms(gradients).sqrt()
    if not bool(torch.isfinite(losses).all() and torch.isfinite(norms).all()):
        raise FloatingPointError("the loss or the gradient of a record is not finite")
    return norms
