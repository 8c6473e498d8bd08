#!/usr/bin/env python3
"""Pipeline parallelism with the built program: the same numbers, checkpoints and failures as one worker.
usage: pipeline_test.py HGTRAIN"""
import os
import random
import re
import signal
import unittest

import job
from job import STEPS

MODEL = ('--model.n_layer', 4)
LLAMA = ('--model.model_type', 'llama', '--model.intermediate_size', 64, '--model.num_key_value_heads', 1, '--model.tie_word_embeddings', 'false', *MODEL)


def stages(number, *flags):
    return ('--parallelism.pipeline_parallel_size', number, *flags)


def interleaved(number, parts, *flags):
    return stages(number, '--parallelism.pipeline_schedule', 'interleaved', '--parallelism.virtual_pipeline_stages', parts, *flags)


class PipelineTest(job.JobTest):
    def test_any_schedule_gives_the_bits_of_one_worker_if_nothing_is_tied(self):
        self.job.train('one', *LLAMA, '--model.attention_dropout', 0.1, workers=1)
        for schedule in '1f1b', 'gpipe', 'zb_h1':
            for count in 2, 3:
                run = f'{schedule}{count}'
                self.job.train(run, *LLAMA, '--model.attention_dropout', 0.1, *stages(count), '--parallelism.pipeline_schedule', schedule,
                               workers=count)
                self.assertEqual(self.job.losses(run), self.job.losses('one'), run)
                self.assert_close(run, 'one')
        for count, parts in (2, 2), (3, 2):
            run = f'interleaved{count} x {parts}'
            self.job.train(run, *LLAMA, '--model.attention_dropout', 0.1, *interleaved(count, parts), workers=count)
            self.assertEqual(self.job.losses(run), self.job.losses('one'), run)
            self.assert_close(run, 'one')

    def test_a_tied_model_gives_the_numbers_of_one_worker_with_every_combination(self):
        for name, flags in (('plain', ()), ('ema', ('--training.ema_decay', 0.9)), ('lamb', ('--optimizer.type', 'Lamb')),
                            ('recompute', ('--activation_checkpointing.mode', 'full', '--activation_checkpointing.num_layers', 3))):
            self.job.train(f'{name}1', *MODEL, *flags, workers=1)
            for layout, workers, more in (('pp2', 2, ()), ('pp2 dp2', 4, ()), ('pp2 dp2 zero1', 4, ('--zero_optimization.stage', 1)),
                                          ('pp3', 3, ('--parallelism.pipeline_layer_split', '[0, 4, 0]')),
                                          ('pp2 of 3 dp2 zero1', 4, (*interleaved(2, 3)[2:], '--zero_optimization.stage', 1)),
                                          ('pp2 of 2 tp2', 4, (*interleaved(2, 2)[2:], '--parallelism.tensor_parallel_size', 2))):
                run = f'{name} {layout}'
                self.job.train(run, *MODEL, *flags, *stages(3 if layout == 'pp3' else 2), *more, workers=workers)
                self.assert_close(run, f'{name}1')

    def test_stages_without_layers_pass_their_input_through(self):
        """The embedding, the head and layers may have stages of their own, with others that have nothing between them."""
        self.job.train('one of llama', *LLAMA, '--model.attention_dropout', 0.1, workers=1)
        for name, split, flags in (('1f1b', [0, 4, 0, 0], ()), ('gpipe', [4, 0, 0], ()), ('zb_h1', [0, 0, 4, 0], ()),
                                   ('interleaved', [1, 0, 0, 3], interleaved(2, 2)[2:]), ('interleaved', [0, 0, 4, 0, 0, 0], interleaved(2, 3)[2:])):
            stage_count = 2 if flags else len(split)
            run = f'{name} {split}'
            self.job.train(run, *LLAMA, '--model.attention_dropout', 0.1,
                           *stages(stage_count, '--parallelism.pipeline_schedule', name, '--parallelism.pipeline_layer_split', split), *flags[2:],
                           workers=stage_count)
            self.assertEqual(self.job.losses(run), self.job.losses('one of llama'), run)
            self.assert_close(run, 'one of llama')

    def test_stages_without_layers_fit_every_other_split(self):
        """Tied, with ZeRO and other ranks, evaluations, the moving average, bf16, and checkpoints of which some ranks have nothing."""
        for name, flags in (('ema', ('--training.ema_decay', 0.9)), ('lamb', ('--optimizer.type', 'Lamb')),
                            ('recompute', ('--activation_checkpointing.mode', 'full'))):
            self.job.train(f'{name} of one', *MODEL, *flags, workers=1)
            for layout, workers, more in (('dp2 zero1', 6, ('--zero_optimization.stage', 1)), ('tp2', 6, ('--parallelism.tensor_parallel_size', 2)),
                                          ('cp2', 6, ('--parallelism.context_parallel_size', 2))):
                run = f'{name} empty stage {layout}'
                split = stages(3, '--parallelism.pipeline_layer_split', '[4, 0, 0]', *more)
                self.job.train(run, *MODEL, *flags, *split, '--steps', 10, workers=workers)
                self.job.train(run, *MODEL, *flags, *split, '--resume', 'auto', workers=workers)
                self.assert_close(run, f'{name} of one')
                self.job.train(run, *MODEL, *flags, '--steps', STEPS + 2, '--resume', 'auto', workers=1)
        self.job.train('bf16', *MODEL, '--bf16.enabled', 'true', *stages(3, '--parallelism.pipeline_layer_split', '[4, 0, 0]'), workers=3)

    def test_fewer_micro_batches_than_stages(self):
        few = ('--train_batch_size', 2, *MODEL)
        self.job.train('few1', *few, workers=1)
        self.job.train('few4', *few, *stages(4), workers=4)
        self.assert_close('few4', 'few1')

    @unittest.skipUnless(os.uname().machine == 'x86_64', 'numbers of system calls')
    def test_a_stage_that_hangs_is_named_and_what_it_did(self):
        for rank in 0, 1:
            process = self.start_endless(f'hangs{rank}', *MODEL, *stages(2), '--distributed.timeout_minutes', 0.08, until_step=3)
            job.stop_computing(job.workers_of(process)[rank])
            _, err = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 5, err)
            self.assertRegex(err, rf"no progress for \d+ s: rank {rank} is in '.* at step \d+, collective \d+; "
                                  rf"rank {1 - rank} is in '.* at step \d+, collective \d+, waiting for collective \d+ of '")
            phase, action, step = re.search(r"no progress for \d+ s: rank \d is in '(\w+)[^']*'(.*?) at step (\d+)", err).groups()
            self.assertRegex(err, rf'rank {rank} of 2 .* has hung')
            self.assertEqual(self.job.verdict(f'hangs{rank}')['reason'], re.match('hgtrain: error: (.*)', err[err.index('hgtrain: error'):])[1])
            if phase in ('forward', 'backward'):
                self.assertRegex(action, r' \([FB]\d+\.\d+\)')  # block and micro-batch
                self.assertEqual(int(step), int(re.search(r' after step (\d+)', err)[1]) + 1)
            log = (self.job.folder / f'hangs{rank}/logs/rank_{rank}.log').read_text()
            self.assertRegex(log, r'thread \d+ is in\n  .*\+0x')
            self.assertRegex(log, r'thread \d+ does not answer\n')  # the test holds it

    def test_a_run_is_the_same_twice(self):
        for run in 'once', 'again':
            self.job.train(run, *MODEL, *stages(2), workers=4)
        self.assertEqual(self.job.losses('once'), self.job.losses('again'))

    def test_a_checkpoint_of_any_layout_resumes_in_any_other(self):
        self.job.train('unbroken', *MODEL, workers=1)
        layouts = (('pp2 of 2', interleaved(2, 2), 2), ('one', (), 1), ('pp3 dp2', stages(3), 6), ('zero3', ('--zero_optimization.stage', 3), 2))
        for name, flags, workers in layouts:
            for other, other_flags, other_workers in layouts:
                if other == name:
                    continue
                run = f'{name} to {other}'
                self.job.train(run, *MODEL, *flags, '--steps', 10, workers=workers)
                self.job.train(run, *MODEL, *other_flags, '--resume', 'auto', workers=other_workers)
                self.assert_close(run, 'unbroken')

    def test_a_killed_run_resumes_from_its_last_checkpoint(self):
        process = self.start_endless('killed', *MODEL, *stages(2), until_step=random.Random(os.getpid()).randint(5, 12), workers=4)
        os.kill(random.choice(job.workers_of(process)), signal.SIGKILL)
        self.assertRegex(process.communicate()[1], r'rank \d of 4 \(stage \d, data rank \d; pid')
        self.assertEqual(self.job.verdict('killed')['workers'][3]['place'], 'stage 1, data rank 1')
        losses, undisturbed = self.finish('killed', *MODEL, *stages(2), workers=4)
        self.assertEqual(losses, undisturbed)

    def test_all_workers_name_the_bad_tensor_of_one_worker_and_the_one_that_has_it_is_blamed(self):
        said = []
        for n in 1, 2, 3:
            self.job.train(f'bad{n}', *LLAMA, *stages(n), '--optimizer.params.lr', 1e30, exit_code=5, workers=n)
            said += self.job.bad_tensors(f'bad{n}', n)
            self.assertEqual(self.job.verdict(f'bad{n}')['failure']['rank'], 0)
        self.assertEqual(set(said), {said[0]})
        self.assertIn('model.embed_tokens.weight', said[0])

    def test_layouts_that_do_not_fit_are_refused(self):
        for flags, workers, text in ((stages(3), 2, 'start a multiple of 3 workers'),
                                     (stages(9), 9, 'a model of 4 layers cannot be split into 9 pipeline stages'),
                                     (stages(2, '--parallelism.pipeline_layer_split', '[1, 2]'), 2, 'does not split 4 layers into 2 pipeline stages'),
                                     (stages(2, '--zero_optimization.stage', 2), 2, 'cannot be combined with pipeline parallelism'),
                                     (stages(2, '--parallelism.pipeline_schedule', 'interleaved'), 2, 'virtual_pipeline_stages of at least 2'),
                                     (stages(2, '--parallelism.virtual_pipeline_stages', 2), 2, 'needs the schedule interleaved'),
                                     (interleaved(1, 2), 1, 'needs a pipeline of at least 2 stages'),
                                     (interleaved(2, 4), 2, 'set parallelism.virtual_pipeline_stages = 3')):
            self.assertIn(text, self.job.train('refused', *MODEL, *flags, workers=workers, exit_code=2))

    def test_the_plan_names_the_stages(self):
        output = self.job.call('--config', 'config.json', '--dry_run', '--device', 'cpu', '--num_workers', 2, *map(str, (*MODEL, *stages(2))))
        self.assertIn('data 1 x context 1 x tensor 1 x pipeline 2', output)
        self.assertEqual(self.job.metrics('none'), [])
        self.assertRegex(output, r'stage 0: embedding and layers 0 to \d, stage 1: layers \d to 3 and head')
        output = self.job.call('--config', 'config.json', '--dry_run', '--device', 'cpu', '--num_workers', 2, *map(str, (*MODEL, *interleaved(2, 2))))
        self.assertIn('stage 0: embedding and layer 0, then layer 2, stage 1: layer 1, then layer 3 and head; interleaved, idle', output)

    def test_the_plan_says_how_long_stages_wait(self):
        def idle(schedule, accumulation):
            batch = ('--train_batch_size', accumulation, '--train_micro_batch_size_per_gpu', 1, '--gradient_accumulation_steps', accumulation)
            output = self.job.call('--config', 'config.json', '--dry_run', '--device', 'cpu', '--num_workers', 2,
                                   *map(str, (*MODEL, *stages(2), '--parallelism.pipeline_schedule', schedule, *batch)))
            return int(re.search(rf'; {schedule}, idle (\d+) %', output)[1])
        self.assertGreater(idle('1f1b', 4), idle('zb_h1', 4))
        self.assertGreater(idle('zb_h1', 4), idle('zb_h1', 16))
        output = self.job.call('--config', 'config.json', '--dry_run', '--device', 'cpu', '--num_workers', 2, *map(str, (*MODEL, *stages(2))))
        now, then = map(int, re.findall(r'idle (\d+) %', output))
        self.assertIn('the largest micro-batch that divides this batch and fits: 8, with which stages idle', output)
        self.assertGreater(then, now)  # one large micro-batch leaves nothing to do meanwhile


if __name__ == '__main__':
    unittest.main()
