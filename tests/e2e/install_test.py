#!/usr/bin/env python3
"""`meson install` as a packager runs it. usage: install_test.py HGTRAIN"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv.pop(1))
MESON = pathlib.Path(__file__).resolve().parents[2] / '.venv/bin/meson'


class InstallTest(unittest.TestCase):
    def test_programs_are_stripped_and_their_symbols_lie_beside_them(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        subprocess.run([MESON, 'install', '-C', PROGRAM.parent, '--no-rebuild', '--destdir', folder], check=True,
                       capture_output=True)
        bin = next(folder.rglob('hgtrain')).parent
        for name in 'hgtrain', 'hgtrain-worker':
            sections = subprocess.run(['readelf', '-SW', bin / name], check=True, capture_output=True, text=True).stdout
            self.assertNotIn('.symtab', sections)
            self.assertIn('.gnu_debuglink', sections)
            self.assertLess((bin / name).stat().st_size, 5 << 20)
            symbols = subprocess.run(['nm', bin / f'.debug/{name}.debug'], check=True, capture_output=True, text=True).stdout
            self.assertIn(' main\n', symbols)
        said = subprocess.run([bin / 'hgtrain', 'version'], check=True, capture_output=True, text=True).stdout
        self.assertTrue(said.startswith('hgtrain '), said)
        self.assertTrue(list(folder.rglob('man1/hgtrain-train.1')))


if __name__ == '__main__':
    unittest.main()
