#!/usr/bin/env python3
"""The programs link no CUDA library; the module links CUDA's maths and communication and exports one function.
Arguments: the built programs, and hgtrain_cuda.so if it was built."""
import pathlib
import re
import subprocess
import sys

import tree

CUDA = re.compile(r'libcu|libnccl|libnv')
MODULE = {'libcublasLt', 'libnccl', 'libfmt', 'libxxhash', 'libstdc++', 'libgcc_s', 'libc', 'libm', 'libpthread', 'libdl',
          'librt', 'ld-linux-x86-64'}


def needed(path):
    said = subprocess.run(['readelf', '-d', path], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r'\(NEEDED\).*\[(.*)\]', said))


def exported(path):
    said = subprocess.run(['nm', '-D', '--defined-only', path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in said.splitlines()}


problems = []
for path in map(pathlib.Path, sys.argv[1:]):
    libraries = needed(path)
    if path.name != 'hgtrain_cuda.so':
        problems += [f'{path.name} links {library}' for library in sorted(libraries) if CUDA.match(library)]
        continue
    names = {library.split('.so')[0] for library in libraries}
    problems += [f'hgtrain_cuda.so links {name}' for name in sorted(names - MODULE)]
    problems += [f'hgtrain_cuda.so does not link {name}' for name in ('libcublasLt', 'libnccl') if name not in names]
    if exported(path) != {'hgtrain_cuda_tables'}:
        problems.append(f'hgtrain_cuda.so exports {sorted(exported(path))}')
tree.finish(problems)
