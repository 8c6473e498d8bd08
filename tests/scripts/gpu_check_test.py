#!/usr/bin/env python3
"""scripts/gpu-check on a machine that pretends to have a GPU, and on one without."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / 'scripts').mkdir()
        shutil.copy(ROOT / 'scripts/gpu-check', self.folder / 'scripts')
        self.program('hgtrain', '')
        self.program('bin/nvidia-smi', 'echo GPU 0')
        self.program('tests/ops/ops_test', 'echo ops >> called')
        self.program('tests/e2e/cuda_test.py', 'import sys; open("called", "a").write(sys.argv[2] + "\\n")', '')
        self.program('bin/compute-sanitizer', 'echo $2 >> called; [ $2 != racecheck ] || { echo Device not supported; exit 1; }')

    def program(self, name, text, first='#!/bin/sh\n'):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(first + text + '\n')
        path.chmod(0o755)

    def check(self, *args, path=True):
        done = subprocess.run([sys.executable, self.folder / 'scripts/gpu-check', *args], cwd=self.folder, text=True,
                              capture_output=True, timeout=60,
                              env={'PATH': f'{self.folder}/bin:/usr/bin:/bin' if path else '/nowhere'})
        return done.returncode, done.stdout + done.stderr

    def called(self):
        path = self.folder / 'called'
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def test_what_passed_is_not_done_again_and_what_failed_is(self):
        self.program('tests/ops/ops_test', 'echo ops >> called; echo wrong by 0.1; exit 1')
        status, said = self.check('correct')
        self.assertEqual(status, 1)
        self.assertIn('ops: FAILED', said)
        self.assertIn('| wrong by 0.1', said)
        self.assertEqual(len([line for line in self.called() if line.startswith('CudaTest.')]), 4)
        self.program('tests/ops/ops_test', 'echo ops >> called')
        status, said = self.check('correct')
        self.assertEqual(status, 0, said)
        self.assertEqual(self.called(), ['ops'])
        results = json.loads((self.folder / 'gpu-check/results.json').read_text())
        self.assertTrue(all(result['passed'] for result in results.values()))

    def test_a_sanitizer_that_refuses_the_device_is_not_run_rather_than_failed(self):
        status, said = self.check('sanitize')
        self.assertEqual(status, 0, said)
        self.assertIn('racecheck: not run', said)
        self.assertIn('memcheck: passed', said)

    def test_without_a_gpu_it_says_so(self):
        self.program('bin/nvidia-smi', 'exit 9')
        self.assertEqual(self.check('correct')[0], 3)

    def test_it_asks_for_one_thing(self):
        for args in [], ['correct', '--pack', 'x'], ['correct', '--unknown'], ['fast']:
            self.assertEqual(self.check(*args)[0], 2)


if __name__ == '__main__':
    unittest.main()
