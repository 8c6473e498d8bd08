#!/usr/bin/env python3
"""Training through the built program: what a user sees, and what is left when processes die.
usage: train_test.py HGTRAIN"""
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest

import job

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
STEPS = 20
FIELDS = {'step', 'loss', 'grad_norm', 'lr', 'step_ms', 'tokens', 'tokens_per_sec', 'consumed_samples',
          'samples_per_sec', 'mem_bytes', 'mem_peak_bytes', 'comm_ms', 'data_wait_ms', 'mfu'}


def workers_of(process):
    """Process ids of the hgtrain-workers below a front, in the order of their ranks."""
    children = {}
    for entry in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            parent = int((entry / 'stat').read_text().rsplit(')', 1)[1].split()[1])
            name = (entry / 'cmdline').read_bytes().split(b'\0')[0]
        except OSError:
            continue
        children.setdefault(parent, []).append((int(entry.name), name))
    found, below = [], [process.pid]
    while below:
        for pid, name in children.get(below.pop(), []):
            below.append(pid)
            if name.endswith(b'hgtrain-worker'):
                found.append(pid)
    rank = lambda pid: int(pathlib.Path(f'/proc/{pid}/environ').read_bytes().split(b'\0RANK=')[1].split(b'\0')[0])
    return sorted(found, key=rank)


def wait_until_gone(pids):
    deadline = time.monotonic() + 30
    while any(pathlib.Path(f'/proc/{pid}').exists() for pid in pids):
        if time.monotonic() > deadline:
            raise AssertionError(f'orphans: {pids}')
        time.sleep(0.01)


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.job = job.Job(PROGRAM, cls.temporary.name)
        cls.job.train('whole')
        cls.whole = cls.job.losses('whole')

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def assert_close_to_whole(self, run):
        losses = self.job.losses(run)
        self.assertEqual(len(losses), STEPS)
        for (step, loss, eval_loss), (_, one, eval_one) in zip(losses, self.whole):
            self.assertAlmostEqual(loss, one, delta=1e-6 * one, msg=f'step {step}')
            if eval_one is not None:
                self.assertAlmostEqual(eval_loss, eval_one, delta=1e-6 * eval_one, msg=f'step {step}')

    def test_a_run_leaves_what_it_should(self):
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

    def test_workers_share_the_samples_and_reduce_the_gradients_size(self):
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

    def test_killed_with_the_launcher_and_resumed_it_goes_on_bit_for_bit(self):
        process = self.job.start_training('killed')
        self.job.wait_for_step('killed', 12, process)
        workers = workers_of(process)
        process.kill()
        process.communicate()
        wait_until_gone(workers)
        self.job.train('killed', '--resume', 'auto')
        self.assertEqual(self.job.losses('killed'), self.whole)

    def test_terminated_it_saves_leaves_with_75_and_resumes_on_another_worker_count(self):
        process = self.job.start_training('stopped')
        self.job.wait_for_step('stopped', 6, process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, err)
        self.assertEqual(self.job.verdict('stopped')['verdict'], 'stopped')
        last = self.job.metrics('stopped')[-1]['step']
        self.assertLess(last, STEPS)
        self.assertIn(f'step_{last:08}', self.job.checkpoints('stopped'))
        self.job.train('stopped', '--resume', 'auto', workers=1)
        self.assert_close_to_whole('stopped')

    def test_a_killed_worker_is_restarted_from_the_last_checkpoint(self):
        process = self.job.start_training('restarted', '--max_restarts', 1)
        self.job.wait_for_step('restarted', 7, process)
        os.kill(workers_of(process)[-1], signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(self.job.losses('restarted'), self.whole)
        self.assertEqual(self.job.verdict('restarted')['restarts'], 1)

    def test_a_killed_worker_without_restarts_is_the_verdict(self):
        process = self.job.start_training('murdered')
        self.job.wait_for_step('murdered', 3, process)
        os.kill(workers_of(process)[-1], signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL, err)
        self.assertIn('rank 1', err)
        self.assertEqual(self.job.verdict('murdered')['verdict'], 'failed')

    def test_a_loss_that_is_not_finite_stops_with_5(self):
        err = self.job.train('diverged', '--optimizer.params.lr', '1e30', exit_code=5)
        self.assertIn('the first bad tensor is', err)
        self.assertRegex(err, r'step \d+: loss is ')

    def test_the_target_loss_ends_a_run_early(self):
        self.job.train('target', '--training.target_loss', '5.0')
        self.assertLess(len(self.job.metrics('target')), STEPS)
        self.assertIn('target_loss', self.job.verdict('target')['reason'])

    def test_an_existing_run_is_refused_and_one_in_use_too(self):
        self.assertIn('--resume auto', self.job.train('whole', exit_code=2))
        process = self.job.start_training('busy')
        self.job.wait_for_step('busy', 1, process)
        self.assertIn('in use', self.job.train('busy', '--resume', 'auto', exit_code=2))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

    def test_resuming_in_an_empty_folder_starts_fresh_and_a_finished_run_stays_done(self):
        for _ in range(2):
            self.job.train('fresh', '--resume', 'auto')
            self.assertEqual(self.job.losses('fresh'), self.whole)

    def test_a_finished_run_can_be_prolonged_but_not_made_another(self):
        self.job.train('longer', '--steps', 10)
        self.job.train('longer', '--steps', STEPS, '--resume', 'auto')
        self.assertEqual(self.job.losses('longer'), self.whole)
        err = self.job.train('longer', '--resume', 'auto', '--training.seed', 8, exit_code=2)
        self.assertIn('training.seed', err)

    def test_a_damaged_checkpoint_is_passed_over_by_auto_and_refused_by_name(self):
        self.job.train('damaged', '--steps', 10)
        damaged = 'damaged/checkpoints/step_00000010'
        weights = self.job.folder / damaged / 'model.safetensors'
        data = bytearray(weights.read_bytes())
        data[-5] ^= 1
        weights.write_bytes(data)
        err = self.job.train('damaged', '--resume', damaged, exit_code=4)
        self.assertRegex(err, 'model.safetensors is damaged: tensor transformer')
        self.assertIn('damaged/checkpoints/step_00000005', err)
        self.assertIn('is damaged', self.job.train('damaged', '--resume', 'auto'))
        self.assertEqual(self.job.losses('damaged'), self.whole)

    def test_a_dry_run_prints_the_plan_and_makes_nothing(self):
        out = self.job.train('dry', '--dry_run')
        for words in ('transformer.wte.weight', 'train_batch_size', 'parameters', 'exp_avg'):
            self.assertIn(words, out)
        self.assertFalse((self.job.folder / 'dry').exists())

    def test_wrong_wishes_are_refused_with_their_own_exit_codes(self):
        call = self.job.call
        self.assertIn('--num_workers', call('--config', 'config.json', '--device', 'cpu', '--num_gpus', 2, exit_code=2))
        call('--config', 'config.json', '--num_workers', 0, '--device', 'cpu', exit_code=2)
        self.assertIn('--num_workers', call('--config', 'config.json', '--num_gpus', 64, exit_code=3))
        self.assertIn('nowhere', self.job.train('nodata', '--data.train_data_path', 'nowhere', exit_code=4))
        self.assertFalse((self.job.folder / 'nodata').exists())


if __name__ == '__main__':
    unittest.main(verbosity=2)
