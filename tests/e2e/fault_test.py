#!/usr/bin/env python3
"""Training runs in which something goes wrong: what they say, and what remains. usage: fault_test.py HGTRAIN"""
import contextlib
import io
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import unittest

import job
from job import STEPS
from run_folder import RunFolder


def no_large_files():
    """Runs in the child: writes beyond 100 kB of a file fail as on a full disk, with another errno."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))


class FaultTest(job.JobTest):
    def test_the_log_of_a_rank_that_crashed_outlives_the_folder_of_its_test(self):
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown), RunFolder() as folder:
            logs = pathlib.Path(folder) / 'run/logs'
            logs.mkdir(parents=True)
            (logs / 'rank_0.log').write_text('step 1\ncrashed with SIGSEGV in thread 7, at address 0x8\nlibc.so.6(getenv+0x9b)\n')
            (logs / 'rank_1.log').write_text('step 1\n')
        self.assertEqual(shown.getvalue(), f'{logs}/rank_0.log:\nstep 1\ncrashed with SIGSEGV in thread 7, at address 0x8\nlibc.so.6(getenv+0x9b)\n')

    def test_a_run_killed_with_its_launcher_resumes_bit_for_bit(self):
        process = self.start_endless('killed', until_step=12)
        workers = job.workers_of(process)
        process.kill()
        process.communicate()
        job.wait_until_gone(workers)
        losses, undisturbed = self.finish('killed')
        self.assertEqual(losses, undisturbed)

    def test_a_terminated_run_saves_exits_with_75_and_resumes_on_another_worker_count(self):
        process = self.start_endless('stopped', until_step=6)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 75, err)
        self.assertEqual(self.job.verdict('stopped')['verdict'], 'stopped')
        last = self.job.metrics('stopped')[-1]['step']
        self.assertIn('finishing this step, then saving', err)
        self.assertIn(f'the last checkpoint is of step {last}\n  resume with: ', err)
        self.assertRegex(err, 'resume with: .*hgtrain --config config.json --run_dir stopped .* --resume auto\n')
        self.assertEqual(self.job.checkpoints('stopped')[-1], f'step_{last:08}')
        losses, undisturbed = self.finish('stopped', resumed_on=1)
        for (step, loss, _), (_, expected, _) in zip(losses[:last + 20], undisturbed):
            self.assertAlmostEqual(loss, expected, delta=1e-6 * expected, msg=f'step {step}')

    def test_every_stop_signal_saves_if_the_launcher_or_a_worker_gets_it(self):
        for name, sent, to_worker in (('usr1', signal.SIGUSR1, False), ('int', signal.SIGINT, False),
                                      ('worker', signal.SIGTERM, True)):
            process = self.start_endless(name, until_step=2)
            os.kill(job.workers_of(process)[1] if to_worker else process.pid, sent)
            _, err = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 75, err)
            last = self.job.metrics(name)[-1]['step']
            self.assertEqual(self.job.checkpoints(name)[-1], f'step_{last:08}')

    def test_a_worker_has_no_handler_for_signals_that_stop_it(self):
        # It would run on a thread within oneDNN's sgemm, whose stack lies on the heap, and damage that.
        process = self.start_endless('unhandled', until_step=2)
        status = pathlib.Path(f'/proc/{job.workers_of(process)[0]}/status').read_text()
        handled = int(re.search(r'^SigCgt:\s(\w+)$', status, re.M)[1], 16)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=600)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            self.assertFalse(handled & 1 << (number - 1), signal.Signals(number).name)

    def test_usr2_saves_and_the_run_continues(self):
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
        job.read_until(process.stderr, 'resuming from step')
        process.send_signal(signal.SIGTERM)
        err = process.communicate()[1]
        self.assertEqual(process.returncode, 75, err)
        self.assertEqual(self.job.verdict('restarted')['restarts'], 1)
        losses, undisturbed = self.finish('restarted')
        self.assertEqual(losses, undisturbed)

    def test_a_restart_before_the_first_save_begins_at_the_checkpoint_of_resume(self):
        self.job.train('went_back')
        process = self.start_endless('went_back', '--max_restarts', 1, '--checkpoint.save_interval', 0, '--resume',
                                     'went_back/checkpoints/step_00000005', until_step=STEPS + 1)
        os.kill(job.workers_of(process)[0], signal.SIGKILL)
        for _ in ('at the start', 'at the restart'):
            job.read_until(process.stderr, 'resuming from step 5:')
        process.send_signal(signal.SIGTERM)
        err = process.communicate()[1]
        self.assertEqual(process.returncode, 75, err)
        steps = [step for step, _, _ in self.job.losses('went_back')]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def kill_at_its_first_steps(self, run, *args):
        """Starts a run that saves nothing, and kills all its processes once it has logged a step."""
        # More steps than what it held before.
        process = self.start_endless(run, '--checkpoint.save_interval', 0, *args, until_step=STEPS + 1)
        workers = job.workers_of(process)
        process.kill()
        process.communicate()
        job.wait_until_gone(workers)

    def test_auto_stays_on_the_branch_that_the_run_went_back_to(self):
        self.job.train('branched', '--checkpoint.keep_last_n', 0)
        config = self.job.read_json('branched', 'config.json')
        self.kill_at_its_first_steps('branched', '--resume', 'branched/checkpoints/step_00000010',
                                     '--optimizer.params.lr', '1e-5')
        self.assertEqual(self.job.checkpoints('branched'), ['step_00000005', 'step_00000010'])
        self.assertEqual((self.job.folder / 'branched/checkpoints/latest').read_text(), 'step_00000010\n')
        self.assertEqual(self.job.read_json('branched', 'config.json')['optimizer']['params']['lr'], 1e-5)
        self.assertNotEqual(config['optimizer']['params']['lr'], 1e-5)
        for aside in 'step_00000015.superseded', 'step_00000020.superseded':
            self.assertTrue((self.job.folder / 'branched/checkpoints' / aside / 'manifest.json').exists())
        log = (self.job.folder / 'branched/logs/console.log').read_text()
        self.assertIn('the run goes back: its later checkpoints are renamed to step_00000015.superseded, step_00000020.superseded\n',
                      log)
        left = (self.job.folder / 'branched/metrics.superseded.jsonl').read_text().splitlines()
        self.assertEqual([json.loads(line)['step'] for line in left], list(range(1, 21)))
        said = self.job.train('branched', '--resume', 'auto')
        self.assertIn('resuming from step 10: branched/checkpoints/step_00000010', said)
        self.assertEqual(self.job.losses('branched'), self.whole)
        self.assertEqual(self.job.checkpoints('branched'), [f'step_{s:08}' for s in (5, 10, 15, 20)])

    def test_auto_resumes_from_the_checkpoint_of_another_run_before_the_first_save(self):
        shutil.copytree(self.job.folder / 'whole', self.job.folder / 'source')
        for run in 'borrowed', 'taken_over':  # a new folder, and one with a run
            if run == 'taken_over':
                self.job.train(run, '--steps', 5)
            self.kill_at_its_first_steps(run, '--resume', 'source/checkpoints/step_00000010')
            self.assertEqual(self.job.checkpoints(run), [])
            self.job.train(run, '--resume', 'auto')
            self.assertEqual(self.job.losses(run), self.whole[10:])
        aside = sorted(path.name for path in (self.job.folder / 'taken_over').glob('metrics.*.jsonl'))
        self.assertEqual(aside, ['metrics.superseded.jsonl'])
        self.assertEqual(len((self.job.folder / 'taken_over' / aside[0]).read_text().splitlines()), 5)
        self.kill_at_its_first_steps('orphan', '--resume', 'source/checkpoints/step_00000010')
        shutil.rmtree(self.job.folder / 'source')
        said = self.job.train('orphan', '--resume', 'auto', exit_code=4)
        self.assertIn('source/checkpoints/step_00000010, is gone', said)
        self.assertIn('holds a run already', self.job.train('borrowed', exit_code=2))

    def test_a_resume_at_an_earlier_step_that_is_refused_or_has_nothing_to_do_changes_nothing(self):
        self.job.train('left_alone')
        everything = lambda: {str(p): p.read_bytes() for p in sorted((self.job.folder / 'left_alone').rglob('*'))
                              if p.is_file() and p.suffix != '.log'}
        before = everything()
        back = ('--resume', 'left_alone/checkpoints/step_00000010')
        self.assertIn('nothing to do: 10 of 10', self.job.train('left_alone', *back, '--steps', 10))
        self.job.train('left_alone', *back, '--optimizer.type', 'Lion', exit_code=2)
        self.job.train('left_alone', *back, '--data.train_data_path', 'nowhere', exit_code=2)
        self.assertEqual(everything(), before)

    def test_files_that_a_killed_launcher_left_half_written_are_removed(self):
        for run in 'leftovers', 'leftovers_of_a_run':
            folder = self.job.folder / run
            if run == 'leftovers_of_a_run':
                self.job.train(run, '--steps', 5)
            folder.mkdir(exist_ok=True)
            left = [folder / name for name in ('config.json.tmp-0123abcd', 'run.json.tmp-0123abcd',
                                               'resolved.next.json.tmp-01234567')]
            for path in left:
                path.write_text('{')
            self.job.train(run, *(['--resume', 'auto'] if 'of_a_run' in run else []))
            self.assertEqual([path for path in left if path.exists()], [])
        (self.job.folder / 'resolved_alone').mkdir()
        (self.job.folder / 'resolved_alone/resolved.json').write_text('{')
        self.job.train('resolved_alone')
        (self.job.folder / 'notes').mkdir()
        (self.job.folder / 'notes/notes.tmp-0123abcd').write_text('mine')
        self.assertIn('neither empty nor a run folder', self.job.train('notes', exit_code=2))

    def test_weights_that_are_not_finite_are_not_saved(self):
        said = self.job.train('infinite', '--training.eval_interval', 0, '--steps', 1, '--scheduler', 'null', '--optimizer.params.lr', '1e30',
                              '--optimizer.params.weight_decay', '1e30', exit_code=5)
        self.assertRegex(said, r'checkpoint step_00000001 could not be written: a value to be saved is not finite: element \d+ of \S+ is -?(inf|nan)')
        self.assertNotIn('-nan', said)
        self.assertNotIn('\nsave ', said)
        self.assertEqual(self.job.checkpoints('infinite'), [])
        self.assertIsNone(self.job.verdict('infinite')['last_checkpoint'])

    def test_a_run_that_skips_every_step_fails(self):
        said = self.job.train('skipped', '--fp16.enabled', 'true', '--fp16.loss_scale', '1e30', '--steps', 3, exit_code=5)
        self.assertIn("no weight was changed in 3 steps: every step's gradients overflowed fp16", said)
        self.assertIn('hint: lower fp16.loss_scale, set it to 0 for a dynamic one, or use bf16', said)
        self.assertEqual(self.job.checkpoints('skipped'), [])
        self.job.train('skipping', '--steps', 2)
        said = self.job.train('skipping', '--fp16.enabled', 'true', '--fp16.loss_scale', '1e30', '--steps', 4, '--resume',
                              'auto', exit_code=5)
        self.assertIn("no weight was changed in 2 steps: every step's gradients overflowed fp16", said)

    def test_a_pipe_in_place_of_the_console_log_is_refused(self):
        self.job.train('piped', '--steps', 2)
        log = self.job.folder / 'piped/logs/console.log'
        log.unlink()
        os.mkfifo(log)
        self.assertIn('console.log is a pipe', self.job.train('piped', '--steps', 3, '--resume', 'auto', exit_code=4))

    def test_a_damaged_config_of_a_checkpoint_exits_with_4(self):
        self.job.train('bent', '--steps', 5)
        checkpoint = 'bent/checkpoints/step_00000005'
        config = self.job.folder / checkpoint / 'config.json'
        good = config.read_text()
        for bad in good[:40], good.replace('gpt2', 'gpu2'), good.replace('"n_head": 2', '"n_head": 4'), '':
            config.write_text(bad)
            for said in (self.job.call('generate', '--model', checkpoint, '--prompt', 'a', exit_code=4),
                         self.job.train('bent_init', '--model.init', checkpoint, exit_code=4),
                         self.job.train('bent', '--resume', checkpoint, '--steps', 9, exit_code=4)):
                self.assertIn('config.json is damaged', said)

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

    def stop_at_once(self, process):
        """Sends two Ctrl-C; the run cannot finish its step after the first. Returns its output."""
        os.kill(job.workers_of(process)[1], signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        job.read_until(process.stderr, 'Ctrl-C again stops at once')
        process.send_signal(signal.SIGINT)
        with process:
            err = process.stderr.read()
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual(err.count('stopped at once by a second Ctrl-C'), 1)
        return err

    def test_a_second_ctrl_c_says_that_nothing_is_saved(self):
        process = self.start_endless('impatient', '--checkpoint.save_interval', 0, until_step=2)
        self.assertIn('no checkpoint was saved, so a resumed run starts from step 0', self.stop_at_once(process))
        self.assertIsNone(self.job.verdict('impatient')['last_checkpoint'])

    def test_a_second_ctrl_c_says_what_is_saved(self):
        process = self.start_endless('impatient_saver', '--checkpoint.save_interval', 1, until_step=3)
        err = self.stop_at_once(process)
        last = self.job.checkpoints('impatient_saver')[-1]
        self.assertEqual(list((self.job.folder / 'impatient_saver/checkpoints').glob('*.tmp-*')), [])
        self.assertIn(f'the last checkpoint is of step {int(last.removeprefix("step_"))}\n', err)
        self.assertEqual(self.job.verdict('impatient_saver')['last_checkpoint'], 'impatient_saver/checkpoints/' + last)

    def test_a_worker_that_hangs_is_found_and_named(self):
        process = self.start_endless('frozen', '--distributed.timeout_minutes', 0.1, until_step=3)
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
    def test_memory_or_threads_that_the_system_refuses_are_not_internal_errors(self):
        command = shlex.join(map(str, (job.PROGRAM, *self.job.arguments('small', 1), '--hardware.threads', 64)))
        for kilobytes in (250_000, 300_000, 350_000):  # less than 64 stacks of 8 MB
            done = subprocess.run(f'ulimit -s 8192; ulimit -v {kilobytes}; exec {command}', shell=True,
                                  cwd=self.job.folder, timeout=600, text=True, capture_output=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn('  hint: ', done.stderr)

    def test_a_loss_that_is_not_finite_stops_with_5(self):
        err = self.job.train('diverged', '--optimizer.params.lr', '1e30', exit_code=5)
        self.assertIn('the first tensor that is not finite is', err)
        self.assertEqual(err.count('lower the learning rate'), 1, err)
        self.assertRegex(err, r'step \d+: loss is (nan|-?inf|-?\d)')
        self.assertNotIn('-nan', err)
        self.assertNotIn('  resume with:', err)  # the same again would diverge again
        self.assertRegex(err, r'resume with a tenth of the learning rate: .* --scheduler.params.warmup_max_lr 1e\+29\n')
        said = self.job.train('calm', '--scheduler', 'null', '--optimizer.params.lr', '1e30', '--steps', 4, exit_code=5)
        self.assertIn('--optimizer.params.lr 1e+29\n', said)
        self.assertNotIn('--optimizer.params.lr 1e30', said)

    def test_an_evaluation_that_is_not_finite_stops_with_5_and_its_step_is_not_saved(self):
        rate = '--scheduler', 'null', '--optimizer.params.lr', '1e38', '--training.eval_interval', 1
        err = self.job.train('evaluated', *rate, '--steps', 1, exit_code=5)
        self.assertRegex(err, r'step 1: the validation loss is (nan|inf)')
        self.assertEqual(list((self.job.folder / 'evaluated').glob('checkpoints/step_*')), [])

    def test_a_checkpoint_from_which_no_step_can_be_made_leads_to_an_earlier_one(self):
        calm = '--scheduler', 'null', '--optimizer.params.lr', '1e-3', '--training.eval_interval', 0
        wild = '--scheduler', 'null', '--optimizer.params.lr', '1e38', '--training.eval_interval', 0
        self.job.train('stuck', *calm, '--steps', 5)
        self.job.train('stuck', *wild, '--steps', 6, '--resume', 'auto')
        err = self.job.train('stuck', *wild, '--resume', 'auto', exit_code=5)
        self.assertIn('no step could be made from step 6', err)
        self.assertRegex(err, r'go back to an earlier checkpoint, with a tenth of the learning rate: .*'
                              r'--resume stuck/checkpoints/step_00000005\n')

    def test_auto_skips_a_damaged_checkpoint_and_resume_by_name_refuses_it(self):
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

    @unittest.skipUnless(os.geteuid() == 0, 'mounting a file system needs root')
    def test_a_disk_that_is_too_small_for_a_checkpoint_is_named_at_the_start(self):
        small = self.job.folder / 'small'
        small.mkdir()
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', small], check=True)
        try:
            err = self.job.train('small', exit_code=4)
        finally:
            subprocess.run(['umount', small], check=True)
        self.assertRegex(err, r'only 256 KiB are free for small, but a checkpoint takes \d+ KiB: the first save will fail\n'
                         '  hint: free some, or name a folder on another disk: --run_dir DIR')

    def test_a_disk_that_fills_up_ends_no_training_and_costs_no_checkpoint(self):
        self.job.train('full', '--steps', 5)
        process = self.job.start_training('full', '--resume', 'auto', preexec_fn=no_large_files)
        _, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 4, err)
        self.assertIn('training continues', err)
        self.assertIn(f'step_{STEPS:08}', err)
        self.assertEqual(self.job.checkpoints('full'), ['step_00000005'])
        self.assertEqual(self.job.losses('full'), self.whole)
        self.job.train('full', '--resume', 'auto')
        self.assertEqual(self.job.losses('full'), self.whole)


if __name__ == '__main__':
    unittest.main(verbosity=2)
