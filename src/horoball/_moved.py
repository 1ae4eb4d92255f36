"""Import paths of version 0.1: they work in 0.2, warn, and end with 0.3.

`MODULES` has modules and packages that are elsewhere now, `NAMES` names that are elsewhere than the rest of their old
home. A name of neither table is looked up in the module that the old one became.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["MODULES", "NAMES", "find_old_paths", "moved_names"]

MODULES: dict[str, str] = {
    "horoball.cells.cell_map": "horoball.cells.model",
    "horoball.cells.differential": "horoball.cells.expression",
    "horoball.cells.embedding_keys": "horoball.cells.anndata",
    "horoball.cells.expression_model": "horoball.cells.model",
    "horoball.cells.graph": "horoball.cells.anndata",
    "horoball.cells.label_transfer": "horoball.cells.labels",
    "horoball.cells.novelty": "horoball.cells.query",
    "horoball.cells.picture": "horoball.cells.anndata",
    "horoball.cells.pseudotime": "horoball.cells.anndata",
    "horoball.cells.simulate": "horoball.cells.anndata",
    "horoball.cells.trees": "horoball.cells",
    "horoball.cells.trees.cell_tree": "horoball.cells.tree",
    "horoball.cells.trees.dendrogram_keys": "horoball.cells.tree",
    "horoball.cells.trees.group_means": "horoball.cells.tree",
    "horoball.cells.trees.markers": "horoball.cells.tree",
    "horoball.cells.trees.shared_change": "horoball.cells.tree",
    "horoball.data": "horoball.tables",
    "horoball.data.cells": "horoball.tables",
    "horoball.data.cells.cell_table": "horoball.tables.anndata",
    "horoball.data.cells.count_axes": "horoball.tables.geodesics",
    "horoball.data.cells.h5ad": "horoball.tables.anndata",
    "horoball.data.datasets": "horoball.datasets",
    "horoball.data.datasets.branching": "horoball.datasets",
    "horoball.data.datasets.images": "horoball.datasets",
    "horoball.data.datasets.paper_graphs": "horoball.datasets",
    "horoball.data.datasets.random_graphs": "horoball.datasets",
    "horoball.data.graphs": "horoball.graphs",
    "horoball.data.graphs.closure": "horoball.graphs.graph",
    "horoball.data.graphs.graph": "horoball.graphs.graph",
    "horoball.data.graphs.link_split": "horoball.graphs.evaluation",
    "horoball.data.graphs.nested_cones": "horoball.graphs.start",
    "horoball.data.graphs.pair_tiles": "horoball.graphs.pairs",
    "horoball.data.graphs.pairs": "horoball.graphs.pairs",
    "horoball.data.graphs.path_axes": "horoball.graphs.start",
    "horoball.data.readers": "horoball.tables",
    "horoball.data.readers.graphs": "horoball.graphs.read",
    "horoball.data.readers.parquet": "horoball.tables.parquet",
    "horoball.data.readers.registry": "horoball.tables.formats",
    "horoball.data.readers.tables": "horoball.tables.read",
    "horoball.data.tables": "horoball.tables",
    "horoball.data.tables.array_table": "horoball.tables.table",
    "horoball.data.tables.column_roles": "horoball.tables.schema",
    "horoball.data.tables.covariates": "horoball.tables.covariates",
    "horoball.data.tables.geodesics": "horoball.tables.geodesics",
    "horoball.data.tables.standardizer": "horoball.tables.scaling",
    "horoball.data.tables.streamed": "horoball.tables.streamed",
    "horoball.data.tables.table": "horoball.tables.table",
    "horoball.data.vectors": "horoball.tables",
    "horoball.data.vectors.vector_table": "horoball.tables.vectors",
    "horoball.distributions.counts": "horoball.distributions.negative_binomial",
    "horoball.distributions.counts.negative_binomial": "horoball.distributions.negative_binomial",
    "horoball.distributions.counts.zero_inflated": "horoball.distributions.negative_binomial",
    "horoball.distributions.features": "horoball.distributions.base",
    "horoball.distributions.hyperbolic_radius": "horoball.distributions.radius",
    "horoball.distributions.hypersphere": "horoball.distributions.sphere",
    "horoball.distributions.radius_autograd": "horoball.distributions.radius",
    "horoball.distributions.radius_distribution": "horoball.distributions.radius_functions",
    "horoball.distributions.radius_table": "horoball.distributions.radius_functions",
    "horoball.distributions.reparameterized": "horoball.distributions.base",
    "horoball.distributions.von_mises_fisher": "horoball.distributions.sphere",
    "horoball.estimators": "horoball.vae",
    "horoball.estimators.graph": "horoball.graphs.estimator",
    "horoball.estimators.table": "horoball.vae.estimator",
    "horoball.export": "horoball.vae",
    "horoball.export.embedding": "horoball.vae.files",
    "horoball.graphs.link_scores": "horoball.graphs.evaluation",
    "horoball.graphs.ranking": "horoball.graphs.evaluation",
    "horoball.graphs.reconstruction": "horoball.graphs.evaluation",
    "horoball.graphs.vgae": "horoball.graphs.baselines",
    "horoball.hierarchy.curvature": "horoball.hierarchy.delta",
    "horoball.hierarchy.distortion": "horoball.hierarchy.metrics",
    "horoball.hierarchy.labels": "horoball.hierarchy.metrics",
    "horoball.hierarchy.quality": "horoball.hierarchy.metrics",
    "horoball.hierarchy.readout": "horoball.hierarchy.metrics",
    "horoball.hierarchy.references": "horoball.hierarchy.delta",
    "horoball.hierarchy.taxonomies": "horoball.trees",
    "horoball.hierarchy.taxonomies.placement": "horoball.trees.placement",
    "horoball.hierarchy.taxonomies.taxonomy": "horoball.trees.taxonomy",
    "horoball.hierarchy.trees": "horoball.trees",
    "horoball.hierarchy.trees.branches": "horoball.trees.branches",
    "horoball.hierarchy.trees.evidence": "horoball.trees.linkage",
    "horoball.hierarchy.trees.grow": "horoball.trees.grow",
    "horoball.hierarchy.trees.record": "horoball.trees.record",
    "horoball.hierarchy.trees.related_columns": "horoball.trees.chance",
    "horoball.hierarchy.trees.tree": "horoball.trees.tree",
    "horoball.hierarchy.trees.verdict": "horoball.trees.verdict",
    "horoball.likelihoods.registry": "horoball.likelihoods.likelihood",
    "horoball.manifolds": "horoball.geometry",
    "horoball.manifolds.exponential": "horoball.geometry.exponential",
    "horoball.manifolds.gyrovector": "horoball.geometry.gyrovector",
    "horoball.manifolds.poincare_ball": "horoball.geometry.ball",
    "horoball.manifolds.projection": "horoball.geometry.coordinates",
    "horoball.manifolds.translation": "horoball.geometry.translation",
    "horoball.manifolds.triangle": "horoball.geometry.triangle",
    "horoball.manifolds.triangle_rates": "horoball.geometry.triangle",
    "horoball.manifolds.volume": "horoball.geometry.ball",
    "horoball.models": "horoball.vae",
    "horoball.models.graph": "horoball.graphs",
    "horoball.models.graph.convolution": "horoball.graphs.convolution",
    "horoball.models.graph.edges": "horoball.graphs.model",
    "horoball.models.graph.encoder": "horoball.graphs.model",
    "horoball.models.graph.pair_space": "horoball.graphs.pair_sums",
    "horoball.models.graph.pair_sums": "horoball.graphs.pair_sums",
    "horoball.models.graph.vae": "horoball.graphs.model",
    "horoball.models.prior": "horoball.vae.encoder",
    "horoball.models.table": "horoball.vae",
    "horoball.models.table.conditioning": "horoball.vae.encoder",
    "horoball.models.table.decoder": "horoball.vae.model",
    "horoball.models.table.encoder": "horoball.vae.encoder",
    "horoball.models.table.vae": "horoball.vae.model",
    "horoball.neighbors.engine": "horoball.neighbors.search",
    "horoball.neighbors.index_file": "horoball.neighbors.index",
    "horoball.neighbors.lineage": "horoball.neighbors.search",
    "horoball.neighbors.names": "horoball.neighbors.index",
    "horoball.neighbors.points": "horoball.neighbors.lift",
    "horoball.neighbors.vectors": "horoball.neighbors.lift",
    "horoball.nn.geoopt_manifold": "horoball.nn.geoopt",
    "horoball.nn.gyroplane_function": "horoball.nn.gyroplane",
    "horoball.nn.linear": "horoball.nn.mlp",
    "horoball.numerics": "horoball.geometry",
    "horoball.numerics.bessel": "horoball.geometry.kernels",
    "horoball.numerics.curved_space": "horoball.geometry.curvature",
    "horoball.numerics.kernels": "horoball.geometry.kernels",
    "horoball.numerics.quadrature": "horoball.geometry.quadrature",
    "horoball.numerics.random": "horoball.geometry.random",
    "horoball.objectives": "horoball.vae",
    "horoball.objectives.distances": "horoball.vae.distances",
    "horoball.objectives.neighbors": "horoball.vae.distances",
    "horoball.objectives.places": "horoball.vae.distances",
    "horoball.plotting.dendrogram": "horoball.plotting.lines",
    "horoball.plotting.frame": "horoball.plotting.marks",
    "horoball.plotting.heat": "horoball.plotting.lines",
    "horoball.report.baseline": "horoball.report.analysis",
    "horoball.runtime": "horoball.process",
    "horoball.runtime.allowance": "horoball.process",
    "horoball.runtime.plugins": "horoball.plugins",
    "horoball.runtime.registry": "horoball.plugins",
    "horoball.storage.atomic": "horoball.storage.whole",
    "horoball.storage.folder": "horoball.storage.outputs",
    "horoball.storage.lock": "horoball.storage.whole",
    "horoball.storage.optimizer": "horoball.storage.checkpoint",
    "horoball.storage.restore": "horoball.storage.checkpoint",
    "horoball.training.graph": "horoball.graphs",
    "horoball.training.graph.fit": "horoball.graphs.fit",
    "horoball.training.graph.lineage": "horoball.graphs.lineage",
    "horoball.training.graph.new_nodes": "horoball.graphs.lineage",
    "horoball.training.graph.objective": "horoball.graphs.fit",
    "horoball.training.graph.record": "horoball.graphs.run",
    "horoball.training.graph.request": "horoball.graphs.run",
    "horoball.training.graph.run": "horoball.graphs.run",
    "horoball.training.graph.start": "horoball.graphs.start",
    "horoball.training.history": "horoball.training.state",
    "horoball.training.record": "horoball.training.config",
    "horoball.training.request": "horoball.vae.options",
    "horoball.training.table": "horoball.vae",
    "horoball.training.table.fit": "horoball.vae.train",
    "horoball.training.table.likelihood": "horoball.vae.start",
    "horoball.training.table.maps": "horoball.vae",
    "horoball.training.table.maps.head_start": "horoball.vae.map_term",
    "horoball.training.table.maps.layout": "horoball.vae.layout",
    "horoball.training.table.record": "horoball.vae.options",
    "horoball.training.table.run": "horoball.vae.run",
    "horoball.training.table.train": "horoball.vae.train",
    "horoball.viewer.tree": "horoball.viewer.disc",
}

NAMES: dict[str, str] = {
    "horoball.cells.trees.branch_markers": "horoball.cells.tree",
    "horoball.cells.trees.branch_name": "horoball.cells.tree",
    "horoball.data.Graph": "horoball.graphs",
    "horoball.data.LeakWarning": "horoball.graphs",
    "horoball.data.LinkSplit": "horoball.graphs",
    "horoball.data.Pairs": "horoball.graphs",
    "horoball.data.branching_diffusion": "horoball.datasets",
    "horoball.data.mnist": "horoball.datasets",
    "horoball.data.paper_graph": "horoball.datasets",
    "horoball.data.path_axes": "horoball.graphs",
    "horoball.data.preferential_attachment": "horoball.datasets",
    "horoball.data.random_tree": "horoball.datasets",
    "horoball.data.read_graph": "horoball.graphs",
    "horoball.data.split_links": "horoball.graphs",
    "horoball.estimators.PoincareGraphVAE": "horoball.graphs",
    "horoball.hierarchy.Branch": "horoball.trees",
    "horoball.hierarchy.Candidate": "horoball.trees",
    "horoball.hierarchy.Difference": "horoball.trees",
    "horoball.hierarchy.Group": "horoball.trees",
    "horoball.hierarchy.Placed": "horoball.trees",
    "horoball.hierarchy.Placer": "horoball.trees",
    "horoball.hierarchy.Taxonomy": "horoball.trees",
    "horoball.hierarchy.Tree": "horoball.trees",
    "horoball.hierarchy.Verdict": "horoball.trees",
    "horoball.hierarchy.branches": "horoball.trees",
    "horoball.hierarchy.calibration_error": "horoball.trees",
    "horoball.hierarchy.taxonomy": "horoball.trees",
    "horoball.hierarchy.tree": "horoball.trees",
    "horoball.hierarchy.tree_from_json": "horoball.trees",
    "horoball.hierarchy.tree_to_json": "horoball.trees",
    "horoball.hierarchy.verdict": "horoball.trees",
    "horoball.manifolds.triangle.positive": "horoball.geometry.curvature",
    "horoball.models.FermiDiracEdges": "horoball.graphs",
    "horoball.models.FreeEncoder": "horoball.graphs",
    "horoball.models.GraphConfig": "horoball.graphs",
    "horoball.models.GraphEncoder": "horoball.graphs",
    "horoball.models.GraphVAE": "horoball.graphs",
    "horoball.models.TanhEdges": "horoball.graphs",
    "horoball.objectives.Elbo": "horoball.training",
    "horoball.objectives.LatentModel": "horoball.training",
    "horoball.objectives.elbo": "horoball.training",
    "horoball.objectives.iwae": "horoball.training",
    "horoball.objectives.log_likelihood": "horoball.training",
    "horoball.training.fit": "horoball.vae",
    "horoball.training.fit_graph": "horoball.graphs",
    "horoball.training.record.GraphRecord": "horoball.graphs.run",
    "horoball.training.record.TableRecord": "horoball.vae.options",
    "horoball.training.request.GRAPHS": "horoball.graphs.run",
    "horoball.training.request.graph_fit": "horoball.graphs.run",
}


def moved_names(module: str) -> Callable[[str], Any]:
    """A `__getattr__` for a module that has given names to another.

    Example:
        >>> moved_names("horoball.training")("wings")
        Traceback (most recent call last):
        ...
        AttributeError: module 'horoball.training' has no attribute 'wings'
    """

    def __getattr__(name: str) -> Any:  # noqa: N807  as a module has it
        if f"{module}.{name}" not in NAMES:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        new = NAMES[f"{module}.{name}"]
        _warn(f"{module}.{name}", f"{new}.{name}", stacklevel=3)
        return getattr(import_module(new), name)

    return __getattr__


class _Moved(ModuleType):
    """A module under its old path.

    Python gives it to the package as an attribute, over a function of the same name: `cells.simulate` is such a one.
    """

    def __call__(self, *args: Any, **options: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **options)


class _OldPaths(Loader):
    """Finds the modules of `MODULES`, and makes each of them a name for the new one."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Only what no other finder has found is asked for here."""
        if name not in MODULES:
            return None
        return ModuleSpec(name, self, is_package=any(other.startswith(f"{name}.") for other in MODULES))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that can be called, if a function of its package has its name."""
        return _Moved(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Warn whoever imports it."""
        old = module.__name__
        new = MODULES[old]
        _warn(old, new, stacklevel=3)

        def __getattr__(name: str) -> Any:  # noqa: N807  as a module has it
            if name.startswith("__"):
                raise AttributeError(f"module {old!r} has no attribute {name!r}")
            return getattr(import_module(NAMES.get(f"{old}.{name}", new)), name)

        vars(module)["__getattr__"] = __getattr__
        vars(module)["__doc__"] = f"Moved to `{new}`."


def find_old_paths() -> None:
    """Let Python find the old paths, after all that it finds without.

    Example:
        >>> find_old_paths()
    """
    if not any(isinstance(finder, _OldPaths) for finder in sys.meta_path):
        sys.meta_path.append(_OldPaths())


def _warn(old: str, new: str, stacklevel: int) -> None:
    warnings.warn(
        f"{old} is {new} since version 0.2, and is found under its old name until 0.3. Import it from there.",
        DeprecationWarning,
        stacklevel=stacklevel,
    )
