from __future__ import annotations

import pytest
import torch

from benchmarks.training import generated_kernels
from horoball.training import TrainConfig
from horoball.vae import VAE, ModelConfig
from horoball.vae.train import TableObjective


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # by Dynamo itself
def test_the_loss_is_one_graph_for_any_number_of_rows() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        objective = TableObjective(VAE.from_config(ModelConfig(features=4, hidden=(8,))), TrainConfig())
        # Traced and not translated, which is what takes long; graphs of single parts are translated in their tests.
        compiled = torch.compile(objective, fullgraph=True, backend="eager")
        for rows in (16, 24):
            x = torch.randn(rows, 4)
            torch._dynamo.mark_dynamic(x, 0)
            results = []
            for loss in (objective, compiled):
                objective.zero_grad()
                torch.manual_seed(1)
                value = loss(x)
                value[0].backward()
                results.append([value, *(p.grad for p in objective.parameters())])
            for expected, got in zip(*results, strict=True):
                torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("posterior", "most"), [("wrapped", 61), ("riemannian", 73)])
def test_a_compiled_step_has_no_more_kernels_than_before(posterior: str, most: int) -> None:
    config = ModelConfig(features=784, d=10, posterior=posterior, likelihood="bernoulli", hidden=(600,))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        objective = TableObjective(VAE.from_config(config), TrainConfig())
        assert generated_kernels(objective, torch.rand(128, 784).round()) <= most
