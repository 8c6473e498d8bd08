"""Training on two hosts of which only one, that of rank 0, has the run folder. See hosts.py."""
import json
import os
import re
import shutil
import signal

import hosts
from hosts import PROGRAM, sh

LAYOUTS = {
    'zero 0': (),
    'zero 1': ('--zero_optimization.stage', '1'),
    'zero 2': ('--zero_optimization.stage', '2'),
    'zero 3': ('--zero_optimization.stage', '3'),
    'tensor': ('--parallelism.tensor_parallel_size', '2'),
    'tensor over hosts': ('--parallelism.tensor_parallel_size', '4'),
    'pipeline': ('--parallelism.pipeline_parallel_size', '2', '--zero_optimization.stage', '1'),
    'context': ('--parallelism.context_parallel_size', '4'),
}
HEADS = ('--model.num_attention_heads', '4')


class UnsharedTest(hosts.HostsCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.prepare(cls, 'training', 3)
        (cls.folder / 'runs').mkdir()
        sh('nsenter', '-t', cls.hosts.first_process('b'), '-m', '-p', 'mount', '-t', 'tmpfs', 'tmpfs', cls.folder / 'runs')

    @classmethod
    def tearDownClass(cls):
        sh('nsenter', '-t', cls.hosts.first_process('b'), '-m', '-p', 'umount', '--lazy', cls.folder / 'runs')
        super().tearDownClass()

    def train(self, run, *flags, **options):
        return self.train_on_hosts(self.folder, f'runs/{run}', *HEADS, *flags, **options)

    def run_losses(self, run):
        return self.losses(self.folder, f'runs/{run}')

    def files_on_b(self, run):
        found = sh(self.hosts.folder / 'bin/ssh', 'b', f'cd {self.folder}/runs/{run} && find . -type f').stdout
        return sorted(found.split())

    def test_checkpoints_of_every_layout_lie_with_rank_0_and_resume_bit_for_bit(self):
        names = list(LAYOUTS)
        for name, other in zip(names, names[1:] + names[:1], strict=True):
            with self.subTest(name):
                run = name.replace(' ', '_')
                _, err = self.train(f'{run}_whole', *LAYOUTS[name])
                self.assertRegex(err, '2 ranks do not see the run folder, which is on a: they load and save through rank 0')
                self.train(run, *LAYOUTS[name], '--steps', '5')
                shutil.copytree(self.folder / 'runs' / run, self.folder / 'runs' / f'{run}_in_another_layout')
                self.train(run, *LAYOUTS[name], '--resume', 'auto')
                self.assertEqual(self.run_losses(run), self.run_losses(f'{run}_whole'))
                self.assertEqual(self.files_on_b(run), ['./logs/rank_2.log', './logs/rank_3.log'])
                self.train(f'{run}_in_another_layout', *LAYOUTS[other], '--resume', 'auto')
                for (_, loss, _), (_, whole, _) in zip(self.run_losses(f'{run}_in_another_layout'), self.run_losses(run), strict=True):
                    self.assertAlmostEqual(loss, whole, delta=1e-5)

    def test_a_checkpoint_is_that_of_a_shared_folder_and_can_be_evaluated(self):
        self.train('alone', '--zero_optimization.stage', '2')
        self.train_on_hosts(self.folder, 'shared', *HEADS, '--zero_optimization.stage', '2')
        name = 'checkpoints/step_00000012'
        for file in ('model.safetensors', 'optimizer.safetensors', 'manifest.json'):
            self.assertEqual((self.folder / 'runs/alone' / name / file).read_bytes(), (self.folder / 'shared' / name / file).read_bytes(), file)
        out = sh(PROGRAM, 'eval', '--model', f'runs/alone/{name}', '--config', 'config.json', '--device', 'cpu', '--json', cwd=self.folder).stdout
        self.assertGreater(json.loads(out)['loss'], 0)

    def test_a_run_can_begin_with_another_runs_checkpoint_or_weights(self):
        self.train('first', '--steps', '5')
        checkpoint = 'runs/first/checkpoints/step_00000005'
        self.train('resumed', '--resume', checkpoint)
        self.train('whole')
        self.assertEqual(self.run_losses('resumed'), self.run_losses('whole')[5:])
        self.train('tuned', '--model.init', checkpoint, '--parallelism.tensor_parallel_size', '2')
        self.assertLess(self.run_losses('tuned')[0][1], self.run_losses('whole')[0][1])

    def test_a_trace_has_all_ranks(self):
        self.train('traced', '--trace', 'trace.json')
        events = json.loads((self.folder / 'trace.json').read_text())['traceEvents']
        self.assertEqual({event['pid'] for event in events}, {0, 1, 2, 3})

    def test_a_rank_that_is_killed_is_named_and_the_restart_resumes_bit_for_bit(self):
        long = ('--training.train_iters', '300', '--checkpoint.keep_last_n', '2')
        self.train('calm', *long)
        for rank in (0, 3):
            run = f'killed_{rank}'
            process = self.start('--config', 'config.json', '--device', 'cpu', '--run_dir', f'runs/{run}', *HEADS, *long,
                                 '--max_restarts', '1', cwd=self.folder, command=('train',))
            for line in process.stderr:
                if line.startswith('save '):
                    break
            os.kill(next(pid for pid, line, environment in hosts.command_lines()
                         if b'hgtrain-worker' in line and f'runs/{run}'.encode() in line and f'\0RANK={rank}\0'.encode() in environment), signal.SIGKILL)
            _, err = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, err)
            self.assertIn(f'rank {rank} was killed by SIGKILL', err)
            self.assertRegex(err, r'resuming from step \d')
            self.assertEqual(self.run_losses(run), self.run_losses('calm'))

    def test_if_the_host_with_the_run_folder_is_lost_the_job_waits_for_it(self):
        long = ('--training.train_iters', '300', '--checkpoint.keep_last_n', '2')
        for limit in ('600', '35'):
            run = f'owner_lost_{limit}'
            process = self.start('--config', 'config.json', '--device', 'cpu', '--run_dir', f'runs/{run}', *HEADS, *long,
                                 '--num_nodes', '1:2', '--elastic_timeout', limit, cwd=self.folder, command=('train',))
            for line in process.stderr:
                if line.startswith('save '):
                    break
            with self.hosts.unreachable('a'):
                for line in process.stderr:
                    if 'too few hosts can be used' in line or limit == '35':
                        break
                if limit == '35':
                    _, err = process.communicate(timeout=300)
                    self.assertEqual(process.returncode, 6, err)
                    self.assertRegex(err, r'host a is lost: [^\0]*\n  no restart: host a cannot be used: [^\0]*--resume auto')
                    continue
            _, err = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, err)
            self.assertEqual(len(self.run_losses(run)), 300)

    def test_a_folder_that_rank_0s_host_does_not_see_is_an_error(self):
        _, err = self.train('elsewhere', hosts='b:2,a:2', exit_code=2)
        self.assertRegex(err, r'host b, which has rank 0, does not see the run folder runs/elsewhere of this machine')
        self.assertIn('type the command on that host', err)

    def test_a_damaged_checkpoint_is_refused_by_all_and_an_older_one_is_taken(self):
        self.train('damaged', '--zero_optimization.stage', '1', '--steps', '10')
        weights = self.folder / 'runs/damaged/checkpoints/step_00000010/optimizer.safetensors'
        with weights.open('r+b') as file:  # in the part of a rank that reads it from afar
            file.seek(-8, 2)
            file.write(b'\xff' * 4)
        _, err = self.train('damaged', '--zero_optimization.stage', '1', '--resume', 'auto')
        self.assertRegex(err, r'step_00000010/optimizer.safetensors is damaged.*an older checkpoint is used')
        self.assertTrue(re.search('resuming from step 5', err), err)


if __name__ == '__main__':
    hosts.main()
