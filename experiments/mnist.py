"""The models of MNIST's digits, as Tables 2 and 3, Figure 7 and what goes beyond them train them (§5.2, App. C.2).

Gray values are the targets of a cross-entropy, so likelihoods are the paper's, and no others' [errata:11]. Weights are
kept beside the results, out of version control, so that a model is trained once for all that ask for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor

from experiments.disc_likelihood import disc_log_likelihood, narrow
from experiments.runs import Setting, results, slug
from horoball.datasets import Images, mnist
from horoball.nn import Gyroplane
from horoball.tables import ArrayTable
from horoball.training import TrainConfig, elbo, log_likelihood
from horoball.vae import VAE, ModelConfig, fit

__all__ = ["STUDY", "WEIGHTS", "digits", "found", "rough", "run", "setting", "spread", "trained", "weights_of"]

STUDY = "mnist"
WEIGHTS = Path(__file__).parent / "weights"
_TRAINING = TrainConfig(max_epochs=80, batch_size=128, learning_rate=5e-4, validation=0.0, patience=0)
_DEFAULTS = {
    "posterior": "riemannian",
    "decoder": "gyroplane",
    "scale": "isotropic",
    "learn": "",
    "start": "linear",
    "manifold": "ball",
    "prior": "normal",
    "epochs": 80,
    "images": 10_000,
}
_ROUGH = 100  # samples of every image where only some have many
_FAR = 3.0  # distance from the origin within which hyperplanes lie that start spread out

digits = cache(mnist)


def setting(d: int, c: float, seed: int, **options: Any) -> Setting:
    """A run's setting: what is as in the paper's main table is left out, and without curvature there is one normal."""
    if c == 0 and options.get("posterior") == "wrapped" and options.get("scale", "isotropic") == "isotropic":
        del options["posterior"]
    kept = {key: value for key, value in options.items() if _DEFAULTS[key] != value}
    return {"d": d, "c": float(c), **kept, "seed": seed}


def weights_of(setting: Setting) -> Path:
    """Where the weights of a setting's model are kept once it is trained."""
    return WEIGHTS / f"{slug(setting)}.safetensors"


def trained(
    d: int,
    c: float,
    seed: int,
    posterior: str = "riemannian",
    decoder: str = "gyroplane",
    scale: str = "isotropic",
    learn: str = "",
    start: str = "linear",
    manifold: str = "ball",
    prior: str = "normal",
    epochs: int = 80,
) -> VAE:
    """A model, trained now or before.

    Args:
        d: Dimensions.
        c: Curvature.
        seed: Of the training.
        posterior: Family of posteriors.
        decoder: Of the points.
        scale: Of posteriors.
        learn: "", "c" or "prior".
        start: "linear" or "spread".
        manifold: "ball" or the signature of a product, such as "H2xE3".
        prior: "normal", "mixture" or "vamp".
        epochs: Of the training.
    """
    options = {"posterior": posterior, "decoder": decoder, "scale": scale, "learn": learn, "start": start}
    options |= {"manifold": manifold, "prior": prior}
    images: Images = digits(True)
    torch.manual_seed(seed)
    config = ModelConfig(
        features=images.x.shape[1],
        d=d,
        c=c,
        learn_c=learn == "c",
        posterior=posterior,
        scale=scale,
        learn_prior=learn == "prior",
        manifold=manifold if manifold == "ball" else f'product:{{"signature": "{manifold}"}}',
        prior=prior,
        likelihood="bernoulli",
        decoder=decoder,
        hidden=(600,),
    )
    model = VAE.from_config(config)
    path = weights_of(setting(d, c, seed, **options, epochs=epochs))
    if path.exists():
        load_model(model, path)
        return model.eval()
    if start == "spread":
        spread(cast(Gyroplane, model.decoder.network[0]))  # type: ignore[index]
    if prior == "vamp":
        model.prior.start_from_rows(images.x[torch.randperm(len(images.x))[: len(model.prior.inputs)]])
    model.decoder.start_at(model.likelihood.start_at(images.x.mean(0)))  # type: ignore[operator]
    fit(model, ArrayTable(images.x), _TRAINING.replace(max_epochs=epochs, seed=seed))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{seed}.part")
    save_model(model, str(part))
    part.replace(path)
    return model.eval()


@torch.no_grad()
def spread(layer: Gyroplane) -> None:
    """Start a layer, curved or flat, with unit normals and hyperplanes all over the part of the ball that is used.

    The authors' first release starts its gyroplanes so, with a spread of 1.9 at d = 2, and its N-VAE's layer as torch
    does: most of those hyperplanes pass within 1 of the origin, and outputs start half as steep.
    """
    layer.weight.div_(layer.weight.norm(dim=-1, keepdim=True))
    layer.bias.uniform_(-_FAR, _FAR)  # type: ignore[union-attr]


@contextmanager
def short_products() -> Iterator[None]:
    """Matrix products of inputs rounded to bfloat16, summed in float32, where the processor has them.

    The decoder is then another function of z, by a part in a few hundred, and the likelihood is that model's.
    """
    products: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = products.fp32_precision
    products.fp32_precision = "bf16"
    try:
        yield
    finally:
        products.fp32_precision = before


def run(d: int, c: float, seed: int, samples: int = 5000, images: int = 10_000, **options: Any) -> dict[str, Any]:
    """The negative log-likelihood of the test images, in nats, by an importance-weighted bound of many samples.

    Args:
        d: Dimensions.
        c: Curvature.
        seed: Of training, and of the noise of the bound.
        samples: Of the bound.
        images: How many of the test images have that bound, evenly spaced. If not all, every image has a bound of few
            samples too, and the mean of those is moved by the mean difference on the images that have both.
        **options: As those of `trained`.
    """
    began = time.perf_counter()
    model = trained(d, c, seed, **options)
    seconds = time.perf_counter() - began
    x = digits(False).x
    few = x[:: max(1, len(x) // 100)]
    with torch.no_grad():
        torch.manual_seed(seed)
        bound = elbo(model, x, samples=16, kl="auto")
        torch.manual_seed(seed)
        exact = log_likelihood(model, few, samples, batch=16, prior_share=0.0).mean()
        with short_products():
            torch.manual_seed(seed)
            rounded = log_likelihood(model, few, samples, batch=16, prior_share=0.0).mean()
            value, half = _bound(model, x, samples, max(1, len(x) // images))
        integral = {"integral": -float(disc_log_likelihood(model, x, narrow(model, x)).mean())} if d == 2 else {}
    return {
        "nll": value,
        "half": half,  # half the width of its 95 % interval as an estimate of the bound on all images
        **integral,
        "elbo": float(bound.value.mean()),
        "kl": float(bound.kl.mean()),
        "rounding": float(exact - rounded),  # what short products add to it, on a few images with the same noise
        "c": [ball.c_value for ball in model.ball.balls] if options.get("manifold") else model.ball.c_value,
        **({} if options.get("prior") == "vamp" else {"prior_scale": float(model.prior.scale)}),
        "training_seconds": round(seconds, 1),
    }


def _bound(model: VAE, x: Tensor, samples: int, every: int) -> tuple[float, float]:
    """The mean of minus the bound, and half the width of its 95 % interval if not every image has all samples."""
    nll = -log_likelihood(model, x[::every], samples, batch=16, prior_share=0.0)
    if every == 1:
        return float(nll.mean()), 0.0
    few = -log_likelihood(model, x, _ROUGH, batch=256, prior_share=0.0)
    tighter = nll - few[::every]
    error = float(tighter.std()) * ((1 - len(nll) / len(x)) / len(nll)) ** 0.5
    return float(few.mean() + tighter.mean()), 1.96 * error


def found(value: str = "nll", *, d: int, c: float, **options: Any) -> dict[int, float]:
    """A value of the runs so far with this setting, by seed; of those on part of the images where there is no other."""
    runs = _runs(d=d, c=c, **options)
    return {run["setting"]["seed"]: run["result"][value] for run in runs if value in run["result"]}


def rough(*, d: int, c: float, **options: Any) -> str:
    """The mark of a figure that `found` has from part of the images, "≈ "; nothing for others."""
    halves = {run["setting"]["seed"]: run["result"].get("half", 0.0) for run in _runs(d=d, c=c, **options)}
    return "≈ " if any(halves.values()) else ""


def _runs(**options: Any) -> list[dict[str, Any]]:
    """The runs of a setting, those on most images last."""
    wanted = setting(seed=0, **options)
    runs = [
        run
        for run in results(STUDY)
        if {key: of for key, of in run["setting"].items() if key != "images"} | {"seed": 0} == wanted
    ]
    return sorted(runs, key=lambda run: int(run["setting"].get("images", _DEFAULTS["images"])))
