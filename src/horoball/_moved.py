"""Import paths of version 0.1: they work in 0.2, warn, and end with 0.3, and this module with them.

`MODULES` has modules and packages that are elsewhere now, `NAMES` names that are elsewhere than the rest of their old
home. A name of neither table is looked up in the module that the old one became.

A module that is not there cannot be given a `__getattr__`, so that `from horoball.data import read` takes either a file
for each of 164 old modules or a finder on `sys.meta_path`. The finder is the last one, and knows the names of this
table alone: what any other package imports is found, or not found, as without it.
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

# What is elsewhere now, by where it is; all of it within `horoball`.
_MODULES = {
    "cells": "cells.trees",
    "cells.anndata": "cells.embedding_keys cells.graph cells.picture cells.pseudotime cells.simulate",
    "cells.expression": "cells.differential",
    "cells.labels": "cells.label_transfer",
    "cells.model": "cells.cell_map cells.expression_model",
    "cells.query": "cells.novelty",
    "cells.tree": (
        "cells.trees.cell_tree cells.trees.dendrogram_keys cells.trees.group_means cells.trees.markers "
        "cells.trees.shared_change"
    ),
    "datasets": (
        "data.datasets data.datasets.branching data.datasets.images data.datasets.paper_graphs "
        "data.datasets.random_graphs"
    ),
    "distributions.base": "distributions.features distributions.reparameterized",
    "distributions.negative_binomial": (
        "distributions.counts distributions.counts.negative_binomial distributions.counts.zero_inflated"
    ),
    "distributions.radius": "distributions.hyperbolic_radius distributions.radius_autograd",
    "distributions.radius_functions": "distributions.radius_distribution distributions.radius_table",
    "distributions.sphere": "distributions.hypersphere distributions.von_mises_fisher",
    "geometry": "manifolds numerics",
    "geometry.ball": "manifolds.poincare_ball manifolds.volume",
    "geometry.coordinates": "manifolds.projection",
    "geometry.curvature": "numerics.curved_space",
    "geometry.exponential": "manifolds.exponential",
    "geometry.gyrovector": "manifolds.gyrovector",
    "geometry.kernels": "numerics.bessel numerics.kernels",
    "geometry.quadrature": "numerics.quadrature",
    "geometry.random": "numerics.random",
    "geometry.translation": "manifolds.translation",
    "geometry.triangle": "manifolds.triangle manifolds.triangle_rates",
    "graphs": "data.graphs models.graph training.graph",
    "graphs.baselines": "graphs.vgae",
    "graphs.convolution": "models.graph.convolution",
    "graphs.estimator": "estimators.graph",
    "graphs.evaluation": "data.graphs.link_split graphs.link_scores graphs.ranking graphs.reconstruction",
    "graphs.fit": "training.graph.fit training.graph.objective",
    "graphs.graph": "data.graphs.closure data.graphs.graph",
    "graphs.lineage": "training.graph.lineage training.graph.new_nodes",
    "graphs.model": "models.graph.edges models.graph.encoder models.graph.vae",
    "graphs.pair_sums": "models.graph.pair_space models.graph.pair_sums",
    "graphs.pairs": "data.graphs.pair_tiles data.graphs.pairs",
    "graphs.read": "data.readers.graphs",
    "graphs.run": "training.graph.record training.graph.request training.graph.run",
    "graphs.start": "data.graphs.nested_cones data.graphs.path_axes training.graph.start",
    "hierarchy.delta": "hierarchy.curvature hierarchy.references",
    "hierarchy.metrics": "hierarchy.distortion hierarchy.labels hierarchy.quality hierarchy.readout",
    "likelihoods.likelihood": "likelihoods.registry",
    "neighbors.index": "neighbors.index_file neighbors.names",
    "neighbors.lift": "neighbors.points neighbors.vectors",
    "neighbors.search": "neighbors.engine neighbors.lineage",
    "nn.geoopt": "nn.geoopt_manifold",
    "nn.gyroplane": "nn.gyroplane_function",
    "nn.mlp": "nn.linear",
    "plotting.lines": "plotting.dendrogram plotting.heat",
    "plotting.marks": "plotting.frame",
    "plugins": "runtime.plugins runtime.registry",
    "process": "runtime runtime.allowance",
    "report.analysis": "report.baseline",
    "storage.checkpoint": "storage.optimizer storage.restore",
    "storage.outputs": "storage.folder",
    "storage.whole": "storage.atomic storage.lock",
    "tables": "data data.cells data.readers data.tables data.vectors",
    "tables.anndata": "data.cells.cell_table data.cells.h5ad",
    "tables.covariates": "data.tables.covariates",
    "tables.formats": "data.readers.registry",
    "tables.geodesics": "data.cells.count_axes data.tables.geodesics",
    "tables.parquet": "data.readers.parquet",
    "tables.read": "data.readers.tables",
    "tables.scaling": "data.tables.standardizer",
    "tables.schema": "data.tables.column_roles",
    "tables.streamed": "data.tables.streamed",
    "tables.table": "data.tables.array_table data.tables.table",
    "tables.vectors": "data.vectors.vector_table",
    "training.config": "training.record",
    "training.state": "training.history",
    "trees": "hierarchy.taxonomies hierarchy.trees",
    "trees.branches": "hierarchy.trees.branches",
    "trees.chance": "hierarchy.trees.related_columns",
    "trees.grow": "hierarchy.trees.grow",
    "trees.linkage": "hierarchy.trees.evidence",
    "trees.placement": "hierarchy.taxonomies.placement",
    "trees.record": "hierarchy.trees.record",
    "trees.taxonomy": "hierarchy.taxonomies.taxonomy",
    "trees.tree": "hierarchy.trees.tree",
    "trees.verdict": "hierarchy.trees.verdict",
    "vae": "estimators export models models.table objectives training.table training.table.maps",
    "vae.distances": "objectives.distances objectives.neighbors objectives.places",
    "vae.encoder": "models.prior models.table.conditioning models.table.encoder",
    "vae.estimator": "estimators.table",
    "vae.files": "export.embedding",
    "vae.layout": "training.table.maps.layout",
    "vae.map_term": "training.table.maps.head_start",
    "vae.model": "models.table.decoder models.table.vae",
    "vae.options": "training.request training.table.record",
    "vae.run": "training.table.run",
    "vae.start": "training.table.likelihood",
    "vae.train": "training.table.fit training.table.train",
    "viewer.disc": "viewer.tree",
}
_NAMES = {
    "cells.tree": "cells.trees.branch_markers cells.trees.branch_name",
    "datasets": "data.branching_diffusion data.mnist data.paper_graph data.preferential_attachment data.random_tree",
    "geometry.curvature": "manifolds.triangle.positive",
    "graphs": (
        "data.Graph data.LeakWarning data.LinkSplit data.Pairs data.path_axes data.read_graph data.split_links "
        "estimators.PoincareGraphVAE models.FermiDiracEdges models.FreeEncoder models.GraphConfig "
        "models.GraphEncoder models.GraphVAE models.TanhEdges training.fit_graph"
    ),
    "graphs.run": "training.record.GraphRecord training.request.GRAPHS training.request.graph_fit",
    "training": "objectives.Elbo objectives.LatentModel objectives.elbo objectives.iwae objectives.log_likelihood",
    "trees": (
        "hierarchy.Branch hierarchy.Candidate hierarchy.Difference hierarchy.Group hierarchy.Placed "
        "hierarchy.Placer hierarchy.Taxonomy hierarchy.Tree hierarchy.Verdict hierarchy.branches "
        "hierarchy.calibration_error hierarchy.taxonomy hierarchy.tree hierarchy.tree_from_json "
        "hierarchy.tree_to_json hierarchy.verdict"
    ),
    "vae": "training.fit",
    "vae.kinds": "training.request.CELLS training.request.TABLES training.request.VECTORS",
    "vae.options": "training.record.TableRecord",
}


def _by_old(by_new: dict[str, str]) -> dict[str, str]:
    return {f"horoball.{old}": f"horoball.{new}" for new, all_old in by_new.items() for old in all_old.split()}


MODULES, NAMES = _by_old(_MODULES), _by_old(_NAMES)


def moved_names(module: str) -> Callable[[str], Any]:
    """A `__getattr__` for a module that has given names to another."""

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
    """Let Python find the old paths, after all that it finds without."""
    if not any(isinstance(finder, _OldPaths) for finder in sys.meta_path):
        sys.meta_path.append(_OldPaths())


def _warn(old: str, new: str, stacklevel: int) -> None:
    warnings.warn(
        f"{old} is {new} since version 0.2, and is found under its old name until 0.3. Import it from there.",
        DeprecationWarning,
        stacklevel=stacklevel,
    )
