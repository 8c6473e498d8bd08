#!/usr/bin/env python3
"""src/<module>/x.cpp of more than 80 lines has tests/<module>/x_test.cpp."""
import tree

LONG = 80
# Commands are tested through the built program, in tests/cli.
BY_PROGRAM = {'cli', 'worker'}

problems = []
for path in tree.files('src', suffixes={'.cpp'}):
    stem = path.stem
    if path.parent.name == 'ops':  # x_cpu.cpp and x_cuda.cpp, the two sides of op x, are tested with the op
        stem = stem.removesuffix('_cpu').removesuffix('_cuda')
    test = tree.ROOT / 'tests' / path.relative_to(tree.ROOT / 'src').with_name(stem + '_test.cpp')
    if path.parent.name not in BY_PROGRAM and len(path.read_text().splitlines()) > LONG and not test.is_file():
        problems.append(f'{tree.name(path)}: {tree.name(test)} is missing')
tree.finish(problems)
