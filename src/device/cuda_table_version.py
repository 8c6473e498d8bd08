#!/usr/bin/env python3
"""Writes a header with kCudaTableVersion, which the program and the CUDA module must share: a checksum of the headers that define the
tables between them, and of all that those include, without comments and spaces. Every build of the same sources has the same.
usage: cuda_table_version.py INCLUDE_FOLDER OUT DEPFILE HEADER..."""
import pathlib
import re
import sys
import zlib

include, out, depfile, *headers = map(pathlib.Path, sys.argv[1:])
headers = [header.resolve() for header in headers]
text = ''
for header in headers:  # the loop also takes those that it appends
    code = header.read_text()
    text += re.sub(r'//.*|\s', '', code)
    for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', code, re.M):
        found = [path.resolve() for path in (header.parent / name, include / name) if path.is_file()]
        if not found:
            sys.exit(f'{header}: no header {name}')
        headers += [found[0]] if found[0] not in headers else []

made = f"""#pragma once

#include <cstdint>

namespace hgt {{

inline constexpr std::uint32_t kCudaTableVersion = 0x{zlib.crc32(text.encode()):08x};

}}  // namespace hgt
"""
depfile.write_text(f'{out}: {" ".join(map(str, headers))}\n')
if not out.is_file() or out.read_text() != made:  # what includes it is compiled again only if the version changed
    out.write_text(made)
