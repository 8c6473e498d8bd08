#!/usr/bin/env python3
"""Writes a C++ file with the help pages: embed_pages.py OUT.cpp PAGE.md..."""
import os
import sys

out, pages = sys.argv[1], sys.argv[2:]
with open(out, 'w') as f:
    f.write('#include "command.h"\n\n#include <algorithm>\n#include <string>\n\nnamespace hgt {\n\n'
            'std::string_view help_page(std::string_view name) {\n'
            '  std::string file(name);\n  std::replace(file.begin(), file.end(), \' \', \'_\');\n')
    for page in pages:
        name = os.path.splitext(os.path.basename(page))[0]
        f.write(f'  if (file == "{name}")\n    return R"PAGE({open(page).read()})PAGE";\n')
    f.write('  return {};\n}\n\n}  // namespace hgt\n')
