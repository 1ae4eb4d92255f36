"""A strict accelerator that every machine has: torch's place for devices of others, filled with numbers on the CPU.

Its tensors hold the real numbers of an operation, so a fit on it can be compared with one on the CPU. Beside that it
does what a GPU does: it refuses operations that mix devices (0-dimensional tensors of the CPU excepted, as on CUDA),
refuses float64 if it is told to have none, and counts what costs time there:

- launches: operations that would start a kernel. Views, allocations and transfers start none. An operation that a GPU
  runs as several kernels counts as one.
- syncs: places where the host waits for the device: `item`, `tolist`, `nonzero`, a boolean index.
- transfers: copies from or to the CPU.

torch registers such a device once in a process and for good, by functions that it calls private; torch is pinned where
these tests run.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

__all__ = ["NAME", "DeviceMismatchError", "NoFloat64Error", "Simulator", "simulated"]

NAME = "sim"
_COPIES = {"aten._to_copy", "aten.copy_", "aten.lift_fresh", "aten.lift_fresh_copy", "aten.lift"}
_WAITS = {
    "aten._local_scalar_dense",
    "aten.nonzero",
    "aten.masked_select",
    "aten.equal",
    "aten._unique2",
    "aten.unique_dim",
}
_INDEXED = {"aten.index", "aten.index_put", "aten.index_put_", "aten._index_put_impl_", "aten._unsafe_index"}
_NO_SCALARS = {"aten.mm", "aten.addmm", "aten.bmm", "aten.cat", "aten.stack", "aten.index_select", "aten.gather"}
_ALLOCATE = {"aten.empty", "aten.empty_like", "aten.new_empty", "aten.empty_strided", "aten.new_empty_strided"}


class DeviceMismatchError(RuntimeError):
    """Tensors of two devices met in one operation."""


class NoFloat64Error(TypeError):
    """An operation made float64 on a device that has none."""


class Simulator:
    """Settings and counters of the device; there is one, as there is one device."""

    def __init__(self) -> None:
        self.float64 = True
        self.reset()

    def reset(self) -> None:
        """Start to count anew."""
        self.launched: Counter[str] = Counter()
        self.syncs: list[tuple[str, str]] = []
        self.transfers: list[tuple[str, str]] = []
        self.places: Counter[str] = Counter()  # launches by line, if `trace` is set
        self.trace = False

    @property
    def launches(self) -> int:
        """Kernels started since the last reset."""
        return sum(self.launched.values())

    @property
    def device(self) -> torch.device:
        """The device."""
        return torch.device(NAME, 0)


_simulator = Simulator()


class _OnDevice(torch.Tensor):
    """A tensor of the device; `held` are its numbers."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> _OnDevice:
        options: dict[str, Any] = {"dtype": held.dtype}
        if held.layout == torch.strided:
            options |= {"strides": held.stride(), "storage_offset": held.storage_offset()}
        else:  # a sparse matrix says what it is when it is asked
            options |= {"dispatch_layout": True}
        made = torch.Tensor._make_wrapper_subclass(cls, held.shape, device=_simulator.device, **options)  # type: ignore[attr-defined]
        made.held = held
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"{self.held!r} on {NAME}"

    def tolist(self) -> Any:
        _simulator.syncs.append(("tolist", _where()))
        return self.held.tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"can't convert {NAME}:0 device type tensor to numpy. Use Tensor.cpu() first. At {_where()}")

    __array__ = numpy

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.layout.default:
            return args[0].held.layout
        return _run(func, args, kwargs or {})


def _where() -> str:
    """The line of horoball that asked, or of the caller."""
    frames = [frame for frame in traceback.extract_stack() if "site-packages" not in frame.filename]
    ours = [frame for frame in frames if "/src/horoball/" in frame.filename] or frames[:-3] or frames
    return f"{ours[-1].filename.split('/src/')[-1]}:{ours[-1].lineno} {(ours[-1].line or '')[:80]}"


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation on the numbers that its tensors hold, after what a device would refuse."""
    name = f"aten.{func.overloadpacket.__name__}"
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
    mine = [x for x in tensors if isinstance(x, _OnDevice)]
    others = [x for x in tensors if not isinstance(x, _OnDevice)]
    asked = kwargs.get("device")
    to_device = asked is not None and torch.device(asked).type == NAME
    to_cpu = asked is not None and torch.device(asked).type == "cpu"
    if name in _COPIES:
        _count_transfer(name, bool(mine), bool(others), to_device, to_cpu)
    elif mine and others:
        _check_mixture(name, args, mine, others)
    if mine and (name in _WAITS or (name in _INDEXED and _is_boolean(args[1]))):
        _simulator.syncs.append((name, _where()))
    plain = {**kwargs, "device": torch.device("cpu")} if to_device else kwargs
    out = func(*tree_map(_held, args), **tree_map(_held, plain))
    if not (to_device or (mine and not to_cpu)):
        return out
    if not _is_view(func, name) and not (name in _COPIES and others):
        _simulator.launched[name] += 1
        if _simulator.trace:
            _simulator.places[_where()] += 1
    by_numbers = {id(x.held): x for x in mine}  # what is changed in place stays the same tensor

    def placed(x: Any) -> Any:
        if not isinstance(x, Tensor) or isinstance(x, _OnDevice):
            return x
        if not _simulator.float64 and x.dtype in (torch.float64, torch.complex128):
            raise NoFloat64Error(f"{func} makes float64, which {NAME} does not have, at {_where()}")
        return by_numbers.get(id(x)) if id(x) in by_numbers else _OnDevice(x)

    return tree_map(placed, out)


def _held(x: Any) -> Any:
    return x.held if isinstance(x, _OnDevice) else x


def _is_boolean(index: Any) -> bool:
    return any(isinstance(x, Tensor) and x.dtype == torch.bool for x in tree_flatten(index)[0])


def _is_view(func: Any, name: str) -> bool:
    aliases = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
    return aliases or name in _ALLOCATE or name in ("aten.detach", "aten.alias")


def _count_transfer(name: str, mine: bool, others: bool, to_device: bool, to_cpu: bool) -> None:
    if (mine and to_cpu) or (name == "aten.copy_" and mine and others):
        _simulator.transfers.append(("to the CPU" if to_cpu else "copy_", _where()))
    if others and to_device:
        _simulator.transfers.append(("to the device", _where()))


def _check_mixture(name: str, args: Any, mine: list[Tensor], others: list[Tensor]) -> None:
    if name in _INDEXED and isinstance(args[0], _OnDevice):
        _simulator.transfers.append(("an index", _where()))
    elif name in _NO_SCALARS or any(x.dim() for x in others):
        shapes = [tuple(x.shape) for x in mine], [tuple(x.shape) for x in others]
        raise DeviceMismatchError(
            f"{name} of tensors on {NAME}, {shapes[0]}, and on the CPU, {shapes[1]}, at {_where()}"
        )


class _Factories(TorchDispatchMode):
    """What makes tensors from none, and copies to the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Backend:
    """What torch asks of the module of a device."""

    is_available = staticmethod(lambda: True)
    is_initialized = staticmethod(lambda: True)
    _is_in_bad_fork = staticmethod(lambda: False)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)
    set_device = staticmethod(lambda device: None)
    manual_seed_all = staticmethod(lambda seed: None)
    get_amp_supported_dtype = staticmethod(lambda: [torch.float16, torch.bfloat16])


@cache
def _register() -> list[Any]:
    """Make the device known to torch, and to Fabric; what torch is given has to live on."""
    from lightning_fabric.accelerators import ACCELERATOR_REGISTRY
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(NAME, backend_module=_Backend())
    library = torch.library.Library("aten", "IMPL")

    def empty(size: Any, *, dtype: Any = None, **_: Any) -> Tensor:
        return _OnDevice(torch.empty(size, dtype=dtype))

    def empty_strided(size: Any, stride: Any, *, dtype: Any = None, **_: Any) -> Tensor:
        return _OnDevice(torch.empty_strided(size, stride, dtype=dtype))

    def copy_from(source: Tensor, to: Tensor, non_blocking: bool = False) -> Tensor:
        _held(to).copy_(_held(source))
        return to

    for name, made in (("empty.memory_format", empty), ("empty_strided", empty_strided), ("_copy_from", copy_from)):
        library.impl(name, made, "PrivateUse1")
    ACCELERATOR_REGISTRY.register(NAME, _accelerator())
    return [library]


def _accelerator() -> type:
    from lightning_fabric.accelerators import Accelerator

    class SimulatedAccelerator(Accelerator):
        def setup_device(self, device: torch.device) -> None: ...

        def teardown(self) -> None: ...

        parse_devices = staticmethod(lambda devices: 1)
        get_parallel_devices = staticmethod(lambda devices: [_simulator.device])
        auto_device_count = staticmethod(lambda: 1)
        is_available = staticmethod(lambda: True)
        name = staticmethod(lambda: NAME)

    return SimulatedAccelerator


@contextmanager
def simulated(*, float64: bool = True) -> Iterator[Simulator]:
    """Within this context the device works, and counts."""
    _register()
    _simulator.reset()
    _simulator.float64 = float64
    with _Factories():
        yield _simulator
