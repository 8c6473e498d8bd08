#!/usr/bin/env python3
"""Kernels are the same source for every compiler, so that what is proven in the emulation is what a device runs: no
preprocessor conditionals in src/ops/cuda/*.cu and *.h."""
import re

import tree

CONDITIONAL = re.compile(r'^\s*#\s*(if|ifdef|ifndef|elif|else)\b', re.M)

problems = []
for path in tree.files('src/ops/cuda', suffixes={'.cu', '.h'}):
    text = path.read_text()
    problems += [f'{tree.name(path)}:{text.count(chr(10), 0, m.start(1)) + 1}: #{m[1]}'
                 for m in CONDITIONAL.finditer(text)]
tree.finish(problems)
