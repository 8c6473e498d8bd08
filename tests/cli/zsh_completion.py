"""Completion in zsh at the first Tab, if a folder of fpath has the script, and if the shell sources it. Argument: build/hgtrain.
Without zsh, it ends with 77."""
import os
import pathlib
import pty
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)


def completed(home, start, typed):
    """What an interactive zsh makes of a line that begins with hgtrain. A function of that name prints its arguments."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe('zsh', ['zsh', '-f', '-i'], {'PATH': os.environ['PATH'], 'HOME': home, 'TERM': 'dumb'})
    os.write(terminal, f'autoload -U compinit; {start}; hgtrain() {{ print -r -- "<$*>" }}\r{typed}\rexit\r'.encode())
    said = b''
    try:
        while more := os.read(terminal, 4096):
            said += more
    except OSError:  # zsh has ended
        pass
    os.waitpid(pid, 0)
    return said.decode()


class ZshCompletion(unittest.TestCase):
    def test_each_way_completes_commands_and_flags(self):
        home = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, home)
        script = pathlib.Path(home) / 'functions/_hgtrain'
        script.parent.mkdir()
        script.write_bytes(subprocess.run([PROGRAM, 'completion', 'zsh'], check=True, capture_output=True).stdout)
        for start in (f'fpath=({script.parent} $fpath); compinit -u', f'compinit -u; source {script}'):
            for typed, line in (('hgtrain subm\tsl\t', 'submit slurm'), ('hgtrain submit slurm --partit\tp', 'submit slurm --partition p'),
                                ('hgtrain --optimizer.params.wei\t0', '--optimizer.params.weight_decay 0')):
                said = completed(home, start, typed)
                self.assertIn(f'\n<{line}>', said, said)


if __name__ == '__main__':
    if not shutil.which('zsh'):
        print('skipped: no zsh (scripts/setup --dev)')
        sys.exit(77)
    unittest.main()
