"""The figure of an atlas in docs/cells.md: `python -m benchmarks.atlas_figure docs/cells/atlas.png`.

Cells of `benchmarks.lineage_counts` in three batches, without one of eight types: their map, the tree of types with its
support, and cells of a fourth batch on the map, those above a novelty of 0.95 marked.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import anndata
import matplotlib.pyplot as plt
import numpy as np
import torch

import horoball as hb
from benchmarks.cell_models import of_column
from benchmarks.lineage_counts import genome, lineage_counts

CELLS, NEW, GENES = 10_000, 1000, 1000
LEFT_OUT = "mega"
KINDS = ("atlas", "new cells", "above 0.95, of known types", "above 0.95, of the type that was left out")


def main(arguments: Sequence[str] | None = None, cells: int = CELLS, genes: int = GENES) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="of the picture")
    path = parser.parse_args(arguments).path
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    made = genome(genes)
    atlas = lineage_counts(made, cells, "abc")
    atlas = atlas[of_column(atlas, "type") != LEFT_OUT].copy()
    model = hb.cells.fit(atlas, batch_key="batch", random_state=0, n_neighbors=None, verbose=False)
    tree = model.tree(atlas, "type", root="stem")
    new = lineage_counts(made, min(NEW, cells), "d", seed=1)
    model.map_query(new, atlas, n_neighbors=None, verbose=False)
    high, lacking = new.obs["poincare_novelty"].to_numpy() > 0.95, of_column(new, "type") == LEFT_OUT
    print(f"above 0.95: {high[lacking].mean():.2f} of {LEFT_OUT}; {high[~lacking].mean():.2f} of others")
    print(tree)
    figure, axes = plt.subplots(1, 3, figsize=(16, 5))
    hb.cells.plot(atlas, color="type", ax=axes[0], title="The atlas by type")
    hb.plotting.tree(tree, atlas.obs["type"], ax=axes[1])
    kind = np.where(high, np.where(lacking, KINDS[3], KINDS[2]), KINDS[1])
    both = anndata.concat({"atlas": atlas, "new": new}, index_unique="-")
    both.obs["cells"] = np.concatenate([np.full(atlas.n_obs, KINDS[0]), kind])
    both.obs["cells"] = both.obs["cells"].astype("category").cat.set_categories(KINDS)
    both.uns["cells_colors"] = ["#dddddd", "#0072b2", "#e69f00", "#d55e00"]
    hb.cells.plot(both, color="cells", ax=axes[2], title="New cells on the atlas")
    axes[0].get_legend().remove()  # the tree names the types in their colors
    axes[2].legend(*axes[2].get_legend_handles_labels(), loc="upper center", bbox_to_anchor=(0.5, 0.0), markerscale=4)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    return 0


if __name__ == "__main__":
    sys.exit(main())
