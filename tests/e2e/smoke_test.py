#!/usr/bin/env python3
"""scripts/smoke with two workers on the CPU, and that each of its checks fails where it should: runs of two workers are
tampered with before it looks at them.
usage: smoke_test.py HGTRAIN"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
SMOKE = pathlib.Path(__file__).resolve().parents[2] / 'scripts/smoke'
TAMPERER = f'''#!/bin/sh
{PROGRAM} "$@" || exit
case "$*" in *"--run_dir $RUN "*) cd $RUN && eval "$TAMPER" ;; esac
'''


class SmokeTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def smoke(self, *args, exit_code=0, program=PROGRAM, **environment):
        done = subprocess.run([SMOKE, '--hgtrain', program, '--time_limit', '200', *args], capture_output=True, text=True,
                              env={**os.environ, 'TMPDIR': str(self.folder), **environment})
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_two_workers_on_the_cpu_pass(self):
        said = self.smoke('--device', 'cpu')
        self.assertEqual(said.count('\n  ok    '), 1 + 4 * 3 + 4 * 2, said)
        self.assertIn('\nsmoke: passed in ', said)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_each_check_can_fail(self):
        program = self.folder / 'hgtrain'
        program.write_text(TAMPERER)
        program.chmod(0o755)
        tampering = {
            'the loss falls': (0, 'one', r"""sed -i -E 's/"loss":[0-9.]+/"loss":5/' metrics.jsonl"""),
            'the loss equals that of one worker': (1, 'zero1', r"""sed -i -E '3s/"loss":([0-9])/"loss":1\1/' metrics.jsonl"""),
            'each step has the same 8 samples': (3, 'zero3', 'cp logs/rank_0.log logs/rank_1.log'),
            'each worker reduced': (2, 'zero2', r"""sed -i -E 's/( step 7 .*reduced_bytes )[0-9]+/\10/' logs/rank_1.log"""),
        }
        for what, (stage, run, command) in tampering.items():
            said = self.smoke('--device', 'cpu', '--stages', str(stage), program=program, exit_code=1, RUN=run, TAMPER=command)
            self.assertIn(f'\n  FAIL  {what}', said)
            self.assertIn('smoke: a check failed', said)

    def test_errors_of_hgtrain_are_passed_on(self):
        said = self.smoke('--num_gpus', '2', exit_code=3, CUDA_VISIBLE_DEVICES='')
        self.assertIn('exited with 3\nhgtrain: error: this command needs 1 GPU, but 0 can be used', said)
        said = self.smoke('--device', 'cpu', '--time_limit', '0', exit_code=1)
        self.assertIn('was not finished 0 s after the start', said)

    def test_wrong_usage_exits_with_2(self):
        self.assertIn('it takes at least two workers', self.smoke('--num_gpus', '1', exit_code=2))
        self.assertIn('run scripts/build first', self.smoke(program='/nonexistent', exit_code=2))


if __name__ == '__main__':
    unittest.main()
