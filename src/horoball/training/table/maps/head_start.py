"""A head start for a map: the encoder learns the layout before all else is trained with it.

A step here runs the encoder alone and costs a fraction of a whole one, and a place is harder to learn than a decoder
for rows that are in their places already.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import cast

import torch
from torch import Tensor

from horoball.data.tables.table import Order, Table
from horoball.models.table.vae import VAE
from horoball.objectives.places import PlaceTerm
from horoball.runtime.devices import resolved
from horoball.training.config import TrainConfig
from horoball.training.progress import counted
from horoball.training.table.maps.rate import rise_and_fall

__all__ = ["head_start"]

_EPOCHS = 80
_MOST = 3000  # steps
_RATE = 0.01  # learning rate at its highest


def head_start(model: VAE, table: Table, config: TrainConfig) -> None:
    """Train the encoder of a model to put rows where a layout has them.

    It takes 80 epochs, or 3,000 steps where these are fewer.

    Args:
        model: The model, trained in place.
        table: Rows to train on, with their places beside them.
        config: Settings: batch size, seed and device.

    Example:
        >>> from horoball.data import ArrayTable
        >>> from horoball.models import ModelConfig
        >>> x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
        >>> model = VAE.from_config(ModelConfig(features=3, hidden=(32,)), generator=torch.Generator().manual_seed(0))
        >>> head_start(model, ArrayTable(x).beside(x[:, :2]), TrainConfig())
        >>> bool(model.ball.dist(model.posterior(x).loc, x[:, :2]).mean() < 0.1)
        True
    """
    device = resolved(config.device)
    model.to(device)
    term, optimizer = PlaceTerm(), torch.optim.Adam(model.encoder.parameters(), fused=True)
    steps = min(_MOST, _EPOCHS * table.steps(Order(config.batch_size, config.seed)))
    for step, (x, places) in zip(counted("Head start", steps), _batches(table, config), strict=False):
        optimizer.param_groups[0]["lr"] = rise_and_fall(_RATE, step / steps)
        loss = term(model.ball, model.posterior(x.to(device)).loc, places.to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for parameter in model.parameters():  # a learned curvature has a gradient too
        parameter.grad = None


def _batches(table: Table, config: TrainConfig) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows and their places, epoch after epoch; every rank sees all of them, and learns the same."""
    for epoch in count():
        for batch in table.batches(Order(config.batch_size, config.seed, epoch)):
            x, places = batch.inputs
            yield cast(Tensor, x), cast(Tensor, places)
