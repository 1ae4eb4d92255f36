"""Put the tables, made from the results, into the pages that show them: `python -m experiments.render`.

A table stands between `<!-- name -->` and `<!-- /name -->`, and is written by nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from experiments import (
    beyond,
    branch_differences,
    branch_support,
    cell_starts,
    claims,
    closure_prediction,
    curvature_gain,
    departures,
    directions,
    estimators,
    figure7,
    known_groups,
    latent_trees,
    new_nodes,
    placing,
    reconstruction,
    sampled_pairs,
    settling,
    spaces,
    table1,
    table2,
    table3,
    table4,
    taxonomies,
    tree_purity,
    tree_support,
    vector_taxonomies,
    verdicts,
    wordnet,
)

ROOT = Path(__file__).parents[1]
PAGES = (
    "experiments/README.md",
    "docs/concepts.md",
    "docs/graphs.md",
    "docs/hierarchy.md",
    "docs/reproduction.md",
    "docs/trees.md",
    "docs/tutorials/curvature.md",
    "docs/tutorials/vectors.md",
)
TABLES: dict[str, Callable[[], str]] = {
    "claims": claims.table,
    "table1": table1.table,
    "table2": table2.table,
    "integrals": table2.integrals,
    "figure7": figure7.table,
    "table3": table3.table,
    "table4": table4.table,
    "learned": beyond.learned,
    "starts": beyond.starts,
    "cell_starts": cell_starts.table,
    "departures": departures.tables,
    "departure_curves": departures.curves,
    "estimators": estimators.table,
    "covariances": beyond.covariances,
    "five": beyond.five,
    "reconstruction": reconstruction.table,
    "sampled_pairs": sampled_pairs.table,
    "verdicts": verdicts.table,
    "verdict_grid": verdicts.grid_table,
    "known_groups": known_groups.table,
    "wordnet": wordnet.table,
    "taxonomy_purity": vector_taxonomies.purity_table,
    "taxonomy_groups": vector_taxonomies.group_table,
    "placing": vector_taxonomies.placing_table,
    "coverage": placing.table,
    "coverage_left_out": placing.left_out_table,
    "coverage_cut": placing.cut_table,
    "directions": directions.table,
    "spaces": spaces.table,
    "taxonomies": taxonomies.table,
    "settling": settling.table,
    "new_nodes": new_nodes.table,
    "closure_prediction": closure_prediction.table,
    "curvature_gain": curvature_gain.table,
    "latent_trees": latent_trees.table,
    "branch_differences": branch_differences.table,
    "branch_coverage": branch_differences.coverage_table,
    "tree_found": tree_support.found_table,
    "tree_purity": tree_purity.table,
    "branch_calibration": branch_support.calibration_table,
    "branch_kinds": branch_support.kinds_table,
}


def rendered(page: str) -> str:
    """A page with its tables as the results have them.

    Example:
        >>> "<!-- table4 -->" in rendered("experiments/README.md")
        True
    """
    text = (ROOT / page).read_text()
    for name, table in TABLES.items():
        first, last = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if first in text:
            before, rest = text.split(first)
            text = f"{before}{first}\n{table()}\n\n{last}{rest.split(last)[1]}"
    return text


def main() -> None:
    """Write the pages."""
    for page in PAGES:
        (ROOT / page).write_text(rendered(page))
        print(page)


if __name__ == "__main__":
    main()
