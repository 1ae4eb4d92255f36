"""Everything that computes, on the CPU and on the simulated device: `python -m tests.devices.script float64|float32`.

Prints one JSON object: what differs, and what was counted. It is a process of its own, because torch takes a new device
only before its first gradient, and keeps it.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from horoball import devices
from horoball.tables import ArrayTable
from horoball.training import TrainConfig
from horoball.training.loop import StepLosses
from horoball.vae import VAE, ModelConfig
from horoball.vae.run import Run
from horoball.vae.train import TableObjective, train
from tests.devices.simulated import NAME, Simulator, simulated
from tests.devices.uses import commands, uses

MODELS: dict[str, dict[str, Any]] = {
    "euclidean": {"c": 0.0, "posterior": "wrapped"},
    "wrapped": {"posterior": "wrapped"},
    "riemannian": {"posterior": "riemannian"},
    "diagonal": {"posterior": "wrapped", "scale": "diagonal"},
    "full": {"posterior": "wrapped", "scale": "full"},
    "learned c": {"posterior": "wrapped", "learn_c": True},
    "learned c, riemannian": {"posterior": "riemannian", "learn_c": True, "learn_prior": True},
    "log0": {"posterior": "riemannian", "decoder": "log0"},
    "mlp": {"posterior": "wrapped", "decoder": "mlp"},
    "normal": {"posterior": "riemannian", "likelihood": "normal", "learn_scale": True},
    "poisson": {"posterior": "wrapped", "likelihood": "poisson", "log_input": True},
    "negative binomial": {"posterior": "wrapped", "likelihood": "negative_binomial", "log_input": True},
}

GRAPHS = {"all pairs": (1.0, False), "drawn pairs": (1.0, True), "flat": (0.0, False)}  # c, and whether pairs are drawn

# What is done 4 times here: a simulated step takes long, and so do draws of rows for 38 flat tables beside each tree.
SHORTENED = (
    ("vae.layout", "_STEPS"),
    ("vae.map_term", "_EPOCHS"),
    ("trees.support", "FLAT_TABLES"),
    ("trees.support", "_FLAT_DRAWS"),
    ("report.analysis", "_DRAWS"),
)


def gap(got: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest number."""
    got, expected = got.detach().cpu().double(), expected.detach().double()
    return float((got - expected).abs().max() / expected.abs().max().clamp_min(1e-12))


def step(device: Simulator, fields: dict[str, Any]) -> dict[str, Any]:
    """One loss and its gradients at batch 128, d = 10, as a training step has them."""
    torch.manual_seed(0)
    config = ModelConfig(**{"features": 784, "d": 10, "likelihood": "bernoulli", "hidden": (600,)} | fields)
    objective = TableObjective(VAE.from_config(config), TrainConfig())
    rows = torch.rand(128, 784).round()
    expected = objective(rows, generator=torch.Generator().manual_seed(0))
    expected[0].backward()
    gradients = {name: p.grad for name, p in objective.named_parameters()}
    objective, rows = objective.to(device.device), rows.to(device.device)
    for _ in range(2):  # tables are made at the first step
        objective.zero_grad(set_to_none=True)
        device.reset()
        got = objective(rows, generator=torch.Generator().manual_seed(0))
        got[0].backward()
    counted = {"launches": device.launches, "syncs": list(device.syncs), "transfers": list(device.transfers)}
    errors = {name: gap(p.grad, gradients[name]) for name, p in objective.named_parameters() if p.grad is not None}
    return {"loss": gap(got, expected), "gradient": max(errors.values()), **counted}


def clusters() -> ArrayTable:
    generator = np.random.default_rng(0)
    return ArrayTable(
        generator.normal(size=(4, 6))[generator.integers(4, size=300)] * 3 + generator.normal(size=(300, 6))
    )


def table(device: Simulator, fields: dict[str, Any], **training: Any) -> dict[str, Any]:
    """A fit, the coordinates and the bounds; and the waits of all steps but the first."""
    rows = clusters()
    settings = {"max_epochs": 3, "batch_size": 64, "seed": 0} | training
    runs = [train(rows, {"hidden": (16,)} | fields, TrainConfig(**settings, device=name)) for name in ("cpu", NAME)]
    losses = [torch.tensor([line["loss"] for line in run.history]) for run in runs]
    coordinates = [torch.cat(list(run.coordinates(rows))) for run in runs]
    values = [torch.tensor(run.evaluate(rows, samples=20)[:3]) for run in runs]
    drawn = [run.sample(10) for run in runs]
    both = {"losses": losses, "coordinates": coordinates, "evaluation": values, "samples": drawn}
    return {name: gap(pair[1], pair[0]) for name, pair in both.items()}


def waits(device: Simulator) -> dict[str, Any]:
    """What one epoch of 32 steps waits for and moves."""
    rows = ArrayTable(torch.randn(32 * 64, 6, generator=torch.Generator().manual_seed(0)).numpy())
    config = TrainConfig(max_epochs=1, batch_size=64, validation=0.0, distance_weight=0.0, device=NAME)
    started: list[int] = []
    add = StepLosses.add

    def noted(self: StepLosses, number: int, *rest: Any) -> None:
        if number == 2:
            device.reset()
        add(self, number, *rest)
        if number == 31:  # steps 2 to 31, with one look at the losses between them
            started.extend((device.launches, len(device.syncs)))
            started.append(len([kind for kind, _ in device.transfers]))

    StepLosses.add = noted  # type: ignore[method-assign]
    try:
        train(rows, {"hidden": (16,)}, config)
    finally:
        StepLosses.add = add  # type: ignore[method-assign]
    return {"launches": started[0], "syncs": started[1], "transfers": started[2], "steps": 29}


def resumed(device: Simulator) -> dict[str, Any]:
    """Two epochs on one device, two more on the other; and the files of both."""
    rows, folder = clusters(), Path(tempfile.mkdtemp())
    results: dict[str, Any] = {}
    whole = train(rows, {"hidden": (16,)}, TrainConfig(max_epochs=4, seed=0))
    for first, then in (("cpu", NAME), (NAME, "cpu")):
        path = folder / first
        train(rows, {"hidden": (16,)}, TrainConfig(max_epochs=2, seed=0, device=first), path)
        run = train(rows, {"hidden": (16,)}, TrainConfig(max_epochs=4, seed=0, device=then), path, resume=True)
        loaded = Run.load(path)
        results[f"{first} then {then}"] = max(
            gap(p, whole.model.state_dict()[name]) for name, p in loaded.model.state_dict().items() if p.dim()
        )
        results["epochs"] = len(run.history)
    return results


def graph(device: Simulator) -> dict[str, Any]:
    """Fits with free nodes and with convolutions, of all pairs and of drawn ones."""
    from horoball import PoincareGraphVAE

    edges = [(i, (i - 1) // 2) for i in range(1, 63)]
    found = {}
    for name, options in {
        "all pairs": {},
        "drawn pairs": {"non_edges": 3},
        "convolutions": {"encoder": "gcn"},
    }.items():
        options = {"max_epochs": 5, "random_state": 0} | options
        one, two = (PoincareGraphVAE(**options, device=where).fit(edges) for where in ("cpu", NAME))
        found[name] = gap(torch.from_numpy(two.embedding_), torch.from_numpy(one.embedding_))
        found[f"{name}, probabilities"] = gap(*(torch.from_numpy(m.predict_proba(edges)) for m in (two, one)))
    return found


def graph_step(device: Simulator, c: float, sampled: bool) -> dict[str, Any]:
    """The second loss of a graph, and its gradients."""
    from horoball.graphs import GraphConfig, GraphVAE
    from horoball.graphs.fit import GraphObjective
    from horoball.graphs.graph import Graph
    from horoball.graphs.pairs import PairSource
    from horoball.tables.table import Order

    torch.manual_seed(0)
    tree = Graph.of([(i, (i - 1) // 2) for i in range(1, 63)])
    model = GraphVAE.from_config(GraphConfig(nodes=63, c=c, encoder="free", edges="fermi_dirac"))
    objective = GraphObjective(model, tree, TrainConfig())
    (batch,) = PairSource(tree, 3 if sampled else None).batches(Order(1 << 40, 0, 0))
    expected = objective(*batch.inputs, generator=torch.Generator().manual_seed(0))
    expected[0].backward()
    gradients = {name: p.grad for name, p in objective.named_parameters()}
    objective = objective.to(device.device)
    inputs = torch.utils._pytree.tree_map(lambda x: x.to(device.device) if isinstance(x, Tensor) else x, batch.inputs)
    for _ in range(2):  # what stays on the device gets there at the first step
        objective.zero_grad(set_to_none=True)
        device.reset()
        got = objective(*inputs, generator=torch.Generator().manual_seed(0))
        got[0].backward()
    counted = {"launches": device.launches, "syncs": list(device.syncs), "transfers": list(device.transfers)}
    errors = {name: gap(p.grad, gradients[name]) for name, p in objective.named_parameters() if p.grad is not None}
    return {"loss": gap(got, expected), "gradient": max(errors.values()), **counted}


def cells(device: Simulator) -> dict[str, Any]:
    from horoball.cells import fit, simulate

    maps = []
    for name in ("cpu", NAME):
        data = simulate(depth=2, cells=120, genes=30)
        fit(data, batch_key="batch", max_epochs=2, hidden=(16,), verbose=False, device=name)
        maps.append(torch.from_numpy(np.asarray(data.obsm["X_poincare"])))
    return {"map": gap(maps[1], maps[0])}


def estimator(device: Simulator) -> dict[str, Any]:
    from horoball import PoincareVAE

    rows = np.random.default_rng(0).normal(size=(120, 5))
    one, two = (PoincareVAE(max_epochs=2, hidden=16, random_state=0, device=name).fit(rows) for name in ("cpu", NAME))
    asked: dict[str, Callable[[Any], Any]] = {
        "transform": lambda model: model.transform(rows),
        "inverse": lambda model: model.inverse_transform(np.zeros((2, 2))),
        "scores": lambda model: model.score_samples(rows, samples=5),
    }
    return {name: gap(*(torch.from_numpy(ask(model)) for model in (two, one))) for name, ask in asked.items()}


def stops(device: Simulator) -> dict[str, Any]:
    """A loss that is not finite, in the fifth step, is told by its step when the losses are read."""
    rows = ArrayTable(torch.randn(640, 3, generator=torch.Generator().manual_seed(0)).numpy())
    calls = 0
    forward = TableObjective.forward

    def broken(self: TableObjective, *args: Any, **kwargs: Any) -> Tensor:
        nonlocal calls
        calls += 1
        return forward(self, *args, **kwargs) * (math.nan if calls == 5 else 1.0)

    TableObjective.forward = broken  # type: ignore[method-assign]
    try:
        train(
            rows,
            {"hidden": (8,)},
            TrainConfig(max_epochs=1, batch_size=64, validation=0.0, distance_weight=0.0, device=NAME),
        )
    except FloatingPointError as error:
        return {"message": str(error), "calls": calls}
    finally:
        TableObjective.forward = forward  # type: ignore[method-assign]
    return {}


def main(float64: bool) -> dict[str, Any]:
    """All of it; an error of one part does not hide the others."""
    for module, setting in SHORTENED:
        setattr(import_module(f"horoball.{module}"), setting, 4)
    if not float64:
        devices.WITHOUT_FLOAT64.add(NAME)
    results: dict[str, Any] = {}
    with simulated(float64=float64) as device:
        parts: dict[str, Callable[[], dict[str, Any]]] = {
            **{f"step, {name}": lambda fields=fields: step(device, fields) for name, fields in MODELS.items()},
            "fit": lambda: table(device, {}),
            "fit, distance term": lambda: table(device, {"d": 2}, distance_weight=50.0),
            "fit, wrapped and exact": lambda: table(device, {"posterior": "wrapped", "d": 5}, kl="exact"),
            "waits": lambda: waits(device),
            "resume": lambda: resumed(device),
            **{f"graph step, {name}": lambda given=given: graph_step(device, *given) for name, given in GRAPHS.items()},
            "graph": lambda: graph(device),
            "cells": lambda: cells(device),
            "estimator": lambda: estimator(device),
            "stops": lambda: stops(device),
            "uses, numbers": lambda: uses(NAME, mixed=False),
            "uses, mixed": lambda: uses(NAME, mixed=True),
            "commands": lambda: commands(NAME),
        }
        for name, part in parts.items():
            if sys.argv[2:] and not any(word in name for word in sys.argv[2:]):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of fits that are this short
                    results[name] = part()
            except Exception as error:
                if len(sys.argv) > 3 and sys.argv[3] == "raise":
                    raise
                results[name] = {"error": f"{type(error).__name__}: {error}"[:400]}
    return results


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1] == "float64"), indent=1))
