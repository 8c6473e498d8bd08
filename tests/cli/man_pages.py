#!/usr/bin/env python3
"""Every command has a man page, and groff formats each without a warning. usage: man_pages.py HGTRAIN PAGE.1..."""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

PROGRAM, *PAGES = sys.argv[1:]
del sys.argv[1:]


class ManPages(unittest.TestCase):
    def test_every_command_has_one_with_its_flags(self):
        help_text = subprocess.run([PROGRAM, '--help'], capture_output=True, text=True, check=True).stdout
        commands = re.findall(r'^  ([a-z]+(?: [a-z0-9]+)?)  +\S', help_text, re.M)
        self.assertEqual({pathlib.Path(page).stem for page in PAGES},
                         {'hgtrain', *('hgtrain-' + command.replace(' ', '-') for command in commands)})
        train = next(pathlib.Path(page) for page in PAGES if page.endswith('hgtrain-train.1')).read_text()
        self.assertIn(r'.TH HGTRAIN\-TRAIN 1', train)
        self.assertIn(r'\fB\-\-max_restarts INT\fR', train)

    @unittest.skipUnless(shutil.which('groff'), 'groff is not installed')
    def test_groff_takes_each_without_a_warning(self):
        for page in PAGES:
            done = subprocess.run(['groff', '-man', '-ww', '-Tutf8', '-P-cbu', page], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ''), page)
            for section in 'NAME', 'SYNOPSIS', 'DESCRIPTION':
                self.assertIn(section, done.stdout, page)
            self.assertNotIn('`', done.stdout, page)


if __name__ == '__main__':
    unittest.main(verbosity=2)
