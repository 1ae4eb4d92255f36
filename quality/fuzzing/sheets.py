"""Damage to the XML of spreadsheets: sound as XML, and not what a reader of sheets expects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

__all__ = ["hostile_xml"]

_VALUES = (
    "",
    "0",
    "-1",
    "1e400",
    "NaN",
    "XFD1048576",
    "ZZZZZZ99999999",
    "A0",
    "A1:XFD1048576",
    "99999999999999999999",
    "2958466",
    "s",
    "b",
    "d",
    "e",
    "inlineStr",
    "&amp;",
    "\u0430" * 3,
    "x" * 5000,
)
_LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa">%s]><l>&e8;</l>""" % b"".join(
    b'<!ENTITY e%d "%s">' % (i, (b"&e%d;" % (i - 1) if i else b"&a;") * 10) for i in range(9)
)


def hostile_xml(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A document with another attribute, text or element, with elements doubled or gone, or one that grows when read.

    Example:
        >>> hostile_xml(Random(1), b'<c r="A1" t="n"><v>1</v></c>', ()) != b""
        True
    """
    del others
    what = rng.randrange(12)
    if what == 0:
        return _LAUGHS
    if what == 1:
        return data.replace(b"<", b"<!DOCTYPE x SYSTEM 'file:///etc/hostname'><", 1)
    value = rng.choice(_VALUES).encode()
    spots = list(re.finditer({2: rb">([^<>]+)<", 3: rb"<[^<>?]+/>"}.get(what, rb'="([^"]*)"'), data))
    if not spots:
        return data
    spot = rng.choice(spots)
    if what == 3:
        return data[: spot.start()] + spot[0] * rng.choice((0, 2, 1000)) + data[spot.end() :]
    return data[: spot.start(1)] + value + data[spot.end(1) :]
