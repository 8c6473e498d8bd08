#!/usr/bin/env python3
"""Tensor parallelism with the built program: the same numbers, checkpoints and failures as one worker.
usage: tensor_test.py HGTRAIN"""
import json
import filecmp
import os
import random
import re
import signal
import unittest

import job

# The norm is clipped from the first step on.
MODEL = ('--model.n_head', 4, '--model.resid_pdrop', 0.1, '--model.attn_pdrop', 0.1, '--gradient_clipping', 0.1)
LLAMA = ('--model.model_type', 'llama', '--model.intermediate_size', 64, '--model.num_attention_heads', 4, '--model.num_key_value_heads', 2,
         '--model.tie_word_embeddings', 'false', '--gradient_clipping', 0.1)
QWEN = ('--model.model_type', 'qwen3', '--model.intermediate_size', 64, '--model.num_attention_heads', 4, '--model.num_key_value_heads', 1, '--model.head_dim', 8,
        '--gradient_clipping', 0.1)


def tensor(number, *flags):
    return ('--parallelism.tensor_parallel_size', number, *flags)


SPLIT = ('--parallelism.sequence_parallel', 'true')
PIPELINE = ('--parallelism.pipeline_parallel_size', 2)


def stage(number):
    return '--zero_optimization.stage', number


class TensorTest(job.JobTest):
    def test_every_layout_gives_the_numbers_of_one_worker(self):
        self.assert_layouts_close('gpt2', MODEL, ((tensor(4), 4), (tensor(2), 4), (tensor(2, *stage(3)), 4), (tensor(2, *PIPELINE), 4),
                                                  (tensor(4, *SPLIT), 4), (tensor(2, *SPLIT, *PIPELINE), 4)))
        self.assert_layouts_close('llama', LLAMA, ((tensor(4, '--training.ema_decay', 0.9), 4), (tensor(2, *stage(2)), 4),
                                                   (tensor(2, *SPLIT, *stage(3)), 4)))
        self.assert_layouts_close('qwen', (*QWEN, '--optimizer.type', 'Lamb', '--activation_checkpointing.mode', 'full'),
                                  ((tensor(2, *stage(1)), 4), (tensor(2, *PIPELINE, '--parallelism.pipeline_schedule', 'zb_h1'), 4)))

    def test_a_run_is_the_same_twice(self):
        for precision in ('bf16', 'fp16'):
            for run in 'once', 'again':
                self.job.train(precision + run, *LLAMA, *tensor(2, *SPLIT), f'--{precision}.enabled', 'true', workers=4)
            self.assertEqual(self.numbers(precision + 'once'), self.numbers(precision + 'again'))

    def test_weights_that_stay_as_they_began_are_the_same_files_in_every_layout(self):
        layouts = ((2, 2, ()), (4, 4, ()), (2, 4, stage(1)), (2, 4, stage(3)), (2, 4, PIPELINE))
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
        self.assert_each_resumes_in_the_next(MODEL, ((tensor(2), 2), ((), 1), (tensor(2, *stage(3)), 4), (tensor(4, *SPLIT), 4)))

    def test_a_killed_run_resumes_from_its_last_checkpoint(self):
        process = self.start_endless('killed', *MODEL, *tensor(2), until_step=random.Random(os.getpid()).randint(5, 12))
        os.kill(random.choice(job.workers_of(process)), signal.SIGKILL)
        process.communicate()
        self.finish('killed', *MODEL, *tensor(2))
        self.assertEqual(self.numbers('killed'), self.numbers('killed_undisturbed'))

    def test_all_workers_name_the_bad_tensor_of_one_worker(self):
        said = []
        for n in 1, 2, 4:
            self.job.train(f'bad{n}', *MODEL, *tensor(n), '--optimizer.params.lr', 1e30, exit_code=5, workers=n)
            named = self.job.bad_tensors(f'bad{n}', n)
            self.assertEqual(set(named), {named[0]})
            said.append(named[0].split(':')[0])
        self.assertEqual(set(said), {said[0]})

    def test_sizes_that_do_not_fit_are_refused(self):
        for size, workers, text in ((2, 3, 'start a multiple of 2 workers'), (3, 3, 'set parallelism.tensor_parallel_size = 1'),
                                    (8, 8, 'set parallelism.tensor_parallel_size = 4')):
            self.assertIn(text, self.job.train('refused', *MODEL, *tensor(size), workers=workers, exit_code=2))

    def test_a_run_says_how_it_is_split(self):
        said = self.job.train('split', *MODEL, *SPLIT, *tensor(2, '--zero_optimization.stage', 1), workers=4)
        self.assertIn('layout      data 2 x context 1 x tensor 2 x pipeline 1, sequence parallel, ZeRO stage 1\n', said)
        run = self.job.folder / 'split'
        self.assertEqual(json.loads((run / 'run.json').read_text())['layout'],
                         {'data': 2, 'context': 1, 'tensor': 2, 'pipeline': 1, 'virtual_stages': 1, 'zero_stage': 1})
        self.assertIn('data rank 1 of 2, context rank 0 of 1, tensor rank 1 of 2, pipeline stage 0 of 1, ZeRO stage 1',
                      (run / 'logs/rank_3.log').read_text())

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
