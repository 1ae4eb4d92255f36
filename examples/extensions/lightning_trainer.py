"""A model in Lightning's Trainer: pip install lightning, then python examples/extensions/lightning_trainer.py."""

import torch
from lightning.pytorch import LightningModule, Trainer
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader

from horoball.training import elbo
from horoball.vae import VAE, ModelConfig


class Autoencoder(LightningModule):
    """The loss is minus the evidence lower bound."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def training_step(self, batch, index):
        loss = -elbo(self.model, batch).value.mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


def main(max_epochs=5, **options):
    """Train on digits, and give their places in the ball."""
    x = torch.from_numpy(load_digits().data / 16).float()
    model = VAE.from_config(ModelConfig(features=x.shape[1], d=2, likelihood="bernoulli"))
    batches = DataLoader(x, batch_size=128, shuffle=True)
    Trainer(max_epochs=max_epochs, accelerator="cpu", **options).fit(Autoencoder(model), batches)
    return model.ball.to_ball(model.embed(x))


if __name__ == "__main__":
    print(main().shape)
