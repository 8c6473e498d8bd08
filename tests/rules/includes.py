#!/usr/bin/env python3
"""Every #include of a module stays within the table of docs/architecture.md, and what nvcc compiles reaches no
logging, JSON or command-line header."""
import re

import tree

HEAVY = ('fmt/', 'spdlog/', 'nlohmann/', 'CLI/')
LAUNCHER_ONLY = {'launch', 'cli'}


def read_table():
    """Module -> the set of modules it may include, from the table's words."""
    text = (tree.ROOT / 'docs/architecture.md').read_text().split('| module | one line | may include |')[1]
    launcher = set(re.search(r'^Launcher: (.*)\.$', text, re.M)[1].split())
    table = {}
    for module, allowed in re.findall(r'^\| ([a-z]+) \| [^|]* \| ([^|]*) \|$', text, re.M):
        above = set(table)
        if allowed.startswith('all of the above except '):
            table[module] = above - set(allowed.split()[5:])
        elif allowed.endswith("the worker's modules"):
            table[module] = above - LAUNCHER_ONLY
        elif allowed == "the launcher's modules":
            table[module] = launcher - {module}
        else:
            table[module] = set() if allowed == '–' else set(allowed.split())
            if table[module] - above:
                raise SystemExit(f'docs/architecture.md: {module} may include {table[module] - above}, which stand below it')
    return table


def module_of(path):
    parts = path.relative_to(tree.ROOT).parts
    return parts[2] if parts[0] == 'include' else parts[1]


def heavy_reached(path, seen):
    """Heavy headers reachable from a file through headers of ours, each with the file that includes it."""
    if path in seen:
        return []
    seen.add(path)
    found = []
    for include, ours in tree.includes(path):
        if ours:
            found += heavy_reached(ours, seen)
        elif include.startswith(HEAVY):
            found.append((include, tree.name(path)))
    return found


table = read_table()
problems = []
for path in tree.files('include', 'src'):
    module = module_of(path)
    if module not in table:
        problems.append(f'{tree.name(path)}: no module {module} in docs/architecture.md')
        continue
    for include, ours in tree.includes(path):
        if include.startswith('hgtrain/') and not ours:
            problems.append(f'{tree.name(path)}: no header {include}')
        elif ours and module_of(ours) not in table[module] | {module}:
            problems.append(f'{tree.name(path)}: {module} may not include {include}')
        elif ours and '..' in include and ours.parent != path.parent.parent:
            problems.append(f'{tree.name(path)}: {include} reaches into another folder')
    if path.suffix in ('.cu', '.cuh'):
        problems += [f'{tree.name(path)}: reaches {heavy} through {where}'
                     for heavy, where in heavy_reached(path, set())]
tree.finish(problems)
