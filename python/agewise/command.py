"""The command ``agewise`` that comes with the package."""

from __future__ import annotations

import sys
from pathlib import Path

from agewise import _agewise
from agewise.checks import shown
from agewise.tracking import TRACKERS, track_run

_HELP = """\
The command of the Python package has one more flag:
      --track mlflow|wandb|tensorboard
          Log the rounds, the verdict and the report in a tracker when the comparison has ended
"""


def main() -> int:
    """Runs the command with the arguments of this process; returns its exit code."""
    try:
        arguments, track = _without_track(sys.argv[1:])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    folder = None
    if track:
        folder = _folder(arguments)
        if folder is None:
            folder = _next_folder()
            arguments += ["--out", str(folder)]
    code = _agewise.command(["agewise", *arguments])
    if arguments[:1] == ["compare"] and {"-h", "--help"} & set(arguments):
        print(f"\n{_HELP}", end="", flush=True)
    elif folder is not None and code in (0, 130):
        track_run(folder, track)
    return code


def _without_track(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The arguments without ``--track``, and what that says."""
    kept: list[str] = []
    track: list[str] = []
    given = iter(arguments)
    for argument in given:
        flag, equals, value = argument.partition("=")
        if flag != "--track":
            kept.append(argument)
            continue
        names = (value if equals else next(given, "")).split(",")
        wrong = [name for name in names if name not in TRACKERS]
        if wrong:
            expected = f"one of {', '.join(TRACKERS)}"
            raise ValueError(f"track = {shown(wrong[0])}: expected {expected}")
        track += names
    if track and kept[:1] != ["compare"]:
        raise ValueError(f"track = {track[0]}: expected none but with `agewise compare`")
    return kept, track


def _folder(arguments: list[str]) -> Path | None:
    """The folder that the arguments name."""
    for place, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag in ("--out", "--resume", "--extend"):
            return Path(value if equals else (arguments[place + 1 :] or [""])[0])
    return None


def _next_folder() -> Path:
    """The folder that the command takes where none is named."""
    number = 1
    while (folder := Path("runs") / f"compare-{number:03}").exists():
        number += 1
    return folder


if __name__ == "__main__":
    sys.exit(main())
