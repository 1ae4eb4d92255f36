"""A logger: one line of text for each epoch, in a file of the run's folder."""

from lightning_fabric.loggers import Logger

from horoball.training.hooks import register_logger


@register_logger
class Lines(Logger):
    """Writes lines.txt."""

    name = "lines"
    version = 0

    def __init__(self, folder):
        self.path = folder / "lines.txt"

    def log_metrics(self, metrics, step=None):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            print(f"epoch {step}: loss {metrics['loss']:.3f}", file=file)

    def log_hyperparams(self, params, *args, **kwargs):
        pass
