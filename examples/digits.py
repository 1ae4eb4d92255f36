"""A map of handwritten digits as an interactive page, with names, thumbnails and the rows' posterior scales.

Run it with `python examples/digits.py`, and open the page in a browser.
"""

from __future__ import annotations

import sys

from sklearn.datasets import load_digits

import horoball as hb


def main(path: str = "digits.html", max_epochs: int | str = "auto") -> None:
    """Fit a map without looking at which digit a row is, then write the page."""
    digits = load_digits()
    model = hb.PoincareVAE(max_epochs=max_epochs, random_state=0)
    z = model.fit_transform(digits.data)
    hb.view(
        z,
        c=model.c_,
        columns={"digit": digits.target, "ink": digits.data.sum(1)},
        images=digits.images / 16,
        scale=model.posterior_scale(digits.data),
        title="1,797 handwritten digits",
        path=path,
    )
    print(f"{len(z):,} digits: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
