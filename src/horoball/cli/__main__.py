"""`python -m horoball.cli`."""

from horoball.cli import app

__all__: list[str] = []

if __name__ == "__main__":
    app()
