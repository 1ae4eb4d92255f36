"""Parts of your own, one file each: name one with --plugin, or import it. docs/extending.md shows them."""
