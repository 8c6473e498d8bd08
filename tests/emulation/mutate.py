#!/usr/bin/env python3
"""Would the tests notice? Deletes each barrier, bound check and accumulation of the kernels in turn, builds the emulation
with it and runs the op's tests, which must fail. Ends non-zero if fewer than 95 % do.

    tests/emulation/mutate.py build                 all of them; many minutes
    tests/emulation/mutate.py build --only rope     those of files whose name contains it
    tests/emulation/mutate.py build --sample 10     ten of them, spread evenly
    tests/emulation/mutate.py build --list          what would be deleted, and no more

The build folder must be built. equivalent_mutants.txt lists those that change nothing, each with its reason."""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPS = ROOT / 'src/ops'
KERNELS = OPS / 'cuda'
MODULE = 'tests/emulation/hgtrain_cuda.so'
LEAST_SHARE = 0.95
TIME_LIMIT_S = 120
# Quick to build; an array's end is checked.
OPTIONS = ['-O0', '-w', '-x', 'c++', '-fsanitize=bounds', '-fsanitize-undefined-trap-on-error']


@dataclasses.dataclass
class Mutant:
    path: pathlib.Path
    kind: str
    begin: int  # the text [begin, end) is replaced
    end: int
    by: str

    def text(self):
        source = self.path.read_text()
        return source[:self.begin] + self.by + source[self.end:]

    def line(self):
        return self.path.read_text().count('\n', 0, self.begin)

    def mutated(self):
        """The line as it becomes; with the one before if nothing is left of it."""
        lines = self.text().splitlines()
        line = ' '.join(lines[self.line()].split())
        return ' '.join([*lines[self.line() - 1].split(), line]) if line.startswith(';') else line

    def original(self):
        return ' '.join(self.path.read_text().splitlines()[self.line()].split())

    def key(self):
        """As equivalent_mutants.txt names it."""
        return self.path.name, self.original(), self.mutated()

    def __str__(self):
        return f'{self.kind} at line {self.line() + 1}: {" => ".join(self.key())}'


# ---- what there is to delete -------------------------------------------------------------------

def without_comments(source):
    """The same length, comments as blanks."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|^\s*#[^\n]*', lambda m: re.sub(r'[^\n]', ' ', m[0]), source, flags=re.S | re.M)


def closing(code, opening):
    """Where the bracket at `opening` is closed."""
    depth = 0
    for i in range(opening, len(code)):
        depth += (code[i] in '([{') - (code[i] in ')]}')
        if depth == 0:
            return i
    raise ValueError(f'a bracket is left open: {code[opening:opening + 40]}')


def device_code(code):
    """The bodies of functions that run on the device."""
    end = 0
    for start in re.finditer(r'__(?:global|device)__', code):
        if start.start() < end:
            continue
        parameters = code.index('(', start.end())
        if code[:parameters].endswith('__launch_bounds__'):
            parameters = code.index('(', closing(code, parameters))
        after = closing(code, parameters) + 1
        body = re.compile(r'\s*(const)?\s*\{').match(code, after)
        if body:
            end = closing(code, body.end() - 1)
            yield body.end(), end


def until(code, at, step, stops):
    """Continues from `at` to the first of the stops, or to the bracket that encloses it."""
    depth = 0
    inward, outward = (')]}', '([{') if step < 0 else ('([{', ')]}')
    while True:
        c = code[at]
        if depth == 0 and (c in outward or any(code.startswith(s, at) for s in stops)):
            return at
        depth += (c in inward) - (c in outward)
        at += step


def is_constant(expression):
    return re.fullmatch(r'([-+*/ ()]|\bk[A-Z]\w*(<\w+>)?|\b\d+)*', expression.strip()) is not None


def bounds(path, code, begin, end):
    """Comparisons of sizes: a loop goes one further, another one always lets pass. What is known when the kernel is
    compiled bounds nothing."""
    loops = [(code.index(';', m.end()), until(code, code.index(';', m.end()) + 1, 1, [';']))
             for m in re.compile(r'\bfor \(').finditer(code, begin, end)]
    for m in re.compile(r' (<|>|<=|>=) ').finditer(code, begin, end):
        loop_end = next((b for a, b in loops if a <= m.start() < b), None)
        if 'constexpr' in code[code.rindex('\n', 0, m.start()):m.start()] or (
                loop_end and is_constant(code[m.end():loop_end])):
            continue
        if loop_end:
            by = {'<': '<=', '>': '>=', '<=': '<', '>=': '>'}[m[1]]
            yield Mutant(path, 'bound', m.start(1), m.end(1), by)
            continue
        stops = ['&&', '||', '?', ' : ', ';', ',', ' = ', ' =\n', 'return ']
        left = until(code, m.start(), -1, stops)
        right = until(code, m.end(), 1, stops)
        joined = [w for w in ('&&', '||') if code.startswith(w, left) or code.startswith(w, right)]
        skip = len('return ') if code.startswith('return ', left) else 2 if joined and code[left] in '&|' else 1
        if code.startswith((' = ', ' =\n'), left):
            skip = 3
        leaves = re.compile(r'\)+\s*\{?\s*(return|continue|break)\b').match(code, right)
        by = 'false' if '||' in joined or (not joined and leaves) else 'true'
        first = left + skip
        first += len(code[first:m.start()]) - len(code[first:m.start()].lstrip())
        yield Mutant(path, 'bound', first, right - (code[right - 1] == ' '), by)


def barriers(path, code, begin, end):
    for m in re.compile(r'__sync(?:threads|warp)\([^;]*\);').finditer(code, begin, end):
        yield Mutant(path, 'barrier', m.start(), m.end(), ';')
    for m in re.compile(r'__syncthreads_(?:or|and|count)\(').finditer(code, begin, end):
        yield Mutant(path, 'barrier', m.start(), m.end() - 1, '')


def accumulations(path, code, begin, end):
    headers = [(m.end(), closing(code, m.end() - 1))
               for m in re.compile(r'\b(?:for|while) \(').finditer(code, begin, end)]
    for m in re.compile(r'([-+*]=) ').finditer(code, begin, end):
        if any(a <= m.start() < b for a, b in headers):
            continue
        right = until(code, m.end(), 1, [';', ','])
        neutral = '1' if m[1] == '*=' else '0'
        yield Mutant(path, 'accumulation', m.end(), right, f'{neutral} * ({code[m.end():right]})' if neutral == '0' else '1')
    for m in re.compile(r'(?<=[;{})])\s+(([\w.]+(?:\[[^\]]*\])*) = ([^;]*);)').finditer(code, begin, end):
        flag = re.match(r'([\w.]*accumulate) \?', m[3])
        if flag:
            for by in ('true', 'false'):
                yield Mutant(path, 'accumulation', m.start(3), m.start(3) + len(flag[1]), by)
        elif re.search(r'(?<![\w.])' + re.escape(m[2]) + r'(?![\w\[(])', m[3]):
            yield Mutant(path, 'accumulation', m.start(1), m.end(1), ';')
    for m in re.compile(r'\batomic\w+\(').finditer(code, begin, end):
        to = code[m.end():until(code, m.end(), 1, [','])]
        yield Mutant(path, 'accumulation', m.start(), closing(code, m.end() - 1) + 1, f'*({to})')


def mutants_of(path):
    code = without_comments(path.read_text())
    found = [mutant for begin, end in device_code(code) for find in (barriers, bounds, accumulations)
             for mutant in find(path, code, begin, end)]
    return sorted(found, key=lambda mutant: mutant.begin)


# ---- building and running ----------------------------------------------------------------------

class Builder:
    """Builds the module with one file changed, from the commands and objects of the build folder."""

    def __init__(self, build):
        self.build = build
        said = subprocess.run([os.environ.get('NINJA', 'ninja'), '-C', build, '-t', 'commands', MODULE], capture_output=True, text=True, check=True)
        commands = [shlex.split(line) for line in said.stdout.splitlines() if line]
        self.compiles = {pathlib.Path(c[c.index('-c') + 1]).stem: c for c in commands if '-c' in c}
        self.link = next(c for c in commands if MODULE in c)

    def sources_of(self, path):
        """The kernel files that the changed file is part of."""
        if path.suffix == '.cu':
            return [path]
        return [cu for cu in sorted(KERNELS.glob('*.cu')) if path in headers_of(cu, set())]

    def run(self, mutant):
        """What became of it: caught, survived or not built."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / 'cuda').mkdir()
            for ours in [*OPS.glob('*.h'), *KERNELS.glob('*.h'), *KERNELS.glob('*.cu')]:
                (folder / ours.relative_to(OPS)).symlink_to(ours)
            (folder / 'cuda' / mutant.path.name).unlink()
            (folder / 'cuda' / mutant.path.name).write_text(mutant.text())
            for source in self.sources_of(mutant.path):
                if not self.build_with(folder, source):
                    return 'not built'
                if not self.tests_pass(folder, f'CUDA: *[{source.stem}]'):
                    return 'caught'
            return 'survived'

    def build_with(self, folder, source):
        """The module in `folder`, with the kernel file as it is there."""
        changed = [part for part in self.compiles[source.stem] if part not in ('ccache', '-MD')]
        for option in ('-MQ', '-MF'):
            del changed[changed.index(option):changed.index(option) + 2]
        made = changed[changed.index('-o') + 1]
        out = str(folder / f'{source.stem}.o')
        changed[changed.index('-o') + 1] = out
        changed[changed.index('-c') + 1] = str(folder / 'cuda' / source.name)
        changed[changed.index('-c'):changed.index('-c')] = OPTIONS
        if subprocess.run(changed, cwd=self.build, capture_output=True).returncode != 0:
            return False
        link = [part for part in self.link if part != made]
        link.insert(link.index('-o') + 2, out)  # first: of an inline function the linker takes the first it finds
        link[link.index('-o') + 1] = str(folder / 'hgtrain_cuda.so')
        subprocess.run(link, cwd=self.build, check=True, capture_output=True)
        return True

    def tests_pass(self, folder, tests):
        """True also if there are none: nothing would notice."""
        command = [self.build / 'tests/ops/ops_test', '--abort', tests]
        try:
            return subprocess.run(command, env={**os.environ, 'LD_LIBRARY_PATH': str(folder)}, capture_output=True,
                                  timeout=TIME_LIMIT_S).returncode == 0
        except subprocess.TimeoutExpired:
            return False


def headers_of(path, seen):
    """The headers of src/ops/cuda that it includes, and that they include."""
    for name in re.findall(r'#include "([^"]+)"', path.read_text()):
        header = KERNELS / name
        if header.is_file() and header not in seen:
            seen.add(header)
            headers_of(header, seen)
    return seen


def equivalent():
    """The keys of those that change nothing."""
    lines = (pathlib.Path(__file__).parent / 'equivalent_mutants.txt').read_text().splitlines()
    return {tuple(line.split(' => ')[:3]) for line in lines if line and not line.startswith('#')}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--only', default='')
    parser.add_argument('--sample', type=int)
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--list', action='store_true')
    options = parser.parse_args()

    same = equivalent()
    files = [path for path in sorted([*KERNELS.glob('*.cu'), *KERNELS.glob('*.h')]) if options.only in path.name]
    mutants = [m for path in files for m in mutants_of(path)]
    if gone := not options.only and same - {m.key() for m in mutants}:
        sys.exit('equivalent_mutants.txt lists what there is not:\n' + '\n'.join(' => '.join(key) for key in gone))
    mutants = [m for m in mutants if m.key() not in same]
    if options.sample:
        mutants = mutants[::max(1, len(mutants) // options.sample)][:options.sample]
    if options.list:
        print(*mutants, sep='\n')
        return 0

    builder = Builder(options.build.resolve())
    # Among Meson's tests, "ops emulated" says so.
    if not options.sample and not builder.tests_pass(options.build.resolve() / 'tests/emulation', 'CUDA: *'):
        sys.exit('the tests fail without any change')
    counts = {'caught': 0, 'survived': 0, 'not built': 0}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for mutant, became in zip(mutants, pool.map(builder.run, mutants)):
            counts[became] += 1
            if became != 'caught':
                print(f'{became}: {mutant}', flush=True)
    share = counts['caught'] / max(1, counts['caught'] + counts['survived'])
    print(f'{counts["caught"]} of {counts["caught"] + counts["survived"]} mutants caught ({share:.1%}), '
          f'{counts["not built"]} not built')
    return 0 if share >= LEAST_SHARE and counts['not built'] == 0 else 1


sys.exit(main())
