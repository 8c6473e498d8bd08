#!/usr/bin/env python3
"""hgtrain doctor on simulated machines: LD_LIBRARY_PATH leads to fake libraries of the driver and of CUDA.
usage: doctor_test.py HGTRAIN MODULE MODULE_OF_CUDA_12 FAKE_LIBRARY..."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, MODULE, MODULE12, *LIBRARIES = map(pathlib.Path, sys.argv[1:])
del sys.argv[1:]
GPU_HERE = os.path.exists('/proc/driver/nvidia/version')
DRIVER = ('libcuda.so.1', 'libnvidia-ml.so.1')
TOOLKIT = ('libcudart.so.13', 'libcublasLt.so.13', 'libcudnn.so.9', 'libnccl.so.2')


@unittest.skipIf(GPU_HERE, 'this machine has a driver of its own')
class DoctorTest(unittest.TestCase):
    def setUp(self):
        """The programs in a folder of their own: where they were built there may be a real CUDA module next to them."""
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=PROGRAM.parent))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ('hgtrain', 'hgtrain-worker'):
            os.link(PROGRAM.parent / name, self.folder / name)

    def install(self, *names):
        for library in LIBRARIES:
            if library.name in names:
                shutil.copy(library, self.folder)

    def install_all(self):
        """A machine without problems."""
        self.install(*DRIVER, *TOOLKIT)
        shutil.copy(MODULE, self.folder / 'hgtrain_cuda.so')

    def doctor(self, *args, exit_code=0, **environment):
        environment = {**os.environ, 'LD_LIBRARY_PATH': str(self.folder), **{k: str(v) for k, v in environment.items()}}
        done = subprocess.run([self.folder / 'hgtrain', 'doctor', *args], env=environment, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done.stdout

    def state(self, state, words='', exit_code=3, **environment):
        """Both outputs; the JSON of a machine in that state, whose one problem has the words and a hint."""
        said = json.loads(self.doctor('--json', exit_code=exit_code, **environment))
        self.assertEqual(said['gpu_state'], state, said['problems'])
        text = self.doctor(exit_code=exit_code, **environment)
        if exit_code == 0:
            self.assertEqual(said['problems'], [])
            self.assertIn('\nready: ', text)
        else:
            problem, = said['problems']
            self.assertIn(words, problem['message'])
            self.assertIn(f'\nproblem: {problem["message"]}\n  hint: {problem["hint"]}\n', text)
            self.assertTrue(text.endswith('not ready: see the problems\n'))
        return said

    def test_a_machine_without_gpus_is_ready(self):
        said = self.state('none', exit_code=0)
        self.assertEqual(said['gpus'], [])
        self.assertGreater(said['resources']['usable_cores'], 0)
        self.assertEqual(set(said['resources']['limits']), {'nofile', 'memlock', 'nproc'})
        self.assertIsInstance(said['network']['interfaces'], list)
        self.assertIn('\nCUDA module   hgtrain_cuda.so was not found; a build for CPUs has none\n', self.doctor())

    def test_driver_libraries_and_gpus_are_listed(self):
        self.install_all()
        said = self.state('usable', exit_code=0, FAKE_GPUS=3, CUDA_VISIBLE_DEVICES='1,0')
        self.assertEqual((said['driver']['version'], said['driver']['cuda']), ('580.65.06', '13.1'))
        self.assertEqual({x['name']: x['version'] for x in said['libraries']},
                         {'CUDA runtime': '13.0', 'cuBLAS': '13.1.0', 'cuDNN': '9.19.0', 'NCCL': '2.28.9'})
        self.assertTrue(all(pathlib.Path(x['file']).parent == self.folder for x in said['libraries']))
        self.assertEqual(said['cuda_module']['build'], 'fake, CUDA 13.0, sm_75 sm_90')
        self.assertEqual([gpu['name'] for gpu in said['gpus']], ['Newer', 'Older'])
        self.assertEqual((len(said['all_gpus']), said['cuda_visible_devices']), (3, '1,0'))
        self.assertEqual(said['gpus'][1]['pci_bus_id'], '0000:a1:00.0')
        text = self.doctor(FAKE_GPUS=3, CUDA_VISIBLE_DEVICES='1,0')
        for words in ('3 GPUs (2 x Newer, 1 x Older), of which CUDA_VISIBLE_DEVICES=1,0 leaves 2',
                      '0 Newer, GPU-22-of-the-test, 2.00 GiB, sm_80, PCIe 5 x16, 2 NVLinks', '0-1 NV', 'cuDNN         9.19.0',
                      'uses 8 of 16 PCIe lanes', 'ready: training can use the GPUs'):
            self.assertIn(words, text)

    def test_the_module_must_open_start_and_support_the_gpu(self):
        self.install_all()
        self.state('gpu_too_old', 'Older is sm_61, but this build supports sm_75', FAKE_GPUS=1, FAKE_CAPABILITY=61)
        self.state('not_started', 'as the test wants it (error 46)', FAKE_GPUS=1, FAKE_STATUS=46)
        (self.folder / 'hgtrain_cuda.so').unlink()
        self.state('no_module', 'hgtrain_cuda.so was not found', FAKE_GPUS=1)

    def test_a_driver_that_is_too_old_for_the_toolkit_is_a_problem(self):
        self.install_all()
        self.state('driver_too_old', 'it supports CUDA 12.4, but this build needs CUDA 13', FAKE_GPUS=1, FAKE_DRIVER_CUDA=12040)

    def test_a_driver_of_cuda_12_is_served_by_the_module_for_it(self):
        self.install_all()
        shutil.copy(MODULE12, self.folder / 'hgtrain_cuda12.so')
        self.assertIn('CUDA 13.0', self.state('usable', exit_code=0, FAKE_GPUS=1)['cuda_module']['build'])
        for library in LIBRARIES:
            if library.stem.endswith('12'):
                shutil.copy(library, self.folder / f'{library.stem[:-2]}.so.12')
        said = self.state('usable', exit_code=0, FAKE_GPUS=1, FAKE_DRIVER_CUDA=12080)
        self.assertIn('CUDA 12.4', said['cuda_module']['build'])
        versions = {x['name']: x['version'] for x in said['libraries']}
        self.assertEqual((versions['CUDA runtime'], versions['cuBLAS']), ('12.4', '12.5.0'))

    def test_a_driver_without_its_cuda_library_is_a_problem(self):
        self.install('libnvidia-ml.so.1')
        self.state('no_driver_library', 'the NVIDIA driver 580.65.06 is installed, but its library libcuda.so.1 is not found', FAKE_GPUS=1)
        (self.folder / 'libcuda.so.1').write_text('')
        self.state('not_started', 'libcuda.so.1 cannot be opened', FAKE_GPUS=1)

    def test_a_driver_that_shows_no_device_is_a_problem(self):
        self.install(*DRIVER)
        self.state('none', exit_code=0, FAKE_CUINIT=100)
        self.state('no_device', 'shows no device', FAKE_GPUS=2, FAKE_CUINIT=100)

    def test_missing_permission_is_a_problem(self):
        self.install(*DRIVER)
        self.state('no_permission', 'Insufficient Permissions', FAKE_GPUS=-1, FAKE_NVML_RESULT=4, FAKE_CUINIT=304)

    def test_a_driver_that_does_not_start_is_a_problem(self):
        self.install(*DRIVER)
        self.state('driver_mismatch', 'different versions', FAKE_GPUS=-1, FAKE_CUINIT=803)
        self.state('not_ready', 'NVSwitch', FAKE_GPUS=8, FAKE_CUINIT=802)
        self.state('no_driver_library', 'only for linking', FAKE_GPUS=1, FAKE_CUINIT=34)
        self.state('not_started', 'error 999', FAKE_GPUS=1, FAKE_CUINIT=999)

    def test_cuda_visible_devices_hides_gpus_on_purpose_or_by_mistake(self):
        self.install(*DRIVER)
        self.state('hidden', exit_code=0, FAKE_GPUS=2, FAKE_CUINIT=100, CUDA_VISIBLE_DEVICES='')
        self.state('wrong_selection', 'CUDA_VISIBLE_DEVICES=5 names none of the 2', FAKE_GPUS=2, FAKE_CUINIT=100,
                   CUDA_VISIBLE_DEVICES='5')

    def test_a_worker_that_does_not_start_is_a_problem(self):
        worker = self.folder / 'hgtrain-worker'
        worker.unlink()
        self.state('none', 'hgtrain-worker does not start: there is no ')
        worker.write_text('#!/bin/sh\necho libdnnl.so.3: cannot open >&2\nexit 127\n')
        worker.chmod(0o755)
        self.state('none', 'does not start: libdnnl.so.3: cannot open')


if __name__ == '__main__':
    unittest.main()
