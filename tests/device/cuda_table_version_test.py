#!/usr/bin/env python3
"""The version of the CUDA module's tables changes with each header that defines them, and with nothing else.
Argument: cuda_table_version.py."""
import pathlib
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    table, sizes, out, depfile = folder / 'table.h', folder / 'include/base/sizes.h', folder / 'version.h', folder / 'version.d'
    sizes.parent.mkdir(parents=True)

    def run():
        return subprocess.run([sys.executable, sys.argv[1], folder / 'include', out, depfile, table], capture_output=True, text=True)

    def version(table_text, sizes_text):
        table.write_text('#pragma once\n#include <cstdint>\n#include "base/sizes.h"\n' + table_text)
        sizes.write_text(sizes_text)
        assert run().returncode == 0
        return out.read_text()

    first = version('struct Table { int rows; };', 'constexpr int kWarp = 32;')
    assert 'kCudaTableVersion = 0x' in first, first
    assert depfile.read_text() == f'{out}: {table} {sizes}\n', depfile.read_text()
    written = out.stat().st_mtime_ns
    assert version('struct Table {\n  int rows;  // of a matrix\n};', 'constexpr int kWarp = 32;') == first
    assert out.stat().st_mtime_ns == written, 'an unchanged header was written again'
    assert version('struct Table { int rows, columns; };', 'constexpr int kWarp = 32;') != first
    assert version('struct Table { int rows; };', 'constexpr int kWarp = 64;') != first
    assert version('struct Table { int rows; };', 'constexpr int kWarp = 32;') == first
    sizes.unlink()
    refused = run()
    assert refused.returncode == 1 and 'no header base/sizes.h' in refused.stderr, refused.stderr
