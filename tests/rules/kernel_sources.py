#!/usr/bin/env python3
"""Kernels are the same source for every compiler, so that what is proven in the emulation is what a device runs: no
preprocessor conditionals in src/ops/cuda/*.cu and *.h. Each kernel has __launch_bounds__, from which its occupancy follows."""
import re

import tree

NO_BOUNDS = re.compile(r'__global__\s+void\s+(?!__launch_bounds__)(\w+)')
CONDITIONAL = re.compile(r'^\s*#\s*(if|ifdef|ifndef|elif|else)\b', re.M)

problems = []
for path in tree.files('src/ops/cuda', suffixes={'.cu', '.h'}):
    text = path.read_text()
    problems += [f'{tree.name(path)}:{text.count(chr(10), 0, m.start(1)) + 1}: #{m[1]}'
                 for m in CONDITIONAL.finditer(text)]
    problems += [f'{tree.name(path)}: {m[1]} has no __launch_bounds__' for m in NO_BOUNDS.finditer(text)]
tree.finish(problems)
