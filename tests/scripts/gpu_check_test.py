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

# What `hgtrain bench train` and `bench ops` print, with a notice before it.
BENCHES = '''echo a notice
case $2 in
train) echo '{"parameters": 60000000, "seq_length": 1024, "tokens_per_sec": {"median": 500}, "peak_rss_bytes": 2147483648,'
       echo ' "model": {"model_type": "gpt2", "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 50304}' ;;
ops)   echo '{"ops": [{"op": "gemm", "flops_per_sec": 1, "ms_per_step": 1, "of_ceiling": 1},'
       echo '         {"op": "rope_fwd", "bytes_per_sec": 2e12, "ms_per_step": 0.5, "of_ceiling": 0.8}]' ;;
esac
echo '}' '''


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / 'scripts').mkdir()
        shutil.copy(ROOT / 'scripts/gpu-check', self.folder / 'scripts')
        for name in 'hgtrain', 'hgtrain-worker', 'hgtrain_cuda.so':
            self.program(name, '')
        shutil.copytree(ROOT / 'tests/bench', self.folder / 'tests/bench', ignore=shutil.ignore_patterns('*.cpp', '__pycache__'))
        self.program('bin/nvidia-smi', 'echo "NVIDIA H100 80GB HBM3, 81559, 9.0"')
        self.program('tests/ops/ops_test', 'echo ops >> called; echo "All tests passed (3 assertions in 1 test case)"')
        self.program('tests/e2e/cuda_test.py', 'import sys; open("called", "a").write(sys.argv[2] + "\\n")', '')
        self.program('scripts/smoke', 'import sys; open("called", "a").write(" ".join(sys.argv[1:]) + "\\n")', '')
        self.program('bin/compute-sanitizer', 'echo $2 >> called; [ $2 != racecheck ] || { echo Device not supported; exit 1; }')

    def program(self, name, text, first='#!/bin/sh\n'):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(first + text + '\n')
        path.chmod(0o755)

    def pytorch_reaches(self, *speeds):
        """In tokens per second, one way after the other."""
        results = [json.dumps({'tok_s': speed, 'mfu': 0.1, 'peak_gib': 7}) for speed in speeds]
        self.program('tests/bench/torch_gpu.py', 'import sys; open("called", "a").write(sys.argv[2] + "\\n")\n'
                     f'print(*{results}, sep="\\n")', '')

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
        self.assertEqual(len([line for line in self.called() if line.startswith('CudaTest.')]), 22)
        self.program('tests/ops/ops_test', 'echo ops >> called; echo "All tests passed (3 assertions in 1 test case)"')
        status, said = self.check('correct')
        self.assertEqual(status, 0, said)
        self.assertEqual(self.called(), ['ops'])
        results = json.loads((self.folder / 'gpu-check/results.json').read_text())
        self.assertTrue(all(result['passed'] for result in results.values()))

    def test_all_starts_with_what_tells_most(self):
        self.program('hgtrain', BENCHES)
        self.pytorch_reaches(1)
        status, said = self.check('all')
        self.assertEqual(status, 0, said)
        called = self.called()
        self.assertEqual(called[:2], ['ops', 'gpt2-124m'])
        self.assertEqual(len([line for line in called if line.startswith('CudaTest.')]), 22)
        self.assertEqual(called[24], 'gpt2-1558m')
        self.assertIn('--oversubscribe', called[25])
        self.assertEqual(called[26:], ['memcheck', 'racecheck', 'initcheck'])

    def test_what_a_call_has_no_time_for_is_left_for_the_next(self):
        self.program('tests/ops/ops_test', 'echo "All tests passed (3 assertions in 1 test case)"')
        self.program('tests/e2e/cuda_test.py', 'import time; time.sleep(30)', '')
        status, said = self.check('correct', '--seconds', '1')
        self.assertEqual(status, 0, said)
        self.assertEqual(said.count('left for the next call'), 22)

    def test_results_of_other_programs_and_checks_that_checked_nothing_do_not_count(self):
        self.assertEqual(self.check('correct')[0], 0)
        self.called()
        self.program('hgtrain_cuda.so', 'another')
        self.program('tests/ops/ops_test', 'echo ops >> called; echo "assertions:  0 |  0 passed"')
        status, said = self.check('correct')
        self.assertEqual(status, 1)
        self.assertIn('ops: FAILED', said)
        self.assertEqual(len(self.called()), 23)

    def test_workers_share_a_gpu_if_there_is_only_one(self):
        self.assertEqual(self.check('splits')[0], 0)
        self.assertIn('--num_gpus 2 --oversubscribe ', self.called()[0])
        shutil.rmtree(self.folder / 'gpu-check')
        self.program('bin/nvidia-smi', 'for gpu in 0 1; do echo "NVIDIA H100 80GB HBM3, 81559, 9.0"; done')
        self.assertEqual(self.check('splits')[0], 0)
        self.assertNotIn('--oversubscribe', self.called()[0])

    def test_what_is_not_built_is_named(self):
        (self.folder / 'tests/ops/ops_test').unlink()
        status, said = self.check('correct')
        self.assertEqual(status, 2)
        self.assertIn('lacks tests/ops/ops_test: ', said)

    def test_in_a_checkout_it_builds_first(self):
        for name in 'hgtrain', 'hgtrain-worker', 'hgtrain_cuda.so':
            self.program(f'build/{name}', '')
            (self.folder / name).unlink()
        self.program('build/build.ninja', '')
        self.program('.venv/bin/ninja', 'echo "$@" > built; mkdir -p build/tests/ops; cp tests/ops/ops_test build/tests/ops')
        status, said = self.check('correct')
        self.assertEqual(status, 0, said)
        self.assertEqual(self.called()[0], 'ops')
        self.assertEqual((self.folder / 'built').read_text(), f'--quiet -C {self.folder}/build programs tests/ops/ops_test\n')
        self.program('.venv/bin/ninja', 'echo it does not compile; exit 1')
        status, said = self.check('correct')
        self.assertEqual((status, said), (2, 'it does not compile\n'))

    def test_a_sanitizer_that_refuses_the_device_is_not_run_rather_than_failed(self):
        status, said = self.check('sanitize')
        self.assertEqual(status, 0, said)
        self.assertIn('racecheck: not run', said)
        self.assertIn('memcheck: passed', said)

    def test_where_no_sanitizer_takes_the_device_nothing_has_passed(self):
        self.program('bin/compute-sanitizer', 'echo Device not supported; exit 1')
        self.assertEqual(self.check('sanitize')[0], 3)

    def test_speed_is_told_beside_pytorchs_best_at_the_same_state(self):
        self.program('hgtrain', BENCHES)
        self.pytorch_reaches(100, 250)
        status, said = self.check('speed')
        self.assertEqual(status, 0, said)
        self.assertEqual(self.called(), ['gpt2-124m', 'gpt2-1558m'])
        self.assertIn('llama-8b: left out', said)
        self.assertRegex(said, r'gpt2-124m +500 +0.0% +2.0 +250 +10.0% +7.0 +2.00x')
        self.assertRegex(said, r'rope_fwd +0.500 +2000 +80% +gpt2-124m')
        found = json.loads((self.folder / 'gpu-check/speed.json').read_text())
        self.assertEqual([model['ratio'] for model in found['models']], [2, 2])
        self.assertEqual([kernel['op'] for kernel in found['kernels']], ['rope_fwd', 'rope_fwd'])

    def test_speed_without_cudnns_attention_fails(self):
        self.pytorch_reaches(1)
        for before, after in (('{"parameters"', '{"attention": "attention backend: own kernels (no cuDNN: not found)", "parameters"'),
                              ('a notice', '"attention of 1 x 8 tokens, 1 heads of 8, without cuDNN: why"')):
            self.program('hgtrain', BENCHES.replace(before, after))
            status, text = self.check('speed')
            self.assertEqual(status, 1)
            self.assertIn('train gpt2-124m: FAILED: attention ran without cuDNN', text)
            shutil.rmtree(self.folder / 'gpu-check')

    def test_speed_without_pytorch_is_ours_alone(self):
        self.program('hgtrain', BENCHES)
        self.program('tests/bench/torch_gpu.py', 'import torch_that_is_not_there', '')
        self.program('python', 'echo "ModuleNotFoundError: No module named \'torch\'"; exit 1')
        status, said = self.check('speed', '--python', self.folder / 'python')
        self.assertEqual(status, 0, said)
        self.assertIn('PyTorch gpt2-124m: not run: this Python has no torch', said)
        self.assertRegex(said, r'gpt2-124m +500 +0.0% +2.0 +- +- +- +-')

    def test_without_a_gpu_it_says_so(self):
        self.program('bin/nvidia-smi', 'exit 9')
        self.assertEqual(self.check('correct')[0], 3)

    def test_it_asks_for_one_thing(self):
        for args in [], ['correct', '--pack', 'x'], ['correct', '--unknown'], ['fast']:
            self.assertEqual(self.check(*args)[0], 2)


if __name__ == '__main__':
    unittest.main()
