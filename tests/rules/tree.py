"""The files of the checkout that the rules look at, and how a rule reports."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = {'.h', '.cpp', '.cu', '.cuh'}


def files(*tops, suffixes=SOURCES):
    """Sorted files below the folders `tops` with one of the suffixes."""
    return sorted(path for top in tops for path in (ROOT / top).rglob('*')
                  if path.suffix in suffixes and path.is_file() and '__pycache__' not in path.parts)


def name(path):
    return path.relative_to(ROOT).as_posix()


def finish(problems):
    """Ends the rule: prints each problem, exit status 1 if there is one."""
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
