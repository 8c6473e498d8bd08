#!/usr/bin/env python3
"""README's map of src/ names every room once, and no other."""
import re

import tree

text = (tree.ROOT / 'README.md').read_text()
mapped = re.findall(r'^\| `src/([a-z]+)/` \|', text, re.M)
rooms = {path.name for path in (tree.ROOT / 'src').iterdir() if path.is_dir()}
tree.finish([f'README.md maps src/{room}/, which is not there' for room in sorted(set(mapped) - rooms)] +
            [f'README.md lacks src/{room}/' for room in sorted(rooms - set(mapped))] +
            [f'README.md maps src/{room}/ twice' for room in sorted(set(mapped)) if mapped.count(room) > 1])
