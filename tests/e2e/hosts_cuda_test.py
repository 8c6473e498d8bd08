"""Training on the GPUs of two hosts, each of which has one emulated device (tests/emulation). Its NCCL does not reach other
hosts, so the ranks speak over TCP. See hosts.py.
usage: hosts_cuda_test.py HGTRAIN"""
import os
import pathlib
import shutil

import hosts


class HostsCudaTest(hosts.HostsCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        programs = pathlib.Path(cls.temporary.name) / 'programs'  # next to the built ones there may be a module of real CUDA
        programs.mkdir()
        for name in 'hgtrain', 'hgtrain-worker':
            shutil.copy(hosts.PROGRAM.parent / name, programs)
        hosts.PROGRAM = programs / 'hgtrain'
        for name in 'ab':
            (cls.hosts.folder / f'home_{name}/.bashrc').write_text(
                ''.join(f'export {key}={os.environ[key]}\n' for key in ('FAKE_GPUS', 'LD_LIBRARY_PATH'))
                + f'export FAKE_MACHINE={name}\n')

    def test_the_losses_are_those_of_the_hosts_cpus(self):
        folder = self.prepare('gpus', 3)
        small = ('--hosts', 'a:1,b:1', '--training.train_iters', '4', '--train_batch_size', '2', '--training.seq_length', '4')
        for run, flags in (('cpu', ('--device', 'cpu')),
                           ('gpu', ('--device', 'cuda', '--distributed.backend', 'gloo', '--distributed.interface', 'fast'))):
            self.run_on_hosts('--config', 'config.json', '--run_dir', run, *small, *flags, cwd=folder, hosts=None, command=('train',))
        self.assertIn(', cuda by graphs, ', (folder / 'gpu/logs/rank_1.log').read_text())
        for ours, cpus in zip(self.losses(folder, 'gpu'), self.losses(folder, 'cpu'), strict=True):
            self.assertAlmostEqual(ours[1], cpus[1], delta=1e-4 * cpus[1])


if __name__ == '__main__':
    hosts.main()
