#!/usr/bin/env python3
"""Every command of the built hgtrain has a help page that starts with how to type it, and no line of more than 116
characters, and its line in the README's table, which says of it what hgtrain --help says.
Argument: build/hgtrain."""
import re
import subprocess
import sys

import tree


def said(*args):
    return subprocess.run([sys.argv[1], *args], capture_output=True, text=True, check=True).stdout


problems = []
commands = dict(re.findall(r'^  ([a-z]+(?: [a-z0-9]+)?)  +(\S.*)', said('--help'), re.M))
readme = dict(re.findall(r'^\| `hgtrain ([a-z0-9 ]+)` \| (.*) \|$', (tree.ROOT / 'README.md').read_text(), re.M))
for command in commands:
    page = said('help', *command.split())
    if not page.startswith('hgtrain ') or len(page.splitlines()) < 3:
        problems.append(f'hgtrain help {command}: no page')
for path in tree.files('src/cli', suffixes={'.md'}):
    problems += [f'{tree.name(path)}: a line of {len(line)} characters' for line in path.read_text().splitlines() if len(line) > 116]
pages = {path.stem.replace('_', ' ') for path in tree.files('src/cli', suffixes={'.md'})} - {'hgtrain'}
problems += [f'src/cli: a page for {page}, which is no command' for page in sorted(pages - commands.keys())]
problems += [f'README.md: no line for hgtrain {command}' for command in sorted(commands.keys() - readme.keys())]
problems += [f'README.md: hgtrain {command} is no command' for command in sorted(readme.keys() - commands.keys())]
problems += [f'README.md says of hgtrain {command} "{text}"; hgtrain --help says "{commands[command]}"'
             for command, text in sorted(readme.items()) if text.replace('`', '') != commands.get(command, text.replace('`', ''))]
if not problems and list(readme) != list(commands):
    problems.append('README.md: the commands are in another order than in hgtrain --help')
tree.finish(problems)
