"""Posterior samples of MNIST's digits as a .npy file of ball coordinates: `python -m experiments.mnist_samples FILE`.

The model is that of Table 2 with d = 10 and c = 0.2; it is trained if its weights are not there. For
`python -m benchmarks.neighbors speed --embedding FILE --c 0.2`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from experiments import mnist
from horoball.vae import VAE

D, C = 10, 0.2


@torch.no_grad()
def posterior_samples(model: VAE, x: Tensor, count: int) -> Tensor:
    """Ball coordinates of `count` samples in random order, with equally many of each image up to the last."""
    each = -(-count // len(x))
    z = torch.cat([model.posterior(block).sample((each,)).flatten(0, 1) for block in x.split(4096)])
    return model.ball.to_ball(z[torch.randperm(len(z))][:count].double())


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="name of the .npy file to write")
    parser.add_argument("--count", type=int, default=1_001_000, help="number of samples")
    options = parser.parse_args()
    torch.manual_seed(0)
    np.save(options.file, posterior_samples(mnist.trained(D, C, 0), mnist.digits(True).x, options.count).numpy())


if __name__ == "__main__":
    main()
