"""Devices: which this machine has, which of them a name means, and what they lack."""

from __future__ import annotations

from typing import Any

import torch

WITHOUT_FLOAT64 = {"mps"}  # kinds of devices; Apple's has no float64 at all
_UNKNOWN = 1 << 32  # bytes that a device is taken to have free if it does not say


def has_float64(device: torch.device) -> bool:
    """Whether a device works with float64."""
    return device.type not in WITHOUT_FLOAT64


def available() -> list[str]:
    """Kinds of devices that this machine has and this build of torch knows, the one for "auto" first."""
    return [kind for kind in ("cuda", "mps", "xpu") if _is_there(kind)] + ["cpu"]


def check_name(name: str) -> None:
    """Refuse what is not the name of a device, on any machine."""
    try:
        known = name == "auto" or torch.device(name).type != "meta"
    except RuntimeError:
        known = False
    if not known:
        raise ValueError(f'is "auto", "cpu", "cuda", "mps" or another of torch\'s devices, got {name[:40]!r}.')


def resolved(name: str) -> torch.device:
    """The device of a name; "auto" is a GPU if there is one, else the CPU."""
    if name == "auto":
        return torch.device(available()[0])
    check_name(name)
    device = torch.device(name)
    if not _is_there(device.type, device.index or 0):
        raise ValueError(
            f"The device {name!r} is not there: this machine and this build of torch have {', '.join(available())}. "
            'Choose one of them, or "auto".'
        )
    return device


def free_memory(device: torch.device) -> int:
    """Bytes that a GPU has free, as far as it says; 4 GiB if it does not."""
    module: Any = getattr(torch, device.type, None)
    if hasattr(module, "mem_get_info"):
        return int(module.mem_get_info(device)[0])
    if hasattr(module, "recommended_max_memory"):  # Apple's
        return int(module.recommended_max_memory() - module.current_allocated_memory())
    return _UNKNOWN


def described(name: str) -> dict[str, Any]:
    """What would be used for a name, and what else there is."""
    device = resolved(name)
    module: Any = getattr(torch, device.type, None)
    told: dict[str, Any] = {"device": str(device)}
    if hasattr(module, "get_device_name"):
        told["name"] = module.get_device_name(device)
    told |= {"float64": has_float64(device), "threads": torch.get_num_threads(), "torch": torch.__version__}
    return told | {"available": available()}


def _is_there(kind: str, index: int = 0) -> bool:
    if kind == "cpu":
        return index == 0
    module = getattr(torch, kind, None) if kind != "mps" else torch.backends.mps
    if module is None or not module.is_available():
        return False
    return index < (module.device_count() if hasattr(module, "device_count") else 1)
