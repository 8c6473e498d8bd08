#!/usr/bin/env python3
"""What is left of a training run when something goes wrong. usage: fault_test.py HGTRAIN"""
import os
import pathlib
import re
import resource
import signal
import unittest

import job
from job import STEPS


def no_large_files():
    """Runs in the child: writes beyond 100 kB of a file fail as on a full disk, with another errno."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))


class FaultTest(job.JobTest):
    def start_endless(self, run, *args, until_step):
        """A run that goes on until it is stopped, once it has done some steps."""
        process = self.job.start_training(run, '--steps', 1_000_000, *args)
        self.job.wait_for_step(run, until_step, process)
        return process

    def finish(self, run, **options):
        """Resumes the run for some more steps; its losses, and those of as many steps undisturbed."""
        steps = self.job.metrics(run)[-1]['step'] + 10
        self.job.train(run, '--resume', 'auto', '--steps', steps, **options)
        self.job.train(run + '_undisturbed', '--steps', steps)
        return self.job.losses(run), self.job.losses(run + '_undisturbed')

    def test_killed_with_the_launcher_and_resumed_it_goes_on_bit_for_bit(self):
        process = self.start_endless('killed', until_step=12)
        workers = job.workers_of(process)
        process.kill()
        process.communicate()
        job.wait_until_gone(workers)
        losses, undisturbed = self.finish('killed')
        self.assertEqual(losses, undisturbed)

    def test_terminated_it_saves_leaves_with_75_and_resumes_on_another_worker_count(self):
        process = self.start_endless('stopped', until_step=6)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, err)
        self.assertEqual(self.job.verdict('stopped')['verdict'], 'stopped')
        last = self.job.metrics('stopped')[-1]['step']
        self.assertIn('finishing this step, then saving', err)
        self.assertIn(f'the last checkpoint is of step {last}\n  go on with: ', err)
        self.assertRegex(err, 'go on with: .*hgtrain --config config.json --run_dir stopped .* --resume auto\n')
        self.assertEqual(self.job.checkpoints('stopped')[-1], f'step_{last:08}')
        losses, undisturbed = self.finish('stopped', workers=1)
        for (step, loss, _), (_, expected, _) in zip(losses[:last + 20], undisturbed):
            self.assertAlmostEqual(loss, expected, delta=1e-6 * expected, msg=f'step {step}')

    def test_every_stop_signal_saves_whoever_gets_it(self):
        for name, sent, to_worker in (('usr1', signal.SIGUSR1, False), ('int', signal.SIGINT, False),
                                      ('worker', signal.SIGTERM, True)):
            process = self.start_endless(name, until_step=2)
            os.kill(job.workers_of(process)[1] if to_worker else process.pid, sent)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 75, err)
            last = self.job.metrics(name)[-1]['step']
            self.assertEqual(self.job.checkpoints(name)[-1], f'step_{last:08}')

    def test_what_stops_a_worker_has_no_handler(self):
        # It would run on a thread within oneDNN's sgemm, whose stack lies on the heap, and damage that.
        process = self.start_endless('unhandled', until_step=2)
        status = pathlib.Path(f'/proc/{job.workers_of(process)[0]}/status').read_text()
        handled = int(re.search(r'^SigCgt:\s(\w+)$', status, re.M)[1], 16)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            self.assertFalse(handled & 1 << (number - 1), signal.Signals(number).name)

    def test_usr2_saves_and_goes_on(self):
        process = self.start_endless('usr2', '--checkpoint.save_interval', 0, until_step=2)
        for pid in (*job.workers_of(process), process.pid):  # as `pkill -USR2 hgtrain` does
            os.kill(pid, signal.SIGUSR2)
        job.wait_for(lambda: self.job.checkpoints('usr2'), process)
        saved = int(self.job.checkpoints('usr2')[0].removeprefix('step_'))
        self.job.wait_for_step('usr2', saved + 5, process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(len(self.job.checkpoints('usr2')), 2)

    def test_a_killed_worker_is_restarted_from_the_last_checkpoint(self):
        long = ('--steps', 400, '--checkpoint.save_interval', 100)
        process = self.job.start_training('restarted', '--max_restarts', 1, *long)
        self.job.wait_for_step('restarted', 120, process)
        os.kill(job.workers_of(process)[-1], signal.SIGKILL)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(self.job.verdict('restarted')['restarts'], 1)
        self.job.train('not_restarted', *long)
        self.assertEqual(self.job.losses('restarted'), self.job.losses('not_restarted'))

    def test_restarted_before_its_first_save_it_starts_where_it_was_told_to(self):
        self.job.train('went_back')
        endless = ('--resume', 'went_back/checkpoints/step_00000005', '--checkpoint.save_interval', 0)
        process = self.job.start_training('went_back', '--max_restarts', 1, '--steps', 300, *endless)
        job.wait_for(lambda: len(self.job.metrics('went_back')) in range(8, 20), process)
        os.kill(job.workers_of(process)[0], signal.SIGKILL)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual([step for step, _, _ in self.job.losses('went_back')], list(range(1, 301)))

    def test_a_killed_worker_without_restarts_is_the_verdict(self):
        process = self.start_endless('murdered', until_step=3)
        os.kill(job.workers_of(process)[-1], signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL, err)
        self.assertIn('rank 1', err)
        self.assertIn('--resume auto\n', err)
        self.assertLessEqual(err.count('    | '), 3)
        verdict = self.job.verdict('murdered')
        self.assertEqual(verdict['verdict'], 'failed')
        self.assertEqual(verdict['finished_steps'], self.job.metrics('murdered')[-1]['step'])

    def test_a_second_ctrl_c_says_that_nothing_is_saved(self):
        process = self.start_endless('impatient', '--checkpoint.save_interval', 0, until_step=2)
        os.kill(job.workers_of(process)[1], signal.SIGSTOP)  # the first Ctrl-C cannot finish its step
        process.send_signal(signal.SIGINT)
        for line in process.stderr:
            if 'Ctrl-C again stops at once' in line:
                break
        process.send_signal(signal.SIGINT)
        with process:
            err = process.stderr.read()
        self.assertEqual(process.returncode, 130, err)
        self.assertIn('no checkpoint yet: it starts from step 0 again', err)

    def test_a_worker_that_hangs_is_found_and_named(self):
        process = self.start_endless('frozen', '--distributed.timeout_minutes', 0.05, until_step=3)
        os.kill(job.workers_of(process)[-1], signal.SIGSTOP)
        _, err = process.communicate(timeout=60)
        self.assertIn(process.returncode, (5, 6), err)
        self.assertIn('rank 1', err)
        self.assertNotIn('as the hint says', err)

    def test_a_loss_that_is_not_finite_stops_with_5(self):
        err = self.job.train('diverged', '--optimizer.params.lr', '1e30', exit_code=5)
        self.assertIn('the first bad tensor is', err)
        self.assertEqual(err.count('lower learning rate'), 1, err)
        self.assertRegex(err, r'step \d+: loss is (nan|-?inf|-?\d)')
        self.assertNotIn('-nan', err)
        self.assertNotIn('go on with:', err)  # the same again would diverge again
        self.assertIn('go on, changed as the hint says, with: ', err)

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

    def test_a_disk_that_fills_up_ends_no_training_and_costs_no_checkpoint(self):
        self.job.train('full', '--steps', 5)
        process = self.job.start_training('full', '--resume', 'auto', preexec_fn=no_large_files)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 4, err)
        self.assertIn('training goes on', err)
        self.assertIn(f'step_{STEPS:08}', err)
        self.assertEqual(self.job.checkpoints('full'), ['step_00000005'])
        self.assertEqual(self.job.losses('full'), self.whole)
        self.job.train('full', '--resume', 'auto')
        self.assertEqual(self.job.losses('full'), self.whole)


if __name__ == '__main__':
    unittest.main(verbosity=2)
