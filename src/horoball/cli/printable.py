"""Text from others, made safe to print; see Note [Terminal] in `console`."""

from __future__ import annotations

import json
import math
import unicodedata
from typing import Any

__all__ = ["json_line", "printable"]

_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format (bidi, zero-width), lone surrogates, line separators


def printable(text: object) -> str:
    r"""Text with every character that a terminal acts on or does not show replaced by a visible one.

    Control characters become their pictures, others their numbers.

    Example:
        >>> printable("a\x1b[31m\n\u202eb")
        'a␛[31m␊\\u202eb'
    """
    return "".join(map(_seen, str(text)))


def json_line(value: Any) -> str:
    r"""JSON on one line, with no such character either: what cannot be seen is escaped, and NaN and infinity are null.

    Example:
        >>> json_line({"name": "é\x9b", "loss": float("nan")})
        '{"name": "é\\u009b", "loss": null}'
    """
    written = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)
    return "".join(json.dumps(char)[1:-1] if unicodedata.category(char) in _UNSEEN else char for char in written)


def _seen(char: str) -> str:
    if char.isprintable() or unicodedata.category(char) not in _UNSEEN:
        return char
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"\\u{code:04x}"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
