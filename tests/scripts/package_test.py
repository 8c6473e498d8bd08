#!/usr/bin/env python3
"""The parts of scripts/package that need no build: equal bytes for equal files, and what it refuses."""
import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts'))
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader('package', str(ROOT / 'scripts/package'))
package = importlib.util.module_from_spec(importlib.util.spec_from_loader('package', loader))
loader.exec_module(package)


FILES = ['bin/hgtrain', 'share/doc/hgtrain/LICENSE', 'share/doc/hgtrain/licences/libfmt', 'share/zsh/site-functions/_hgtrain']


class PackageTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def stage(self, name, names, mode, when):
        stage = self.folder / name
        for file in names:
            (stage / file).parent.mkdir(parents=True, exist_ok=True)
            (stage / file).write_text(file)
            (stage / file).chmod(mode | (0o100 if file.startswith('bin/') else 0))
            os.utime(stage / file, (when, when))
        return stage

    @unittest.skipUnless(shutil.which('zstd'), 'zstd is not installed')
    def test_the_same_files_give_the_same_bytes(self):
        made = []
        for name, order, mode, when in ('one', 1, 0o644, 1_000_000_000), ('other', -1, 0o600, 1_100_000_000):
            stage = self.stage(name, FILES[::order], mode, when)
            archive, deb = self.folder / f'{name}.tar.zst', self.folder / f'{name}.deb'
            package.pack(stage, 'hgtrain', 1_200_000_000, archive)
            package.make_deb(stage, '1.0', 1_200_000_000, deb)
            made.append((archive.read_bytes(), deb.read_bytes()))
        self.assertEqual(made[0][0], made[1][0])
        self.assertEqual(made[0][1], made[1][1])
        listed = subprocess.run(['tar', '--zstd', '-tvf', archive], capture_output=True, text=True, check=True).stdout
        self.assertIn('-rwxr-xr-x root/root', listed)
        self.assertEqual([line.split()[-1] for line in listed.splitlines()],
                         ['hgtrain/', 'hgtrain/bin/', 'hgtrain/bin/hgtrain', 'hgtrain/share/', 'hgtrain/share/doc/',
                          'hgtrain/share/doc/hgtrain/', 'hgtrain/share/doc/hgtrain/LICENSE', 'hgtrain/share/doc/hgtrain/licences/',
                          'hgtrain/share/doc/hgtrain/licences/libfmt', 'hgtrain/share/zsh/', 'hgtrain/share/zsh/site-functions/',
                          'hgtrain/share/zsh/site-functions/_hgtrain'])

    def test_the_debian_package_has_files_where_debian_looks_for_them(self):
        deb = self.folder / 'hgtrain.deb'
        package.make_deb(self.stage('stage', FILES, 0o644, 1_000_000_000), '1.0', 1_200_000_000, deb)
        subprocess.run(['dpkg-deb', '-x', deb, self.folder / 'root'], check=True)
        share = self.folder / 'root/usr/share'
        self.assertEqual([path.name for path in (share / 'zsh').rglob('*')], ['vendor-completions', '_hgtrain'])
        licences = (share / 'doc/hgtrain/copyright').read_text()
        for file in 'share/doc/hgtrain/LICENSE', 'share/doc/hgtrain/licences/libfmt':  # a file's text is its path
            self.assertIn(f'\n{file}', licences)

    def test_a_program_that_needs_a_newer_system_is_refused(self):
        package.check_symbols([pathlib.Path('/bin/true')])
        most, package.MAX_SYMBOLS = package.MAX_SYMBOLS, {'GLIBC': (2, 1)}
        self.addCleanup(setattr, package, 'MAX_SYMBOLS', most)
        with self.assertRaises(SystemExit) as refused:
            package.check_symbols([pathlib.Path('/bin/true')])
        self.assertRegex(refused.exception.code, r'true needs GLIBC_2\.\d+')

    def test_a_library_of_unknown_licence_is_refused(self):
        library = self.folder / 'libown.so'
        library.touch()
        with self.assertRaises(SystemExit) as refused:
            package.package_of(library)
        self.assertIn('no Debian package has', refused.exception.code)

    def test_licences_that_debian_has_in_one_place_are_added(self):
        (self.folder / 'libgomp1').write_text("is in /usr/share/common-licenses/GPL-3.\n")
        package.add_texts(self.folder)
        self.assertIn('GNU GENERAL PUBLIC LICENSE', (self.folder / 'GPL-3').read_text())

    def test_the_licence_of_cuda_is_found_in_each_kind_of_toolkit(self):
        for place in ('EULA.txt', 'dist-info/nvidia_cuda_runtime-13.0.96.dist-info/licenses/License.txt'):
            home = self.folder / place.split('/')[0]
            (home / place).parent.mkdir(parents=True)
            (home / place).touch()
            self.assertEqual(package.licence_of_cuda(home), home / place)

    def test_libraries_of_the_system_and_of_cuda_are_not_bundled(self):
        names = package.libraries_of('/bin/bash')
        self.assertTrue(any(name.startswith('libtinfo') for name in names), names)
        self.assertFalse(any(name.startswith('libc.') for name in names), names)

    def test_options_other_than_mesons_are_refused(self):
        done = subprocess.run([sys.executable, ROOT / 'scripts/package', '--help'], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn('dist/', done.stderr)


if __name__ == '__main__':
    unittest.main()
