#!/usr/bin/env python3
"""`meson install` as a packager runs it. usage: install_test.py HGTRAIN"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv.pop(1))
MESON = pathlib.Path(__file__).resolve().parents[2] / '.venv/bin/meson'


def ldd(program):
    return subprocess.run(['ldd', program], check=True, capture_output=True, text=True).stdout


class InstallTest(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        subprocess.run([MESON, 'install', '-C', PROGRAM.parent, '--no-rebuild', '--destdir', folder], check=True,
                       capture_output=True)
        self.prefix = next(folder.rglob('bin/hgtrain')).parent.parent

    def test_programs_are_stripped_and_their_symbols_lie_next_to_them(self):
        bin = self.prefix / 'bin'
        for name in 'hgtrain', 'hgtrain-worker':
            sections = subprocess.run(['readelf', '-SW', bin / name], check=True, capture_output=True, text=True).stdout
            self.assertNotIn('.symtab', sections)
            self.assertIn('.gnu_debuglink', sections)
            self.assertLess((bin / name).stat().st_size, 5_000_000)
            symbols = subprocess.run(['nm', bin / f'.debug/{name}.debug'], check=True, capture_output=True, text=True).stdout
            self.assertIn(' main\n', symbols)
        said = subprocess.run([bin / 'hgtrain', 'version'], check=True, capture_output=True, text=True).stdout
        self.assertTrue(said.startswith('hgtrain '), said)

    def test_pages_completions_and_configs_are_there(self):
        for path in ('share/man/man1/hgtrain-train.1', 'share/bash-completion/completions/hgtrain.bash',
                     'share/zsh/site-functions/_hgtrain', 'share/fish/vendor_completions.d/hgtrain.fish',
                     'share/hgtrain/configs/quickstart.json', 'share/doc/hgtrain/README.md', 'share/doc/hgtrain/LICENSE',
                     'share/doc/hgtrain/CONTRIBUTING.md', 'share/doc/hgtrain/docs/install.md'):
            self.assertTrue((self.prefix / path).stat().st_size, path)

    def test_own_libraries_come_before_the_systems(self):
        """Those of the prefix, and those in lib/ of a host's cache, to which a program is sent (program_files.h)."""
        program = self.prefix / 'bin/hgtrain'
        library = re.search(r'^\s*(libzstd\S+) => (\S+)', ldd(program), re.M)
        copy = self.prefix / 'cache/hgtrain'
        copy.parent.mkdir()
        shutil.copy(program, copy)
        for program, own in (program, self.prefix / 'lib/hgtrain' / library[1]), (copy, copy.parent / 'lib' / library[1]):
            own.parent.mkdir(parents=True)
            shutil.copy(library[2], own)
            found = re.search(rf'^\s*{library[1]} => (\S+)', ldd(program), re.M)[1]
            self.assertTrue(pathlib.Path(found).samefile(own), found)
            shutil.rmtree(own.parent)


if __name__ == '__main__':
    unittest.main()
