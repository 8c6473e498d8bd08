#!/usr/bin/env python3
"""Training on a CUDA device with the built program: its loss curves equal the CPU's. In the suite the device is an emulation
(tests/emulation), of which a driver (tests/launch) says that there are FAKE_GPUS; scripts/gpu-check has a real one.
usage: [HGTRAIN_STEPS=N] cuda_test.py HGTRAIN"""
import itertools
import json
import os
import pathlib
import re
import shutil
import unittest

import job
from run_folder import RunFolder

SENT = ['--communication_data_type', 'bf16']
EMULATED = 'FAKE_GPUS' in os.environ

CONFIG = {
    'train_batch_size': 2,
    'train_micro_batch_size_per_gpu': 1,
    'gradient_clipping': 1.0,
    'optimizer': {'type': 'AdamW', 'params': {'lr': 1e-2, 'weight_decay': 0.1}},
    'training': {'train_iters': int(os.environ.get('HGTRAIN_STEPS', 4)), 'seq_length': 4, 'eval_interval': 2, 'eval_iters': 1},
    'data': {'train_data_path': 'data', 'valid_fraction': 0.1},
    'checkpoint': {'save_interval': 2},
    'hardware': {'threads': 1},
}
MODELS = {
    'gpt2': {'model_type': 'gpt2', 'n_embd': 16, 'n_layer': 1, 'n_head': 2, 'n_positions': 16},
    'llama': {'model_type': 'llama', 'hidden_size': 16, 'intermediate_size': 24, 'num_hidden_layers': 1,
              'num_attention_heads': 4, 'num_key_value_heads': 2, 'max_position_embeddings': 16},
}
# Its blocks are large enough to be cut. At this learning rate, rounding errors stay small for many steps.
OPTIMIZER = '--zero_optimization.offload_optimizer.device', 'cpu'
WEIGHTS = '--zero_optimization.offload_param.device', 'cpu'
WIDE = '--model.n_layer', 2, '--model.n_embd', 40, '--optimizer.params.lr', 1e-3


class CudaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = RunFolder()
        cls.addClassCleanup(cls.temporary.cleanup)
        if EMULATED:  # beside the built programs may lie a module of real CUDA, which they would take
            os.environ['XDG_CACHE_HOME'] = cls.temporary.name
            programs = pathlib.Path(cls.temporary.name) / 'programs'
            programs.mkdir()
            for name in 'hgtrain', 'hgtrain-worker':
                shutil.copy(job.PROGRAM.parent / name, programs)
            job.PROGRAM = programs / 'hgtrain'
        cls.job = job.Job(cls.temporary.name)
        for name, model in MODELS.items():
            (cls.job.folder / f'{name}.json').write_text(json.dumps({**CONFIG, 'model': model}))

    def train(self, run, device, *args, config='gpt2', exit_code=0):
        self.job.call('--config', f'{config}.json', '--run_dir', run, '--device', device, *args, exit_code=exit_code)
        return [(m['step'], m['loss'], m['grad_norm'], m.get('eval_loss')) for m in self.job.metrics(run)]

    def assert_close(self, ours, cpus, tolerance=1e-4, name=''):
        self.assertEqual(len(ours), len(cpus))
        for one, other in zip(ours, cpus):
            for a, b in zip(one, other):
                self.assertTrue(a == b or abs(a - b) <= tolerance * abs(b), (name, ours, cpus))

    def test_curves_equal_the_cpus_and_repeat_bit_for_bit(self):
        for name in MODELS:
            first = self.train(f'{name}.cuda', 'cuda', config=name)
            self.assert_close(first, self.train(f'{name}.cpu', 'cpu', config=name))
            self.assertLess(first[-1][1], first[0][1])
        self.assertEqual(self.train('again', 'cuda', config=name), first)

    def test_graphs_change_nothing(self):
        self.assertEqual(self.train('plain', 'cuda', '--hardware.cuda_graphs', 'false'), self.train('graphs', 'cuda'))
        for run, device in ('plain', 'cuda'), ('graphs', 'cuda by graphs'):
            self.assertIn(f', {device}, ', (self.job.folder / run / 'logs/rank_0.log').read_text())

    def test_graphs_change_nothing_of_splits_within_a_layer(self):
        if EMULATED:
            os.environ['NVTX_INJECTION64_PATH'] = 'a profiler'  # it is shown what the host queues kernel by kernel
            self.addCleanup(os.environ.pop, 'NVTX_INJECTION64_PATH')
        tensor = '--parallelism.tensor_parallel_size', 2, '--model.resid_pdrop', 0.1
        for name, flags in (('tensor', tensor), ('rows', (*tensor, '--parallelism.sequence_parallel', 'true')),
                            ('context', ('--parallelism.context_parallel_size', 2)),
                            ('host', (*tensor, '--distributed.backend', 'gloo'))):
            flags = '--num_gpus', 2, '--hardware.oversubscribe', 'true', '--train_batch_size', 4, *flags
            graphs = self.train(f'{name}.graphs', 'cuda', *flags)
            plain = self.train(f'{name}.plain', 'cuda', *flags, '--hardware.cuda_graphs', 'false')
            self.assertEqual(graphs, plain, name)
            if EMULATED:
                queued = {run: (self.job.folder / f'{name}.{run}/logs/rank_1.log').read_text().count('range attention_bwd\n')
                          for run in ('graphs', 'plain')}
                alone = 1  # before the ranks connect
                captured = 1  # in the first step
                self.assertEqual(queued, {'graphs': alone + 4 + captured, 'plain': alone + 4 * CONFIG['training']['train_iters']}, name)

    def test_curves_in_16_bits_are_close_to_the_cpus(self):
        for name, kind in itertools.product(MODELS, ('bf16', 'fp16')):
            curves = [self.train(f'{name}.{kind}.{device}', device, f'--{kind}.enabled', 'true', config=name)
                      for device in ('cuda', 'cpu')]
            for (_, loss, *_), (step, cpus, *_) in zip(*curves):
                self.assertAlmostEqual(loss, cpus, delta=0.01 * cpus, msg=f'{name}, {kind}, step {step}')

    def test_a_run_without_fp32_masters_resumes_from_gpu_to_cpu(self):
        narrow = '--bf16.enabled', 'true', '--bf16.bf16_master_weights_and_grads', 'true', '--bf16.bf16_optimizer_states', 'true'
        cuda, cpu = (self.train(f'narrow.{device}', device, *narrow) for device in ('cuda', 'cpu'))
        self.train('narrow.moved', 'cuda', '--steps', 1, *narrow)
        moved = self.train('narrow.moved', 'cpu', '--resume', 'auto', *narrow)
        for curve in cuda, moved:
            for (_, loss, *_), (step, cpus, *_) in zip(curve, cpu):
                self.assertAlmostEqual(loss, cpus, delta=0.01 * cpus, msg=f'step {step}')

    def test_runs_resume_from_the_cpu_on_a_gpu_and_back(self):
        whole = self.train('whole', 'cpu')
        self.train('moved', 'cpu', '--steps', 1)
        self.train('moved', 'cuda', '--steps', 3, '--resume', 'auto')
        moved = self.train('moved', 'cpu', '--resume', 'auto')
        self.assert_close([m[:3] for m in moved], [m[:3] for m in whole])

    def test_a_vocabulary_that_is_padded_in_memory_is_so_in_no_file(self):
        odd = '--model.vocab_size', 301
        whole = self.train('odd.cpu', 'cpu', *odd)
        self.assert_close(self.train('odd.cuda', 'cuda', *odd), whole)
        self.train('odd.moved', 'cuda', '--steps', 2, *odd)
        moved = self.train('odd.moved', 'cpu', '--resume', 'auto', *odd)
        self.assert_close([m[:3] for m in moved], [m[:3] for m in whole])

    def test_auto_uses_the_gpu_if_there_is_one(self):
        self.train('auto', 'auto', '--steps', 1)
        self.assertIn(', cuda by graphs, ', (self.job.folder / 'auto/logs/rank_0.log').read_text())

    def test_attention_is_cudnns_if_it_is_installed_and_not_switched_off(self):
        said = r'(?m) attention backend: (cuDNN \d|own kernels \(no cuDNN: .*%s)' % ('' if EMULATED else 'too old')
        for run, flags in ('asked', []), ('not_asked', ['--hardware.cudnn', 'false']):
            self.train(run, 'cuda', '--steps', 1, '--bf16.enabled', 'true', '--model.attn_pdrop', 0, *flags)
            log = (self.job.folder / run / 'logs/rank_0.log').read_text()
            self.assertRegex(log, ' attention backend: own kernels .hardware.cudnn is false' if flags else said)
            self.assertNotIn('without cuDNN', log)  # of one shape

    @unittest.skipUnless(EMULATED, 'hides the GPU')
    def test_auto_uses_the_cpu_if_there_is_no_gpu(self):
        os.environ['FAKE_GPUS'] = '0'
        self.addCleanup(os.environ.__setitem__, 'FAKE_GPUS', '1')
        self.train('none', 'auto', '--steps', 1)
        self.assertIn(', cpu, ', (self.job.folder / 'none/logs/rank_0.log').read_text())
        os.environ['FAKE_GPUS'] = '-1'  # a driver that does not answer
        said = self.job.call('--config', 'gpt2.json', '--run_dir', 'failed', '--steps', 1)
        self.assertIn('training on the CPU: ', said)

    @unittest.skipUnless(EMULATED, 'pretends that there are more')
    def test_a_worker_without_a_gpu_of_its_own_says_so(self):
        os.environ['FAKE_GPUS'] = '2'  # more than the emulation has
        self.addCleanup(os.environ.__setitem__, 'FAKE_GPUS', '1')
        said = self.job.call('--config', 'gpt2.json', '--run_dir', 'two', '--num_gpus', 2, exit_code=3)
        self.assertIn('worker 1 of this machine has no GPU of its own', said)

    def test_two_ranks_on_one_gpu_equal_one_rank(self):
        two = self.train('shared', 'cuda', '--num_gpus', 2, '--hardware.oversubscribe', 'true')
        self.assert_close(two, self.train('alone', 'cpu'))
        logs = [(self.job.folder / f'shared/logs/rank_{rank}.log').read_text() for rank in range(2)]
        for log in logs:
            self.assertIn('communication backend: NCCL', log)
            self.assertIn("matrix products: cuBLAS's first algorithms", log)

    def train_sharded(self, stage, run, *args, **options):
        """Trains in units of one block."""
        return self.train(run, 'cuda', '--num_gpus', 2, '--hardware.oversubscribe', 'true', *WIDE, '--zero_optimization.stage', stage,
                          '--zero_optimization.reduce_bucket_size', 1, *args, **options)

    def test_every_stage_of_zero_equals_stage_0(self):
        for name, flags in (('fp32', []), ('sent', SENT), ('offloaded', [*SENT, '--zero_optimization.offload_optimizer.device', 'cpu']),
                            ('lamb', ['--optimizer.type', 'Lamb', '--training.eval_interval', 0]),
                            ('bf16', ['--bf16.enabled', 'true', '--training.ema_decay', 0.9, '--hardware.cuda_graphs', 'false'])):
            whole = self.train_sharded(0, f'{name}0', *flags)
            for stage in 1, 2, 3:
                sharded = self.train_sharded(stage, f'{name}{stage}', *flags)
                if EMULATED:  # real NCCL may add in another order
                    self.assertEqual(sharded, whole, f'{name}, stage {stage}')
                else:
                    self.assert_close(sharded, whole, name=f'{name}, stage {stage}')

    def test_zero_with_accumulation_equals_one_rank_with_and_without_graphs(self):
        one = self.train('accumulated', 'cpu', '--train_batch_size', 6, *WIDE)
        for stage in 1, 2, 3:
            two = self.train_sharded(stage, f'accumulated{stage}', '--train_batch_size', 6)
            self.assert_close(two, one)
        plain = self.train_sharded(stage, 'accumulated.plain', '--train_batch_size', 6, '--hardware.cuda_graphs', 'false')
        self.assertEqual(plain, two)

    def test_checkpoints_of_zero_resume_at_another_stage(self):
        whole = self.train_sharded(0, 'unbroken')
        for before, after in (1, 3), (3, 2), (2, 0):
            self.train_sharded(before, f'from{before}', '--steps', 2)
            self.assert_close(self.train_sharded(after, f'from{before}', '--resume', 'auto'), whole)

    def test_offloading_changes_no_more_than_the_cpus_rounding(self):
        # An update that differs by a rounding may round a weight to another bf16.
        for name, stages, tolerance, flags in (('fp32', (0, 1, 2, 3), 1e-4, ()),
                                               ('bf16', (1, 3), 1e-2, ('--bf16.enabled', 'true', '--training.ema_decay', 0.9)),
                                               ('lamb', (2, 3), 1e-4, ('--optimizer.type', 'Lamb'))):
            flags = '--train_batch_size', 4, *flags
            for stage in stages:
                kinds = [OPTIMIZER, OPTIMIZER + WEIGHTS, WEIGHTS] if stage == 3 else [OPTIMIZER]
                there = self.train_sharded(stage, f'{name}.{stage}.there', *flags)
                for number, kind in enumerate(kinds):
                    moved = self.train_sharded(stage, f'{name}.{stage}.moved.{number}', *flags, *kind)
                    self.assert_close(moved, there, tolerance, f'{name}, stage {stage}, {kind}')
        self.assertEqual(self.train_sharded(3, 'moved.again', *flags, *WEIGHTS), moved)

    def test_runs_resume_where_they_offload_and_where_they_do_not(self):
        whole = self.train_sharded(2, 'offloaded.unbroken')
        for before, after in ((2, OPTIMIZER), (3, ())), ((3, ()), (3, OPTIMIZER + WEIGHTS)), ((3, WEIGHTS), (0, OPTIMIZER)):
            run = f'offloaded.{before[0]}.{after[0]}'
            self.train_sharded(before[0], run, '--steps', 2, *before[1])
            self.assert_close(self.train_sharded(after[0], run, '--resume', 'auto', *after[1]), whole)

    def test_offloading_works_over_gloo(self):
        there = self.train_sharded(3, 'gloo.there', '--distributed.backend', 'gloo')
        moved = self.train_sharded(3, 'gloo.moved', '--distributed.backend', 'gloo', *OPTIMIZER, *WEIGHTS)
        self.assert_close(moved, there)

    def test_every_stage_of_zero_names_the_bad_tensor(self):
        said = []
        for stage in 0, 1, 2, 3:
            run = f'bad{stage}'
            self.job.call('--config', 'llama.json', '--run_dir', run, '--num_gpus', 2, '--hardware.oversubscribe', 'true',
                          '--zero_optimization.stage', stage, '--model.tie_word_embeddings', 'false',
                          '--optimizer.params.lr', 1e30, '--training.eval_interval', 0, '--checkpoint.save_interval', 4, exit_code=5)
            said.append(self.job.verdict(run)['failure']['message'])
        self.assertRegex(said[0], 'the first tensor that is not finite is the gradient of model.embed_tokens.weight: element [1-9]')
        self.assertEqual(said, said[:1] * 4)

    def test_tensor_ranks_on_one_gpu_equal_one_rank(self):
        for model, flags in ('gpt2', ()), ('llama', ('--optimizer.type', 'Lamb')):
            one = self.train(f'{model}.tensor.one', 'cpu', *flags, config=model)
            for splits in 'false', 'true':
                two = self.train(f'{model}.tensor.{splits}', 'cuda', '--num_gpus', 2, '--hardware.oversubscribe', 'true', *flags,
                                 '--parallelism.tensor_parallel_size', 2, '--parallelism.sequence_parallel', splits, config=model)
                self.assert_close(two, one)

    @unittest.skipUnless(EMULATED, 'needs two GPUs')
    def test_ranks_choose_how_to_compute_products_before_they_connect(self):
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(FAKE_GPUS='2', HGTRAIN_EMULATION_DEVICES='2', HGTRAIN_EMULATION_SHOW_PRODUCTS='')
        splits = {'data': ('--activation_checkpointing.mode', 'selective', '--activation_checkpointing.num_layers', 1),
                  'tensor': ('--parallelism.tensor_parallel_size', 2, '--parallelism.sequence_parallel', 'true'),
                  'context': ('--parallelism.context_parallel_size', 2), 'weights': ('--zero_optimization.stage', 3)}
        for name, flags in splits.items():
            os.environ['XDG_CACHE_HOME'] = str(self.job.folder / f'chosen.{name}')  # nothing was chosen before
            self.train(f'chosen.{name}', 'cuda', '--num_gpus', 2, '--steps', 2, '--model.n_layer', 3, '--training.seq_length', 16, *flags)
            first, second = ((self.job.folder / f'chosen.{name}/logs/rank_{rank}.log').read_text() for rank in range(2))
            chosen = re.search(r' matrix products: chose how to compute (\d+) in [\d.]+ s, \d+ of them with kernels .*?\n.* communication backend: ', first, re.S)
            self.assertIn(f' matrix products: {chosen[1]} computed as rank 0 chose, which has the same kind of GPU\n', second)
            self.assertIn('emulation: asked for', first)
            for log in first, second:
                later = re.findall(r'emulation: asked for the algorithms of (.*)', log.split(' communication backend: ')[1])
                # Those that measure the device are square.
                of_steps = [shape for shape in later if not re.fullmatch(r'(\d{3,}) x \1 x \1', shape)]
                self.assertEqual(of_steps, [], f'{name}: not all products were chosen before the first step')

    def test_context_ranks_on_one_gpu_equal_one_rank(self):
        for model, flags in ('gpt2', ()), ('llama', ('--activation_checkpointing.mode', 'full')):
            two = self.train(f'{model}.context', 'cuda', '--num_gpus', 2, '--hardware.oversubscribe', 'true', *flags,
                             '--parallelism.context_parallel_size', 2, config=model)
            self.assert_close(two, self.train(f'{model}.context.one', 'cpu', *flags, config=model))

    def test_a_pipeline_of_two_ranks_on_one_gpu_equals_one_rank(self):
        for model in 'gpt2', 'llama':
            flags = ('--train_batch_size', 6, '--train_micro_batch_size_per_gpu', 1)
            one = self.train(f'{model}.whole', 'cuda', *flags, config=model)
            for schedule in '1f1b', 'zb_h1':
                two = self.train(f'{model}.{schedule}', 'cuda', '--num_gpus', 2, '--hardware.oversubscribe', 'true', *flags,
                                 '--parallelism.pipeline_parallel_size', 2, '--parallelism.pipeline_layer_split', '[0, 1]',
                                 '--parallelism.pipeline_schedule', schedule, config=model)
                self.assert_close(two, one)

    def train_pipeline(self, run, ranks, *flags):
        return self.train(run, 'cuda', '--num_gpus', ranks, '--hardware.oversubscribe', 'true', '--parallelism.pipeline_parallel_size', 2, *flags)

    def check_interleaved(self, tied):
        flags = ('--train_batch_size', 6, '--model.n_layer', 4, '--model.tie_word_embeddings', tied)
        one = self.train(f'interleaved.{tied}.one', 'cpu', *flags)
        for parts in 2, 3:
            two = self.train_pipeline(f'interleaved.{tied}.{parts}', 2, *flags, '--parallelism.pipeline_schedule', 'interleaved',
                                      '--parallelism.virtual_pipeline_stages', parts)
            self.assert_close(two, one)

    def test_an_interleaved_pipeline_on_one_gpu_equals_one_rank(self):
        self.check_interleaved('false')

    def test_an_interleaved_pipeline_with_tied_embeddings_on_one_gpu_equals_one_rank(self):
        self.check_interleaved('true')

    def test_interleaved_pipelines_sum_16_bits_between_their_transfers(self):
        flags = ('--num_gpus', 4, '--train_batch_size', 8, '--model.n_layer', 12, '--zero_optimization.reduce_bucket_size', 1,
                 '--hardware.oversubscribe', 'true', '--steps', 2, '--optimizer.params.lr', 1e-3)
        one = self.train('sums.one', 'cuda', *flags, *SENT)
        for precision in (), ('--bf16.enabled', 'true'):
            two = self.train(f'sums{len(precision)}', 'cuda', *flags, *SENT, *precision, '--parallelism.pipeline_parallel_size', 2,
                             '--parallelism.pipeline_schedule', 'interleaved', '--parallelism.virtual_pipeline_stages', 3)
            self.assert_close(two, one, 0.05)

    def test_a_pipeline_offloads_its_optimizer(self):
        flags = ('--train_batch_size', 8, *WIDE)
        one = self.train('pipeline.one', 'cpu', *flags)
        for ranks in 2, 4:
            for schedule, parts in ('1f1b', 1), ('interleaved', 2):
                moved = self.train_pipeline(f'{schedule}.{ranks}.moved', ranks, *flags, *OPTIMIZER, '--zero_optimization.stage', 1,
                                            '--zero_optimization.reduce_bucket_size', 1, '--parallelism.pipeline_schedule', schedule,
                                            '--parallelism.virtual_pipeline_stages', parts)
                self.assert_close(moved, one)

    @unittest.skipUnless(EMULATED, 'fills the device')
    def test_a_full_device_says_what_is_held(self):
        os.environ['HGTRAIN_EMULATION_MEMORY'] = '250000000'  # more than measuring the rate takes
        self.addCleanup(os.environ.pop, 'HGTRAIN_EMULATION_MEMORY')
        said = self.job.call('--config', 'gpt2.json', '--run_dir', 'full', '--device', 'cuda',
                             '--train_micro_batch_size_per_gpu', 2, '--model.n_embd', 1024, '--model.n_layer', 2,
                             '--model.n_head', 8, exit_code=3)
        self.assertIn('out of memory', said)
        self.assertRegex(said, r'buffers so far: .*parameters [\d.]+ MiB')
        self.assertNotIn('would fit', said)  # of one sample no more than of two

    def test_bench_comm_measures_collectives_with_nccl_and_gloo(self):
        gloo = ['--backend', 'gloo']
        # From 1028 bytes on, an odd count: the parts of the two are not equal.
        for op, first, backend, flags in (('all_reduce', 1024, 'NCCL', []), ('broadcast', 1024, 'NCCL', []),
                                          ('reduce_scatter', 1028, 'NCCL', []), ('all_gather', 1028, 'NCCL', []),
                                          ('all_reduce', 1024, "TCP, through the host's memory", gloo),
                                          ('reduce_scatter', 1028, "TCP, through the host's memory", gloo),
                                          ('all_gather', 1028, "TCP, through the host's memory", gloo)):
            result = json.loads(self.job.call('bench', 'comm', '--num_gpus', 2, '--oversubscribe', '--op', op, *flags,
                                              '--min_bytes', first, '--max_bytes', 4 * first, '--repeats', 2, '--json'))
            self.assertEqual((result['backend'], [size['bytes'] for size in result['sizes']]), (backend, [first, 2 * first, 4 * first]))
            self.assertEqual([size['wrong'] for size in result['sizes']], [0, 0, 0])

    @unittest.skipUnless(EMULATED, 'a profiler shows them')
    def test_profilers_are_shown_the_phases(self):
        os.environ['NVTX_INJECTION64_PATH'] = 'a profiler'
        self.addCleanup(os.environ.pop, 'NVTX_INJECTION64_PATH')
        self.train('ranges', 'cuda', '--steps', 1)
        log = (self.job.folder / 'ranges/logs/rank_0.log').read_text()
        for name in 'step', 'forward', 'backward', 'update', 'linear_fwd':
            self.assertIn(f'range {name}\n', log)

    def test_two_ranks_on_one_gpu_over_gloo_equal_one_rank(self):
        two = self.train('through_host', 'cuda', '--num_gpus', 2, '--hardware.oversubscribe', 'true',
                         '--distributed.backend', 'gloo')
        self.assert_close(two, self.train('one', 'cpu'))
        self.assertIn('communication backend: TCP, through the host', (self.job.folder / 'through_host/logs/rank_1.log').read_text())

    @unittest.skipUnless(EMULATED, 'leaves out what a run on a device needs')
    def test_every_wait_for_an_event_is_needed(self):
        self.addCleanup(os.environ.pop, 'HGTRAIN_EMULATION_DROP_WAIT')
        for number in itertools.count():
            os.environ['HGTRAIN_EMULATION_DROP_WAIT'] = str(number)
            run = f'dropped.{number}'
            said = self.job.call('--config', 'gpt2.json', '--run_dir', run, '--num_gpus', 2, '--steps', 3,
                                 '--hardware.oversubscribe', 'true', exit_code=None)
            logs = ''.join(log.read_text() for log in (self.job.folder / run / 'logs').glob('rank_*.log'))
            if 'does not wait for event' not in logs:
                break  # there is none of that number
            self.assertIn('and waits for nothing', said)
        self.assertGreater(number, 9)

    def test_generate_writes_the_same_text_as_the_cpu(self):
        for name in MODELS:
            self.train(f'{name}.made', 'cpu', config=name)
            for how in ['--temperature', 0], ['--seed', 5], ['--seed', 5, '--top_k', 20, '--top_p', 0.9]:
                texts = {device: self.job.call('generate', '--model', f'{name}.made', '--prompt', 'an old', '--device', device,
                                               '--threads', 1, '--max_tokens', 8, *how) for device in ('cpu', 'cuda')}
                self.assertEqual(texts['cuda'], texts['cpu'])
            short = self.job.call('generate', '--model', f'{name}.made', '--prompt', 'an old', '--dtype', 'fp16', '--device', 'auto',
                                  '--max_tokens', 3, '--json')
            self.assertEqual(json.loads(short)['prompt_tokens'], 6)

    def bench(self, what, *args):
        out = self.job.call('bench', what, '--shape', 'gpt2.json', '--model.vocab_size', 64, '--device', 'cuda', *args, '--json')
        out = json.JSONDecoder().raw_decode(out)[0]  # what is measured follows, on stderr
        self.assertEqual(out['bench'], what)
        self.assertTrue(out['gpu'])
        return out

    def test_bench_train_times_the_gpu(self):
        self.assertGreater(self.bench('train', '--steps', 1)['tokens_per_sec']['median'], 0)
        self.assertIn(self.bench('train', '--steps', 1, '--bf16.enabled', 'auto', '--fp16.enabled', 'auto')['dtype'], ('bf16', 'fp16'))

    def test_bench_gemm_times_the_types_that_the_gpu_supports(self):
        dtypes = self.bench('gemm', '--repeats', 1)['dtypes']
        if EMULATED:  # of compute capability 7.5
            self.assertEqual([d['dtype'] for d in dtypes], ['fp32', 'fp16'])
        for dtype in dtypes:
            self.assertTrue(dtype['native'])
            self.assertEqual(len(dtype['products']), 15)
            self.assertTrue(all(p['of_ceiling'] > 0 for p in dtype['products']))

    def test_bench_ops_times_each_op_on_the_gpu(self):
        ops = {op['op']: op for op in self.bench('ops', '--steps', 2)['ops']}
        for name in ('embedding_fwd', 'layer_norm_bwd', 'attention_bwd', 'linear_fwd gemm', 'optimizer'):
            self.assertGreater(ops[name]['ms']['median'], 0)
            self.assertGreater(ops[name]['of_ceiling'], 0)
        self.assertEqual(ops['attention_fwd']['calls_per_step'], 2)


if __name__ == '__main__':
    unittest.main()
