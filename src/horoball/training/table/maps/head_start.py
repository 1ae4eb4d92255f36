"""A head start for a map: the encoder learns the layout before all else is trained with it.

A step here runs the encoder alone and costs a fraction of a whole one, and a place is harder to learn than a decoder
for rows that are in their places already.

Rows are blurred by half of what is between neighbors, so that the encoder learns a place for each neighborhood and not
for each row by heart: a row that it has not seen then lies closer to where it should.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import cast

import torch
from torch import Tensor

from horoball.data.tables.table import Order, Table
from horoball.models.table.encoder import Encoder
from horoball.models.table.vae import VAE
from horoball.numerics.random import generator_for
from horoball.objectives.places import PlaceTerm
from horoball.runtime.devices import resolved
from horoball.training.config import TrainConfig
from horoball.training.progress import counted
from horoball.training.table.maps.rate import rise_and_fall

__all__ = ["head_start"]

_EPOCHS = 160
_MOST = 6000  # steps
_RATE = 0.01  # learning rate at its highest
_BLUR = 0.5  # of the distance to the nearest row
_PROBES, _AMONG = 256, 8192  # rows whose nearest is looked for, and among how many


def head_start(model: VAE, table: Table, config: TrainConfig) -> None:
    """Train the encoder of a model to put rows where a layout has them.

    It takes 160 epochs, or 6,000 steps where these are fewer.

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
    encoder, generator = cast(Encoder, model.encoder), generator_for(config.seed)
    term, optimizer = PlaceTerm(), torch.optim.Adam(encoder.parameters(), fused=True)
    steps = min(_MOST, _EPOCHS * table.steps(Order(config.batch_size, config.seed)))
    noise = _BLUR * _spacing(encoder, table, config, device)
    for step, (x, places) in zip(counted("Head start", steps), _batches(table, config), strict=False):
        optimizer.param_groups[0]["lr"] = rise_and_fall(_RATE, step / steps)
        seen = encoder.inputs(x.to(device))
        blurred = seen + noise * torch.randn(seen.shape, generator=generator).to(device)  # the same on every device
        loss = term(model.ball, encoder.posterior(blurred).loc, places.to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for parameter in model.parameters():  # a learned curvature has a gradient too
        parameter.grad = None


@torch.no_grad()
def _spacing(encoder: Encoder, table: Table, config: TrainConfig, device: torch.device) -> Tensor:
    """How far apart neighbors are in each number that the encoder sees: a multiple of its spread."""
    rows, found = 0, []
    for x, _ in _batches(table, config):
        found.append(encoder.inputs(x.to(device)))
        rows += len(x)
        if rows >= min(table.rows, _AMONG):
            break
    seen = torch.cat(found)[:_AMONG]
    spread = seen.std(0, correction=0)
    nearest = torch.cdist(seen[:_PROBES], seen).fill_diagonal_(torch.inf).amin(1)
    return spread * (nearest.median() / spread.norm().clamp_min(1e-12))


def _batches(table: Table, config: TrainConfig) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows and their places, epoch after epoch; every rank sees all of them, and learns the same."""
    for epoch in count():
        for batch in table.batches(Order(config.batch_size, config.seed, epoch)):
            x, places = batch.inputs
            yield cast(Tensor, x), cast(Tensor, places)
