#!/usr/bin/env python3
"""The program loads a CUDA module only if both were built from the same tables: kCudaTableVersion is a checksum of the
headers that define them, without comments and spaces."""
import re
import zlib

import tree

TABLE = tree.ROOT / 'include/hgtrain/device/cuda_table.h'
ROOTS = [TABLE, tree.ROOT / 'include/hgtrain/ops/cuda_ops_table.h', tree.ROOT / 'src/comm/cuda_comm_table.h']
VERSION = re.compile(r'kCudaTableVersion = (0x[0-9a-f]+)')


def with_included(paths):
    found, left = set(), list(paths)
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += [ours for _, ours in tree.includes(path) if ours]
    return sorted(found)


text = VERSION.sub('', '\n'.join(path.read_text() for path in with_included(ROOTS)))
text = re.sub(r'//.*|\s', '', text)
version = f'0x{zlib.crc32(text.encode()):08x}'
given = VERSION.search(TABLE.read_text())[1]
tree.finish([] if version == given else
            [f'{tree.name(TABLE)}: the tables have changed; their kCudaTableVersion is {version}, not {given}'])
