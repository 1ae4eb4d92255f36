"""Table 3, digits told apart by their place in a plane: `python -m experiments.table3`.

A classifier of the decoder's form, whose first layer starts at the decoder's, is trained on posterior means of the
training images in two dimensions, and tested on those of the test images (App. C.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from experiments.mnist import digits, trained
from experiments.runs import Setting, arguments, carry_out, figure, paired, results
from horoball.vae import VAE, Decoder

STUDY = "table3"
MODELS = {"N-VAE": 0.0, "P-VAE, c = 1.4": 1.4}
PAPER = {
    "N-VAE": (89, 97, 81, 75, 59, 43, 89, 78, 68, 57, 73.6),
    "P-VAE, c = 1.4": (94, 97, 82, 79, 69, 47, 90, 77, 68, 53, 75.6),
}


def classifier(model: VAE, z: torch.Tensor, labels: torch.Tensor, seed: int, epochs: int = 5) -> Decoder:
    """A classifier of points, trained by Adam at 0.001 on batches of 64."""
    torch.manual_seed(seed)
    decoder: Any = model.decoder
    found = Decoder(z.shape[1], 10, model.ball, hidden=(600,))
    found.network[0].load_state_dict(decoder.network[0].state_dict())
    optimizer = torch.optim.Adam(found.parameters(), 1e-3, fused=True)
    for _ in range(epochs):
        for rows in torch.randperm(len(z)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(found(z[rows]), labels[rows]).backward()
            optimizer.step()
    return found


def run(c: float, seed: int, trainings: int = 5, epochs: int = 80, passes: int = 5) -> dict[str, Any]:
    """Of some classifiers on one embedding: how many images of each digit (rows) are taken for which (columns)."""
    model = trained(2, c, seed, epochs=epochs)
    (z, labels), (test, truth) = ((model.embed(part.x), part.labels) for part in (digits(True), digits(False)))
    counts = []
    for training in range(trainings):
        found = classifier(model, z, labels, training, passes)
        with torch.no_grad():
            pairs = truth * 10 + found(test).argmax(-1)
        counts.append(pairs.bincount(minlength=100).view(10, 10).tolist())
    return {"confusion": counts}


def settings(seeds: int) -> list[Setting]:
    """One embedding of each model a seed."""
    return [{"c": c, "seed": seed} for seed in range(seeds) for c in MODELS.values()]


def confusions(c: float) -> dict[int, np.ndarray]:
    """Parts of each digit's images taken for each digit, the mean over an embedding's classifiers, by seed."""
    found = {}
    for r in results(STUDY):
        if r["setting"]["c"] == c:
            counts = np.array(r["result"]["confusion"], float).mean(0)
            found[r["setting"]["seed"]] = counts / counts.sum(1, keepdims=True)
    return dict(sorted(found.items()))


def column(c: float, digit: int) -> dict[int, float]:
    """Accuracy of a digit, or of all for 10, in percent, by seed."""
    parts = {seed: 100 * part.diagonal() for seed, part in confusions(c).items()}
    return {seed: float(part.mean() if digit == 10 else part[digit]) for seed, part in parts.items()}


def table() -> str:
    """The table, from what has been run."""
    lines = [
        f"| accuracy, % | | {' | '.join(map(str, range(10)))} | mean |",
        f"|---|---|{'--:|' * 11}",
    ]
    for name, c in MODELS.items():
        lines.append(f"| {name} | the paper's | {' | '.join(f'{value:g}' for value in PAPER[name])} |")
        lines.append(f"| | horoball | {_cells([column(c, digit) for digit in range(11)])} |")
    flat, curved = MODELS.values()
    gains = [paired(column(curved, digit), column(flat, digit)) for digit in range(11)]
    lines.append(f"| P − N, paired by seed | horoball | {_cells(gains, '+')} |")
    return "\n".join(lines)


def _cells(columns: list[dict[int, float]], sign: str = "") -> str:
    digits = [figure(values, 0, sign).split(" ±")[0] for values in columns[:10]]
    return " | ".join([*digits, figure(columns[10], 1, sign)])


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 3)
    carry_out(STUDY, settings(options.seeds), run, options.workers)
    print(table())


if __name__ == "__main__":
    main()
