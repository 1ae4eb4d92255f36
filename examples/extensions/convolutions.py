"""An encoder and a decoder of images: convolutions for digits, faces and the like, of an even height and width."""

import math

from torch import nn

from horoball.vae.parts import register_decoder, register_encoder


@register_encoder
class Convolutions(nn.Module):
    """Halves the image once. Rows of a file are square images; an array of images keeps its shape."""

    name = "conv"

    def __init__(self, features, outputs, shape=(), channels=8):
        super().__init__()
        side = math.isqrt(features)
        depth, height, width = shape or (1, side, side)
        self.layers = nn.Sequential(
            nn.Identity() if shape else nn.Unflatten(-1, (depth, height, width)),
            nn.Conv2d(depth, channels, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(-3),
            nn.Linear(channels * height * width // 4, outputs),
        )

    def forward(self, x):
        return self.layers(x)


@register_decoder
class Deconvolutions(nn.Module):
    """Points of any batch shape to square images, whose numbers go to the likelihood."""

    name = "deconv"

    def __init__(self, d, outputs, channels=8):
        super().__init__()
        self.half, self.channels = math.isqrt(outputs) // 2, channels
        self.first = nn.Linear(d, channels * self.half**2)
        self.last = nn.ConvTranspose2d(channels, 1, 4, stride=2, padding=1)

    def forward(self, z):
        h = self.first(z).relu().reshape(-1, self.channels, self.half, self.half)
        return self.last(h).reshape(*z.shape[:-1], -1)
