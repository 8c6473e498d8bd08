#!/usr/bin/env python3
"""hgtrain bench: its fields, and what it refuses. The numbers depend on the machine and are not checked.
usage: bench_test.py HGTRAIN"""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

from job import PROGRAM, SANITIZED, wait_for, workers_of

TINY = {
    'train_batch_size': 4,
    'train_micro_batch_size_per_gpu': 2,
    'model': {'model_type': 'llama', 'hidden_size': 32, 'intermediate_size': 64, 'num_hidden_layers': 2,
              'num_attention_heads': 4, 'num_key_value_heads': 2, 'max_position_embeddings': 32, 'vocab_size': 64},
    'training': {'train_iters': 5, 'seq_length': 16},
    'data': {'train_data_path': 'is not there'},
}


class BenchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.tiny = pathlib.Path(cls.temporary.name) / 'tiny.json'
        cls.tiny.write_text(json.dumps(TINY))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def call(self, *args, exit_code=0, **environment):
        done = subprocess.run([PROGRAM, 'bench', *map(str, args)], capture_output=True, text=True, timeout=600,
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return done.stdout if exit_code == 0 else done.stderr

    def bench(self, what, *args):
        """The JSON of a bench of the tiny model, whose text must come as well."""
        args = (what, '--shape', self.tiny, '--threads', 1, *args)
        self.assertIn('llama: 2 layers of 32, 4 heads, vocabulary 64; 2 x 16 tokens', self.call(*args))
        result = json.loads(self.call(*args, '--json'))
        self.assertEqual((result['bench'], result['threads']), (what, 1))
        return result

    def assert_spread(self, spread):
        self.assertLess(0, spread['p10'])
        self.assertLessEqual(spread['p10'], spread['median'])
        self.assertLessEqual(spread['median'], spread['p90'])

    def test_bench_train_reports_rates_limit_and_memory(self):
        result = self.bench('train', '--steps', 3)
        self.assertEqual((result['dtype'], result['steps'], result['tokens_per_step']), ('fp32', 3, 64))
        self.assert_spread(result['step_ms'])
        self.assert_spread(result['tokens_per_sec'])
        self.assertAlmostEqual(result['share_of_gemm_limit'], result['gemm_limit_ms'] / result['step_ms']['median'])
        self.assertGreater(result['first_step_ms'], 0)
        self.assertGreaterEqual(result['start_ms'], 0)
        self.assertGreater(result['peak_rss_bytes'], result['rss_before_bytes'])
        self.assertGreater(result['planned_bytes'], 16 * result['parameters'])
        # Two micro-batches, two layers of q, k, v; out; gate and up; down, and the head: three products each.
        calls = {p['product']: p['calls_per_step'] for p in result['products']}
        self.assertEqual(calls, {f'{layer} {kind}': 2 if layer == 'head' else 4
                                 for layer in ('qkv', 'attention out', 'up', 'down', 'head')
                                 for kind in ('fwd', 'dgrad', 'wgrad')})
        flops = sum(2 * p['m'] * p['n'] * p['k'] * p['calls_per_step'] for p in result['products'])
        self.assertEqual(flops, 6 * 64 * (2 * (32 * 64 + 32 * 32 + 32 * 128 + 64 * 32) + 32 * 64))

    def test_a_config_needs_neither_data_nor_a_number_of_steps(self):
        file = self.tiny.with_name('no_data.json')
        file.write_text(json.dumps({**TINY, 'training': {'seq_length': 16, 'eval_interval': 5}, 'data': {}}))
        self.assertIn('tok/s', self.call('train', '--shape', file, '--threads', 1, '--steps', 1))

    def test_bench_train_says_what_it_does(self):
        for steps, measured in ('2', '2 steps'), ('1', '1 step'):
            done = subprocess.run([PROGRAM, 'bench', 'train', '--shape', self.tiny, '--threads', '1', '--steps', steps], capture_output=True,
                                  text=True, timeout=600)
            self.assertRegex(done.stderr, r'^hgtrain: making the model, then \d+ steps to warm up\n'
                                          fr'hgtrain: measuring {measured} and their matrix products\n$')

    def test_bench_train_compares_layouts_of_workers(self):
        args = ('train', '--shape', self.tiny, '--threads', 1, '--steps', 4, '--gradient_accumulation_steps', 2,
                '--train_batch_size', 8)
        self.assertRegex(self.call(*args, '--num_workers', 2),
                         r'over shared memory, 128 tokens a step, fp32\nlayout +tok/s')
        result = json.loads(self.call(*args, '--layouts', 'zero3,dp,pp2,tp2+sp,one', '--json'))
        self.assertEqual((result['bench'], result['threads'], result['tokens_per_step']), ('train', 1, 128))
        self.assertEqual([(x['layout'], x['workers'], x['accumulation']) for x in result['layouts']],
                         [('dp2 zero3', 2, 2), ('dp2', 2, 2), ('pp2', 2, 4), ('tp2 sp', 2, 4), ('one', 1, 4)])
        for layout in result['layouts']:
            for spread in ('step_ms', 'tokens_per_sec', 'of_first'):
                self.assert_spread(layout[spread])
            self.assertTrue(0 <= layout['share_of_waits'] < 1, layout)
            self.assertGreater(layout['cpu_ms'], 0)
        self.assertEqual(result['layouts'][0]['of_first'], {'median': 1, 'p10': 1, 'p90': 1})
        planned = {x['layout']: x['planned_bytes'] for x in result['layouts']}
        self.assertLess(planned['pp2'], planned['one'])
        refused = self.call(*args, '--layouts', 'dp,tp3', exit_code=2)
        self.assertIn('error: --layouts tp3: parallelism.tensor_parallel_size = 3 does not fit the model', refused)
        self.assertNotIn('on the command line', refused)
        alone = json.loads(self.call(*args, '--num_workers', 2, '--zero_optimization.stage', 3, '--json'))
        self.assertEqual([(x['layout'], x['planned_bytes']) for x in alone['layouts']], [('dp2 zero3', planned['dp2 zero3'])])

    @unittest.skipIf(SANITIZED, 'a sanitizer adds memory of its own')
    def test_a_layout_takes_the_same_memory_wherever_it_stands_in_the_list(self):
        takes = []
        for order in 'dp,one', 'one,dp':
            result = json.loads(self.call('train', '--shape', self.tiny, '--threads', 1, '--steps', 1, '--layouts', order, '--json'))
            takes.append({layout['layout']: layout['worker_bytes'] for layout in result['layouts']})
        for layout in 'dp2', 'one':
            self.assertAlmostEqual(takes[0][layout], takes[1][layout], delta=3 << 20, msg=takes)

    def test_bench_gemm_times_each_product(self):
        result = self.bench('gemm', '--repeats', 2)
        self.assertEqual([d['dtype'] for d in result['dtypes']], ['fp32', 'bf16'])
        for dtype in result['dtypes']:
            self.assertEqual(len(dtype['products']), 15)
            for product in dtype['products']:
                self.assert_spread(product['flops_per_sec'])
                self.assertAlmostEqual(product['of_ceiling'],
                                       product['flops_per_sec']['median'] / dtype['ceiling_flops_per_sec'])

    def test_bench_gemm_times_no_kernels_against_each_other_if_training_would_not(self):
        for flags, times in ((), True), (('--training.deterministic', 'true'), False):
            with tempfile.TemporaryDirectory() as cache:
                self.call('gemm', '--shape', self.tiny, '--threads', 1, '--repeats', 1, *flags, XDG_CACHE_HOME=cache)
                self.assertEqual(any(path.is_file() for path in pathlib.Path(cache).rglob('*')), times, flags)

    def test_bench_ops_times_each_op(self):
        result = self.bench('ops', '--steps', 2, '--dtype', 'bf16')
        self.assertEqual(result['dtype'], 'bf16')
        ops = {op['op']: op for op in result['ops']}
        for name in ('embedding_fwd', 'rms_norm_fwd', 'rms_norm_bwd', 'rope_fwd', 'attention_fwd', 'attention_bwd',
                     'gated_activation_bwd', 'cross_entropy_fwd_bwd', 'linear_bwd_weight gemm', 'optimizer'):
            self.assert_spread(ops[name]['ms'])
            self.assertGreater(ops[name]['of_ceiling'], 0)
        self.assertEqual(ops['attention_bwd']['calls_per_step'], 4)
        self.assertIn('flops_per_sec', ops['attention_bwd'])
        self.assertIn('bytes_per_sec', ops['rms_norm_fwd'])

    def test_bench_ops_plans_kernels_without_a_gpu(self):
        text = self.call('ops', '--plan', '--dtype', 'fp16')
        self.assertIn('norm_rows<fp16 1 true true>', text)
        self.assertNotIn('bf16', text)
        result = json.loads(self.call('ops', '--plan', '--bf16.enabled', 'true', '--json'))
        self.assertEqual(result['dtype'], 'bf16')
        kernels = {kernel['kernel']: kernel['devices'] for kernel in result['kernels']}
        self.assertEqual([device['sm'] for device in kernels['activate<bf16>']], [80, 90])

    def test_the_table_of_kernels_is_that_of_the_type_in_which_these_gpus_would_train_a_shipped_config(self):
        for config in (pathlib.Path(__file__).parents[2] / 'configs').glob('*.json'):
            with self.subTest(config.name):
                dtype = json.loads(self.call('ops', '--plan', '--shape', config, '--json'))['dtype']
                self.assertEqual(dtype, 'bf16' if '"bf16": {"enabled": ' in config.read_text() else 'fp32')
        self.assertEqual(json.loads(self.call('ops', '--plan', '--shape', config, '--dtype', 'fp16', '--json'))['dtype'], 'fp16')

    def test_bench_copy_measures_by_threads(self):
        args = ('copy', '--mib', 1, '--repeats', 2, '--threads', 2)
        self.assertIn('memory to memory, 2 threads', self.call(*args))
        result = json.loads(self.call(*args, '--json'))
        self.assertEqual((result['bytes'], [copy['threads'] for copy in result['copies']]), (1 << 20, [1, 2]))
        for copy in result['copies']:
            self.assert_spread(copy['bytes_per_sec'])

    def test_bench_comm_measures_each_size(self):
        args = ('comm', '--min_bytes', 64, '--max_bytes', 1 << 16, '--repeats', 2)
        for more, op, backend, factor in (((), 'all_reduce', 'shared memory', 1),
                                          (('--backend', 'gloo', '--num_workers', 4), 'all_reduce', 'TCP', 1.5),
                                          (('--op', 'reduce_scatter'), 'reduce_scatter', 'shared memory', 0.5),
                                          (('--op', 'all_gather'), 'all_gather', 'shared memory', 0.5),
                                          (('--op', 'broadcast'), 'broadcast', 'shared memory', 1)):
            result = json.loads(self.call(*args, *more, '--json'))
            self.assertEqual((result['op'], result['backend']), (op, backend))
            self.assertEqual([size['bytes'] for size in result['sizes']], [64 << i for i in range(11)])
            for size in result['sizes']:
                self.assert_spread(size['us'])
                self.assertEqual(size['wrong'], 0)
                self.assertAlmostEqual(size['busbw_bytes_per_sec'] / size['algbw_bytes_per_sec'], factor)
        self.assertRegex(self.call(*args), r'all_reduce of fp32, 2 workers over shared memory\n +bytes +count +time us')

    def test_a_missing_gpu_is_refused_before_a_worker_starts(self):
        for args, count, hint in ((('copy', '--device', 'cuda'), '1 GPU', 'use --device cpu'),
                                  (('train', '--device', 'cuda'), '1 GPU', 'use --device cpu'),
                                  (('comm', '--num_gpus', 2), '2 GPUs', 'for workers on the CPU, use --num_workers N'),
                                  (('comm', '--num_gpus', 2, '--oversubscribe'), '1 GPU', 'for workers on the CPU, use --num_workers N')):
            said = self.call(*args, exit_code=3, CUDA_VISIBLE_DEVICES='')
            self.assertRegex(said, fr'^hgtrain: error: this command needs {count}, but 0 can be used: .*\n  hint: {hint}')

    def test_more_memory_than_there_is_is_refused(self):
        large_model = ('train', '--shape', self.tiny, '--model.vocab_size', 10 ** 8, '--model.hidden_size', 1 << 14)
        for args, flag, bytes in ((('copy', '--mib', 1 << 20), '--mib', '2.00 TiB'), (('comm', '--max_bytes', 1 << 40), '--max_bytes', '2.00 TiB'),
                                  (large_model, '--shape', r'[0-9.]+ TiB')):
            said = self.call(*args, exit_code=3)
            self.assertRegex(said, fr'^hgtrain: error: {flag} asks for {bytes} of memory, and .* are free\n'
                                   fr'  hint: use a smaller {flag}\n$')
        asked = [re.search(r'asks for (.*) of memory', self.call(*large_model, '--checkpoint.async_save', save, exit_code=3))[1]
                 for save in ('true', 'false')]
        self.assertEqual(asked[0], asked[1])

    @unittest.skipIf(SANITIZED, 'a sanitizer needs its address space')
    def test_a_worker_that_fails_ends_with_its_own_status(self):
        size = 2 << 30
        command = f'ulimit -v 2000000; exec {PROGRAM} bench comm --min_bytes {size} --max_bytes {size}'
        done = subprocess.run(['bash', '-c', command], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r'rank \d of 2 .* exited with code 3\n|--max_bytes asks for')

    def test_a_bench_of_workers_that_is_stopped_prints_no_figures(self):
        for args in (('train', '--shape', self.tiny, '--layouts', 'one,dp', '--steps', 1000000),
                     ('comm', '--num_workers', 2, '--repeats', 1000000)):
            process = subprocess.Popen([PROGRAM, 'bench', *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            wait_for(lambda: len(workers_of(process)) == 2, process)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.communicate(timeout=600), ('', 'hgtrain: stopped by SIGTERM\n'))
            self.assertEqual(process.returncode, 75)

    def test_each_help_page_has_only_its_own_options(self):
        for what in ('train', 'gemm', 'ops', 'copy', 'comm'):
            page = self.call(what, '--help')
            self.assertIn('\n\nOptions:\n', page)
            self.assertNotIn('Excludes', page)

    def test_invalid_options_are_refused(self):
        for args, words in ((('train', '--shape', 'huge'), 'huge is neither a shape nor a file'),
                            (('train', '--steps', 0), '--steps 0 is not between 1'),
                            (('train', '--steps', '9' * 20), 'error: --steps is not between 1 and 1000000\n'),
                            (('train', '--num_workers', 1), '--num_workers 1 is not between 2'),
                            (('train', '--layouts', 'dp,pp2', '--device', 'cuda'), 'workers on the CPU alone'),
                            (('train', '--layouts', 'dp,zero4'), 'zero_optimization.stage'),
                            (('train', '--layouts', 'dp,'), "--layouts dp,: '' is not a layout"),
                            (('train', '--layouts', 'pp'), "--layouts pp: 'pp' is not a layout"),
                            (('train', '--layouts', 'pp3'), 'start a multiple of 3 workers'),
                            (('gemm', '--num_workers', 2), '--num_workers'),
                            (('gemm', '--repeats', -1), '--repeats -1 is not between 1'),
                            (('ops', '--threads', -1), '0 takes all cores'),
                            (('ops', '--dtype', 'fp8'), 'fp8'),
                            (('ops', '--plan', '--steps', 2), '--plan measures nothing'),
                            (('copy', '--mib', 0), '--mib 0 is not between'),
                            (('copy', '--threads', -1), '--threads -1 is not between'),
                            (('copy', '--repeats', 0), '--repeats 0 is not between'),
                            (('copy', '--device', 'tpu'), 'tpu'),
                            (('comm', '--num_workers', 1), '--num_workers 1 is not between 2'),
                            (('comm', '--min_bytes', 6), 'hint: use --min_bytes 4'),
                            (('comm', '--min_bytes', '1G'), '--min_bytes takes a whole number: the first size, in bytes'),
                            (('copy', '--mib', '1GB'), 'hint: --mib takes a whole number: size of a copy, in MiB'),
                            (('comm', '--oversubscribe'), '--oversubscribe needs --num_gpus'),
                            (('comm', '--num_workers', 2, '--num_gpus', 2), '--num_gpus and --num_workers are both given'),
                            (('comm', '--min_bytes', 64, '--max_bytes', 32), '--max_bytes 32 is not between 64'),
                            (('comm', '--op', 'all_to_all'), 'all_to_all'),
                            (('comm', '--backend', 'mpi'), 'mpi'),
                            (('train', '--shape', self.tiny, '--model.vocab_size', 0), 'vocab_size'),
                            (('train', '--model.n_head', 7), 'head')):
            self.assertIn(words, self.call(*args, exit_code=2))


if __name__ == '__main__':
    unittest.main()
