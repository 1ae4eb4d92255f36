"""How far horoball is from the truth: `python -m benchmarks.accuracy [--quick]`.

Prints, per quantity, the worst error against mpmath over a range of inputs, the bar it has to stay under, and
geoopt's error from the same inputs. The exit code is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from benchmarks import density, euclidean, float32, geometry, peer, radius
from benchmarks.table import markdown

__all__ = ["main"]

_PARTS = {
    "Radius distribution of the Riemannian normal": radius.rows,
    "Geometry in the tangent chart": geometry.rows,
    "c = 0": euclidean.rows,
    "Densities": density.rows,
    "Without float64": float32.rows,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a thin grid, for tests")
    quick = parser.parse_args(argv).quick
    start = time.perf_counter()
    missed = 0
    for title, rows in _PARTS.items():
        found = list(rows(quick))
        missed += sum(not row.passed for row in found)
        header = ["quantity", "range", "dtype", "worst error", "bar", "", peer.VERSION]
        print(f"{title}\n\n{markdown(header, (row.cells() for row in found))}\n", flush=True)
    print(f"{missed} bars missed, {time.perf_counter() - start:.0f} s.")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
