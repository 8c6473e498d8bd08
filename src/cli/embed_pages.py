#!/usr/bin/env python3
"""Writes a C++ file with the help pages and the presets: embed_pages.py OUT.cpp FILE.md|FILE.json..."""
import os
import sys


def stem(path):
    return os.path.splitext(os.path.basename(path))[0]


def function(out, name, files):
    out.write(f'std::string_view {name}(std::string_view name) {{\n'
              '  std::string file(name);\n  std::replace(file.begin(), file.end(), \' \', \'_\');\n')
    for path in files:
        out.write(f'  if (file == "{stem(path)}")\n    return R"PAGE({open(path).read()})PAGE";\n')
    out.write('  return {};\n}\n\n')


pages = [path for path in sys.argv[2:] if path.endswith('.md')]
presets = [path for path in sys.argv[2:] if path.endswith('.json')]
with open(sys.argv[1], 'w') as f:
    f.write('#include "command.h"\n\n#include <algorithm>\n#include <string>\n\nnamespace hgt {\n\n')
    function(f, 'help_page', pages)
    function(f, 'preset', presets)
    names = ', '.join(f'"{stem(path)}"' for path in presets)
    f.write(f'std::vector<std::string> preset_names() {{\n  return {{{names}}};\n}}\n\n}}  // namespace hgt\n')
