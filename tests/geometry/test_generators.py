"""No source draws from a generator of the process: every draw names the generator that it takes its numbers from."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_safety import ROOT, SOURCES, dotted

# Libraries, and distributions of plugins, that take no generator: they run under `random.global_seed`, one thread at a
# time. The noise of who names no generator, as torch's own distributions have it. And the seed of who asks for none,
# which comes from the operating system.
ALLOWED = {
    "horoball/distributions/base.py": {"distribution.sample"},
    "horoball/geometry/random.py": {
        "torch.randn",
        "torch.random.fork_rng",
        "torch.default_generator.manual_seed",
        "np.random.default_rng",
    },
    "horoball/graphs/baselines.py": {"random.getstate", "random.seed", "random.setstate", "nn.Embedding"},
}

DRAWS = {
    "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "multinomial", "bernoulli",
    "normal", "poisson", "binomial", "_standard_gamma", "_sample_dirichlet", "dropout", "svd_lowrank", "pca_lowrank",
}  # fmt: skip
IN_PLACE = {"bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_"}
STARTS = {
    "kaiming_normal_", "kaiming_uniform_", "orthogonal_", "sparse_", "trunc_normal_", "xavier_normal_",
    "xavier_uniform_",
}  # fmt: skip
LAYERS = {"Linear", "Bilinear", "Embedding", "EmbeddingBag", "LazyLinear", "Conv1d", "Conv2d", "GRU", "LSTM", "RNN"}
# Our own functions that draw from torch's global generator unless they are given another: with the number of arguments
# that include it.
OURS = {
    "elbo": 99, "from_config": 99, "generate": 99, "iwae": 99, "linear": 99, "log_likelihood": 99, "mlp": 99,
    "Gyroplane": 99, "_draw": 2, "rsample": 2, "rsample_and_log_prob": 2, "sample": 2,
}  # fmt: skip
SEEDED = {"np.random.default_rng", "np.random.SeedSequence", "np.random.Generator", "np.random.RandomState"}


def draws(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every call that draws from a generator of the process, or changes it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        root, _, last = name.rpartition(".")
        last = last or getattr(node.func, "attr", "")
        given = "generator" in {keyword.arg for keyword in node.keywords}
        unnamed = not given and (
            (root == "torch" and last in DRAWS)
            or name == "standard_normal"
            or (isinstance(node.func, ast.Attribute) and last in IN_PLACE | STARTS)
            or (last in OURS and len(node.args) < OURS[last] and not root.endswith("nn.functional"))
        )
        of_the_process = (
            name.startswith(("torch.random.", "torch.default_generator.", "random."))
            or name in {"torch.manual_seed", "torch.seed", "torch.set_rng_state", "torch.get_rng_state"}
            or (root in ("nn", "torch.nn") and last in LAYERS)
            or (name.startswith(("np.random.", "numpy.random.")) and (name not in SEEDED or not node.args))
        )
        if unnamed or of_the_process:
            yield node.lineno, name or last


def test_every_draw_names_its_generator() -> None:
    assert SOURCES
    found = []
    for path in SOURCES:
        file = path.relative_to(ROOT / "src").as_posix()
        drawn = draws(ast.parse(path.read_text("utf-8")))
        found += [f"{file}, line {line}: {name}" for line, name in drawn if name not in ALLOWED.get(file, set())]
    assert not found


def test_what_is_allowed_is_there() -> None:
    for name, calls in ALLOWED.items():
        tree = ast.parse((ROOT / "src" / name).read_text("utf-8"))
        assert {call for _, call in draws(tree)} == calls


@pytest.mark.parametrize(
    "source",
    ["torch.randn(3)", "torch.randperm(n)[:2]", "x.normal_()", "torch.empty(3).uniform_(0, 1)", "np.random.rand(3)",
     "np.random.default_rng()", "nn.Linear(2, 3)", "nn.init.xavier_uniform_(w)", "torch.manual_seed(0)",
     "random.random()", "q.rsample((3,))", "model.decode(z).sample()", "elbo(model, x)", "VAE.from_config(config)"],
)  # fmt: skip
def test_what_must_not_be_there_would_be_seen(source: str) -> None:
    assert list(draws(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ["torch.randn(3, generator=g)", "x.normal_(generator=g)", "np.random.default_rng(0)", "q.rsample((3,), g)",
     "q.rsample_and_log_prob(generator=g)", "rng.normal(size=3)", "torch.nn.functional.linear(x, w)"],
)  # fmt: skip
def test_what_names_its_generator_is_let_through(source: str) -> None:
    assert not list(draws(ast.parse(source)))
