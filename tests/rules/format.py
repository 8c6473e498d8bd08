#!/usr/bin/env python3
"""Every C++ file is as clang-format 14 leaves it (other versions differ; without it the rule is skipped)."""
import shutil
import subprocess
import sys

import tree

VERSION = 14


def find_clang_format():
    for program in (str(tree.ROOT / '.venv/bin/clang-format'), f'clang-format-{VERSION}', 'clang-format'):
        if shutil.which(program):
            said = subprocess.run([program, '--version'], capture_output=True, text=True).stdout
            if f'version {VERSION}.' in said:
                return program
    return None


program = find_clang_format()
if not program:
    print(f'clang-format {VERSION} is not here: scripts/setup --dev')
    sys.exit(77)
paths = tree.files('include', 'src', 'tests')
said = subprocess.run([program, '--dry-run', '-Werror', *map(str, paths)], capture_output=True, text=True).stderr
tree.finish(sorted({line.split(':')[0].replace(f'{tree.ROOT}/', '') + ': run scripts/format'
                    for line in said.splitlines() if 'clang-format-violations' in line}))
