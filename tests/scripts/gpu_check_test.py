#!/usr/bin/env python3
"""scripts/gpu-check on a machine that pretends to have a GPU, and on one without."""
import ast
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What `hgtrain bench train` and `bench ops` print, with a notice before it.
BENCHES = '''echo a notice
echo "$@" >> called
case $2 in
train) echo '{"parameters": 60000000, "seq_length": 1024, "tokens_per_sec": {"median": 500}, "peak_rss_bytes": 2147483648,'
       echo ' "step_ms": {"median": 20}, "last_step": {"step": 9, "loss": 10.5, "grad_norm": 2}, "attention": "attention backend: cuDNN 9.1",'
       echo ' "products": [{"product": "qkv fwd", "m": 8, "n": 24, "k": 16, "calls_per_step": 12, "ms": {"median": 0.5},'
       echo '               "flops_per_sec": 7e14, "kernel": ""}],'
       echo ' "model": {"model_type": "gpt2", "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 50304}' ;;
ops)   echo '{"ops_ms": 19, "micro_batch_size": 64, "seq_length": 1024, "model": {"num_attention_heads": 12, "hidden_size": 768},'
       echo ' "ops": [{"op": "linear_fwd gemm", "flops": 3e9, "flops_per_sec": 6e14, "calls_per_step": 12, "ms_per_step": 1, "of_ceiling": 1},'
       echo '         {"op": "attention_bwd", "flops_per_sec": 5e14, "calls_per_step": 12, "ms_per_step": 6},'
       echo '         {"op": "rope_fwd", "calls_per_step": 24, "bytes_per_sec": 2e12, "ms_per_step": 0.5, "share": 0.03, "of_ceiling": 0.8},'
       echo '         {"op": "sum", "calls_per_step": 1, "bytes_per_sec": 1e9, "ms_per_step": 0.01, "share": 0.001, "of_ceiling": 0.01}]' ;;
esac
echo '}' '''
# As tests/e2e/cuda_test.py, of which it is asked for one test; the second is not for a GPU.
TESTS = '''import sys; open("called", "a").write(sys.argv[2] + "\\n"); """
    def test_curves(self):
    @unittest.skipUnless(EMULATED, 'hides it')
    def test_hidden(self):
    def test_offloading(self):
"""'''
# As Meson writes build.ninja for CUDA.
WITH_CUDA = 'build hgtrain_cuda.so: cpp_LINKER'
CUDA_TESTS = ['CudaTest.test_curves', 'CudaTest.test_offloading']


def gpu_check():
    """scripts/gpu-check as a module."""
    loader = importlib.machinery.SourceFileLoader('gpu_check', str(ROOT / 'scripts/gpu-check'))
    sys.dont_write_bytecode = True
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('gpu_check', loader))
    sys.modules['gpu_check'] = module
    loader.exec_module(module)
    return module


def texts_for_a_gpu(node):
    """The texts below, without those that are for the emulation only."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == 'EMULATED' and child in node.body):
            yield from texts_for_a_gpu(child)


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
        self.program('tests/e2e/cuda_test.py', TESTS, '')
        shutil.copy(ROOT / 'tests/e2e/job.py', self.folder / 'tests/e2e')
        self.program('scripts/smoke', 'import sys; open("called", "a").write(" ".join(sys.argv[1:]) + "\\n")', '')
        self.program('bin/compute-sanitizer', 'echo $2 >> called; [ $2 != racecheck ] || { echo Device not supported; exit 1; }')

    def program(self, name, text, first='#!/bin/sh\n'):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(first + text + '\n')
        path.chmod(0o755)
        return path

    def pytorch_reaches(self, *speeds):
        """In tokens per second, one way after the other."""
        results = [json.dumps({'tok_s': speed, 'mfu': 0.1, 'peak_gib': 7}) for speed in speeds]
        self.program('tests/bench/torch_gpu.py', 'import sys; open("called", "a").write(" ".join(sys.argv[1:]) + "\\n")\n'
                     f'print(*{results}, sep="\\n")', '')

    def checkout(self):
        """Makes of the folder a checkout with the build folder fb; what is built is the stand-ins."""
        shutil.copy(ROOT / 'scripts/bundled_libraries.py', self.folder / 'scripts')
        self.program('fb/build.ninja', WITH_CUDA)
        self.program('.venv/bin/ninja', 'touch built; mkdir -p fb/tests/ops; cp hgtrain hgtrain-worker hgtrain_cuda.so fb\n'
                     'cp tests/ops/ops_test fb/tests/ops')
        for name in 'strip', 'ldd':
            self.program(f'bin/{name}', '')

    def check(self, *args, path=None):
        done = subprocess.run([sys.executable, self.folder / 'scripts/gpu-check', *args], cwd=self.folder, text=True,
                              capture_output=True, timeout=300,
                              env={'PATH': path or f'{self.folder}/bin:/usr/bin:/bin', 'CUDA_HOME': '/nowhere'})
        return done.returncode, done.stdout + done.stderr

    def called(self):
        path = self.folder / 'called'
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def test_what_passed_is_not_done_again_and_what_failed_is(self):
        self.program('tests/ops/ops_test', 'echo ops >> called\n'
                     'if [ -e mended ]; then echo "All tests passed (3 assertions in 1 test case)"; else echo wrong by 0.1; exit 1; fi')
        status, said = self.check('correct')
        self.assertEqual(status, 1)
        self.assertIn('ops: FAILED', said)
        self.assertIn('| wrong by 0.1', said)
        self.assertEqual(sorted(self.called()), [*CUDA_TESTS, 'ops'])
        (self.folder / 'mended').touch()
        status, said = self.check('correct')
        self.assertEqual(status, 0, said)
        self.assertEqual(self.called(), ['ops'])
        results = json.loads((self.folder / 'gpu-check/results.json').read_text())
        self.assertTrue(all(result['passed'] for result in results['results'].values()))

    def test_all_starts_with_what_tells_most(self):
        self.program('hgtrain', BENCHES)
        self.pytorch_reaches(1)
        status, said = self.check('all', '--seconds', '1900')
        self.assertEqual(status, 0, said)
        called = self.called()
        self.assertEqual([line[:11] for line in called[:2]], ['bench train', 'bench ops -'])
        self.assertEqual(sorted(called[2:5]), [*CUDA_TESTS, 'ops'])
        self.assertEqual([line.split()[1 if line.startswith('bench') else -1] for line in called[5:13]],
                         ['train'] * 4 + ['flash', 'train', 'cudnn', 'train'])
        self.assertIn('gpt2-1558m', called[13])
        self.assertIn('--oversubscribe', called[-4])
        self.assertEqual(called[-3:], ['memcheck', 'racecheck', 'initcheck'])

    def test_all_takes_30_minutes(self):
        module = gpu_check()
        stages = module.stages(pathlib.Path('programs'), module.Gpu('H200', 139, 9.0, 1), 'python3', 60)
        self.assertLessEqual(sum(stage.seconds for stage in stages), 30 * 60)
        for stage in stages:
            self.assertLessEqual(max(check.seconds for check in stage.checks), stage.seconds, stage)

    def test_what_runs_on_a_gpu_is_every_test_that_needs_no_emulation(self):
        tree = ast.parse((ROOT / 'tests/e2e/cuda_test.py').read_text())
        methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith('test_')]
        on_a_gpu = [method for method in methods if 'EMULATED' not in ''.join(map(ast.unparse, method.decorator_list))]
        self.assertLess(len(on_a_gpu), len(methods))
        self.assertEqual([check.command[-1] for check in gpu_check().trainings(pathlib.Path('programs'))],
                         ['CudaTest.' + method.name for method in on_a_gpu])
        for method in on_a_gpu:
            self.assertFalse([text for text in texts_for_a_gpu(method) if 'emulation: ' in text], method.name)

    def test_what_a_call_has_no_time_for_is_left_for_the_next(self):
        self.program('tests/ops/ops_test', 'echo "All tests passed (3 assertions in 1 test case)"')
        self.program('tests/e2e/cuda_test.py', TESTS + 'import time; time.sleep(30)', '')
        status, said = self.check('correct', '--seconds', '1')
        self.assertEqual(status, 0, said)
        self.assertEqual(said.count('left for the next call'), 2)

    def assert_child_ended(self):
        child = (self.folder / 'child').read_text().strip()

        def ended():
            try:
                return ') Z ' in pathlib.Path(f'/proc/{child}/stat').read_text()
            except (FileNotFoundError, ProcessLookupError):
                return True
        self.wait_until(ended)

    def wait_until(self, condition):
        deadline = time.monotonic() + 120
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_if_it_is_ended_so_is_all_that_it_started(self):
        self.program('bin/compute-sanitizer', 'sleep 300 & echo $! > child.new; mv child.new child; wait')
        with subprocess.Popen([sys.executable, self.folder / 'scripts/gpu-check', 'sanitize'], cwd=self.folder, stdout=subprocess.DEVNULL,
                              env={'PATH': f'{self.folder}/bin:/usr/bin:/bin'}) as process:
            self.wait_until((self.folder / 'child').exists)
            process.terminate()
        self.assertEqual(process.returncode, 128 + 15)
        self.assert_child_ended()

    def test_what_was_cut_off_ends_with_all_that_it_started_and_comes_last_the_next_time(self):
        self.program('bin/compute-sanitizer', 'echo $2 >> called; [ $2 != memcheck ] || { sleep 300 & echo $! > child; wait; }')
        status, said = self.check('sanitize', '--seconds', '12')
        self.assertIn('memcheck: not run (timed out)', said)
        self.assert_child_ended()
        self.assertEqual((status, self.called()), (0, ['memcheck', 'racecheck', 'initcheck']))
        shutil.rmtree(self.folder / 'gpu-check')
        results = self.folder / 'gpu-check/results.json'
        self.program('bin/compute-sanitizer', 'echo $2 >> called')
        self.assertEqual(self.check('sanitize')[0], 0)
        kept = json.loads(results.read_text())
        kept['results'] = {'memcheck': {'passed': False, 'status': 'timed out'}}
        results.write_text(json.dumps(kept))
        self.called()
        self.assertEqual(self.check('sanitize')[0], 0)
        self.assertEqual(self.called(), ['racecheck', 'initcheck', 'memcheck'])

    def test_results_of_other_programs_and_checks_that_checked_nothing_do_not_count(self):
        self.assertEqual(self.check('correct')[0], 0)
        self.called()
        os.utime(self.program('hgtrain_cuda.so', 'another'), (1, 1))  # as tar leaves it: older than the results
        self.program('tests/ops/ops_test', 'echo ops >> called; echo "assertions:  0 |  0 passed"')
        status, said = self.check('correct')
        self.assertEqual(status, 1)
        self.assertIn('ops: FAILED', said)
        self.assertEqual(len(self.called()), 3)

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
        self.program('build/build.ninja', WITH_CUDA)
        self.program('.venv/bin/ninja', 'echo "$@" > built; mkdir -p build/tests/ops; cp tests/ops/ops_test build/tests/ops')
        status, said = self.check('correct')
        self.assertEqual(status, 0, said)
        self.assertEqual(self.called()[0], 'ops')
        self.assertEqual((self.folder / 'built').read_text(), f'--quiet -C {self.folder}/build programs tests/ops/ops_test\n')
        self.program('.venv/bin/ninja', 'echo it does not compile; exit 1')
        status, said = self.check('correct')
        self.assertEqual((status, said), (2, 'it does not compile\n'))

    def test_in_a_checkout_without_cuda_it_does_not_build(self):
        (self.folder / 'hgtrain').unlink()
        self.program('build/build.ninja', 'build hgtrain: cpp_LINKER')
        self.program('.venv/bin/ninja', 'touch built')
        status, said = self.check('correct')
        self.assertEqual((status, said), (2, f'gpu-check: {self.folder}/build is set up without CUDA and makes no hgtrain_cuda.so: '
                                          'run scripts/build -Dcuda=enabled\n'))
        self.assertFalse((self.folder / 'built').exists())

    def test_pack_writes_a_bundle_that_runs(self):
        self.checkout()
        status, said = self.check('--build', 'fb', '--pack', 'bundle.tar.gz')
        self.assertEqual(status, 0, said)
        with tarfile.open(self.folder / 'bundle.tar.gz') as bundle:
            bundle.extractall(self.folder)
        self.folder /= 'hgtrain-gpu'
        self.program('bin/nvidia-smi', 'echo "NVIDIA H200, 143771, 9.0"')
        status, said = self.check('correct')
        self.assertEqual(status, 0, said)
        status, said = self.check('--pack', 'foo.tgz')
        self.assertEqual(status, 2)
        self.assertIn(f'error: --pack: {self.folder} has no sources, which it needs: run it in a checkout\n', said)

    def test_pack_refuses_before_it_builds(self):
        self.checkout()
        self.program('fb2/build.ninja', 'build hgtrain: cpp_LINKER')
        for build, target, why in (('fb', 'scripts', f'--pack: {self.folder}/scripts is there, but is no file: name one'),
                                   ('fb', '', f'--pack: {self.folder} is there, but is no file: name one'),
                                   ('fb', 'bin/nvidia-smi/x', f'--pack: there is no folder {self.folder}/bin/nvidia-smi: make it'),
                                   ('fb', '/proc/x.tgz', '--pack: no file can be written in /proc ('),
                                   ('fb2', 'x.tgz', f'{self.folder}/fb2 is set up without CUDA and makes no hgtrain_cuda.so: give --build a')):
            status, said = self.check('--build', build, '--pack', target)
            self.assertEqual(status, 2, said)
            self.assertIn(why, said)
            self.assertFalse((self.folder / 'built').exists())
            self.assertFalse((self.folder / 'x.tgz').exists())

    def test_a_sanitizer_that_refuses_the_device_is_not_run_rather_than_failed(self):
        status, said = self.check('sanitize')
        self.assertEqual(status, 0, said)
        self.assertIn('racecheck: not run', said)
        self.assertIn('memcheck: passed', said)

    def test_where_no_sanitizer_takes_the_device_nothing_has_passed(self):
        self.program('bin/compute-sanitizer', 'echo Device not supported; exit 1')
        self.assertEqual(self.check('sanitize')[0], 3)

    def test_without_a_sanitizer_its_checks_are_not_run(self):
        (self.folder / 'bin/compute-sanitizer').unlink()
        status, said = self.check('sanitize', path=f'{self.folder}/bin')
        self.assertEqual(status, 3, said)
        for name in 'memcheck', 'racecheck', 'initcheck':
            self.assertIn(f'{name}: not run: there is no compute-sanitizer: install the CUDA toolkit, and put its bin folder on PATH', said)
        self.assertIn("for sanitize the toolkit's compute-sanitizer", self.check('--help')[1])
        self.program('bin/compute-sanitizer', 'echo $2 >> called')
        self.assertEqual(self.check('sanitize')[0], 0)
        self.assertEqual(self.called(), ['memcheck', 'racecheck', 'initcheck'])

    def test_speed_is_told_beside_pytorchs_best_at_the_same_state(self):
        self.program('hgtrain', BENCHES)
        self.pytorch_reaches(100, 250)
        status, said = self.check('speed')
        self.assertEqual(status, 0, said)
        self.assertIn('reached', said)
        self.assertNotIn('llama', ''.join(self.called()))
        self.assertRegex(said, r'gpt2-124m +20.0 +500 +0.0% +2.0 +250 +10.0% +7.0 +- +2.00x +cuDNN 9.1')
        self.assertRegex(said, r'without graphs +20.0 +9 +10.50000 +0.0e\+00 +2.00000 +0.0e\+00 +cuDNN 9.1')
        self.assertRegex(said, r'gpt2-124m +20.00 +19.00 +1.00\n')
        self.assertRegex(said, r'qkv fwd +8 x 24 x 16 +12 +6.000 +700 +gpt2-124m')
        self.assertRegex(said, r'linear_fwd gemm +3 +12 +1.000 +600 +gpt2-124m')
        self.assertRegex(said, r'attention_bwd +64 x 1024, 12 heads of 64 +12 +6.000 +500 +gpt2-124m')
        self.assertRegex(said, r'rope_fwd +24 +0.500 +2000 +80% +missed +gpt2-124m')
        self.assertRegex(said, r"gpt2-124m: times PyTorch's rate +1.10 +2.00 +reached")
        self.assertRegex(said, r'of the copy rate, the slowest +85% +80% +missed')
        self.assertRegex(said, r'gpt2-124m: tokens per second +620000 +H200 +500 +not measured')  # this is an H100
        found = json.loads((self.folder / 'gpu-check/speed.json').read_text())
        self.assertEqual([model['ratio'] for model in found['models']], [2, 2])
        self.assertEqual([kernel['op'] for kernel in found['kernels']], ['rope_fwd', 'sum', 'rope_fwd', 'sum'])

    def test_a_loss_that_differs_from_that_of_the_first_run_fails(self):
        self.program('hgtrain', BENCHES.replace('echo a notice', 'case "$*" in *cuda_graphs*) loss=10.6 ;; *) loss=10.5 ;; esac')
                     .replace('"loss": 10.5', '"loss": \'$loss\''))
        self.pytorch_reaches(1)
        status, said = self.check('speed')
        self.assertEqual(status, 1, said)
        self.assertIn('train gpt2-124m without graphs: FAILED: loss 10.6, not 10.5 within 0.1%', said)
        self.assertIn('train gpt2-124m without cuDNN: passed', said)

    def test_what_pytorch_timed_before_it_was_cut_off_counts(self):
        spec = importlib.util.spec_from_file_location('gpu_speed', ROOT / 'tests/bench/gpu_speed.py')
        gpu_speed = importlib.util.module_from_spec(spec)
        sys.modules['gpu_speed'] = gpu_speed
        spec.loader.exec_module(gpu_speed)
        result = gpu_speed.best_variant('{"tok_s": 5}\n{"tok_s": 7}\n{"tok_s": 9', 'timed out')
        self.assertEqual((result['figures'], len(result['timed']), result['not_run']), ({'tok_s': 7}, 2, True))
        self.assertEqual(gpu_speed.best_variant('{"error": "no kernel"}', 0)['why'], 'not run: no kernel')

    def test_in_a_clean_clone_pack_names_what_is_missing(self):
        shutil.copy(ROOT / 'scripts/bundled_libraries.py', self.folder / 'scripts')
        status, said = self.check('--pack', 'x.tar.gz', path='/nowhere')
        self.assertEqual((status, said), (2, 'gpu-check: there is no meson: run scripts/setup first\n'))

    def test_speed_without_cudnns_attention_fails(self):
        self.pytorch_reaches(1)
        for before, after in (('cuDNN 9.1', 'own kernels (no cuDNN: not found)'),
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
        self.assertIn('PyTorch gpt2-124m flash: not run: this Python has no torch', said)
        self.assertRegex(said, r'gpt2-124m +20.0 +500 +0.0% +2.0 +- +- +- +- +-')

    def test_a_program_that_cannot_be_started_fails_with_the_reason(self):
        self.program('hgtrain', BENCHES)
        python = self.program('python', '', '#!/nowhere\n')
        status, said = self.check('speed', '--python', python)
        self.assertEqual(status, 1)
        self.assertIn(f"PyTorch gpt2-124m flash: FAILED: [Errno 2] No such file or directory: '{python}'", said)

    def test_without_a_gpu_it_says_so_before_it_builds(self):
        self.program('bin/nvidia-smi', 'exit 9')
        (self.folder / 'hgtrain').unlink()
        self.program('build/build.ninja', WITH_CUDA)
        self.program('.venv/bin/ninja', 'touch built')
        self.assertEqual(self.check('correct')[0], 3)
        self.assertFalse((self.folder / 'built').exists())

    def test_it_says_what_nvidia_smi_answered(self):
        for script, why in (('echo "NVIDIA GB10, [N/A], 12.1"', 'nvidia-smi answered "NVIDIA GB10, [N/A], 12.1", not its name, MiB'),
                            ('echo No devices were found', 'nvidia-smi answered "No devices were found", not'),
                            ('echo it cannot reach the driver; exit 9', 'nvidia-smi failed: it cannot reach the driver ('),
                            ('exit 9', 'nvidia-smi failed: 9 ('), ('', 'nvidia-smi lists none (')):
            self.program('bin/nvidia-smi', script)
            status, said = self.check('correct')
            self.assertEqual(status, 3)
            self.assertIn(f'there is no usable GPU: {why}', said)
        (self.folder / 'bin/nvidia-smi').unlink()
        self.assertEqual(self.check('correct', path=f'{self.folder}/bin'), (
            3, 'there is no usable GPU: nvidia-smi cannot be started: No such file or directory (hgtrain doctor says more)\n'))

    def test_it_does_not_wait_for_ever_for_nvidia_smi(self):
        self.program('bin/nvidia-smi', 'sleep 300')
        script = self.folder / 'scripts/gpu-check'
        self.assertIn('find_gpu(seconds=30)', script.read_text())
        script.write_text(script.read_text().replace('find_gpu(seconds=30)', 'find_gpu(seconds=1)'))
        status, said = self.check('correct')
        self.assertEqual((status, said), (3, 'there is no usable GPU: nvidia-smi has not answered in 1 s (hgtrain doctor says more)\n'))

    def test_wrong_arguments_are_told_all_at_once_and_before_it_looks_for_a_gpu(self):
        self.program('bin/nvidia-smi', 'touch asked')
        (self.folder / 'afile').touch()
        for seconds, out in ('-5', 'afile'), ('0', 'afile/x'), ('0', '/proc/nope'):
            status, said = self.check('speed', '--python', '/nonexistent/python', '--seconds', seconds, '--out', out, '--unknown')
            self.assertEqual(status, 2, said)
            for why in (f'--seconds {seconds}: give 1 or more\n', "--python: there is no program '/nonexistent/python': name",
                        f'--out: no file can be written in {self.folder / out} (', 'unknown options: --unknown\n'):
                self.assertIn(why, said)
        self.assertFalse((self.folder / 'asked').exists())

    def test_results_that_it_did_not_write_are_refused_and_stay(self):
        results = self.program('gpu-check/results.json', '')
        for text in '', '{', '[]', '{"results": {}}', '{"build": "", "results": []}', '{"build": "", "results": {"ops": {}}}':
            results.write_text(text)
            status, said = self.check('correct')
            self.assertEqual(status, 2, said)
            self.assertIn(f'--out: {results} is not what gpu-check wrote: remove it, or name another folder', said)
            self.assertEqual(results.read_text(), text)
        self.assertEqual(self.called(), [])

    def test_results_are_replaced_as_a_whole(self):
        self.assertEqual(self.check('correct')[0], 0)
        results, kept = self.folder / 'gpu-check/results.json', self.folder / 'kept'
        os.link(results, kept)  # what writes into the file changes this one, too
        before = kept.read_text()
        self.assertEqual(self.check('sanitize')[0], 0)
        self.assertIn('memcheck', results.read_text())
        self.assertEqual(kept.read_text(), before)
        self.assertEqual([path.name for path in results.parent.glob('results*')], ['results.json'])

    def test_it_asks_for_one_thing(self):
        for args in [], ['correct', '--pack', 'x'], ['correct', '--unknown'], ['fast'], ['correct', '--build', 'x'], ['--pack', 'nowhere/x']:
            self.assertEqual(self.check(*args)[0], 2)


if __name__ == '__main__':
    unittest.main()
