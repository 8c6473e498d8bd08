#!/usr/bin/env python3
"""scripts/cuda_from_pypi with a pretended driver and package index, scripts/test with a pretended build."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAKE_PIP = '''#!/bin/sh
echo "$@" > "$(dirname "$0")/../asked"
[ -z "$PIP_FAILS" ] || exit 1
nvidia=$(dirname "$0")/../site/nvidia
for part in cu13 nccl cudnn; do mkdir -p $nvidia/$part/include $nvidia/$part/lib; touch $nvidia/$part/include/$part.h; done
touch $nvidia/cu13/lib/libcudart.so.13 $nvidia/nccl/lib/libnccl.so.2 $nvidia/cudnn/lib/libcudnn.so.9
mkdir -p $nvidia/cu13/bin $nvidia/cu13/nvvm
'''


class Checkout(unittest.TestCase):
    """A folder with a copy of scripts/ in it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(ROOT / 'scripts', self.folder / 'scripts')
        (self.folder / '.venv/bin').mkdir(parents=True)

    def program(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def run_script(self, name, **environment):
        environment = {'PATH': '/usr/bin:/bin', 'CUDA_HOME': '/nonexistent', **environment}
        return subprocess.run([self.folder / 'scripts' / name], env=environment, capture_output=True, text=True)


class CudaFromPypi(Checkout):
    def setUp(self):
        super().setUp()
        self.program('.venv/bin/pip', FAKE_PIP)
        self.program('.venv/bin/python', f'#!/bin/sh\necho {self.folder}/.venv/site\n')
        self.driver = self.folder / 'version'
        self.driver.write_text('NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 2025\n')

    def run_script(self, **environment):
        return super().run_script('cuda_from_pypi', **{'HGTRAIN_DRIVER_FILE': str(self.driver), **environment})

    def asked(self):
        return (self.folder / '.venv/asked').exists()

    def test_without_a_driver_nothing_is_installed(self):
        self.assertEqual(self.run_script(HGTRAIN_DRIVER_FILE='/nonexistent').returncode, 0)
        self.assertFalse(self.asked())

    def test_a_toolkit_that_is_there_is_used(self):
        self.program('toolkit/bin/nvcc', '#!/bin/sh\n')
        self.program('toolkit/include/nccl.h', '')
        self.assertEqual(self.run_script(CUDA_HOME=str(self.folder / 'toolkit')).returncode, 0)
        self.assertEqual(self.run_script(PATH=f'{self.folder}/toolkit/bin:/usr/bin:/bin').returncode, 0)
        self.assertFalse(self.asked())

    @unittest.skipIf(os.path.exists('/usr/include/nccl.h'), 'this machine has NCCL')
    def test_a_toolkit_without_nccl_gets_nccl_of_its_own_major_version(self):
        self.program('toolkit/bin/nvcc', '#!/bin/sh\necho "Cuda compilation tools, release 12.4, V12.4.99"\n')
        done = self.run_script(CUDA_HOME=str(self.folder / 'toolkit'))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / '.venv/asked').read_text().endswith(' nvidia-nccl-cu12\n'))
        self.assertTrue((self.folder / '.venv/cuda/include/nccl.h').exists())

    def test_a_driver_without_a_toolkit_gets_the_wheels_as_a_toolkit_and_a_message_says_so(self):
        done = self.run_script()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('NVIDIA driver 580.65.06 but no CUDA toolkit: installing', done.stdout)
        cuda = self.folder / '.venv/cuda'
        for path in ('bin', 'nvvm', 'include/nccl.h', 'lib64/libcudart.so', 'lib/libnccl.so.2', 'lib64/libcudnn.so'):
            self.assertTrue((cuda / path).exists(), path)
        self.assertEqual(self.run_script().stdout, '', 'the second time there is nothing to do')

    def test_an_old_driver_is_refused_with_what_to_do(self):
        self.driver.write_text('NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  x\n')
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn('driver 535.104.05 is older than CUDA 13 needs (580)', done.stderr)
        self.assertIn('scripts/build -Dcuda=disabled', done.stderr)

    def test_without_the_index_it_does_not_continue_for_the_cpu_alone(self):
        done = self.run_script(PIP_FAILS='1')
        self.assertEqual(done.returncode, 1)
        self.assertIn('could not be installed', done.stderr)


class Test(Checkout):
    def run_test(self, build, meson):
        self.program('scripts/setup', '#!/bin/sh\n')
        self.program('scripts/build', f'#!/bin/sh\n{build}\n')
        self.program('.venv/bin/ninja', '#!/bin/sh\n')
        self.program('.venv/bin/meson', f'#!/bin/sh\nmkdir -p build/meson-logs\n{meson}\n')
        done = self.run_script('test')
        return done.returncode, done.stdout.splitlines()[-1]

    def log(self, *lines):
        (self.folder / 'lines').write_text(''.join(line + '\n' for line in lines))
        return 'cp lines build/meson-logs/testlog.json'

    def test_a_failed_build_is_a_failure(self):
        self.assertEqual(self.run_test('exit 1', ''), (1, '0 passed, 1 failed'))

    def test_a_runner_that_leaves_no_log_is_a_failure(self):
        self.assertEqual(self.run_test('', 'exit 1'), (1, '0 passed, 1 failed'))

    def test_test_cases_are_summed(self):
        log = self.log('{"name":"a","result":"OK","stdout":"All tests passed (9 assertions in 4 test cases)"}',
                       '{"name":"b","result":"OK"}', '{"name":"c","result":"SKIP"}')
        self.assertEqual(self.run_test('', log), (0, '5 passed, 0 failed'))

    def test_failed_cases_crashes_and_timeouts_fail(self):
        log = self.log('{"name":"a","result":"FAIL","stdout":"test cases: 3 | 2 passed | 1 failed"}',
                       '{"name":"b","result":"TIMEOUT","stdout":""}',
                       '{"name":"c","result":"FAIL","stdout":"All tests passed (1 assertion in 1 test case)"}')
        self.assertEqual(self.run_test('', log + '; exit 3'), (1, '2 passed, 3 failed'))

    def test_the_runners_own_status_counts(self):
        log = self.log('{"name":"b","result":"OK"}')
        self.assertEqual(self.run_test('', log + '; exit 2'), (2, '1 passed, 0 failed'))

    def test_no_test_at_all_is_a_failure(self):
        self.assertEqual(self.run_test('', self.log()), (1, '0 passed, 0 failed'))


if __name__ == '__main__':
    unittest.main()
