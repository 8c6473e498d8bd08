#!/usr/bin/env python3
"""src/<module>/x.cpp of more than 80 lines has tests/<module>/x_test.cpp; so does a file in a folder of the module."""
import tree

LONG = 80
# Commands are tested through the built program, in tests/cli.
BY_PROGRAM = {'cli', 'worker'}

problems = []
for path in tree.files('src', suffixes={'.cpp'}):
    module = path.relative_to(tree.ROOT / 'src').parts[0]
    test = tree.ROOT / 'tests' / module / (path.stem + '_test.cpp')
    if module not in BY_PROGRAM and len(path.read_text().splitlines()) > LONG and not test.is_file():
        problems.append(f'{tree.name(path)}: {tree.name(test)} is missing')
tree.finish(problems)
