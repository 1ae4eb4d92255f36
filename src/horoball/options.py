"""The options of a fit: one table of names, types and help, for the command, the estimators and the docs.

A default has one home, the field of `ModelConfig`, `GraphConfig` or `TrainConfig`, which also has the range; where a
kind of rows differs from it, `horoball.vae.kinds` says so. This module knows none of them, so that `--help` needs no
torch; tests/cli/test_defaults.py compares what the help says with what is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypedDict, TypeVar, cast, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Help(NamedTuple):
    """What an option does, and its default in words."""

    does: str
    default: str
    words: tuple[str, ...] = ()  # that a command takes in place of a number
    choices: tuple[str, ...] = ()  # of a command

    def __str__(self) -> str:
        return f"{self.does} [default: {self.default}]"


# Options of tables and of graphs.
_Dimension = Annotated[int | None, Help("Dimension of the ball. 2 or 3 draw a map; more keep more of the data.", "2")]
_Optimizer = Annotated[
    str | None,
    Help(
        "An optimizer of torch.optim, or of a plugin, with settings, such as SGD or 'SGD:{\"momentum\": 0.9}'.", "Adam"
    ),
]
_Scheduler = Annotated[
    str | None,
    Help(
        "A schedule of torch.optim.lr_scheduler, or of a plugin, with settings, such as "
        "'ExponentialLR:{\"gamma\": 0.99}'; 'auto' suits the model.",
        "auto",
    ),
]
_ClipNorm = Annotated[
    float | None,
    Help(
        "Norm that all gradients together are brought down to. Smaller values tame steps that are too large; 0 leaves "
        "them. Useful: 0.5 to 10.",
        "0.0",
    ),
]
_Device = Annotated[
    str | None, Help("Where it is computed: cpu, cuda, mps, or 'auto' for a GPU if there is one.", "cpu")
]
_Precision = Annotated[str | None, Help("32-true, or bf16-mixed for matrix products in bfloat16.", "32-true")]
_Seed = Annotated[int | None, Help("Seed of all random numbers.", "0")]


class FitOptions(TypedDict, total=False):
    """Options of a fit to a table. One that is not given has the default of the rows' kind."""

    d: _Dimension
    c: Annotated[
        float | str | None,
        Help(
            "Minus the curvature: a number, 'learn', or 'auto', which compares spaces on held-out rows and takes a "
            "dozen fits. Larger values leave more room for branches; 0 is the Euclidean model. Useful: 0.1 to 5.",
            "1.0",
            ("learn", "auto"),
        ),
    ]
    posterior: Annotated[
        str | None, Help("Posterior family: riemannian, wrapped or one of a plugin.", "riemannian; wrapped for cells")
    ]
    likelihood: Annotated[
        str | None,
        Help(
            "Likelihood of the observations: normal for real numbers, bernoulli for values in [0, 1], poisson or "
            "negative_binomial for counts, zero_inflated_negative_binomial or zero_inflated_gamma for counts with more "
            "zeros or with fractions, categorical, ordinal or circular for codes 0, 1, 2 …, log_normal for positive "
            "numbers, von_mises_fisher for vectors, mixed for one per column (see --columns), or a plugin's. 'auto' "
            "chooses by the values, and prints its choice.",
            "auto",
        ),
    ]
    decoder: Annotated[str | None, Help("First layer of the decoder; 'gyroplane' is the paper's.", "gyroplane")]
    encoder: Annotated[str | None, Help("A registered encoder, such as 'conv' or 'conv:{\"channels\": 8}'.", "mlp")]
    prior: Annotated[str | None, Help("A registered prior: mixture, vamp or a plugin's.", "normal")]
    manifold: Annotated[str | None, Help("A registered space: product or a plugin's.", "ball")]
    scale: Annotated[
        str | None, Help("Structure of the posterior's scale; others than isotropic if it is wrapped.", "isotropic")
    ]
    shape: tuple[int, ...]
    prior_scale: Annotated[
        float | str | None,
        Help(
            "Standard deviation of the prior: a number, or 'learn'. Larger values spread the embedding. Useful: 0.5 to "
            "2.",
            "1.0",
            ("learn",),
        ),
    ]
    hidden: Annotated[
        int | tuple[int, ...] | str | None,
        Help(
            "Size of one hidden layer. Larger values fit finer structure and need more rows. Useful: 32 to 600.",
            "auto, two of 256 for maps, three from 8,000 rows on, and one of 200 otherwise; 128 for cells",
        ),
    ]
    beta: Annotated[
        float | None,
        Help("Weight of the KL divergence. Larger values pull the embedding to the prior. Useful: 0.1 to 10.", "1.0"),
    ]
    distance_weight: Annotated[
        float | str | None,
        Help(
            "Weight of a map's layout, which keeps distances and neighbors: a number, or 'auto', 5 a feature for maps. "
            "Larger values make a more faithful map at the cost of the likelihood; 0 is the paper's objective.",
            "auto",
            ("auto",),
        ),
    ]
    locality: Annotated[
        float | None,
        Help(
            "From global to local: share of neighbors in the layout. 0 keeps distances, 1 nearest neighbors.",
            "0.5; 0.0 for cells",
        ),
    ]
    max_epochs: Annotated[
        int | str | None,
        Help(
            "Maximum number of epochs. Useful: 50 to 500.",
            "auto, 100 to 400 steps for maps, otherwise until the validation loss stops falling; "
            "15,000 steps and at most 200 epochs for cells",
        ),
    ]
    batch_size: Annotated[
        int | str | None,
        Help(
            "Rows per step. Larger batches take fewer steps an epoch. Useful: 32 to 4096.",
            "auto, 128 to 1024 by the number of rows; 128 for cells",
        ),
    ]
    learning_rate: Annotated[
        float | str | None,
        Help(
            "Learning rate of Adam. Larger values train faster, until training diverges. Useful: 1e-4 to 1e-2.",
            "auto, 0.01 or 0.02 for maps and 0.001 otherwise",
        ),
    ]
    validation: Annotated[
        float | None, Help("Fraction of the rows held out for early stopping. Useful: 0.05 to 0.2.", "0.1")
    ]
    patience: Annotated[
        int | str | None,
        Help(
            "Epochs without a lower validation loss before stopping; 0 for never. Useful: 10 to 50.",
            "auto, 0 for maps and 20 otherwise, 160 steps at least",
        ),
    ]
    optimizer: _Optimizer
    scheduler: _Scheduler
    clip_norm: _ClipNorm
    device: _Device
    precision: _Precision
    seed: _Seed


class GraphOptions(TypedDict, total=False):
    """Options of a fit to a graph. One that is not given has the default of the encoder."""

    d: _Dimension
    c: Annotated[
        float | str | None,
        Help(
            "Minus the curvature: a number, 'learn', or 'auto', which fits with 0 and 1 and takes the better bound. "
            "Larger values leave more room for branches; 0 is the Euclidean model. Useful: 0.1 to 5.",
            "1.0",
            ("learn", "auto"),
        ),
    ]
    encoder: Annotated[
        str | None,
        Help(
            "'free' learns a posterior for each node, 'gcn' computes it by graph convolutions, as in the paper; 'auto' "
            "is 'gcn' for nodes with features.",
            "auto",
            choices=("auto", "free", "gcn"),
        ),
    ]
    posterior: Annotated[str | None, Help("Posterior family: riemannian, wrapped or one of a plugin.", "wrapped")]
    edges: Annotated[
        str | None,
        Help("Edge probability by distance; 'tanh' is the paper's.", "fermi_dirac", choices=("tanh", "fermi_dirac")),
    ]
    transitive: Annotated[
        bool | None,
        Help(
            "With --directed: a parent's parents are ancestors, as in a taxonomy without cycles, and all pairs of node "
            "and ancestor are fitted; otherwise the edges as they are.",
            "transitive",
        ),
    ]
    prior_scale: Annotated[
        float | str | None,
        Help(
            "Standard deviation of the prior: a number, or 'learn'. Larger values spread the nodes. Useful: 0.5 to 3.",
            "learn",
            ("learn",),
        ),
    ]
    hidden: Annotated[int | None, Help("Size of the hidden layer of 'gcn'. Larger values fit finer structure.", "32")]
    beta: Annotated[
        float | None,
        Help(
            "Weight of the KL divergence. Larger values pull the nodes to the prior and blur ranks. Useful: 0.001 to "
            "10.",
            "1.0; 0.1 if directed; 0.001 for a taxonomy",
        ),
    ]
    max_epochs: Annotated[
        int | None,
        Help("Number of epochs. Larger values train longer.", "1000; 300 for a taxonomy; 800 for 'gcn'"),
    ]
    batch_size: Annotated[int | None, Help("Edges per step. Smaller batches need less memory.", "all")]
    learning_rate: Annotated[
        float | None,
        Help(
            "Learning rate of Adam. Larger values train faster, until training diverges.",
            "0.2, falling to 0.01; 0.02 for a taxonomy; 0.01 for 'gcn'",
        ),
    ]
    optimizer: _Optimizer
    scheduler: _Scheduler
    clip_norm: _ClipNorm
    device: _Device
    precision: _Precision
    seed: _Seed


OPTIONS_FILE = "run.toml"  # what the command was told, beside the model
MAX_LEAVES = 2_000  # rows that are leaves themselves; of more, micro-clusters are


class TreeOptions(TypedDict, total=False):
    """How a tree is made; `horoball.trees.tree` describes each."""

    labels: ArrayLike | None
    names: Sequence[str] | None
    root: str | int
    method: str
    draws: int
    max_leaves: int
    n_jobs: int | None
    told: Callable[[int, int], None] | None


class ReadingOptions(TypedDict, total=False):
    """How rows are read; `horoball.tables.read` describes each."""

    kind: str
    ids: str | None
    columns: Mapping[str, str] | Sequence[str] | None
    drop: Sequence[str]
    na: Sequence[str]
    vectors: str | None
    layer: str | None
    batch: Sequence[str]


_Options = TypeVar("_Options", FitOptions, GraphOptions)


def given(options: _Options) -> _Options:
    """The options that are not None, as those of a command are that nobody gave."""
    return cast(_Options, {name: value for name, value in options.items() if value is not None})


def offered(options: type) -> dict[str, tuple[tuple[type, ...], Help]]:
    """The options of a table that a command offers: their types, and what it says of them."""
    hints = get_type_hints(options, include_extras=True)
    return {
        name: (get_args(hint.__origin__), *hint.__metadata__)
        for name, hint in hints.items()
        if get_origin(hint) is Annotated
    }
