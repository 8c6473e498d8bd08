#!/usr/bin/env python3
"""Tensor parallelism with the built program: the same numbers, checkpoints and failures as one worker.
usage: tensor_test.py HGTRAIN"""
import filecmp
import os
import random
import re
import signal
import unittest

import job

# The norm is clipped from the first step on.
MODEL = ('--model.n_head', 4, '--model.resid_pdrop', 0.1, '--model.attn_pdrop', 0.1, '--gradient_clipping', 0.1)
LLAMA = ('--model.model_type', 'llama', '--model.num_attention_heads', 4, '--model.num_key_value_heads', 2,
         '--model.tie_word_embeddings', 'false', '--gradient_clipping', 0.1)
QWEN = ('--model.model_type', 'qwen3', '--model.num_attention_heads', 4, '--model.num_key_value_heads', 1, '--model.head_dim', 8,
        '--gradient_clipping', 0.1)


def tensor(number, *flags):
    return ('--parallelism.tensor_parallel_size', number, *flags)


SPLIT = ('--parallelism.sequence_parallel', 'true')


def stage(number):
    return '--zero_optimization.stage', number


class TensorTest(job.JobTest):
    def test_every_layout_gives_the_numbers_of_one_worker(self):
        for name, model, layouts in (
                ('gpt2', MODEL, ((4, 4, ()), (2, 4, ()), (2, 4, stage(3)), (2, 4, ('--parallelism.pipeline_parallel_size', 2)),
                                 (4, 4, SPLIT), (2, 4, (*SPLIT, '--parallelism.pipeline_parallel_size', 2)))),
                ('llama', LLAMA, ((4, 4, ('--training.ema_decay', 0.9)), (2, 4, stage(2)), (2, 4, (*SPLIT, *stage(3))))),
                ('qwen', (*QWEN, '--optimizer.type', 'Lamb', '--activation_checkpointing.mode', 'full'),
                 ((2, 4, stage(1)),
                  (2, 4, ('--parallelism.pipeline_parallel_size', 2, '--parallelism.pipeline_schedule', 'zb_h1'))))):
            self.job.train(name, *model, workers=1)
            for size, workers, flags in layouts:
                run = f'{name} {size} of {workers} {flags}'.replace('/', '')
                self.job.train(run, *model, *tensor(size, *flags), workers=workers)
                self.assert_close(run, name)

    def test_a_run_is_the_same_twice(self):
        for precision in ('bf16', 'fp16'):
            for run in 'once', 'again':
                self.job.train(precision + run, *LLAMA, *tensor(2, *SPLIT), f'--{precision}.enabled', 'true', workers=4)
            self.assertEqual(self.numbers(precision + 'once'), self.numbers(precision + 'again'))

    def test_weights_that_stay_as_they_began_are_the_same_files_in_every_layout(self):
        layouts = ((2, 2, ()), (4, 4, ()), (2, 4, stage(1)), (2, 4, stage(3)), (2, 4, ('--parallelism.pipeline_parallel_size', 2)))
        for name, model in ('gpt2', MODEL), ('qwen', QWEN):
            still = (*model, '--model.vocab_size', 263, '--training.ema_decay', 0.9, '--optimizer.params.lr', 0, '--steps', 1)
            first = self.job.folder / f'still {name}/checkpoints/step_00000001'
            self.job.train(f'still {name}', *still, workers=1)
            loads = ('--model.init', first)
            for number, (size, workers, flags) in enumerate((*layouts, (4, 4, loads))):
                run = f'still {name} {number}'
                self.job.train(run, *still, *tensor(size, *flags), workers=workers)
                for file in 'model', 'ema':
                    saved = self.job.folder / run / f'checkpoints/step_00000001/{file}.safetensors'
                    self.assertTrue(filecmp.cmp(first / f'{file}.safetensors', saved, shallow=False), f'{run}: {file}')

    def test_a_checkpoint_of_any_layout_resumes_in_any_other(self):
        self.job.train('unbroken', *MODEL, workers=1)
        layouts = (('tensor', tensor(2), 2), ('one', (), 1), ('both', tensor(2, *stage(3)), 4), ('rows', tensor(4, *SPLIT), 4))
        for (name, flags, workers), (_, other, other_workers) in zip(layouts, layouts[1:] + layouts[:1], strict=True):
            run = f'from {name}'
            self.job.train(run, *MODEL, *flags, '--steps', 10, workers=workers)
            self.job.train(run, *MODEL, *other, '--resume', 'auto', workers=other_workers)
            self.assert_close(run, 'unbroken')

    def test_a_killed_run_resumes_from_its_last_checkpoint(self):
        self.job.train('unkilled', *MODEL, *tensor(2), workers=2)
        process = self.job.start_training('killed', *MODEL, *tensor(2), workers=2)
        self.job.wait_for_step('killed', random.Random(os.getpid()).randint(5, 12), process)
        os.kill(random.choice(job.workers_of(process)), signal.SIGKILL)
        process.communicate()
        self.job.train('killed', *MODEL, *tensor(2), '--resume', 'auto', workers=2)
        self.assertEqual(self.numbers('killed'), self.numbers('unkilled'))

    def test_the_bad_tensor_is_that_of_one_worker(self):
        said = [re.search('the first bad tensor is [^:]*', self.job.train(f'bad{n}', *MODEL, *tensor(n), '--optimizer.params.lr', 1e30,
                                                                          exit_code=5, workers=n))[0] for n in (1, 2)]
        self.assertEqual(said[0], said[1])

    def test_sizes_that_do_not_fit_are_refused(self):
        for size, workers, text in ((2, 3, 'start a multiple of 2 workers'), (3, 3, 'the nearest sizes that fit are 2 and 4'),
                                    (8, 8, 'the nearest size that fits is 4')):
            self.assertIn(text, self.job.train('refused', *MODEL, *tensor(size), workers=workers, exit_code=2))

    def test_the_plan_shrinks_with_the_tensor_ranks(self):
        def planned(size, names, *flags):
            text = self.job.call('--config', 'config.json', '--dry_run', '--device', 'cpu', '--num_workers', 4, '--model.n_head', '4',
                                 '--model.n_embd', '1024', *map(str, tensor(size, *flags)))
            sizes = re.findall(rf'^  ({names}) +([\d.]+) ([KM])iB$', text, re.M)
            return {name: float(number) * (1024 if unit == 'M' else 1) for name, number, unit in sizes}
        for names, flags in ('parameters|layers: qkv|layers: up', ()), ('layers: norm1|layers: norm2|layers: output', SPLIT):
            whole, part = planned(1, names), planned(4, names, *flags)
            for name, size in part.items():
                self.assertAlmostEqual(size / whole[name], 0.25, delta=0.01, msg=name)
            self.assertEqual(len(part), 3)


if __name__ == '__main__':
    unittest.main()
