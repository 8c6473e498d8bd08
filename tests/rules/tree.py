"""The files of the checkout that the rules look at, and how a rule reports."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = {'.h', '.cpp', '.cu', '.cuh'}


def files(*tops, suffixes=SOURCES):
    """Sorted files below the folders `tops` with one of the suffixes."""
    return sorted(path for top in tops for path in (ROOT / top).rglob('*')
                  if path.suffix in suffixes and path.is_file() and '__pycache__' not in path.parts)


def name(path):
    return path.relative_to(ROOT).as_posix()


def includes(path):
    """What a file includes, each with the file of ours that it means, or None for a library's."""
    for include in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.M):
        ours = [file for file in (path.parent / include, ROOT / 'include' / include) if file.is_file()]
        yield include, ours[0].resolve() if ours else None


def finish(problems):
    """Ends the rule: prints each problem, exit status 1 if there is one."""
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
