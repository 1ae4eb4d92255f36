"""Options of a command in a file: written by every fit to its folder, and taken by `--config`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from horoball.cli.arguments import IS_PATH
from horoball.options import OPTIONS_FILE

_MOST = 1 << 20  # bytes of a file of options
_OWN = ("config", "output", "resume", "quiet", "logger", "tensorboard", "help")  # of a call, not of what is fitted


def _take(context: typer.Context, path: Path | None) -> Path | None:
    """Let the file say what the command line does not."""
    if path is None:
        return None
    from horoball.storage.outputs import read_file

    try:
        said = tomllib.loads(read_file(path, _MOST).decode())
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path} is no file of options in TOML: {error}", param_hint="--config") from None
    known = _names(context)
    for name in said:
        if name not in known:
            raise typer.BadParameter(
                f"{path} has the option {name[:40]!r}. Options there are {', '.join(sorted(known))}.",
                param_hint="--config",
            )
    context.default_map = {known[name]: value for name, value in said.items()}
    return path


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        is_eager=True,
        callback=_take,
        help="A file of options in TOML, such as the run.toml of a fit; those of the command line go before.",
        **IS_PATH,
    ),
]


def write_options(context: typer.Context, folder: Path) -> None:
    """Write what the command was told, so that `--config` gives the same model of the same data.

    Args:
        context: Of the command.
        folder: The run.
    """
    from horoball.storage.whole import write_whole

    told = {name: context.params[at] for name, at in _names(context).items() if _is_told(context, at)}
    lines = [f"# horoball {version('horoball')}: horoball {context.command.name} --config {OPTIONS_FILE} -o FOLDER"]
    lines += [_line(name, value) for name, value in told.items()]
    write_whole(folder / OPTIONS_FILE, "\n".join(lines) + "\n", alone=False)


def _names(context: typer.Context) -> Mapping[str, str]:
    """What options are called in the file → their parameters."""
    found = {}
    for parameter in context.command.params:
        longest = max(parameter.opts, key=len).lstrip("-").replace("-", "_")
        if longest not in _OWN:
            found[longest] = str(parameter.name)
    return found


def _is_told(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT" and context.params.get(name) is not None


def _line(name: str, value: Any) -> str:
    """A line of the file; a path that is no text has no place in TOML, and is left to the command line."""
    text = f"{name} = {_toml(value)}"
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"# {name} is a path that is not text in UTF-8: give it on the command line"
    return text


def _toml(value: Any) -> str:
    """A value of an option; strings of JSON are strings of TOML but for one character."""
    plain = value.value if isinstance(value, Enum) else list(map(str, value)) if isinstance(value, list) else value
    plain = plain if isinstance(plain, bool | int | float | list) else str(plain)
    return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")
