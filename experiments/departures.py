"""Why the paper's gain in two dimensions does not come out: `python -m experiments.departures`.

The authors' code departs from the paper, and both leave choices open. Each departure is a variant of the P-VAE
(c = 1.4, Riemannian) and of the N-VAE, alone and all together. Likelihoods are integrals over the disc, free of
sampling noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from experiments import mnist
from experiments.disc_likelihood import disc_log_likelihood, narrow
from experiments.released_layer import ReleasedGyroplane, released_start
from experiments.runs import Setting, arguments, carry_out, counted, paired, results, slug
from horoball.distributions.normal import BallNormal
from horoball.training import elbo
from horoball.vae import VAE, ModelConfig
from horoball.vae.encoder import Encoder

__all__ = ["STUDY", "VARIANTS", "curves", "departing", "found", "run", "setting", "settings", "table", "tables"]

STUDY = "departures"
CURVATURES = (1.4, 0.0)
EPOCHS = 80
_DEFAULTS: Setting = {
    "mean": "metric",  # or "ball": exp₀ in ball coordinates, so that means lie at twice the network's output
    "layer": "paper",  # or "first", "swapped": see `released_layer`
    "start": "linear",  # or "spread", or "released": the first release's hyperplanes, in the paper's layer
    "scale": "isotropic",  # or "diagonal"
    "floor": 0.0,  # of the posterior's scale
    "optimizer": "adam",  # or "amsgrad", on the sum over a batch, as released
    "rate": 5e-4,
}
_FIRST: Setting = {"mean": "ball", "layer": "first", "floor": 0.1, "optimizer": "amsgrad"}
_SECOND: Setting = {"mean": "ball", "layer": "swapped", "floor": 0.1, "optimizer": "amsgrad"}


def _both(**departures: Any) -> tuple[Setting, Setting]:
    return departures, departures


VARIANTS: dict[str, tuple[Setting, Setting]] = {  # by name, of the P-VAE and of the N-VAE
    "as on this page": ({}, {}),
    "means at twice the network's output": _both(mean="ball"),
    "the first release's layer": _both(layer="first"),
    "the second release's layer": _both(layer="swapped"),
    "the first release's start": _both(start="released"),
    "a spread start": _both(start="spread"),
    "a scale for each axis": _both(scale="diagonal"),
    "scales of at least 0.1": _both(floor=0.1),
    "Adam as released": _both(optimizer="amsgrad"),
    "twice the learning rate": _both(rate=1e-3),
    "all of the first release, in either model": _both(**_FIRST),
    "the first release": (_FIRST, {"optimizer": "amsgrad"}),
    "the second release": (_SECOND, {"optimizer": "amsgrad", "scale": "diagonal"}),
}
_LOOKS = (5, 10, 20, 40, 80, 160, 320)  # epochs after which every tenth test image is looked at
_SPARE = 10


def setting(c: float, seed: int, epochs: int = EPOCHS, **departures: Any) -> Setting:
    """A run's setting, without what is as elsewhere.

    Example:
        >>> setting(1.4, 0, layer="first", mean="metric")
        {'c': 1.4, 'layer': 'first', 'epochs': 80, 'seed': 0}
    """
    kept = {key: departures[key] for key in _DEFAULTS if departures.get(key, _DEFAULTS[key]) != _DEFAULTS[key]}
    return {"c": float(c), **kept, "epochs": epochs, "seed": seed}


class DepartingEncoder(Encoder):
    """An encoder whose means lie at a multiple of the network's output, and whose scales have a floor."""

    stretch: float = 1.0
    floor: float = 0.0

    def forward(self, x: Tensor) -> BallNormal:
        """q(z | x)."""
        q: Any = super().forward(x)
        return type(q)(self.stretch * q.loc, q.scale.clamp_min(self.floor), self.ball, validate_args=False)


def departing(c: float, seed: int, **departures: Any) -> VAE:
    """A model that departs, before training.

    Example:
        >>> departing(1.4, 0, layer="first").decoder.network[0].release
        'first'
    """
    options = _DEFAULTS | departures
    torch.manual_seed(seed)
    scale = str(options["scale"])
    posterior = "riemannian" if scale == "isotropic" else "wrapped"
    model = VAE.from_config(
        ModelConfig(features=784, d=2, c=c, posterior=posterior, scale=scale, likelihood="bernoulli", hidden=(600,))
    )
    encoder = DepartingEncoder(784, 2, model.ball, (600,), posterior=posterior, scale=scale)
    encoder.load_state_dict(model.encoder.state_dict())
    encoder.stretch = 2.0 if options["mean"] == "ball" else 1.0
    encoder.floor = float(options["floor"])
    model.encoder = encoder
    network: Any = model.decoder.network
    first = network[0]
    if options["layer"] != "paper":
        network[0] = ReleasedGyroplane(2, 600, model.ball, str(options["layer"]))
    elif options["start"] == "spread":
        mnist.spread(first)
    elif options["start"] == "released":
        with torch.no_grad():
            w, b = released_start(2, 600)
            norm = w.norm(dim=-1, keepdim=True)
            first.weight.copy_(w / norm)
            first.bias.copy_((-2 * b * norm).squeeze(-1))
    return model


def run(c: float, seed: int, epochs: int, **departures: Any) -> dict[str, Any]:
    """Train, and look at the likelihood of test images on the way and at the end."""
    model = departing(c, seed, **departures)
    options = _DEFAULTS | departures
    x, held = mnist.digits(True).x, mnist.digits(False).x
    model.decoder.start_at(model.likelihood.start_at(x.mean(0)))  # type: ignore[operator]
    amsgrad = options["optimizer"] == "amsgrad"
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(learned, float(options["rate"]), amsgrad=amsgrad, fused=True)
    curve: dict[str, float] = {}
    begin = _restore(model, optimizer, curve, setting(c, seed, epochs, **departures))
    for epoch in range(begin, epochs):
        torch.manual_seed(seed * 1_000_003 + epoch)
        for rows in torch.randperm(len(x)).split(128):
            loss = -elbo(model, x[rows], kl="sample").value.sum()
            optimizer.zero_grad()
            (loss if amsgrad else loss / len(rows)).backward()
            optimizer.step()
        if epoch + 1 in _LOOKS:
            curve[str(epoch + 1)] = -float(disc_log_likelihood(model, held[::_SPARE]).mean())
    _keep(model, optimizer, setting(c, seed, epochs, **departures))
    return {"curve": curve, **_measured(model, held, seed)}


@torch.no_grad()
def _measured(model: VAE, x: Tensor, seed: int) -> dict[str, float]:
    """Likelihood of all images; what a finer rule, or the release's pixels that are never 0 or 1, change on a few."""
    spacing, few = narrow(model, x), x[:: 4 * _SPARE]
    nll = -disc_log_likelihood(model, x, spacing)
    torch.manual_seed(seed)
    bound = elbo(model, few, samples=64, kl="auto")
    q = model.posterior(x)
    assert q.scale is not None
    return {
        "nll": float(nll.mean()),
        "finer": float((-disc_log_likelihood(model, few, spacing / 2) - nll[:: 4 * _SPARE]).mean()),
        "clamped": float((-disc_log_likelihood(model, few.clamp(1e-5, 1 - 1e-5), spacing) - nll[:: 4 * _SPARE]).mean()),
        "elbo": float(bound.value.mean()),
        "kl": float(bound.kl.mean()),
        "spacing": spacing,
        "scale": float(q.scale.mean()),
        "radius": float(q.loc.norm(dim=-1).mean()),
        "farthest": float(q.loc.norm(dim=-1).max()),
    }


def _keep(model: nn.Module, optimizer: torch.optim.Optimizer, setting: Setting) -> None:
    """Weights and moments, so that a longer training goes on from here."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for number, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"moments.{number}.{name}": tensor for name, tensor in moments.items()}
    mnist.WEIGHTS.mkdir(parents=True, exist_ok=True)
    path = mnist.WEIGHTS / f"{STUDY}-{slug(setting)}.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


def _restore(model: nn.Module, optimizer: torch.optim.Optimizer, curve: dict[str, float], setting: Setting) -> int:
    """The longest training so far of the same setting, and its number of epochs."""
    for epochs in sorted((look for look in _LOOKS if look <= int(setting["epochs"])), reverse=True):
        shorter = setting | {"epochs": epochs}
        path = mnist.WEIGHTS / f"{STUDY}-{slug(shorter)}.safetensors"
        if not path.exists():
            continue
        tensors = load_file(path)
        model.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            kind, *rest = name.split(".")
            if kind == "moments":
                state.setdefault(int(rest[0]), {})[rest[1]] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        for record in results(STUDY):
            if record["setting"] == shorter:
                curve |= record["result"]["curve"]
        return epochs
    return 0


def settings(seeds: int, epochs: int) -> Iterator[Setting]:
    """Every run: a seed of all variants first."""
    for seed in range(seeds):
        for variants in VARIANTS.values():
            yield from (setting(c, seed, epochs, **variant) for c, variant in zip(CURVATURES, variants, strict=True))


def found(epochs: int, c: float, **departures: Any) -> dict[int, float]:
    """Negative log-likelihoods of a variant after some epochs, by seed."""
    wanted = setting(c, 0, epochs, **departures)
    return {
        record["setting"]["seed"]: record["result"]["nll"]
        for record in results(STUDY)
        if record["setting"] | {"seed": 0} == wanted
    }


def table(epochs: int = EPOCHS) -> str:
    """A line for each variant that was run: both models, what it changes in each, and what is between them."""
    lines = [
        f"| MNIST, d = 2, {epochs} epochs | P-VAE, c = 1.4 | − base | N-VAE | − base | P − N, paired |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    base = [found(epochs, c) for c in CURVATURES]
    for name, variants in VARIANTS.items():
        curved, flat = (found(epochs, c, **variant) for c, variant in zip(CURVATURES, variants, strict=True))
        if not (curved or flat):
            continue
        cells = [
            counted(curved, 2),
            counted(paired(curved, base[0]), 2, "+") if variants[0] else "",
            counted(flat, 2),
            counted(paired(flat, base[1]), 2, "+") if variants[1] else "",
            counted(paired(curved, flat), 2, "+"),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    started = found(epochs, CURVATURES[0], start="released")
    if alone := paired(started, base[1]):
        cells = [counted(started, 2), "", counted(base[1], 2), "", counted(alone, 2, "+")]
        lines.append(f"| that start in the P-VAE alone, as released | {' | '.join(cells)} |")
    return "\n".join(lines)


def tables() -> str:
    """What departures change early on, and what is left of it after as many epochs as the paper has."""
    return "\n\n".join(table(epochs) for epochs in (10, EPOCHS))


def curves() -> str:
    """Likelihoods by the number of epochs, of every tenth image, for models that were trained to the end."""
    looks = [look for look in _LOOKS if look <= EPOCHS]
    lines = [
        "| MNIST, d = 2 | start | " + " | ".join(f"{look} epochs" for look in looks) + " |",
        "|---|---|" + "--:|" * len(looks),
    ]
    for name in ("as on this page", "the first release's start"):
        for title, c, variant in zip(("P-VAE, c = 1.4", "N-VAE"), CURVATURES, VARIANTS[name], strict=True):
            wanted = setting(c, 0, EPOCHS, **variant)
            runs = [r for r in results(STUDY) if r["setting"] | {"seed": 0} == wanted]
            cells = [
                counted({r["setting"]["seed"]: r["result"]["curve"][str(look)] for r in runs}, 1) for look in looks
            ]
            lines.append(f"| {title} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    options = arguments(__doc__, 3, epochs=EPOCHS)
    carry_out(STUDY, settings(options.seeds, options.epochs), run, options.workers)
    print(table(options.epochs))


if __name__ == "__main__":
    main()
