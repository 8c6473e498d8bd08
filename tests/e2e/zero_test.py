#!/usr/bin/env python3
"""ZeRO's stages with the built program: the same numbers, checkpoints and failures as plain data parallelism.
usage: zero_test.py HGTRAIN"""
import filecmp
import os
import random
import re
import signal
import unittest

import job
from job import STEPS

# One micro-batch per worker and step: every stage gives the same bits. Blocks are large enough to be cut.
WIDE = ('--model.n_embd', 128, '--train_micro_batch_size_per_gpu', 4)


def stage(number):
    return '--zero_optimization.stage', number


class ZeroTest(job.JobTest):
    def same_files(self, a, b, step=STEPS):
        for name in ('model', 'optimizer'):
            one, other = (self.job.folder / run / f'checkpoints/step_{step:08}/{name}.safetensors' for run in (a, b))
            self.assertTrue(filecmp.cmp(one, other, shallow=False), f'{one} and {other}')

    def test_every_stage_gives_the_bits_of_stage_0(self):
        for name, flags in (('fp32', ()), ('bf16', ('--bf16.enabled', 'true', '--training.ema_decay', 0.9)),
                            ('lamb', ('--optimizer.type', 'Lamb'))):
            self.job.train(f'{name}0', *WIDE, *flags)
            for number in (1, 2, 3):
                self.job.train(f'{name}{number}', *WIDE, *flags, *stage(number))
                numbers = [[(m['loss'], m['grad_norm'], m.get('eval_loss')) for m in self.job.metrics(f'{name}{n}')]
                           for n in (0, number)]
                self.assertEqual(numbers[0], numbers[1], f'{name}, stage {number}')
                self.same_files(f'{name}0', f'{name}{number}')

    def test_with_accumulation_every_stage_gives_the_losses_of_one_worker(self):
        wide = ('--model.n_embd', 128)
        self.job.train('one', *wide, workers=1)
        for number in (1, 2, 3):
            self.job.train(f'accumulated{number}', *wide, *stage(number))
            self.assert_close(f'accumulated{number}', 'one')

    def test_a_checkpoint_of_any_stage_resumes_on_any_number_of_workers_at_any_other(self):
        wide = ('--model.n_embd', 128)
        self.job.train('unbroken', *wide)
        for number, workers, other in ((1, 4, 3), (2, 1, 0), (3, 2, 1), (0, 4, 2)):
            run = f'from{number}'
            self.job.train(run, *wide, *stage(number), '--steps', 10)
            self.job.train(run, *wide, *stage(other), '--resume', 'auto', workers=workers)
            self.assert_close(run, 'unbroken')

    def test_ranks_that_own_nothing_save_with_the_others(self):
        tiny = ('--model.n_embd', 8, '--model.n_layer', 1, '--model.n_head', 1, '--training.ema_decay', 0.9, '--steps', 5)
        for number in (0, 1, 3):
            self.job.train(f'tiny{number}', *tiny, *stage(number), workers=8)
            self.same_files('tiny0', f'tiny{number}', 5)

    def test_a_killed_run_resumes_from_its_last_checkpoint(self):
        process = self.start_endless('killed', *WIDE, *stage(3), until_step=random.Random(os.getpid()).randint(5, 12))
        os.kill(random.choice(job.workers_of(process)), signal.SIGKILL)
        process.communicate()
        losses, undisturbed = self.finish('killed', *WIDE, *stage(3))
        self.assertEqual(losses, undisturbed)

    def test_the_bad_tensor_is_named_at_every_stage(self):
        said = []
        for number in (0, 1, 2, 3):
            output = self.job.train(f'bad{number}', *WIDE, *stage(number), '--optimizer.params.lr', 1e30, exit_code=5)
            said.append(re.search('the first tensor that is not finite is .*', output)[0])
        self.assertEqual(said, said[:1] * 4)

    def test_a_config_that_offloads_trains_on_the_cpu(self):
        self.job.train('offloaded', *stage(3), '--zero_optimization.offload_optimizer.device', 'cpu',
                       '--zero_optimization.offload_param.device', 'cpu', '--steps', 2)
        self.assertEqual(len(self.job.metrics('offloaded')), 2)
        output = self.job.train('disk', *stage(3), '--zero_optimization.offload_param.device', 'nvme', exit_code=2)
        self.assertIn('is not built yet', output)

    def test_the_plan_of_a_gpu_names_what_lies_in_host_memory(self):
        def planned(*flags):
            text = self.job.call('--config', 'config.json', '--dry_run', '--gpu', 'H100', '--model.n_embd', 512, '--bf16.enabled', 'true',
                                 *map(str, stage(3)), *flags)
            device, host = (re.search(rf'^{title}\n((?:  .*\n)+)', text, re.M)
                            for title in ('memory of a worker', 'host memory of a worker, offloaded'))
            names = [set(re.findall(r'^  (\S.*?)  ', rows[1], re.M)) if rows else set() for rows in (device, host)]
            return *names, text
        state = {'parameters', 'gradients', 'optimizer: exp_avg', 'optimizer: exp_avg_sq'}
        device, host, text = planned()
        self.assertLess(state | {'bf16 weights'}, device)
        self.assertEqual(host, set())
        self.assertRegex(text, r'\nhost memory [0-9.]+ MiB per worker, for a save\n')
        device, host, text = planned('--zero_optimization.offload_optimizer.device', 'cpu')
        self.assertFalse(state & device)
        self.assertIn('bf16 weights', device)
        self.assertEqual(host, state | {'bf16 weights'})
        self.assertRegex(text, r'\nhost memory [0-9.]+ MiB per worker: [0-9.]+ MiB offloaded, [0-9.]+ MiB for a save\n')
        device, host, _ = planned('--zero_optimization.offload_optimizer.device', 'cpu', '--zero_optimization.offload_param.device', 'cpu')
        self.assertFalse((state | {'bf16 weights'}) & device)
        self.assertEqual(host, state | {'bf16 weights'})

    def test_the_plan_shrinks_with_the_workers(self):
        def planned(number, workers):
            text = self.job.train('planned', '--model.n_embd', 1024, '--train_batch_size', 64, *stage(number), '--dry_run',
                                  workers=workers)
            return {name: float(size) for name, size in
                    re.findall(r'^  (parameters|gradients|optimizer: exp_avg) +([\d.]+) MiB$', text, re.M)}
        whole = planned(0, 4)
        for number, shared in ((1, {'optimizer: exp_avg'}), (2, {'optimizer: exp_avg', 'gradients'}), (3, set(whole))):
            for name, size in planned(number, 4).items():
                self.assertAlmostEqual(size / whole[name], 0.25 if name in shared else 1, delta=0.01, msg=f'{name}, {number}')


if __name__ == '__main__':
    unittest.main()
