#!/usr/bin/env python3
"""Training with the built program: what a run leaves, and what is refused.
usage: train_test.py HGTRAIN"""
import json
import os
import re
import shutil
import signal
import unittest

import job
from job import STEPS

FIELDS = {'step', 'loss', 'grad_norm', 'lr', 'step_ms', 'elapsed_s', 'tokens', 'tokens_per_sec', 'consumed_samples',
          'samples_per_sec', 'mem_bytes', 'mem_peak_bytes', 'comm_ms', 'sent_bytes', 'data_wait_ms', 'mfu'}


class TrainTest(job.JobTest):
    def test_a_run_leaves_metrics_logs_and_checkpoints(self):
        metrics = self.job.metrics('whole')
        self.assertEqual([m['step'] for m in metrics], list(range(1, STEPS + 1)))
        for m in metrics:
            self.assertLessEqual(FIELDS, set(m))
            self.assertEqual(m.get('eval_loss') is not None, m['step'] % 5 == 0)
            self.assertEqual(m['consumed_samples'], 8 * m['step'])
        self.assertLess(metrics[-1]['loss'], metrics[0]['loss'] - 0.5)
        self.assertLess(metrics[-1]['eval_loss'], metrics[4]['eval_loss'])
        verdict = self.job.verdict('whole')
        self.assertEqual((verdict['verdict'], verdict['exit_code']), ('done', 0))
        self.assertEqual(self.job.checkpoints('whole'), [f'step_{s:08}' for s in (5, 10, 15, 20)])

    def test_the_model_ends_texts_with_the_token_that_ends_documents(self):
        end_of_text = 256  # of bytes
        for name in 'config.json', 'generation_config.json':
            self.assertEqual(self.job.read_json('whole/checkpoints/step_00000020', name)['eos_token_id'], end_of_text)
        said = self.job.train('ends', '--steps', 1, '--model.eos_token_id', 10)
        self.assertIn("documents end with token 256, but the model expects texts that end with 10", said)
        self.assertEqual(self.job.read_json('ends/checkpoints/step_00000001', 'config.json')['eos_token_id'], 10)
        self.job.train('ends', '--steps', 2, '--resume', 'auto')  # it is no part of the model's weights
        self.assertEqual(self.job.read_json('ends/checkpoints/step_00000002', 'config.json')['eos_token_id'], end_of_text)

    def test_a_run_describes_itself_first_and_each_log_names_its_rank(self):
        err = self.job.train('short', '--steps', 1)
        for words in ('gpt2', '2 x 1 thread on cpu', '8 samples of 32 tokens = micro-batch 1 x accumulation 4 x 2 workers',
                      'training    fp32, AdamW, WarmupLR\n', 'run folder  short'):
            self.assertIn(words, err)
        log = (self.job.folder / 'short/logs/rank_1.log').read_text()
        self.assertRegex(log, r'^\d{4}-\d\d-\d\dT[\d:.]+Z rank 1 info: rank 1 of 2 on \S+, pid \d+, cpu, 1 thread, hgtrain')

    def test_workers_divide_the_samples_and_all_reduce_the_gradients(self):
        first, second = (self.job.taken('whole', rank) for rank in range(2))
        for step in range(1, STEPS + 1):
            self.assertEqual(len(first[step][0]), 4)
            self.assertEqual(len(set(first[step][0] + second[step][0])), 8)
            self.assertEqual(first[step][1], second[step][1])
        weights = (self.job.folder / 'whole/checkpoints/step_00000020/model.safetensors').stat().st_size
        self.assertAlmostEqual(first[1][1], weights, delta=16384)  # header here, padding there

    def test_another_worker_count_gives_the_same_losses(self):
        for workers in (1, 4):
            self.job.train(f'workers{workers}', workers=workers)
            self.assert_close_to_whole(f'workers{workers}')

    def test_16_bit_runs_learn_like_fp32_and_resume_bit_for_bit(self):
        for dtype in ('bf16', 'fp16'):
            on = (f'--{dtype}.enabled', 'true')
            self.job.train(dtype, *on)
            for (step, loss, _), (_, wide, _) in zip(self.job.losses(dtype), self.whole):
                self.assertAlmostEqual(loss, wide, delta=0.02 * wide, msg=f'{dtype} step {step}')
            self.job.train(dtype + '_stopped', *on, '--steps', 10)
            self.job.train(dtype + '_stopped', *on, '--resume', 'auto')
            self.assertEqual(self.job.losses(dtype + '_stopped'), self.job.losses(dtype))
            sizes = [(self.job.folder / run / 'checkpoints/step_00000020/model.safetensors').stat().st_size
                     for run in (dtype, 'whole')]
            self.assertLess(sizes[0], 0.6 * sizes[1])

    def test_bf16_runs_resume_with_and_without_fp32_masters(self):
        on = '--bf16.enabled', 'true', '--bf16.bf16_master_weights_and_grads', 'true', '--bf16.bf16_optimizer_states', 'true'
        self.job.train('narrow', *on)
        for (step, loss, _), (_, wide, _) in zip(self.job.losses('narrow'), self.whole):
            self.assertAlmostEqual(loss, wide, delta=0.02 * wide, msg=f'step {step}')
        self.job.train('narrow_stopped', *on, '--steps', 10)
        self.job.train('narrow_stopped', *on, '--resume', 'auto')
        self.assertEqual(self.job.losses('narrow_stopped'), self.job.losses('narrow'))
        sizes = [(self.job.folder / run / 'checkpoints/step_00000020/optimizer.safetensors').stat().st_size
                 for run in ('narrow', 'whole')]
        self.assertLess(sizes[0], 0.6 * sizes[1])
        for name, other in ('narrow', on[:2]), ('narrow', ()), ('whole', on):
            self.job.train('from_' + name, *other, '--resume', f'{name}/checkpoints/step_00000010')
            for (step, loss, _), (_, wide, _) in zip(self.job.losses('from_' + name), self.whole[10:]):
                self.assertAlmostEqual(loss, wide, delta=0.02 * wide, msg=f'from {name}, step {step}')
            shutil.rmtree(self.job.folder / ('from_' + name))

    def test_16_bits_without_instructions_for_them_are_noticed_as_slow(self):
        os.environ['DNNL_MAX_CPU_ISA'] = os.environ['ONEDNN_MAX_CPU_ISA'] = 'AVX2'
        try:
            for dtype in 'bf16', 'fp16':
                said = self.job.train(dtype + '_widened', f'--{dtype}.enabled', 'true', '--steps', 2, workers=1)
                self.assertIn(f'multiplies {dtype} no faster than fp32: {dtype} saves memory here, but no time', said)
        finally:
            del os.environ['DNNL_MAX_CPU_ISA'], os.environ['ONEDNN_MAX_CPU_ISA']

    def test_fp16_skips_steps_that_overflow_and_lowers_its_scale(self):
        self.job.train('overflow', '--fp16.enabled', 'true', '--fp16.initial_scale_power', 31, '--fp16.hysteresis', 1)
        metrics = self.job.metrics('overflow')
        scales = [m['loss_scale'] for m in metrics]
        skipped = [m['step'] for m in metrics if m['grad_norm'] is None]
        self.assertEqual(skipped, list(range(1, len(skipped) + 1)))
        self.assertEqual(scales[:len(skipped) + 1], [2.0 ** (31 - i) for i in range(len(skipped) + 1)])
        self.assertGreater(len(skipped), 2)
        self.assertLess(metrics[-1]['loss'], metrics[0]['loss'])

    def test_the_target_loss_ends_a_run_early(self):
        self.job.train('target', '--training.target_loss', '5.0')
        self.assertLess(len(self.job.metrics('target')), STEPS)
        self.assertIn('target_loss', self.job.verdict('target')['reason'])

    def test_the_best_checkpoint_is_kept_if_a_run_stops_early(self):
        rising = ('--training.eval_interval', 1, '--checkpoint.save_interval', 0, '--optimizer.params.lr', 0.3,
                  '--scheduler', 'null', '--gradient_clipping', 0)
        self.job.train('patient', *rising, '--training.patience', 2)
        losses = {m['step']: m['eval_loss'] for m in self.job.metrics('patient')}
        best, last = min(losses, key=losses.get), max(losses)
        self.assertEqual(last, best + 2)
        self.assertEqual(self.job.checkpoints('patient'), [f'step_{best:08}', f'step_{last:08}'])
        model = lambda name: json.loads(self.job.call('generate', '--model', name, '--prompt', 'a', '--max_tokens', 1, '--json'))['model']
        self.assertEqual(model('patient@best'), f'patient/checkpoints/step_{best:08}')
        self.assertEqual(model('patient@latest'), f'patient/checkpoints/step_{last:08}')
        self.job.train('from_best', '--resume', 'patient@best', *rising, '--steps', best + 1)
        self.assertEqual(self.job.metrics('from_best')[0]['step'], best + 1)
        self.assertEqual(self.job.read_json('from_best', 'config.json')['checkpoint']['keep_best'], False)

    def test_an_existing_run_is_refused_and_so_is_one_in_use(self):
        self.assertIn('--resume auto', self.job.train('whole', exit_code=2))
        process = self.start_endless('busy', until_step=1)
        self.assertIn('in use', self.job.train('busy', '--resume', 'auto', exit_code=2))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=600)

    def test_resuming_in_an_empty_folder_starts_fresh_and_a_finished_run_stays_done(self):
        self.assertIn('no checkpoint in fresh: starting from step 0', self.job.train('fresh', '--resume', 'auto'))
        first = self.job.verdict('fresh')
        self.assertEqual(self.job.losses('fresh'), self.whole)
        self.assertIn(f'nothing to do: {STEPS} of {STEPS} steps', self.job.train('fresh', '--resume', 'auto'))
        again = self.job.verdict('fresh')
        for key in ('verdict', 'finished_steps', 'last_checkpoint', 'summary'):
            self.assertEqual(again[key], first[key], key)
        self.assertEqual(self.job.losses('fresh'), self.whole)

    def test_a_finished_run_can_be_prolonged_but_its_model_cannot_change(self):
        self.job.train('longer', '--steps', 10)
        self.job.train('longer', '--steps', STEPS, '--resume', 'auto')
        self.assertEqual(self.job.losses('longer'), self.whole)
        err = self.job.train('longer', '--resume', 'auto', '--training.seed', 8, exit_code=2)
        self.assertIn('training.seed', err)

    def test_a_resume_without_steps_to_make_leaves_the_run_unchanged(self):
        self.job.train('kept', '--steps', 10)
        files = lambda: {name: (self.job.folder / 'kept' / name).read_text() for name in ('config.json', 'run.json')}
        before = files()
        self.job.train('kept', '--resume', 'auto', '--optimizer.type', 'Lion', exit_code=2)
        self.assertEqual(files(), before)
        self.assertIn('nothing to do', self.job.train('kept', '--resume', 'auto', '--steps', 10))
        self.assertEqual(files()['config.json'], before['config.json'])
        said = self.job.train('kept', '--resume', 'auto', '--optimizer.params.lr', '1e-3', '--steps', 12)
        self.assertNotIn('Lion', said)
        self.assertIn('training.train_iters: 12, was 10', said)
        self.assertEqual(self.job.read_json('kept', 'config.json')['training']['train_iters'], 12)
        self.assertFalse((self.job.folder / 'kept/config.next.json').exists())

    def test_a_run_keeps_auto_in_its_config_and_its_batch_on_other_workers(self):
        auto = '--train_batch_size', 'auto', '--train_micro_batch_size_per_gpu', 'auto', '--optimizer.params.lr', 'auto'
        self.job.train('auto', *auto, '--steps', 4)
        config, resolved = (self.job.read_json('auto', name) for name in ('config.json', 'resolved.json'))
        self.assertEqual((config['train_batch_size'], config['train_micro_batch_size_per_gpu']), ('auto', 'auto'))
        self.assertEqual(config['optimizer']['params']['lr'], 'auto')
        self.assertNotIn('gradient_accumulation_steps', config)
        self.assertEqual((resolved['train_batch_size'], resolved['train_micro_batch_size_per_gpu']), (16, 8))
        said = self.job.call('--config', 'auto/config.json', '--run_dir', 'auto', '--resume', 'auto', '--steps', 6, '--num_workers', 1)
        self.assertIn('micro-batch 8 x accumulation 2 x 1 worker', said)
        self.assertIn('note: changed: training.train_iters: 6, was 4\n', said)  # the rest follows from the number of workers
        self.assertEqual([m['consumed_samples'] for m in self.job.metrics('auto')], [16 * (step + 1) for step in range(6)])
        self.assertNotIn('note:', said.split('resuming from')[0])
        self.job.call('--config', 'auto/config.json', '--run_dir', 'auto1', '--steps', 1, '--num_workers', 1)
        self.assertEqual(self.job.read_json('auto1', 'resolved.json')['train_batch_size'], 8)
        said = self.job.train('auto', '--resume', 'auto', '--train_batch_size', 8, exit_code=2)
        self.assertIn('train_batch_size: 8, was 16', said)

    def test_the_schema_takes_what_a_run_writes_and_refuses_typos(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest('jsonschema is not installed')
        validator = jsonschema.Draft202012Validator(json.loads(self.job.call('config', 'schema')))
        for name in 'config.json', 'resolved.json':
            self.assertEqual([error.message for error in validator.iter_errors(self.job.read_json('whole', name))], [])
        for typo in ({'gradient_cliping': 1}, {'optimizer': {'params': {'l_r': 1}}}, {'scheduler': {'params': {'warmup': 1}}},
                     {'training': {'train_iter': 1}}, {'zero_optimization': {'offload_param': {'devise': 'cpu'}}}):
            self.assertFalse(validator.is_valid(typo), typo)

    def test_a_run_of_one_step_makes_one_step(self):
        self.assertIn('\n1 step done', self.job.train('one', '--steps', 1, workers=1))
        self.assertIn('nothing to do: 1 of 1 step done before',
                      self.job.train('one', '--steps', 1, '--resume', 'auto', workers=1))

    def test_a_run_that_never_made_a_step_starts_again(self):
        shutil.copytree(self.job.folder / 'whole/checkpoints/step_00000010', self.job.folder / 'broken')
        (self.job.folder / 'broken/model.safetensors').write_bytes(b'')
        for _ in range(2):
            self.assertNotIn('resume with', self.job.train('anew', '--resume', 'broken', exit_code=4, workers=1))
        self.job.train('anew')
        self.assertEqual(self.job.losses('anew'), self.whole)

    def test_a_checkpoint_of_another_run_starts_a_run_folder_of_its_own(self):
        self.job.train('branch', '--resume', 'whole/checkpoints/step_00000010')
        self.assertEqual(self.job.losses('branch'), self.whole[10:])
        self.assertEqual(self.job.verdict('branch')['start_step'], 10)

    def test_the_weights_of_a_run_start_another(self):
        self.job.train('tuned', '--model.init', 'whole', '--steps', 1)
        self.assertLess(self.job.losses('tuned')[0][1], self.whole[4][1])
        self.assertEqual(self.job.read_json('tuned', 'config.json')['model']['init'],
                         'whole/checkpoints/step_00000020')

    def test_a_moving_average_is_resumed_to_the_bit_and_generates(self):
        newest = 'checkpoints/step_00000020'
        averages = {}
        for run, *resume in ('average',), ('resumed', '--resume', 'average/checkpoints/step_00000010'):
            self.job.train(run, '--training.ema_decay', '0.9', '--optimizer.type', 'Lion', *resume)
            averages[run] = (self.job.folder / run / newest / 'ema.safetensors').read_bytes()
        self.assertEqual(averages['average'], averages['resumed'])
        text = [self.job.call('generate', '--model', 'average', '--prompt', 'a', *flags) for flags in ([], ['--ema'])]
        self.assertNotEqual(*text)
        started = self.job.train('started', '--training.ema_decay', '0.9', '--resume', 'whole/checkpoints/step_00000015')
        self.assertIn('has no moving average', started)
        self.assertEqual(self.job.losses('started'), self.whole[15:])
        self.assertIn('has no moving average', self.job.call('generate', '--model', 'whole', '--prompt', 'a', '--ema',
                                                             exit_code=2))

    def test_a_run_cannot_resume_with_another_optimizer(self):
        out = self.job.train('other', '--resume', 'whole/checkpoints/step_00000015', '--optimizer.type', 'Adagrad',
                             exit_code=2)
        self.assertIn("its state is exp_avg, exp_avg_sq, this run's is sum", out)

    def test_elapsed_time_continues_after_a_resume(self):
        self.job.train('elapsed', '--steps', 4)
        self.job.train('elapsed', '--steps', 6, '--resume', 'auto')
        elapsed = [m['elapsed_s'] for m in self.job.metrics('elapsed')]
        self.assertEqual(len(elapsed), 6)
        self.assertEqual(elapsed, sorted(set(elapsed)))
        self.assertGreater(elapsed[0], 0)

    def test_the_run_folder_keeps_what_the_console_showed(self):
        first = self.job.train('logged', '--steps', 2)
        second = self.job.train('logged', '--steps', 3, '--resume', 'auto')
        log = (self.job.folder / 'logged/logs/console.log').read_text()
        for shown in first, second:
            self.assertIn(shown, log)
        self.assertEqual(len(re.findall(r'^20\S+Z \S*hgtrain --config config.json ', log, re.M)), 2)
        failed = self.job.train('logged', '--optimizer.type', 'Adagrad', '--resume', 'auto', exit_code=2)
        self.assertTrue((self.job.folder / 'logged/logs/console.log').read_text().endswith(failed[failed.index('model '):]))

    def test_a_run_cannot_end_before_the_step_it_is_at(self):
        shutil.copytree(self.job.folder / 'whole', self.job.folder / 'ahead')
        before = self.job.verdict('ahead')
        for flags in (('--steps', STEPS - 1), ('--training.train_iters', STEPS - 1)):
            out = self.job.train('ahead', '--resume', 'auto', *flags, exit_code=2)
            self.assertIn(f'the run has already made {STEPS} steps, more than the {STEPS - 1} asked for', out)
            self.assertIn(f'give more than {STEPS}', out)
            self.assertNotIn('rank', out)  # the launcher's own word, before a worker starts
        checkpoint = f'ahead/checkpoints/step_{STEPS:08}'
        self.assertIn('more than the 1 asked for', self.job.train('elsewhere', '--resume', checkpoint, '--steps', 1, exit_code=2))
        self.assertFalse((self.job.folder / 'elsewhere').exists())
        self.assertEqual(self.job.verdict('ahead')['finished_steps'], before['finished_steps'])
        self.assertIn('nothing to do', self.job.train('ahead', '--resume', 'auto'))

    def test_a_run_s_config_without_its_run_folder_is_refused_with_the_command_that_resumes_it(self):
        said = self.job.call('--config', 'whole/config.json', '--resume', 'auto', exit_code=2)
        self.assertIn("whole/config.json is a run's own config, and no --run_dir says which run to resume", said)
        self.assertIn('to resume that run: --run_dir whole', said)
        for flag in '--resume', '--run_dir':
            said = self.job.call('train', flag, 'whole', exit_code=2)
            self.assertIn('to resume this run: hgtrain --config whole/config.json --run_dir whole --resume auto', said)

    def test_a_checkpoint_without_manifest_is_skipped_with_a_notice(self):
        shutil.copytree(self.job.folder / 'whole', self.job.folder / 'partial')
        (self.job.folder / f'partial/checkpoints/step_{STEPS:08}/manifest.json').unlink()
        out = self.job.train('partial', '--resume', 'auto')
        self.assertIn(f'partial/checkpoints/step_{STEPS:08} is skipped: it has no manifest.json', out)
        self.assertIn(f'resuming from step {STEPS - 5}', out)
        self.assertNotIn('is skipped', self.job.train('partial', '--resume', 'auto'))
        self.assertEqual(self.job.losses('partial'), self.whole)

    def test_a_run_whose_checkpoints_all_lack_their_manifest_does_not_begin_again(self):
        shutil.copytree(self.job.folder / 'whole', self.job.folder / 'lost')
        checkpoints = sorted((self.job.folder / 'lost/checkpoints').glob('step_*'))
        manifests = {folder / 'manifest.json': (folder / 'manifest.json').read_bytes() for folder in checkpoints}
        for manifest in manifests:
            manifest.unlink()
        before = self.job.losses('lost')
        for _ in range(2):
            out = self.job.train('lost', '--resume', 'auto', '--steps', STEPS + 1, '--checkpoint.keep_last_n', 1, exit_code=4)
            self.assertIn(f'lost/checkpoints/step_{STEPS:08} has no manifest.json, nor has any of the older ones', out)
            self.assertIn('hint: copy the missing files back, or start a new run, with another --run_dir', out)
            (self.job.folder / 'lost/metrics.jsonl').rename(self.job.folder / 'lost/metrics')
            self.assertIn('--resume auto', self.job.train('lost', exit_code=2))  # it still holds a run
            (self.job.folder / 'lost/metrics').rename(self.job.folder / 'lost/metrics.jsonl')
        self.assertEqual(sorted((self.job.folder / 'lost/checkpoints').glob('step_*')), checkpoints)
        (self.job.folder / 'lost/checkpoints').rename(self.job.folder / 'moved')
        out = self.job.train('lost', '--resume', 'auto', exit_code=4)
        self.assertIn('lost has made steps, but lost/checkpoints has no checkpoint any more', out)
        self.assertEqual(self.job.losses('lost'), before)
        (self.job.folder / 'moved').rename(self.job.folder / 'lost/checkpoints')
        for manifest, content in manifests.items():
            manifest.write_bytes(content)
        self.job.train('lost', '--resume', 'auto')
        self.assertEqual(self.job.losses('lost'), before)

    def test_changes_are_reported_by_a_job_that_makes_steps(self):
        shutil.copytree(self.job.folder / 'whole', self.job.folder / 'changed')
        resumed = 'changed', '--resume', 'auto', '--optimizer.params.lr', 1e-4
        notice = 'note: changed: optimizer.params.lr: 0.0001, was 0.003'
        self.assertNotIn(notice, self.job.train(*resumed))
        self.assertIn(notice, self.job.train(*resumed, '--steps', STEPS + 1))

    def test_files_of_a_run_say_how_many_workers_shared_the_data(self):
        checkpoint = self.job.read_json(f'whole/checkpoints/step_{STEPS:08}', 'manifest.json')
        self.assertEqual(checkpoint['layout']['data_parallel_size'], 2)
        self.assertEqual(self.job.read_json('whole', 'resolved.json')['parallelism']['data_parallel_size'], 2)
        self.assertEqual(self.job.read_json('whole', 'config.json')['parallelism']['data_parallel_size'], 0)

    def test_damaged_metrics_are_kept_aside(self):
        shutil.copytree(self.job.folder / 'whole', self.job.folder / 'history')
        path = self.job.folder / 'history/metrics.jsonl'
        lines = path.read_text().splitlines(keepends=True)
        lines[2] = lines[2][:40] + '\0' * 20 + '\n'
        damaged = ''.join(lines)
        path.write_text(damaged)
        out = self.job.train('history', '--resume', 'auto', '--steps', STEPS + 1)
        self.assertIn('history/metrics.jsonl: line 3 is not the record of a step; the file is kept as history/metrics.damaged.jsonl', out)
        self.assertEqual((self.job.folder / 'history/metrics.damaged.jsonl').read_text(), damaged)
        self.assertEqual([m['step'] for m in self.job.metrics('history')], [1, 2, *range(4, STEPS + 2)])

    def test_a_run_that_does_not_fit_into_memory_is_refused_before_it_starts(self):
        huge = '--model.n_embd', 65536, '--model.n_layer', 96
        for flags in ((), ('--dry_run',)):
            out = self.job.train('huge', *huge, *flags, exit_code=3)
            self.assertIn('the job does not fit this machine: it takes ', out)
            self.assertIn('no setting makes it fit', out)
            self.assertEqual('fits here   no: ' in out, bool(flags))
        self.assertFalse((self.job.folder / 'huge').exists())
        card = '--dry_run', '--gpu', 'rtx4090', '--model.n_embd', 4096, '--model.n_head', 64, '--model.n_layer', 6
        config = '--config', 'config.json', '--training.seq_length', 4096, '--model.n_positions', 4096, '--train_micro_batch_size_per_gpu', 8
        self.assertIn('activation_checkpointing.mode = "full"', self.job.call(*config, *card, exit_code=3))
        on = '--activation_checkpointing.mode', 'full'
        self.assertNotIn('activation_checkpointing.mode = "full"', self.job.call(*config, *card, *on, exit_code=3))
        fits = self.job.call('--config', 'config.json', '--dry_run', '--gpu', 'rtx4090')
        self.assertIn('\nfits rtx4090 yes', fits)
        self.assertTrue(fits.splitlines()[-1].startswith('fits '))
        self.assertIn('compute capability 6.1', self.job.call('--config', 'config.json', '--dry_run', '--gpu', 'gtx1080', exit_code=3))

    def test_a_dry_run_prints_the_plan_and_makes_nothing(self):
        out = self.job.train('dry', '--dry_run')
        for words in ('transformer.wte.weight', 'train_batch_size', 'parameters', 'exp_avg', 'run folder  dry'):
            self.assertIn(words, out)
        self.assertLess(out.index('a worker: parameters'), out.index('transformer.wte.weight'))  # the answer first
        self.assertRegex(out, r'transformer\.h\.0\.\.\.1\.ln_1\.weight +64 2 of 32\n')
        self.assertIn('training    bf16, AdamW, recompute full, ema 0.9\n',
                      self.job.train('dry', '--dry_run', '--scheduler', 'null', '--bf16.enabled', 'true',
                                     '--activation_checkpointing.mode', 'full', '--training.ema_decay', '0.9'))
        self.assertIn('training    bf16, no fp32 masters, bf16 state, AdamW\n',
                      self.job.train('dry', '--dry_run', '--scheduler', 'null', '--bf16.enabled', 'true',
                                     '--bf16.bf16_master_weights_and_grads', 'true', '--bf16.bf16_optimizer_states', 'true'))
        both = '--bf16.enabled', 'auto', '--fp16.enabled', 'auto'
        for gpu, precision in ('h100', 'bf16'), ('t4', 'fp16'), ('24GB', 'bf16'):
            self.assertIn(f'training    {precision}, ', self.job.call('--config', 'config.json', '--dry_run', '--gpu', gpu, *both))
        self.assertIn('training    fp32, ', self.job.train('dry', '--dry_run', *both))
        self.assertIn('compute capability 8.0, and this is one of 7.5',
                      self.job.call('--config', 'config.json', '--dry_run', '--gpu', 't4', '--bf16.enabled', 'true', exit_code=2))
        self.assertIn('model.n_embd = 4104 exceeds 4096, the most that the GPU kernels support in fp32',
                      self.job.call('--config', 'config.json', '--dry_run', '--gpu', 'h100', '--model.n_embd', 4104, exit_code=2))
        self.assertIn('model.head_dim = 512 exceeds 256, the most that the GPU kernels support',
                      self.job.call('--config', 'config.json', '--dry_run', '--gpu', 'h100', '--model.n_embd', 1024,
                                    '--model.n_head', 2, exit_code=2))
        for flags, said in ((('--num_workers', 1, '--hardware.device', 'cuda'), 'starts CPU workers, but the device is cuda'),
                            (('--num_gpus', 1, '--hardware.device', 'cpu'), '--num_gpus cannot be combined with --device cpu'),
                            (('--checkpoint.copy_to', 'runs/config/copy'), 'copy_to runs/config/copy lies in the run folder'),
                            (('--checkpoint.copy_to', 'config.json/copy'), 'config.json is not a folder')):
            self.assertIn(said, self.job.call('--config', 'config.json', '--dry_run', *flags, exit_code=2))
        on_gpus = self.job.call('--config', 'config.json', '--num_gpus', 2, '--dry_run')
        self.assertIn('2 x 1 thread on cuda', on_gpus)
        self.assertRegex(on_gpus, r'\nhost memory [0-9]+ KiB per worker, for a save\n')
        self.assertNotIn('\nlogits ', on_gpus)
        self.assertRegex(self.job.call('--config', 'config.json', '--dry_run', '--gpu', 'h100'),
                         r'\nlogits      [0-9]+ rows of 384 at a time, 1 time a micro-batch; each time reads and writes the output matrix\'s gradient of ')
        self.assertIn('\nfits        not checked: name the GPU, as in --gpu h100 or --gpu 24GB\n', on_gpus)
        self.assertFalse((self.job.folder / 'dry').exists())

    def test_a_run_that_is_stopped_is_saved_though_its_copy_is_not(self):
        process = self.start_endless('uncopied', '--checkpoint.copy_to', 'copy', until_step=10)
        job.wait_for(lambda: (self.job.folder / 'copy/checkpoints/latest').exists(), process)
        (self.job.folder / 'copy/checkpoints').rename(self.job.folder / 'moved_copy')
        (self.job.folder / 'copy/checkpoints').write_text('in the way')
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, err)
        self.assertIn('the run is saved in uncopied, but its copy in copy is not complete: ', err)

    def test_a_dry_run_says_whether_it_looked_at_the_data(self):
        self.assertNotIn('\ndata ', self.job.train('dry', '--dry_run'))
        self.assertIn('\ndata        not looked at, because model.vocab_size is given; training may still refuse it',
                      self.job.train('dry', '--dry_run', '--model.vocab_size', 100))

    def test_wrong_options_are_refused_with_their_own_exit_codes(self):
        call = self.job.call
        self.assertIn('needs workers on GPUs', self.job.train('nccl', '--distributed.backend', 'nccl', exit_code=2))
        self.assertFalse((self.job.folder / 'nccl').exists())
        self.assertIn('--num_workers', call('--config', 'config.json', '--device', 'cpu', '--num_gpus', 2, exit_code=2))
        call('--config', 'config.json', '--num_workers', 0, '--device', 'cpu', exit_code=2)
        batch = call('--config', 'config.json', '--num_workers', 2, '--gradient_accumulation_steps', 3, exit_code=2)
        self.assertIn('6 = 1 * 3 * 2', batch)
        self.assertNotIn('not known yet', batch)
        self.assertIn('--num_workers', call('--config', 'config.json', '--num_gpus', 64, '--train_batch_size', 64, exit_code=3))
        for steps in (0, -3, '1e3', ''):
            self.assertIn('--steps', call('--config', 'config.json', '--steps', steps, exit_code=2))
        self.assertIn('1024', call('--config', 'config.json', '--num_workers', 100_000, exit_code=2))
        (self.job.folder / 'file').write_text('')
        self.assertIn('--run_dir', self.job.train('file/run', exit_code=2))
        self.assertIn('nowhere', self.job.train('nodata', '--data.train_data_path', 'nowhere', exit_code=2))
        self.assertIn('no checkpoint folder nowhere', self.job.train('nodata', '--resume', 'nowhere', exit_code=2))
        (self.job.folder / 'bare').mkdir()
        self.assertIn('bare is no checkpoint: it has no manifest.json', self.job.train('nodata', '--resume', 'bare', exit_code=2))
        self.assertIn('contradict each other',
                      self.job.train('nodata', '--steps', 3, '--training.train_iters', 4, exit_code=2))
        self.assertIn('--steps is larger than', self.job.train('nodata', '--steps', '9' * 20, exit_code=2))
        for flag in '--run_dir', '--gpu':
            self.assertIn(f'{flag} needs a value', self.job.call('--config', 'config.json', flag, '', '--dry_run', exit_code=2))
        said = self.job.train('wide', '--model.vocab_size', 50257, '--steps', 1)
        self.assertIn("model.vocab_size = 50257, but the data's tokenizer has only 257 tokens", said)
        self.assertFalse((self.job.folder / 'nodata').exists())


if __name__ == '__main__':
    unittest.main(verbosity=2)
