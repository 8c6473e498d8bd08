#!/usr/bin/env python3
"""What is left of a training run when something goes wrong. usage: fault_test.py HGTRAIN"""
import os
import pathlib
import re
import resource
import shlex
import signal
import subprocess
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
        _, err = process.communicate(timeout=600)
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
            _, err = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 75, err)
            last = self.job.metrics(name)[-1]['step']
            self.assertEqual(self.job.checkpoints(name)[-1], f'step_{last:08}')

    def test_what_stops_a_worker_has_no_handler(self):
        # It would run on a thread within oneDNN's sgemm, whose stack lies on the heap, and damage that.
        process = self.start_endless('unhandled', until_step=2)
        status = pathlib.Path(f'/proc/{job.workers_of(process)[0]}/status').read_text()
        handled = int(re.search(r'^SigCgt:\s(\w+)$', status, re.M)[1], 16)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=600)
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
        process.communicate(timeout=600)
        self.assertEqual(len(self.job.checkpoints('usr2')), 2)

    def test_a_killed_worker_is_restarted_from_the_last_checkpoint(self):
        process = self.start_endless('restarted', '--max_restarts', 1, until_step=12)
        os.kill(job.workers_of(process)[-1], signal.SIGKILL)
        job.read_until(process.stderr, 'resumed after step')
        process.send_signal(signal.SIGTERM)
        err = process.communicate()[1]
        self.assertEqual(process.returncode, 75, err)
        self.assertEqual(self.job.verdict('restarted')['restarts'], 1)
        losses, undisturbed = self.finish('restarted')
        self.assertEqual(losses, undisturbed)

    def test_restarted_before_its_first_save_it_starts_where_it_was_told_to(self):
        self.job.train('went_back')
        process = self.start_endless('went_back', '--max_restarts', 1, '--checkpoint.save_interval', 0, '--resume',
                                     'went_back/checkpoints/step_00000005', until_step=STEPS + 1)
        os.kill(job.workers_of(process)[0], signal.SIGKILL)
        for _ in ('at the start', 'at the restart'):
            job.read_until(process.stderr, 'resumed after step 5 ')
        process.send_signal(signal.SIGTERM)
        err = process.communicate()[1]
        self.assertEqual(process.returncode, 75, err)
        steps = [step for step, _, _ in self.job.losses('went_back')]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def test_a_killed_worker_without_restarts_is_the_verdict(self):
        process = self.start_endless('murdered', until_step=3)
        os.kill(job.workers_of(process)[-1], signal.SIGKILL)
        _, err = process.communicate(timeout=600)
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
        job.read_until(process.stderr, 'Ctrl-C again stops at once')
        process.send_signal(signal.SIGINT)
        with process:
            err = process.stderr.read()
        self.assertEqual(process.returncode, 130, err)
        self.assertIn('no checkpoint yet: it starts from step 0 again', err)

    def test_a_worker_that_hangs_is_found_and_named(self):
        process = self.start_endless('frozen', '--distributed.timeout_minutes', 0.05, until_step=3)
        os.kill(job.workers_of(process)[-1], signal.SIGSTOP)
        _, err = process.communicate(timeout=600)
        self.assertIn(process.returncode, (5, 6), err)
        self.assertIn('rank 1', err)
        self.assertNotIn('as the hint says', err)

    def test_a_full_disk_under_stderr_ends_no_training(self):
        command = shlex.join(map(str, (job.PROGRAM, *self.job.arguments('mute', 2))))
        done = subprocess.run(f'exec {command} 2>/dev/full', shell=True, cwd=self.job.folder, timeout=600)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.job.losses('mute'), self.whole)

    def test_no_shared_memory_stays_if_the_ranks_do_not_meet(self):
        before = set(os.listdir('/dev/shm'))
        self.job.train('lonely', '--distributed.timeout_minutes', '1e-9', exit_code=None)
        left = set(os.listdir('/dev/shm')) - before
        self.assertFalse([name for name in left if name.startswith('hgtrain-')])

    @unittest.skipIf(job.SANITIZED, 'a sanitizer needs its address space')
    def test_memory_or_threads_that_the_system_refuses_are_no_bug(self):
        command = shlex.join(map(str, (job.PROGRAM, *self.job.arguments('small', 1), '--hardware.threads', 64)))
        for kilobytes in (250_000, 300_000, 350_000):  # less than 64 stacks of 8 MB
            done = subprocess.run(f'ulimit -s 8192; ulimit -v {kilobytes}; exec {command}', shell=True,
                                  cwd=self.job.folder, timeout=600, text=True, capture_output=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn('  hint: ', done.stderr)

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
        _, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 4, err)
        self.assertIn('training goes on', err)
        self.assertIn(f'step_{STEPS:08}', err)
        self.assertEqual(self.job.checkpoints('full'), ['step_00000005'])
        self.assertEqual(self.job.losses('full'), self.whole)
        self.job.train('full', '--resume', 'auto')
        self.assertEqual(self.job.losses('full'), self.whole)


if __name__ == '__main__':
    unittest.main(verbosity=2)
