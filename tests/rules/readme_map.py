#!/usr/bin/env python3
"""README's map of src/ names every module once, and no other."""
import re

import tree

text = (tree.ROOT / 'README.md').read_text()
mapped = re.findall(r'^\| `src/([a-z]+)/` \|', text, re.M)
modules = {path.name for path in (tree.ROOT / 'src').iterdir() if path.is_dir()}
tree.finish([f'README.md maps src/{module}/, which is not there' for module in sorted(set(mapped) - modules)] +
            [f'README.md lacks src/{module}/' for module in sorted(modules - set(mapped))] +
            [f'README.md maps src/{module}/ twice' for module in sorted(set(mapped)) if mapped.count(module) > 1])
