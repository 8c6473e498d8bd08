#!/usr/bin/env python3
"""No unfinished work is left in the tree: it is done, or it is an error that says so."""
import re

import tree

WORDS = re.compile(r'\b(TO' r'DO|FIX' r'ME|XX' r'X|HA' r'CK)\b|\bst' r'ub(s|bed)?\b|\bplace' r'holders?\b|not (yet )?impl' r'emented', re.I)

problems = []
for path in tree.files('include', 'src', 'tests', 'scripts', 'docs',
                       suffixes=tree.SOURCES | {'.py', '.md', '.build', ''}):
    for number, line in enumerate(path.read_text(errors='replace').splitlines(), 1):
        if WORDS.search(line):
            problems.append(f'{tree.name(path)}:{number}: {line.strip()}')
tree.finish(problems)
