#!/usr/bin/env python3
"""src/<room>/x.cpp of more than 80 lines has tests/<room>/x_test.cpp, and a test has the source it is named after."""
import tree

LONG = 80
# Commands are tested through the built program, in tests/cli.
BY_PROGRAM = {'cli', 'worker'}

problems = []
for path in tree.files('src', suffixes={'.cpp'}):
    stem = path.stem.removesuffix('_cpu')  # x_cpu.cpp, the CPU side of op x, is tested with the op
    test = tree.ROOT / 'tests' / path.relative_to(tree.ROOT / 'src').with_name(stem + '_test.cpp')
    if path.parent.name not in BY_PROGRAM and len(path.read_text().splitlines()) > LONG and not test.is_file():
        problems.append(f'{tree.name(path)}: {tree.name(test)} is missing')
tree.finish(problems)
