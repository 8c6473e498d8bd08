#!/usr/bin/env python3
"""Where the time goes: --trace and --profile.
usage: trace_test.py HGTRAIN"""
import json
import os
import signal
import unittest

import job


def events_of(events, rank, thread):
    """The spans of a thread."""
    names = {e['args']['name']: e['tid'] for e in events
             if e['pid'] == rank and e['ph'] == 'M' and e['name'] == 'thread_name'}
    return [e for e in events if e['ph'] == 'X' and e['pid'] == rank and e['tid'] == names[thread]]


def spans(events, rank, thread):
    """A thread's spans as (begin, end, name, category), in their order."""
    return sorted((e['ts'], e['ts'] + e['dur'], e['name'], e['cat']) for e in events_of(events, rank, thread))


class TraceTest(job.JobTest):
    def trace(self, run, *args, **options):
        self.job.train(run, '--trace', f'{run}.json', *args, **options)
        return json.loads((self.job.folder / f'{run}.json').read_text())['traceEvents']

    def test_a_trace_has_every_rank_and_its_threads_on_one_clock(self):
        events = self.trace('traced', '--steps', 12, '--trace_steps', 4)
        self.assertEqual({e['pid'] for e in events}, {0, 1})
        summed = []
        for rank in range(2):
            training = spans(events, rank, 'training')
            self.assertEqual([name for _, _, name, _ in training if name.startswith('step')],
                             ['step 3', 'step 4', 'step 5', 'step 6'])
            names = {name for _, _, name, _ in training}
            self.assertLessEqual({'forward 1.0', 'backward 1.0', 'forward 1.1', 'gemm', 'attention_bwd', 'cross_entropy_fwd_bwd', 'optimizer',
                                  'wait for data', 'wait for sums', 'evaluate 10'}, names)
            self.assert_nested(training)
            self.assertTrue(spans(events, rank, 'data'))
            sums = {e['args']['number']: (e['ts'], e['ts'] + e['dur']) for e in events_of(events, rank, 'communication')
                    if e['cat'] == 'collective' and e['name'].startswith('sum_')}
            self.assertGreaterEqual(len(sums), 8)  # of four steps: gradients and losses
            summed.append(sums)
        self.assertEqual(summed[0].keys(), summed[1].keys())
        for number, (begin, end) in summed[0].items():  # a sum ends on no rank before it began on all
            self.assertLess(summed[1][number][0], end, number)
            self.assertLess(begin, summed[1][number][1], number)
        self.assertIn('write checkpoint 12', [name for _, _, name, _ in spans(events, 0, 'checkpoint')])
        self.assertFalse((self.job.folder / 'traced/trace').exists())

    def test_a_trace_names_the_stages_that_transfers_go_to_and_come_from(self):
        events = self.trace('stages', '--steps', 4, '--trace_steps', 1, '--parallelism.pipeline_parallel_size', 2)
        self.assertEqual([e['args']['name'] for e in events if e['name'] == 'process_name'], ['rank 0: stage 0', 'rank 1: stage 1'])
        ends = []
        for rank, thread, what in ((0, 'pipeline: output', 'send to stage 1'), (1, 'pipeline: input', 'receive from stage 0'),
                                   (1, 'pipeline: gradient of the input', 'send to stage 0'),
                                   (0, 'pipeline: gradient of the output', 'receive from stage 1')):
            transfers = [(begin, end) for begin, end, name, _ in spans(events, rank, thread) if name == what]
            self.assertEqual({name for _, _, name, _ in spans(events, rank, thread)}, {what, 'wait for peers', 'transfer'})
            ends.append(transfers)
        for sent, received in zip(ends[::2], ends[1::2]):
            self.assertEqual(len(sent), len(received))
            self.assertGreater(len(sent), 0)
            for a, b in zip(sent, received):  # a transfer ends at no end before it began at both
                self.assertLess(a[0], b[1])
                self.assertLess(b[0], a[1])

    def assert_nested(self, spans):
        """Two spans of a thread are nested or do not overlap."""
        open_ends = []
        for begin, end, name, _ in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            if open_ends:
                self.assertLessEqual(end, open_ends[-1] + 0.002, name)  # times are cut to a nanosecond
            open_ends.append(end)

    def test_a_trace_does_not_change_the_losses(self):
        self.trace('watched')
        self.assertEqual(self.job.losses('watched'), self.whole)

    def test_a_stopped_run_leaves_its_trace(self):
        process = self.job.start_training('stopped', '--trace', 'stopped.json', '--steps', 100000)
        self.job.wait_for_step('stopped', 4, process)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 75, out + err)
        events = json.loads((self.job.folder / 'stopped.json').read_text())['traceEvents']
        self.assertIn('step 3', [name for _, _, name, _ in spans(events, 1, 'training')])

    def test_a_profile_is_printed_and_kept_and_its_parts_sum_to_the_total(self):
        os.environ.pop('MALLOC_PERTURB_', None)  # Meson's: it touches the room for spans, all of it
        out = self.job.train('profiled', '--steps', 6, '--profile')
        for words in ('4 steps from step 3 on', 'linear_bwd_weight gemm', 'FLOP/s', 'in no op'):
            self.assertIn(words, out)
        profile = json.loads((self.job.folder / 'profiled/profile.json').read_text())
        self.assertAlmostEqual(sum(op['share'] for op in profile['ops']) + profile['outside_share'], 1, delta=1e-6)
        self.assertGreater(profile['outside_share'], 0)
        for op in profile['ops']:
            self.assertEqual(op['of_ceiling'] > 0, 'wait' not in op['op'], op)
        products = {op['op']: op for op in profile['ops']}['linear_fwd gemm']
        # Four steps of four micro-batches, two layers of four products and the head's.
        self.assertEqual(products['calls'], 4 * 4 * 9)
        width, tokens, vocabulary = 32, 32, 257
        self.assertEqual(products['flops'], 2 * tokens * width * (2 * 12 * width + vocabulary) * 16)
        self.assertFalse((self.job.folder / 'profiled/trace').exists())
        self.job.train('plain', '--steps', 6)
        peaks = [self.job.metrics(run)[-1]['mem_peak_bytes'] for run in ('plain', 'profiled')]
        if not job.SANITIZED:  # a sanitizer keeps freed memory
            self.assertLess(peaks[1], peaks[0] + (32 << 20))  # what was copied to measure does not count

    def test_a_profile_names_the_waits_for_ranks_that_share_layers_and_sequences(self):
        for axis in 'tensor', 'context':
            self.job.train(axis, '--steps', 4, '--profile', f'--parallelism.{axis}_parallel_size', 2)
            ops = {op['op']: op for op in self.job.read_json(axis, 'profile.json')['ops']}
            self.assertGreater(ops[f'wait for {axis} ranks']['ms'], 0)

    def test_a_single_step_is_recorded(self):
        events = self.trace('single', '--steps', 1, workers=1)
        self.assertIn('step 1', [name for _, _, name, _ in spans(events, 0, 'training')])

    def test_a_file_that_cannot_be_written_is_refused_before_anything_starts(self):
        err = self.job.train('refused', '--trace', 'nowhere/trace.json', exit_code=2)
        self.assertIn('cannot create nowhere/trace.json', err)
        self.assertFalse((self.job.folder / 'refused').exists())
        self.job.train('refused', '--trace_steps', 3, exit_code=2)
        self.job.train('refused', '--trace', 't.json', '--trace_steps', 0, exit_code=2)

    def test_a_disk_that_is_full_at_the_end_is_reported(self):
        err = self.job.train('full', '--steps', 3, '--trace', '/dev/full', exit_code=4)
        self.assertIn('No space left', err)
        self.assertEqual(self.job.verdict('full')['verdict'], 'done')


if __name__ == '__main__':
    unittest.main()
