"""PyTorch Geometric's graph convolution, for symmetric graphs of any size."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from horoball.graphs.graph import Graph
from horoball.plugins import required

__all__ = ["GraphConvolution", "propagation"]

GCNConv: Any = required("torch_geometric.nn").GCNConv
gcn_norm: Any = required("torch_geometric.nn.conv.gcn_conv").gcn_norm


def propagation(graph: Graph) -> Tensor:
    """The matrix Â = D^−½ (A + I) D^−½ that a convolution multiplies with, sparse; D are the row sums of A + I.

    Example:
        >>> propagation(Graph.of([(0, 1)])).to_dense()
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """
    import numpy as np
    from scipy.sparse import diags_array, eye_array

    degrees = 1 + graph.degrees().numpy()
    scale = diags_array(degrees.astype(np.float32) ** -0.5)
    matrix = (scale @ (graph.adjacency() + eye_array(graph.nodes, dtype=np.float32)) @ scale).tocsr()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse matrices a beta
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr).long(),
            torch.from_numpy(matrix.indices).long(),
            torch.from_numpy(matrix.data.astype(np.float32)),
            matrix.shape,
        )


class _Symmetric(torch.autograd.Function):
    """Â x. The gradient of torch's own product sorts the matrix anew at every step; here it is Â itself."""

    @staticmethod
    def forward(matrix: Tensor, x: Tensor) -> Tensor:
        return matrix @ x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.matrix = inputs[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, ctx.matrix @ grad


class _Rows(nn.Module):
    """X W for X = I, that is W itself, or the rows of some nodes."""

    def __init__(self, nodes: int, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(nodes, features))

    def forward(self, nodes: Tensor | None) -> Tensor:
        return self.weight if nodes is None else self.weight[nodes]


class GraphConvolution(GCNConv):
    """Â X W + b, by Kipf & Welling (2017); propagation costs as many steps as the graph has edges.

    Beside a matrix of `propagation` it takes PyG's edge_index of a part of a graph, which is normalized then.

    Args:
        inputs: Features of a node; or the number of nodes, for nodes without features.
        outputs: Features that come out.
        featureless: Whether X is the identity, which is then never made.
        generator: Where the initial weights come from; torch's global generator if not given.

    Example:
        >>> layer = GraphConvolution(2, 4, featureless=True)
        >>> layer(None, propagation(Graph.of([(0, 1)]))).shape
        torch.Size([2, 4])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        featureless: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        device = torch.get_default_device()
        with torch.device("meta"):  # PyG starts its weights from torch's global generator, and on no device draws none
            super().__init__(1 if featureless else inputs, outputs)
            if featureless:
                self.lin = _Rows(inputs, outputs)
        self.to_empty(device=device)
        nn.init.xavier_uniform_(self.lin.weight, generator=generator)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor | None, edges: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """The nodes' new features.

        Args:
            x: Features, shape (nodes, inputs); of nodes without features their numbers, or None for all of them.
            edges: A matrix of `propagation`, a sparse COO matrix of any kind, or an edge_index of shape (2, edges).
            edge_weight: As PyG has it; only with an edge_index.
        """
        h = self.lin(x)
        if edges.layout == torch.sparse_csr:
            return _Symmetric.apply(edges, h) + self.bias
        if edges.layout == torch.sparse_coo:
            return torch.sparse.mm(edges, h) + self.bias
        # As GCNConv does; but that takes the number of nodes from x, of which node numbers have no second dimension.
        edges, edge_weight = gcn_norm(edges, edge_weight, len(h))
        return self.propagate(edges, x=h, edge_weight=edge_weight) + self.bias
