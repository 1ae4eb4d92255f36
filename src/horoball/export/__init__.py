"""Export: embeddings as files, encoders as ONNX or torch.export programs."""

from horoball.export.encoder import OUTPUTS, export

__all__ = ["OUTPUTS", "export"]
