#!/usr/bin/env python3
"""Other commands than the one that started a run: hgtrain status, logs and stop. usage: control_test.py HGTRAIN"""
import json
import os
import pathlib
import signal
import tempfile
import unittest

from job import Job, JobTest, read_until, wait_for

FOREVER = ('--steps', 1_000_000, '--training.eval_interval', 0, '--checkpoint.save_interval', 1000)


class Train(JobTest):
    def status(self, run):
        return json.loads(self.job.call('status', run, '--json'))

    def test_status_tells_how_far_a_run_is_and_stop_saves_it(self):
        process = self.job.start_training('runs/a', *FOREVER)
        self.job.wait_for_step('runs/a', 3, process)
        wait_for(lambda: 'phase' in self.status('runs/a')['ranks'][1], process)
        status = self.status('runs/a')
        self.assertEqual((status['state'], status['total_steps'], status['restarts']), ('running', 1_000_000, 0))
        self.assertGreaterEqual(status['step'], 3)
        self.assertEqual(status['launcher']['pid'], process.pid)
        self.assertEqual([rank['rank'] for rank in status['ranks']], [0, 1])
        self.assertGreater(status['eta_s'], 0)
        self.assertIn('loss', status)
        text = self.job.call('status')  # the newest one below runs/
        for part in 'run         runs/a\n', f'state       running, by the launcher with pid {process.pid} on ', '/1000000  loss ':
            self.assertIn(part, text)
        said = self.job.call('stop', 'runs/a')
        verdict = self.job.verdict('runs/a')
        self.assertIn(f'runs/a: stopped, exit code 75: stopped after step {verdict["finished_steps"]}\n', said)
        process.communicate()
        self.assertEqual(process.returncode, 75)
        self.assertEqual(self.job.checkpoints('runs/a'), [f'step_{verdict["finished_steps"]:08}'])
        self.assertFalse((self.job.folder / 'runs/a/control.sock').exists())
        status = self.status('runs/a')
        self.assertEqual((status['state'], status['step']), ('stopped', verdict['finished_steps']))
        self.assertIn('stopped, exit code 75', self.job.call('stop', 'runs/a'))

    def test_logs_of_a_run_that_runs_and_of_one_that_has_ended(self):
        log = (self.job.folder / 'whole/logs/rank_1.log').read_text()
        self.assertEqual(self.job.call('logs', 'whole', '--rank', 1), log)
        self.assertEqual(self.job.call('logs', 'whole', '--rank', '1', '-n', 2), ''.join(log.splitlines(True)[-2:]))
        both = self.job.call('logs', 'whole', '-f')  # it has ended, so there is nothing to wait for
        self.assertEqual(''.join(line[5:] for line in both.splitlines(True) if line.startswith('[r1] ')), log)
        self.assertIn('whole/logs has no log of rank 7', self.job.call('logs', 'whole', '--rank', 7, exit_code=2))
        process = self.job.start_training('logged', *FOREVER)
        self.job.wait_for_step('logged', 3, process)
        reader = self.job.start('logs', 'logged', '-f', '-n', 0)
        read_until(reader.stdout, '[r1] ')
        self.job.call('stop', 'logged')
        process.communicate()
        out, err = reader.communicate()
        self.assertEqual((reader.returncode, err), (0, ''))
        last = (self.job.folder / 'logged/logs/rank_0.log').read_text().splitlines()[-1]
        self.assertIn(f'[r0] {last}\n', out)

    def test_stop_now_kills_it(self):
        process = self.job.start_training('now', *FOREVER)
        self.job.wait_for_step('now', 1, process)
        said = self.job.call('stop', 'now', '--now')
        self.assertIn('now: stopped, exit code 130: stopped at once by hgtrain stop --now\n', said)
        process.communicate()
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.job.checkpoints('now'), [])

    def test_a_launcher_that_was_killed_or_does_not_answer(self):
        process = self.job.start_training('killed', *FOREVER)
        self.job.wait_for_step('killed', 1, process)
        process.send_signal(signal.SIGSTOP)
        said = self.job.call('status', 'killed', exit_code=6)
        self.assertIn('the launcher of killed cannot be asked: no answer for 10 s; is it stopped?', said)
        process.kill()
        process.communicate()
        self.assertIn('killed: its launcher is gone', self.job.call('status', 'killed'))
        self.assertTrue((self.job.folder / 'killed/control.sock').exists())
        process = self.job.start_training('killed', *FOREVER, '--resume', 'auto')  # takes the socket over
        self.job.wait_for_step('killed', 1, process)
        self.assertIn('killed: stopped', self.job.call('stop', 'killed'))
        process.communicate()

    def test_a_job_that_cannot_start_has_failed(self):
        (self.job.folder / 'none').mkdir()
        self.job.call('launch', '--log_dir', 'none', '--', 'no-such-program', exit_code=2)
        status = self.status('none')
        self.assertEqual((status['state'], status['exit_code']), ('failed', 2))
        self.assertIn("no-such-program", status['reason'])

    def test_what_is_no_run(self):
        self.assertIn('there is no folder missing', self.job.call('status', 'missing', exit_code=2))
        (self.job.folder / 'empty').mkdir()
        self.assertIn('empty is not the folder of a run', self.job.call('stop', 'empty', exit_code=2))
        said = self.job.call('launch', '--log_dir', 'whole', '--', 'true', exit_code=2)
        self.assertIn('--log_dir whole is the folder of a training run', said)


class Launch(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.job = Job.__new__(Job)
        self.job.folder = pathlib.Path(self.temporary.name)

    def test_any_program(self):
        program = 'trap "exit 3" TERM; echo ready; while :; do sleep 0.01; done'
        process = self.job.start('launch', '--num_workers', 2, '--log_dir', 'logs', '--', 'sh', '-c', program)
        read_until(process.stdout, 'ranks 0-1')
        status = json.loads(self.job.call('status', 'logs', '--json'))
        self.assertEqual((status['state'], len(status['ranks'])), ('running', 2))
        os.kill(status['ranks'][1]['pid'], 0)
        self.assertNotIn('phase', status['ranks'][1])
        self.assertIn('running\n', self.job.call('status', 'logs'))
        self.assertEqual(self.job.call('logs', 'logs'), '[r0] ready\n[r1] ready\n')
        second = self.job.call('launch', '--log_dir', 'logs', '--', 'true')
        self.assertIn('another job writes its logs to logs too', second)
        said = self.job.call('stop', 'logs')
        self.assertIn('logs: stopped, exit code 3: stopped by SIGTERM', said)
        process.communicate()
        self.assertEqual(process.returncode, 3)
        self.assertEqual(self.job.read_json('logs', 'run.json')['verdict'], 'stopped')


if __name__ == '__main__':
    unittest.main(verbosity=2)
