"""Training of a model on a graph: the loss is a module, so that a checkpoint holds all that is learned."""

from __future__ import annotations

import logging
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from horoball.distributions.normal import BallNormal
from horoball.geometry.kernels import wide_dtype
from horoball.graphs.device_sums import Matrices, log_prob_of_matrices
from horoball.graphs.graph import Graph
from horoball.graphs.local_steps import take_local_steps
from horoball.graphs.model import FreeEncoder, GraphVAE
from horoball.graphs.pair_sums import log_prob_of_blocks, log_prob_of_pairs, log_prob_of_tiles, matrices_of_non_edges
from horoball.graphs.pairs import PairSource, Tiles, blocks_of_non_edges, blocks_of_pairs, blocks_of_tiles
from horoball.storage.settings import SettingError
from horoball.tables.table import Order
from horoball.training.config import FitRecord, TrainConfig
from horoball.training.hooks import Hooks
from horoball.training.loop import run_loop
from horoball.training.progress import Progress
from horoball.training.state import State

_log = logging.getLogger("horoball")
_NODES = 1 << 18  # whose posteriors are sampled at a time, so that autograd keeps what belongs to them only
_OF_TABLES = ("kl_warmup", "distance_weight", "locality", "kl", "samples", "encoder_rate", "scale_rate")


class GraphObjective(nn.Module):
    """Minus the evidence lower bound of a graph, and its parts.

        E_q Σ_{i≠j} log p(A_ij | z_i, z_j) − β Σ_i KL(q_i ‖ p),

    over ordered pairs as Kipf & Welling (2016) have it, exactly or from sampled pairs; see Note [Sampled pairs].

    Example:
        >>> from horoball.graphs import GraphConfig
        >>> graph = Graph.of([(0, 1), (1, 2), (2, 3)])
        >>> objective = GraphObjective(GraphVAE.from_config(GraphConfig(nodes=4)), graph, TrainConfig())
        >>> objective.terms, objective(graph.edges).shape
        (('loss', 'reconstruction', 'kl'), torch.Size([3]))
    """

    def __init__(self, model: GraphVAE, graph: Graph, config: TrainConfig) -> None:
        super().__init__()
        for name in _OF_TABLES:
            if getattr(config, name) != getattr(TrainConfig, name):
                usual = f"leave it at {getattr(TrainConfig, name)!r}"
                raise SettingError(name, f"belongs to models of tables, got {getattr(config, name)!r}: {usual}.")
        self.model, self.config = model, config
        # Not buffers: they are the graph's, not the model's, and DDP cannot send sparse ones.
        self._propagation, self._features = model.propagation(graph), graph.features
        self._graph, self._adjacency = graph, None
        self._matrices: list[Matrices] = []  # of all non-edges, where they are counted on a GPU

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the numbers that `forward` returns."""
        return "loss", "reconstruction", "kl"

    @property
    def paces(self) -> list[dict[str, Any]]:
        """All parameters learn equally fast."""
        return [{"params": list(self.parameters()), "pace": 1.0}]

    def forward(
        self,
        edges: Tensor,
        non_edges: Tiles | None = None,
        edge_weight: float = 2.0,
        non_edge_weight: float = 1.0,
        share: tuple[int, int] = (0, 1),
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The loss and its terms, of a rank's share of the pairs and nodes.

        Args:
            edges: Edges, shape (edges, 2).
            non_edges: Pairs that are not joined; None for all there are.
            edge_weight: What an edge counts for; twice if all are given, for each stands for two ordered pairs unless
                the graph is directed.
            non_edge_weight: What a pair that is no edge counts for.
            share: The rank and how many there are.
            generator: Where the noise comes from; torch's global generator if not given.
        """
        model, rank, ranks = self.model, *share
        self._place(model.prior.loc.device)
        z, kl = self._sampled(rank, ranks, generator)
        offset = model.offset(z)
        if z.device.type == "cpu":
            joined = blocks_of_pairs(edges, joined=True, weight=edge_weight)
            if non_edges is not None:
                apart = blocks_of_tiles(non_edges, non_edge_weight)
            else:
                directed = offset is not None
                apart = blocks_of_non_edges(self.adjacency(), rank, ranks, directed=directed, weight=non_edge_weight)
            reconstruction = -log_prob_of_blocks(model.edges, z, model.ball, chain(joined, apart), offset)
        else:
            reconstruction = -edge_weight * log_prob_of_pairs(
                model.edges, z, model.ball, edges, joined=True, offset=offset
            ) - non_edge_weight * self._apart_on_device(z, non_edges, offset, rank, ranks)
        return torch.stack((reconstruction + self.config.beta * kl, reconstruction, kl))

    def _sampled(self, rank: int, ranks: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """A sample of all nodes, and what the divergences of a rank's share of them come to.

        Posteriors that know nothing of each other are sampled some at a time; autograd keeps none of what leads to a
        sample and makes it again, from the same seed.
        """
        model, n = self.model, self._graph.nodes
        prior = model.prior()

        def sample(q: BallNormal, first: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
            z, log_q = q.rsample_and_log_prob(generator=generator)
            return z, (log_q - prior.log_prob(z))[(rank - first) % ranks :: ranks].sum(dtype=wide_dtype(z))

        if model.encoder.propagates or n <= _NODES:
            return sample(model.posterior(self._features, self._propagation), 0, generator)

        def part(nodes: slice, seed: int) -> tuple[Tensor, Tensor]:
            return sample(model.encoder(nodes), nodes.start, torch.Generator().manual_seed(seed))

        seeds = torch.randint(1 << 62, (-(-n // _NODES),), generator=generator).tolist()
        starts = range(0, n, _NODES)
        parts = [
            checkpoint(part, slice(start, start + _NODES), seed, use_reentrant=False, preserve_rng_state=False)
            for start, seed in zip(starts, seeds, strict=True)
        ]
        return torch.cat([z for z, _ in parts]), torch.stack([kl for _, kl in parts]).sum()

    def _apart_on_device(
        self, z: Tensor, non_edges: Tiles | None, offset: Tensor | None, rank: int, ranks: int
    ) -> Tensor:
        """The sum over pairs that are no edges, on a GPU, where all of them stay from step to step."""
        edges, ball = self.model.edges, self.model.ball
        if non_edges is not None:
            return log_prob_of_tiles(edges, z, ball, non_edges, offset=offset)
        self._matrices = self._matrices or matrices_of_non_edges(
            self.adjacency(), z.detach(), rank, ranks, directed=offset is not None
        )
        return log_prob_of_matrices(edges, False, z, ball, self._matrices, offset)

    def _place(self, device: torch.device) -> None:
        """Bring what the encoder sees to the model's device, once."""
        if self._features is not None:
            self._features = self._features.to(device)
        if self._propagation is not None:
            self._propagation = self._propagation.to(device)

    def adjacency(self) -> Any:
        """The graph's matrix `relation`, made when it is first needed: sampled pairs do not need it."""
        if self._adjacency is None:
            self._adjacency = self._graph.relation()
        return self._adjacency


# Kipf & Welling's full-batch training, as far as the paper follows it: a step sees all edges.
PAPER_TRAINING = TrainConfig(max_epochs=800, batch_size=1 << 40, learning_rate=1e-2, validation=0.0, patience=0)
# Nodes with posteriors of their own have far to go, each by itself, and then to come to rest.
FREE_TRAINING = PAPER_TRAINING.replace(max_epochs=1000, learning_rate=0.2, decay=0.05)
# Parents and ancestors are asked for by rank, which the pull of the prior to the origin blurs.
DIRECTED_TRAINING = FREE_TRAINING.replace(beta=0.1)
# A taxonomy starts from nested cones, which are nearly right; the prior would pull deep nodes out of them.
TAXONOMY_TRAINING = DIRECTED_TRAINING.replace(max_epochs=300, learning_rate=0.02, decay=0.1, beta=0.001)


def training_for(encoder: str, *, directed: bool = False, transitive: bool = False, **changes: Any) -> TrainConfig:
    """Settings that suit an encoder and a kind of edges, with some changed; what is None stays as it is.

    Example:
        >>> training_for("gcn", max_epochs=None).max_epochs, training_for("free", max_epochs=5).max_epochs
        (800, 5)
    """
    given = {name: value for name, value in changes.items() if value is not None}
    free = TAXONOMY_TRAINING if transitive else DIRECTED_TRAINING if directed else FREE_TRAINING
    return (PAPER_TRAINING.replace(beta=free.beta) if encoder == "gcn" else free).replace(**given)


def fit_graph(
    model: GraphVAE,
    graph: Graph,
    config: TrainConfig = PAPER_TRAINING,
    folder: Path | None = None,
    *,
    non_edges: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    record: FitRecord | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008
) -> State:
    """Train a model on a graph; it ends with the weights it began with if their loss is lower.

    Args:
        model: The model, trained in place.
        graph: The graph, which is both what the encoder sees and what is to be predicted.
        config: Settings; batch_size counts edges. A graph convolution sees the whole graph at every step. Whatever the
            device, the model is on the CPU at the end.
        folder: Folder for checkpoints and metrics; None writes nothing.
        non_edges: Pairs drawn for every edge of a step, for large graphs; None for all n² pairs, exactly.
        resume: Resume from the folder's last checkpoint, if there is one.
        progress: Progress reporter.
        record: Record of the fit, stored in the checkpoints and checked on resume.
        hooks: Callbacks, loggers, and what makes the optimizer and the schedule where their names do not.

    Example:
        >>> from horoball.graphs import GraphConfig
        >>> graph = Graph.of([(0, 1), (1, 2), (2, 3)])
        >>> model = GraphVAE.from_config(GraphConfig(nodes=4))
        >>> len(fit_graph(model, graph, PAPER_TRAINING.replace(max_epochs=2)).history)
        2
    """
    source, objective = PairSource(graph, non_edges), GraphObjective(model, graph, config)
    start = {name: weight.detach().cpu().clone() for name, weight in model.state_dict().items()}
    before = _loss(objective, source, config)

    def local(optimizer: torch.optim.Optimizer) -> None:
        if isinstance(model.encoder, FreeEncoder) and graph.directed:
            take_local_steps(optimizer, model.encoder.loc, model.ball)

    options: dict[str, Any] = {"resume": resume, "progress": progress, "record": record, "hooks": hooks}
    state = run_loop(objective, source, config, folder, prepare=local, **options)
    model.cpu()  # where its graph is
    if (after := _loss(objective, source, config)) > before:
        model.load_state_dict(start)
        _log.warning(
            "Training found nothing better than its start, which is kept: the loss is %.4g nats a node there and %.4g "
            "at the end. A smaller learning rate may do better.",
            before,
            after,
        )
    return state


@torch.no_grad()
def _loss(objective: GraphObjective, source: PairSource, config: TrainConfig) -> float:
    """The loss of a node, always from the same pairs and the same noise, so that two models can be compared."""
    (batch,) = source.batches(Order(len(source.graph.edges), config.seed))
    generator = torch.Generator().manual_seed(config.seed)
    return float(objective(*batch.inputs, generator=generator)[0]) / batch.total
