"""`horoball`, and `python -m horoball`."""

import os
import signal
import sys
import traceback
from contextlib import suppress

from horoball.process import PIPE_CLOSED, ended_in_time, exit_code, interrupted

__all__: list[str] = []


def main() -> None:
    """The command line; see Note [Ctrl-C] for how it is stopped."""
    code: str | int | None = 0
    with ended_in_time():
        try:
            from horoball.cli import app  # here, because imports can be interrupted too

            app()
        except SystemExit as end:
            code = end.code
        except KeyboardInterrupt:
            pass
        except Exception:
            if not interrupted():
                code = _told(traceback.format_exc())
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to be tidied up
    if not _flushed() and not code:
        code = PIPE_CLOSED
    if interrupted():
        os._exit(exit_code())  # Python's own end may take seconds once torch is loaded
    sys.exit(code)


def _flushed() -> bool:
    """Write out what is left; whether somebody still reads it. Otherwise Python would complain of it at its end."""
    whole = True
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            whole = False
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return whole


def _told(fault: str) -> int:
    """Print what should not have happened, as safely as everything else."""
    from horoball.cli.console import printable

    print(*map(printable, fault.splitlines()), sep="\n", file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
